"""One API server: objects, lists, logs and proxied pages by GET, with every refusal told in words."""

import json
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar
from urllib.parse import urlencode

import urllib3
from kubernetes.client.rest import RESTClientObject

from vllmdoctor.errors import SourceError, Unreachable, UsageError
from vllmdoctor.kube.answers import CutOff, Gone, Unproxied, error_of, status_of, words
from vllmdoctor.kube.door.login import configured
from vllmdoctor.kube.door.streams import forwarded, login, path_of, run
from vllmdoctor.kube.kinds import Kind
from vllmdoctor.kube.nouns import Access

CONNECT_S, READ_S = 5.0, 20.0
WHOLE_S = 60.0
MOST_BYTES = 64 * 2**20
_PAGE = 500  # objects of a list asked at once
_TRIES = 3
_LONGEST_WAIT_S = 5.0
_PIECE = 1 << 16

Json = dict[str, Any]
Query = Sequence[tuple[str, str]]
T = TypeVar("T")


class Door:
    """Asks one API server; safe to use from several threads. Close it, or use it in a `with` statement."""

    def __init__(self, access: Access) -> None:
        self._access = access
        self._lock = threading.Lock()
        self._configuration, self.namespace, self.whose = configured(access)
        self._rest = self._opened()
        self._renewed = time.monotonic()

    def __enter__(self) -> "Door":
        return self

    def __exit__(self, *_: object) -> None:
        self._rest.pool_manager.clear()

    def one(self, kind: Kind, namespace: str, name: str) -> Json:
        """One object. NotThere, Forbidden or another SourceError."""
        path = path_of(kind.path, namespace, kind.plural, name)
        return self._json(path, (), ("get", kind.group, kind.plural, namespace))

    def listed(
        self, path: str, plural: str, namespace: str, *, labels: str = "", fields: str = ""
    ) -> list[Json]:
        """The objects of a resource ("" is all namespaces), read in parts; anew where the list expired."""
        group = path.split("/")[1] if path.startswith("apis/") else ""
        asked = [("labelSelector", labels)] if labels else []
        asked += [("fieldSelector", fields)] if fields else []
        right = ("list", group, plural, namespace)
        where = path_of(path, namespace, plural)
        try:
            return self._parts(where, [*asked, ("limit", str(_PAGE))], right)
        except Gone:
            return self._parts(where, asked, right)

    def core(self, plural: str, namespace: str, name: str) -> Json:
        """One object of the core group."""
        return self._json(path_of("api/v1", namespace, plural, name), (), ("get", "", plural, namespace))

    def log(self, namespace: str, pod: str, query: Query, most_bytes: int = MOST_BYTES) -> bytes:
        """What a container wrote; of more than `most_bytes` the last."""
        path = path_of("api/v1", namespace, "pods", pod) + "/log"
        with self._get(path, query, ("get", "", "pods/log", namespace)) as response:
            kept = bytearray()
            for piece in _pieces(response, WHOLE_S, None):
                kept += piece
                del kept[: max(0, len(kept) - most_bytes)]
        return bytes(kept)

    def proxied(
        self, resource: str, namespace: str, name: str, path: str, query: Query = ()
    ) -> tuple[int, str, bytes]:
        """(status, content type, body) of a page that the API server fetches from a pod or a Service.

        `name` has its port: `vllm-0:8000`, `https:vllm-0:8000`. Unproxied where it cannot reach it.
        """

        def ask() -> tuple[int, str, bytes]:
            with self.proxy(resource, namespace, name, path, query) as (status, kind, pieces):
                return status, kind, b"".join(pieces)

        return _twice(ask)

    @contextmanager
    def proxy(
        self, resource: str, namespace: str, name: str, path: str, query: Query = (), whole_s: float = WHOLE_S
    ) -> Iterator[tuple[int, str, Iterator[bytes]]]:
        """The same while it comes in."""
        where = f"{path_of('api/v1', namespace, resource, name)}/proxy/{path.lstrip('/')}"
        right = ("get", "", f"{resource}/proxy", namespace)
        with self._answer(where, query) as response:
            status, kind = response.status, response.headers.get("content-type", "")
            if status != 200 and (told := status_of(body := _body(response))) is not None:
                raise self._refused(response, told, right, name.removeprefix("https:").partition(":")[0])
            pieces = iter([body]) if status != 200 else _pieces(response, whole_s, MOST_BYTES)
            yield status, kind, pieces

    def forwarded(self, namespace: str, pod: str, port: int, path: str) -> tuple[int, str, bytes]:
        """(status, content type, body) of a page fetched from a pod's port through a stream of its own.

        The stream is closed before this returns: nothing of it is left behind.
        """
        return forwarded(self._configuration, namespace, pod, port, path)

    def run(self, namespace: str, pod: str, container: str, command: Sequence[str]) -> tuple[int, str]:
        """(exit status, output) of a command inside a container. Used for nvidia-smi, when asked for."""
        return run(self._configuration, namespace, pod, container, command)

    def _parts(self, where: str, asked: Query, right: tuple[str, str, str, str]) -> list[Json]:
        found: list[Json] = []
        following = ""
        while True:
            query = [*asked, *([("continue", following)] if following else [])]
            answer = self._json(where, query, right)
            found += answer.get("items") or []
            following = (answer.get("metadata") or {}).get("continue") or ""
            if not following:
                return found

    def _json(self, path: str, query: Query, right: tuple[str, str, str, str]) -> Json:

        def ask() -> bytes:
            with self._get(path, query, right) as response:
                return b"".join(_pieces(response, WHOLE_S, MOST_BYTES))

        body = _twice(ask)
        try:
            found = json.loads(body)
        except ValueError:
            found = None
        if not isinstance(found, dict):
            hint = "is that the address of an API server, or of a login page in front of it?"
            raise Unreachable(f"{self._shown} answered with something that is no JSON object", hint=hint)
        return found

    @contextmanager
    def _get(
        self, path: str, query: Query, right: tuple[str, str, str, str]
    ) -> "Iterator[urllib3.BaseHTTPResponse]":
        with self._answer(path, query) as response:
            if response.status != 200:
                told = status_of(_body(response)) or {}
                raise self._refused(response, told, right, path.rstrip("/").rpartition("/")[2])
            yield response

    def _refused(
        self,
        response: "urllib3.BaseHTTPResponse",
        told: Json,
        right: tuple[str, str, str, str],
        name: str,
    ) -> SourceError:
        verb, group, resource, namespace = right
        said = str(told.get("message", ""))
        if resource.endswith("/proxy") and response.status in (400, 500, 502, 503, 504):
            return Unproxied(f"{response.status}: {words(said)}")
        return error_of(
            response.status,
            said or f"{resource} {name}",
            verb=verb,
            group=group,
            resource=resource,
            namespace=namespace,
            again_s=_again_s(response),
        )

    @contextmanager
    def _answer(self, path: str, query: Query) -> "Iterator[urllib3.BaseHTTPResponse]":
        """An answer of any status that is worth no second try."""
        tries = 0
        while True:
            tries += 1
            asked_at = time.monotonic()
            with self._told():
                response = self._once(path, query)
            try:
                if response.status == 401 and self._renew(asked_at):
                    continue
                if response.status in (429, 503) and tries < _TRIES and "retry-after" in response.headers:
                    time.sleep(min(_again_s(response), _LONGEST_WAIT_S))
                    continue
                if response.status in (409, 500) and tries < 2:
                    time.sleep(0.5)
                    continue
                with self._told():
                    yield response
                return
            finally:
                response.drain_conn() if response.status != 200 else response.close()
                response.release_conn()

    def _once(self, path: str, query: Query) -> "urllib3.BaseHTTPResponse":
        url = f"{self._configuration.host}/{path}" + (f"?{urlencode(query)}" if query else "")
        headers = {"Accept": "application/json, */*;q=0.5", "User-Agent": "vllmdoctor"}
        manager = self._rest.pool_manager
        return manager.request(
            "GET",
            url,
            headers=headers | login(self._configuration),
            preload_content=False,
            redirect=False,
            retries=False,
            timeout=urllib3.Timeout(connect=CONNECT_S, read=READ_S),
        )

    def _opened(self) -> RESTClientObject:
        try:
            return RESTClientObject(self._configuration)
        except (OSError, ValueError) as error:
            raise UsageError(
                f"the certificates of {self.whose} cannot be used: {words(str(error))}"
            ) from None

    def _renew(self, asked_at: float) -> bool:
        """Read the credentials anew where they may have expired since; whether it is worth another try."""
        with self._lock:
            if self._renewed > asked_at:
                return True
            if time.monotonic() - self._renewed < 60.0:
                return False
            self._renewed = time.monotonic()
            self._configuration, self.namespace, self.whose = configured(self._access)
            self._rest = self._opened()
            return True

    @property
    def _shown(self) -> str:
        return str(self._configuration.host)

    @contextmanager
    def _told(self) -> Iterator[None]:
        """What fails in the connection, in words."""
        shown = self._shown
        try:
            yield
        except urllib3.exceptions.SSLError as error:
            hint = "does the kubeconfig's certificate-authority belong to this API server?"
            raise Unreachable(f"{shown}: TLS failed: {_reason(error)}", hint=hint) from None
        except urllib3.exceptions.NewConnectionError as error:
            hint = "does `kubectl get pods` work from here?"
            raise Unreachable(f"{shown} cannot be reached: {_reason(error)}", hint=hint) from None
        except urllib3.exceptions.ConnectTimeoutError:
            hint = "is the API server reachable from here (VPN, proxy)?"
            raise Unreachable(f"{shown} did not connect within {CONNECT_S:g} s", hint=hint) from None
        except urllib3.exceptions.ReadTimeoutError:
            hint = "the API server, or the pod behind it, is too busy to answer"
            raise Unreachable(f"{shown} did not answer within {READ_S:g} s", hint=hint) from None
        except (urllib3.exceptions.HTTPError, OSError) as error:
            why = "the answer was cut off" if "IncompleteRead" in str(error) else _reason(error)
            raise CutOff(f"{shown} broke off: {why}") from None


def _twice(ask: Callable[[], T]) -> T:
    """Ask, and once more where the answer broke off: what is read does not change by it."""
    try:
        return ask()
    except CutOff:
        return ask()


def _body(response: "urllib3.BaseHTTPResponse") -> bytes:
    """The start of an answer that explains a failure."""
    return b"".join(_pieces(response, READ_S, 1 << 20))


def _pieces(response: "urllib3.BaseHTTPResponse", whole_s: float, most: int | None) -> Iterator[bytes]:
    started, size = time.monotonic(), 0
    for piece in response.stream(_PIECE):
        size += len(piece)
        if most is not None and size > most:
            raise SourceError(f"an answer has more than {most // 2**20} MiB")
        yield piece
        if time.monotonic() - started > whole_s:
            raise Unreachable(f"an answer took more than {whole_s:g} s")


def _again_s(response: "urllib3.BaseHTTPResponse") -> float:
    text = response.headers.get("retry-after", "1")
    return float(text) if text.isdigit() else 1.0


def _reason(error: BaseException) -> str:
    text = str(getattr(error, "reason", "") or error)
    return words(text.rpartition("] ")[2].rpartition(": ")[2] or text) or type(error).__name__
