"""Times of bytes are those of the kernel, not of the thread that comes to read them."""

import socket
import sys
import time
from collections.abc import Iterator

import pytest

from vllmdoctor.sources.stamps import arrived, left, stamp


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        near = socket.create_connection(server.getsockname())
        far, _ = server.accept()
        with near, far:
            yield near, far


def stamping(near: socket.socket, far: socket.socket) -> None:
    """Stamps asked for and given: the kernel begins with them in a moment of its own."""
    stamp(near)
    for _ in range(50):
        far.send(b"?")
        before = time.perf_counter()
        time.sleep(0.05)
        near.recv(1)
        if arrived(near) < before + 0.02:
            return
    pytest.skip("this kernel gives no stamps")


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux stamps what a connection receives")
def test_what_is_read_late_has_not_come_late(pair: tuple[socket.socket, socket.socket]) -> None:
    near, far = pair
    stamping(near, far)
    before = time.perf_counter()
    far.send(b"hello")
    after = time.perf_counter()
    time.sleep(0.3)  # the reader is busy elsewhere

    assert near.recv(100) == b"hello"
    assert before - 0.01 <= arrived(near) <= after + 0.15


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux stamps what a connection receives")
def test_what_is_written_has_its_time_too(pair: tuple[socket.socket, socket.socket]) -> None:
    near, _ = pair
    stamp(near)
    assert left(near) is None

    before = time.perf_counter()
    near.send(b"hello")

    told = left(near)
    assert told is not None
    assert before <= told <= time.perf_counter()


@pytest.mark.parametrize("other", [None, object()])
def test_anything_else_is_left_as_it_is_and_the_time_is_now(other: object) -> None:
    stamp(other)

    assert left(other) is None
    assert abs(arrived(other) - time.perf_counter()) < 1
