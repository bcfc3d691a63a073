"""When bytes left and arrived: a thread that has to wait for its turn makes neither late.

Linux stamps what a plain TCP connection receives. Elsewhere, and through TLS, the times are those at which
the HTTP client came to write and to read.
"""

import socket
import struct
import sys
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

_SO_TIMESTAMPNS = 35  # asm-generic/socket.h; the socket module does not name it
_TIMESPEC = struct.Struct("qq")
_ROOM = socket.CMSG_SPACE(_TIMESPEC.size)
_LONGEST_S = 60.0  # a clock that was set in between tells nothing

_came: dict[int, float] = {}
_left: dict[int, float] = {}


class _Stamped(socket.socket):
    """A socket that keeps when the last of what it read had arrived, and when the last of what it wrote left.

    It is made of another socket and has no room of its own: the times are kept by its number.
    """

    __slots__ = ()

    def send(self, data: "ReadableBuffer", flags: int = 0) -> int:
        _left[self.fileno()] = time.perf_counter()
        return super().send(data, flags)

    def recv(self, size: int, flags: int = 0) -> bytes:
        data, told, *_ = self.recvmsg(size, _ROOM, flags)
        now, wall = time.perf_counter(), time.time()
        late_s = 0.0
        for level, kind, content in told:
            if (level, kind, len(content)) == (socket.SOL_SOCKET, _SO_TIMESTAMPNS, _TIMESPEC.size):
                seconds, nanoseconds = _TIMESPEC.unpack(content)
                late_s = wall - seconds - nanoseconds / 1e9
        _came[self.fileno()] = now - (late_s if 0 <= late_s < _LONGEST_S else 0.0)
        return data


def stamp(connection: object) -> None:
    """Have a plain TCP socket keep its stamps; anything else is left as it is."""
    if sys.platform == "linux" and type(connection) is socket.socket:
        connection.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)
        for times in (_came, _left):
            times.pop(connection.fileno(), None)  # an earlier connection may have had the number
        # the HTTP client made it and reads it with `recv`: only its class can be chosen after that
        connection.__class__ = _Stamped


def arrived(connection: object) -> float:
    """When the last that was read from a socket had arrived (`time.perf_counter`); now if that is unknown."""
    known = _came.get(connection.fileno()) if isinstance(connection, _Stamped) else None
    return time.perf_counter() if known is None else known


def left(connection: object) -> float | None:
    """When the last that was written to a socket was handed to the kernel; None if that is unknown."""
    return _left.get(connection.fileno()) if isinstance(connection, _Stamped) else None
