"""The two streams of a pod, port-forward and exec, over WebSocket; each is gone when its function returns."""

import io
import json
from collections.abc import Sequence
from http.client import HTTPException, HTTPResponse
from typing import Any
from urllib.parse import quote, urlencode

import websocket
from kubernetes.client.configuration import Configuration
from kubernetes.stream import ws_client

from vllmdoctor.errors import SourceError, Unreachable
from vllmdoctor.kube.answers import Unproxied, error_of, forbidden, status_of, words

STREAM_S = 20.0
MOST_BYTES = 64 * 2**20
Query = Sequence[tuple[str, str]]

# a handshake that is never answered would wait for ever
websocket.setdefaulttimeout(STREAM_S)


def path_of(start: str, namespace: str, plural: str, name: str = "") -> str:
    """The path of a resource, or of one object; "" is all namespaces, or none."""
    place = f"{start}/namespaces/{quote(namespace, safe='')}" if namespace else start
    return f"{place}/{plural}" + (f"/{quote(name, safe=':')}" if name else "")


def login(configuration: Configuration) -> dict[str, str]:
    """The headers that tell who asks."""
    told: Any = configuration.auth_settings().values()
    return {each["key"]: each["value"] for each in told if each["in"] == "header" and each["value"]}


class _Received(io.RawIOBase):
    """The bytes that come from a pod's port: of each frame what follows its channel's number.

    The first frame of a channel names the port; the second channel carries what went wrong.
    """

    def __init__(self, stream: websocket.WebSocket) -> None:
        self._stream = stream
        self._opened: set[int] = set()
        self._left = b""

    def makefile(self, *_: object) -> io.BufferedReader:
        """It as the library of HTTP wants to read it."""
        return io.BufferedReader(self)

    def readable(self) -> bool:
        """It is."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Read what is there, or wait for it; 0 at the end."""
        while not self._left:
            try:
                kind, frame = self._stream.recv_data_frame(True)
            except websocket.WebSocketConnectionClosedException:
                return 0
            if kind == websocket.ABNF.OPCODE_CLOSE:
                return 0
            data = bytes(frame.data) if kind == websocket.ABNF.OPCODE_BINARY else b""
            if data and data[0] not in self._opened:
                self._opened.add(data[0])
            elif data and data[0] % 2:
                raise OSError(data[1:].decode("utf-8", "replace"))
            else:
                self._left = data[1:]
        count = min(len(buffer), len(self._left))
        buffer[:count], self._left = self._left[:count], self._left[count:]
        return count


def forwarded(
    configuration: Configuration, namespace: str, pod: str, port: int, path: str
) -> tuple[int, str, bytes]:
    """(status, content type, body) of a page fetched from a pod's port through a stream of its own.

    The stream is closed before this returns: nothing of it is left behind.
    """
    stream = _stream(configuration, namespace, pod, "portforward", [("ports", str(port))])
    try:
        request = f"GET {path} HTTP/1.1\r\nHost: localhost:{port}\r\nConnection: close\r\n\r\n"
        stream.send(b"\0" + request.encode("ascii"), websocket.ABNF.OPCODE_BINARY)
        response = HTTPResponse(_Received(stream))  # type: ignore[arg-type]
        response.begin()
        body = response.read(MOST_BYTES)
        return response.status, response.getheader("content-type", ""), body
    except (OSError, HTTPException, websocket.WebSocketException) as error:
        why = "nothing listens there" if "refused" in str(error) else words(str(error))
        told = why or "the stream ended without an answer"
        raise Unproxied(f"port-forward to {pod}:{port}: {told}") from None
    finally:
        _closed(stream)


def run(
    configuration: Configuration, namespace: str, pod: str, container: str, command: Sequence[str]
) -> tuple[int, str]:
    """(exit status, output) of a command inside a container. Used for nvidia-smi, when asked for."""
    query = [("command", word) for word in command]
    query += [("container", container), ("stdout", "true"), ("stderr", "true")]
    url, headers = _url(configuration, namespace, pod, "exec", query)
    try:
        client = ws_client.WSClient(configuration, url, headers, True)
    except (OSError, websocket.WebSocketException) as error:
        raise _stream_error(error, namespace, pod, "exec") from None
    try:
        client.run_forever(timeout=STREAM_S)
        if client.is_open():
            raise Unreachable(f"{' '.join(command[:1])} in {pod} did not end within {STREAM_S:g} s")
        status = _exit_status(client, pod)  # first: reading the output forgets it
        return status, str(client.read_all())
    except (OSError, websocket.WebSocketException) as error:
        raise Unreachable(f"exec in {pod}: {words(str(error))}") from None
    finally:
        _closed(client.sock)


def _url(
    configuration: Configuration, namespace: str, pod: str, sub: str, query: Query
) -> tuple[str, dict[str, str]]:
    path = f"{path_of('api/v1', namespace, 'pods', pod)}/{sub}?{urlencode(query)}"
    return ws_client.get_websocket_url(f"{configuration.host}/{path}"), login(configuration)


def _stream(configuration: Configuration, namespace: str, pod: str, sub: str, query: Query) -> Any:
    url, headers = _url(configuration, namespace, pod, sub, query)
    try:
        return ws_client.create_websocket(configuration, url, headers)
    except (OSError, websocket.WebSocketException) as error:
        raise _stream_error(error, namespace, pod, sub) from None


def _stream_error(error: Exception, namespace: str, pod: str, sub: str) -> SourceError:
    if isinstance(error, websocket.WebSocketBadStatusException):
        told = status_of(error.resp_body or b"") or {}
        said = str(told.get("message", ""))
        status = int(error.status_code)
        if status == 403:
            verb = "create" if "cannot create" in said else "get"
            return forbidden(verb, "", f"pods/{sub}", namespace, said)
        return error_of(
            status, said or str(error), verb="get", group="", resource=f"pods/{sub}", namespace=namespace
        )
    return Unreachable(f"{sub} to {pod}: {words(str(error)) or type(error).__name__}")


def _closed(stream: websocket.WebSocket) -> None:
    """Close a stream for good: where the other side said goodbye first, closing alone leaves its socket."""
    stream.close(timeout=0)
    stream.shutdown()  # type: ignore[no-untyped-call]


def _exit_status(client: Any, pod: str) -> int:
    """How the command ended; a SourceError where it could not even begin."""
    try:
        told = json.loads(client.read_channel(ws_client.ERROR_CHANNEL) or "{}")
        if told.get("status") == "Success":
            return 0
        causes = (told.get("details") or {}).get("causes") or ()
        code = next((c.get("message") for c in causes if c.get("reason") == "ExitCode"), None)
        if code is not None:
            return int(code)
        said = words(str(told.get("message") or "the stream ended without a status"))
    except (ValueError, AttributeError, TypeError):
        said = "it ended with a status that cannot be read"
    raise SourceError(f"exec in {pod}: {said}")
