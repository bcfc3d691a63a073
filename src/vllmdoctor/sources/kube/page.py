"""One page of one pod: through the API server's proxy, else through a port-forward."""

import threading

from vllmdoctor.errors import NotVllm, SourceError, Unauthorized, Unreachable
from vllmdoctor.exposition import Page, parse_page
from vllmdoctor.kube.answers import Forbidden, NotThere, Unproxied, gap_of
from vllmdoctor.kube.door import Door
from vllmdoctor.kube.pods import Pod
from vllmdoctor.model import Gap

METRICS, VERSION = "metrics", "version"
METRICS_LOST = "the pods' metrics"
_INSECURE = "port-forward carries no TLS of the server's own (--ssl-keyfile)"


class Pages:
    """Fetches pages; remembers who must be asked by port-forward. Used by several threads."""

    def __init__(self, door: Door) -> None:
        self._door = door
        self._lock = threading.Lock()
        self._no_proxy: SourceError | None = None  # for all: it is forbidden
        self._forwarded: dict[str, str] = {}  # for one: why
        self._gaps: dict[Gap, None] = {}

    def gaps(self) -> list[Gap]:
        """What was found out about the ways since the last call."""
        with self._lock:
            found = list(self._gaps)
            self._gaps.clear()
        return found

    def metrics(self, pod: Pod) -> Page:
        """The pod's metrics; NotThere where the pod is gone, another SourceError where it shows none."""
        status, kind, text = self._fetch(pod, METRICS)
        where = f"pod {pod.name}:{pod.port}"
        if status in (401, 403):
            raise Unauthorized(f"{where} answered {status}", hint="something in the pod asks for a login")
        if status >= 500:
            raise Unreachable(f"{where} answered {status}", hint="is the server still starting, or down?")
        if status != 200:
            hint = "is it the right container (-c)? with --disable-log-stats vLLM shows no metrics"
            raise NotVllm(f"{where}/{METRICS} answered {status}", hint=hint)
        page = parse_page(text)
        if not page.values:
            what = "an HTML page" if "html" in kind or text.lstrip().startswith("<") else "no metrics"
            hint = "is it the right container (-c)? with --disable-log-stats vLLM shows no metrics"
            raise NotVllm(f"{where}/{METRICS} answered with {what}", hint=hint)
        if not text.endswith("\n"):
            raise SourceError(f"{where} answered with a page that was cut off")
        return page

    def version(self, pod: Pod) -> str:
        """What the pod's server answers at /version; "" where it does not."""
        try:
            status, _, text = self._fetch(pod, VERSION)
        except SourceError:
            return ""
        return text if status == 200 else ""

    def _fetch(self, pod: Pod, path: str) -> tuple[int, str, str]:
        if self._no_proxy is None and pod.instance not in self._forwarded:
            try:
                return _text(self._door.proxied("pods", pod.namespace, pod.proxied, path))
            except NotThere:
                raise
            except Forbidden as error:
                return self._by_forward(pod, path, error)
            except Unproxied as error:
                return self._by_forward(pod, path, error)
        return self._by_forward(pod, path, self._no_proxy)

    def _by_forward(self, pod: Pod, path: str, why: SourceError | None) -> tuple[int, str, str]:
        """By port-forward, from now on for all pods where the proxy is forbidden, for one where it failed.

        Where that fails too, the proxy's failure is the one that is told.
        """
        if pod.secure:
            raise why or Unreachable(f"pod {pod.name}: {_INSECURE}")
        try:
            found = _text(self._door.forwarded(pod.namespace, pod.name, pod.port, f"/{path}"))
        except NotThere:
            raise
        except Forbidden as error:
            if isinstance(why, Forbidden):
                # without either right no pod can be read: the first says what to ask for
                raise Forbidden(
                    f"{why.refused}, nor to {error.refused.partition(' to ')[2]}", METRICS_LOST, hint=why.hint
                ) from None
            raise (why or error) from None
        except Unproxied as error:
            # it is the pod that refuses: the port-forward says so in fewer words
            raise Unreachable(
                f"pod {pod.name}:{pod.port} does not answer: {error.message.rpartition(': ')[2]}",
                hint="is the server still starting? is it the right port and container (-c)?",
            ) from None
        except SourceError as error:
            raise (why or error) from None
        with self._lock:
            if isinstance(why, Forbidden) and self._no_proxy is None:
                self._no_proxy = why
                told = gap_of(why, "")
                self._gaps[Gap(told.origin, told.what, f"{told.why}; port-forward was used", told.hint)] = (
                    None
                )
            elif why is not None and pod.instance not in self._forwarded and self._no_proxy is None:
                self._forwarded[pod.instance] = why.message
                text = f"{why.message}; port-forward was used"
                self._gaps[Gap(pod.instance, "metrics by way of the API server", text)] = None
        return found


def _text(found: tuple[int, str, bytes]) -> tuple[int, str, str]:
    status, kind, body = found
    return status, kind, body.decode("utf-8", "replace")
