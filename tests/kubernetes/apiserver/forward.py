"""pods/portforward over a WebSocket's channels and over SPDY streams: bytes to a pod's port and back."""

import contextlib
import socket
import struct
import threading
from collections.abc import Callable

from tests.kubernetes.apiserver.pod import Pod
from tests.kubernetes.apiserver.spdy import Spdy
from tests.kubernetes.apiserver.websocket import WebSocket

TUNNEL = "SPDY/3.1+portforward.k8s.io"
PROTOCOLS = (TUNNEL, "v4.channel.k8s.io")
SPDY_PROTOCOLS = ("portforward.k8s.io",)


def connect(pod: Pod, port: int) -> socket.socket:
    """A connection to what listens on a pod's port; OSError in the kubelet's words where nothing does."""
    address = pod.ports.get(port)
    try:
        if address is None:
            raise ConnectionRefusedError
        connection = socket.create_connection(address, timeout=10)
    except OSError:
        inside = f'failed to connect to localhost:{port} inside namespace "{pod.name}"'
        why = f"{inside}, IPv4: dial tcp4 127.0.0.1:{port}: connect: connection refused"
        raise OSError(f"error forwarding port {port} to pod {pod.name}: {why}") from None
    connection.settimeout(None)
    return connection


def pump(connection: socket.socket, send: Callable[[bytes], object], done: Callable[[], object]) -> None:
    """Send on, in a thread of its own, what comes back from the pod."""

    def run() -> None:
        with contextlib.suppress(OSError, ValueError):
            while chunk := connection.recv(32768):
                send(chunk)
            done()

    threading.Thread(target=run, daemon=True).start()


def over_websocket(websocket: WebSocket, pod: Pod, ports: list[int]) -> None:
    """Two channels a port: data, and errors; each begins with the port's number."""
    connections: dict[int, socket.socket] = {}
    for n, port in enumerate(ports):
        data, error = 2 * n, 2 * n + 1
        for channel in (data, error):
            websocket.send(bytes([channel]) + struct.pack("<H", port))
        try:
            connections[data] = connect(pod, port)
        except OSError as refused:
            websocket.send(bytes([error]) + str(refused).encode())
    for channel, connection in connections.items():
        head = bytes([channel])
        pump(connection, lambda chunk, head=head: websocket.send(head + chunk), websocket.close)  # type: ignore[misc]
    try:
        while (message := websocket.receive()) is not None:
            if message and message[0] in connections:
                connections[message[0]].sendall(message[1:])
    finally:
        for connection in connections.values():
            connection.close()


class OverSpdy:
    """An error stream and a data stream for each connection."""

    def __init__(self, spdy: Spdy, pod: Pod) -> None:
        self._spdy, self._pod = spdy, pod
        self._errors: dict[str, int] = {}
        self._connections: dict[int, socket.socket] = {}

    def opened(self, stream: int, headers: dict[str, str]) -> None:
        request = headers.get("requestid", "")
        if headers.get("streamtype") == "error":
            self._errors[request] = stream
            return
        error = self._errors.get(request, stream)
        try:
            connection = self._connections[stream] = connect(self._pod, int(headers["port"]))
        except OSError as refused:
            self._spdy.send(error, str(refused).encode(), last=True)
            self._spdy.send(stream, b"", last=True)
            return

        def done() -> None:
            self._spdy.send(stream, b"", last=True)
            self._spdy.send(error, b"", last=True)

        pump(connection, lambda chunk: self._spdy.send(stream, chunk), done)

    def received(self, stream: int, payload: bytes) -> None:
        if stream in self._connections:
            self._connections[stream].sendall(payload)

    def finished(self, stream: int) -> None:
        if stream in self._connections:
            with contextlib.suppress(OSError):
                self._connections[stream].shutdown(socket.SHUT_WR)

    def closed(self) -> None:
        for connection in self._connections.values():
            connection.close()
