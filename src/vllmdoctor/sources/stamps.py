"""When bytes arrived, by the kernel's clock: a reader that has to wait for its turn does not make them late.

Linux stamps what a plain TCP connection receives. Elsewhere, and through TLS, the time is that of reading.
"""

import socket
import struct
import sys
import time

_SO_TIMESTAMPNS = 35  # asm-generic/socket.h; the socket module does not name it
_TIMESPEC = struct.Struct("qq")
_ROOM = socket.CMSG_SPACE(_TIMESPEC.size)
_LONGEST_S = 60.0  # a clock that was set in between tells nothing

_stamps: dict[int, float] = {}


class _Stamped(socket.socket):
    """A socket that keeps when the last of what it read had arrived; it has no room of its own for that."""

    __slots__ = ()

    def recv(self, size: int, flags: int = 0) -> bytes:
        data, told, *_ = self.recvmsg(size, _ROOM, flags)
        now, wall = time.perf_counter(), time.time()
        late_s = 0.0
        for level, kind, content in told:
            if (level, kind, len(content)) == (socket.SOL_SOCKET, _SO_TIMESTAMPNS, _TIMESPEC.size):
                seconds, nanoseconds = _TIMESPEC.unpack(content)
                late_s = wall - seconds - nanoseconds / 1e9
        _stamps[self.fileno()] = now - (late_s if 0 <= late_s < _LONGEST_S else 0.0)
        return data


def stamp(connection: object) -> None:
    """Have a plain TCP socket keep its stamps; anything else is left as it is."""
    if sys.platform == "linux" and type(connection) is socket.socket:
        connection.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)
        # the HTTP client made it and reads it with `recv`: only its class can be chosen after that
        connection.__class__ = _Stamped


def arrived(connection: object) -> float:
    """When the last that was read from a socket had arrived (`time.perf_counter`); now if that is unknown."""
    known = _stamps.get(connection.fileno()) if isinstance(connection, _Stamped) else None
    return time.perf_counter() if known is None else known
