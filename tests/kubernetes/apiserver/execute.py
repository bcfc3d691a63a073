"""pods/exec over a WebSocket and over SPDY: the pod's command, its output, and its exit code."""

import json
from typing import Any

from tests.kubernetes.apiserver.pod import Pod, Ran
from tests.kubernetes.apiserver.spdy import Spdy
from tests.kubernetes.apiserver.websocket import WebSocket

_OUT, _ERR, _STATUS = 1, 2, 3
_PIECE = 32768
PROTOCOLS = ("v5.channel.k8s.io", "v4.channel.k8s.io")
SPDY_PROTOCOLS = ("v4.channel.k8s.io",)


def outcome(pod: Pod, argv: list[str]) -> tuple[Ran, dict[str, Any]]:
    """What ran, and the Status object that tells how it ended."""
    ran = pod.executed(argv)
    if ran is None:
        inner = f'exec: "{argv[0] if argv else ""}": executable file not found in $PATH'
        runtime = f"OCI runtime exec failed: exec failed: unable to start container process: {inner}: unknown"
        kubelet = f"error executing command in container: failed to exec in container: {runtime}"
        message = f"Internal error occurred: {kubelet}"
        return Ran(), _status("Failure", message=message, reason="InternalError", code=500)
    if ran.code == 0:
        return ran, _status("Success")
    message = f"command terminated with non-zero exit code: exit status {ran.code}"
    cause = {"reason": "ExitCode", "message": str(ran.code)}
    return ran, _status("Failure", message=message, reason="NonZeroExitCode", details={"causes": [cause]})


def _status(status: str, **more: Any) -> dict[str, Any]:
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": status, **more}


def over_websocket(socket: WebSocket, pod: Pod, argv: list[str]) -> None:
    """Each message begins with the number of its channel."""
    ran, status = outcome(pod, argv)
    for channel, text in ((_OUT, ran.out), (_ERR, ran.err)):
        for at in range(0, len(text), _PIECE):
            socket.send(bytes([channel]) + text[at : at + _PIECE])
    socket.send(bytes([_STATUS]) + json.dumps(status).encode())
    socket.close()


class OverSpdy:
    """Waits until the other side has opened all its streams, then answers on them."""

    def __init__(self, spdy: Spdy, pod: Pod, argv: list[str], wanted: set[str]) -> None:
        self._spdy, self._pod, self._argv, self._wanted = spdy, pod, argv, wanted | {"error"}
        self._streams: dict[str, int] = {}

    def opened(self, stream: int, headers: dict[str, str]) -> None:
        self._streams[headers.get("streamtype", "")] = stream
        if self._wanted <= self._streams.keys():
            ran, status = outcome(self._pod, self._argv)
            for name, text in (
                ("stdout", ran.out),
                ("stderr", ran.err),
                ("error", json.dumps(status).encode()),
            ):
                if name in self._streams:
                    self._answer(self._streams[name], text)

    def _answer(self, stream: int, text: bytes) -> None:
        for at in range(0, len(text), _PIECE):
            self._spdy.send(stream, text[at : at + _PIECE])
        self._spdy.send(stream, b"", last=True)

    def received(self, stream: int, payload: bytes) -> None:
        """Standard input is not read."""

    def finished(self, stream: int) -> None:
        """Nothing hangs on it."""

    def closed(self) -> None:
        """Nothing hangs on it."""
