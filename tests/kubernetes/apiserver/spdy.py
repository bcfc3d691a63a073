"""The server's side of SPDY/3.1 as kubectl speaks it: raw behind an upgrade, or inside of a WebSocket."""

import struct
import threading
import zlib
from collections.abc import Callable
from typing import Protocol

_SYN_STREAM, _SYN_REPLY, _RST_STREAM, _PING, _GOAWAY, _WINDOW_UPDATE = 1, 2, 3, 6, 7, 9
_FIN = 1


class Streams(Protocol):
    """What is done with the streams that the other side opens."""

    def opened(self, stream: int, headers: dict[str, str]) -> None:
        """A stream was opened."""

    def received(self, stream: int, payload: bytes) -> None:
        """Bytes came on it."""

    def finished(self, stream: int) -> None:
        """Nothing more will come on it."""

    def closed(self) -> None:
        """The connection ended."""


class Spdy:
    """Frames in and out. `read(n)` gives at most n bytes and b"" at the end; `write` sends all."""

    def __init__(self, read: Callable[[int], bytes], write: Callable[[bytes], object]) -> None:
        self._read, self._write, self._lock, self._ahead = read, write, threading.Lock(), b""
        self._unpack = zlib.decompressobj(zdict=_dictionary())
        self._pack = zlib.compressobj(9, zlib.DEFLATED, 15, 9, zlib.Z_DEFAULT_STRATEGY, _dictionary())

    def send(self, stream: int, payload: bytes, *, last: bool = False) -> None:
        """Data on a stream; `last` closes our half of it."""
        head = struct.pack(">II", stream, (_FIN << 24 if last else 0) | len(payload))
        with self._lock:
            self._write(head + payload)

    def run(self, streams: Streams) -> None:
        """Read frames until the other side is gone."""
        try:
            while True:
                head = self._exactly(8)
                body = self._exactly(int.from_bytes(head[5:8], "big"))
                if head[0] & 0x80:
                    kind = struct.unpack(">H", head[2:4])[0]
                    if kind == _GOAWAY:
                        return
                    self._control(kind, body, streams)
                    if kind == _SYN_STREAM and head[4] & _FIN:
                        streams.finished(_number(body))
                    continue
                stream = _number(head)
                if body:
                    self._frame(_WINDOW_UPDATE, struct.pack(">II", stream, len(body)))
                    streams.received(stream, body)
                if head[4] & _FIN:
                    streams.finished(stream)
        except (EOFError, OSError, ValueError):
            return  # the other side went away: nothing to tell it
        finally:
            streams.closed()

    def _control(self, kind: int, body: bytes, streams: Streams) -> None:
        if kind == _SYN_STREAM:
            stream = _number(body)
            nothing = self._pack.compress(bytes(4)) + self._pack.flush(zlib.Z_SYNC_FLUSH)
            self._frame(_SYN_REPLY, struct.pack(">I", stream) + nothing)
            streams.opened(stream, self._headers(body[10:]))
        elif kind == _PING:
            self._frame(_PING, body)
        elif kind == _RST_STREAM:
            streams.finished(_number(body))

    def _frame(self, kind: int, body: bytes) -> None:
        with self._lock:
            self._write(struct.pack(">HHI", 0x8003, kind, len(body)) + body)

    def _headers(self, packed: bytes) -> dict[str, str]:
        plain = self._unpack.decompress(packed)
        words, at = [], 4
        for _ in range(2 * struct.unpack_from(">I", plain)[0]):
            size = struct.unpack_from(">I", plain, at)[0]
            words.append(plain[at + 4 : at + 4 + size].decode())
            at += 4 + size
        return {name.lower(): value for name, value in zip(words[::2], words[1::2], strict=True)}

    def _exactly(self, size: int) -> bytes:
        while len(self._ahead) < size:
            chunk = self._read(65536)
            if not chunk:
                raise EOFError
            self._ahead += chunk
        taken, self._ahead = self._ahead[:size], self._ahead[size:]
        return taken


def _number(body: bytes) -> int:
    return int(struct.unpack(">I", body[:4])[0]) & 0x7FFFFFFF


def _dictionary() -> bytes:
    """What headers are compressed against (SPDY/3, 2.6.10.1): length-prefixed words, then text."""
    plain = (
        "options head post put delete trace accept accept-charset accept-encoding accept-language "
        "accept-ranges age allow authorization cache-control connection content-base content-encoding "
        "content-language content-length content-location content-md5 content-range content-type date etag "
        "expect expires from host if-match if-modified-since if-none-match if-range if-unmodified-since "
        "last-modified location max-forwards pragma proxy-authenticate proxy-authorization range referer "
        "retry-after server te trailer transfer-encoding upgrade user-agent vary via warning "
        "www-authenticate method get status"
    )
    words = [
        *plain.split(" "),
        "200 OK",
        "version",
        "HTTP/1.1",
        "url",
        "public",
        "set-cookie",
        "keep-alive",
        "origin",
    ]
    text = (
        "100101201202205206300302303304305306307402405406407408409410411412413414415416417502504505"
        "203 Non-Authoritative Information204 No Content301 Moved Permanently400 Bad Request"
        "401 Unauthorized403 Forbidden404 Not Found500 Internal Server Error501 Not Implemented"
        "503 Service UnavailableJan Feb Mar Apr May Jun Jul Aug Sept Oct Nov Dec 00:00:00 "
        "Mon, Tue, Wed, Thu, Fri, Sat, Sun, GMTchunked,text/html,image/png,image/jpg,image/gif,"
        "application/xml,application/xhtml+xml,text/plain,text/javascript,publicprivatemax-age="
        "gzip,deflate,sdchcharset=utf-8charset=iso-8859-1,utf-,*,enq=0."
    )
    return b"".join(struct.pack(">I", len(word)) + word.encode() for word in words) + text.encode()
