"""One API server: objects, lists, logs and proxied pages by GET, with every refusal told in words."""

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from vllmdoctor.errors import SourceError, Unreachable
from vllmdoctor.kube.answers import CutOff, Gone, Unproxied, error_of, status_of, words
from vllmdoctor.kube.door.line import Line, Query, again_s, body_of, pieces_of
from vllmdoctor.kube.door.streams import forwarded, path_of, run
from vllmdoctor.kube.kinds import Kind
from vllmdoctor.kube.nouns import Access

if TYPE_CHECKING:
    import urllib3

WHOLE_S = 60.0
MOST_BYTES = 64 * 2**20
_PAGE = 500  # objects of a list asked at once

Json = dict[str, Any]
T = TypeVar("T")


class Door:
    """Asks one API server; safe to use from several threads. Close it, or use it in a `with` statement."""

    def __init__(self, access: Access) -> None:
        self._line = Line(access)
        self.namespace = self._line.namespace

    def __enter__(self) -> "Door":
        return self

    def __exit__(self, *_: object) -> None:
        self._line.close()

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
            for piece in pieces_of(response, WHOLE_S, None):
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
        with self._line.answer(where, query) as response:
            status, kind = response.status, response.headers.get("content-type", "")
            if status != 200 and (told := status_of(body := body_of(response))) is not None:
                raise self._refused(response, told, right, name.removeprefix("https:").partition(":")[0])
            pieces = iter([body]) if status != 200 else pieces_of(response, whole_s, MOST_BYTES)
            yield status, kind, pieces

    def forwarded(self, namespace: str, pod: str, port: int, path: str) -> tuple[int, str, bytes]:
        """(status, content type, body) of a page fetched from a pod's port through a stream of its own.

        The stream is closed before this returns: nothing of it is left behind.
        """
        return forwarded(self._line.configuration, namespace, pod, port, path)

    def run(self, namespace: str, pod: str, container: str, command: Sequence[str]) -> tuple[int, str]:
        """(exit status, output) of a command inside a container. Used for nvidia-smi, when asked for."""
        return run(self._line.configuration, namespace, pod, container, command)

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
                return b"".join(pieces_of(response, WHOLE_S, MOST_BYTES))

        body = _twice(ask)
        try:
            found = json.loads(body)
        except ValueError:
            found = None
        if not isinstance(found, dict):
            hint = "is that the address of an API server, or of a login page in front of it?"
            raise Unreachable(f"{self._line.shown} answered with something that is no JSON object", hint=hint)
        return found

    @contextmanager
    def _get(
        self, path: str, query: Query, right: tuple[str, str, str, str]
    ) -> "Iterator[urllib3.BaseHTTPResponse]":
        with self._line.answer(path, query) as response:
            if response.status != 200:
                told = status_of(body_of(response)) or {}
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
        if 300 <= response.status < 400:
            raise Unreachable(
                f"{self._line.shown} answered with a redirect ({response.status})",
                hint="is that the address of an API server, or of a login page in front of it?",
            )
        if resource.endswith("/proxy") and response.status in (400, 500, 502, 503, 504):
            return Unproxied(f"{response.status}: {words(said)}")
        return error_of(
            response.status,
            said or f"{resource} {name} {'not found' if response.status == 404 else 'could not be read'}",
            verb=verb,
            group=group,
            resource=resource,
            namespace=namespace,
            again_s=again_s(response),
        )


def _twice(ask: Callable[[], T]) -> T:
    """Ask, and once more where the answer broke off: what is read does not change by it."""
    try:
        return ask()
    except CutOff:
        return ask()
