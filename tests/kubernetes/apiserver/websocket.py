"""The server's side of one WebSocket connection (RFC 6455)."""

import base64
import hashlib
import struct
import threading
from typing import BinaryIO

_GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
_CLOSE, _PING, _PONG, _BINARY = 8, 9, 10, 2


def accepted(key: str) -> str:
    """The answer to a `Sec-WebSocket-Key`."""
    return base64.b64encode(hashlib.sha1(key.encode() + _GUID).digest()).decode()


class WebSocket:
    """Whole messages in and out; control frames are answered on the way."""

    def __init__(self, reader: BinaryIO, writer: BinaryIO) -> None:
        self._reader, self._writer, self._lock = reader, writer, threading.Lock()

    def send(self, payload: bytes, kind: int = _BINARY) -> None:
        """One message, as one frame."""
        size = len(payload)
        if size < 126:
            head = bytes([0x80 | kind, size])
        elif size < 1 << 16:
            head = bytes([0x80 | kind, 126]) + struct.pack(">H", size)
        else:
            head = bytes([0x80 | kind, 127]) + struct.pack(">Q", size)
        with self._lock:
            self._writer.write(head + payload)
            self._writer.flush()

    def receive(self) -> bytes | None:
        """One message; None once the other side has closed."""
        whole = b""
        while True:
            head = self._reader.read(2)
            if len(head) < 2:
                return None
            last, kind, size = head[0] & 0x80, head[0] & 0x0F, head[1] & 0x7F
            if size == 126:
                size = struct.unpack(">H", self._reader.read(2))[0]
            elif size == 127:
                size = struct.unpack(">Q", self._reader.read(8))[0]
            mask = self._reader.read(4) if head[1] & 0x80 else bytes(4)
            payload = _unmasked(self._reader.read(size), mask)
            if kind == _CLOSE:
                return None
            if kind == _PING:
                self.send(payload, _PONG)
            elif kind != _PONG:
                whole += payload
                if last:
                    return whole

    def close(self, code: int = 1000) -> None:
        """Say that it is over."""
        self.send(struct.pack(">H", code), _CLOSE)


def _unmasked(payload: bytes, mask: bytes) -> bytes:
    size = len(payload)
    key = int.from_bytes((mask * (size // 4 + 1))[:size], "big")
    return (int.from_bytes(payload, "big") ^ key).to_bytes(size, "big")
