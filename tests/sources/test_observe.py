"""Several targets make one recording; what fails is told, and the rest goes on."""

import os
import signal
import threading
import time
from typing import TYPE_CHECKING

import pytest

from vllmdoctor.errors import NotEnoughData, NotVllm, Unauthorized, Unreachable, VllmDoctorError
from vllmdoctor.model import Gap
from vllmdoctor.sources import Window, gather_targets
from vllmdoctor.sources.observe import Progress, observe

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.sources.conftest import Server

    from vllmdoctor.model import Observation

NOBODY = "http://127.0.0.1:1"


def served(server: "Server", page: bytes) -> str:
    server.serve("/metrics", 200, page)
    server.serve("/version", 200, b'{"version":"0.32.0"}')
    return server.url


def failure(*targets: str, seconds: float = 60) -> VllmDoctorError:
    started = time.monotonic()
    with pytest.raises(VllmDoctorError) as caught:
        gather_targets(targets, Window(seconds, 1))
    assert time.monotonic() - started < 10  # what is certain at once is not waited for
    return caught.value


def test_a_live_server_is_watched_for_the_window_and_progress_is_told(server: "Server", page: bytes) -> None:
    seen: list[Progress] = []
    recording = gather_targets([served(server, page)], Window(2, 1), seen.append)
    assert 2 <= recording.scrapes <= 3  # a busy machine may miss a tick
    assert recording.interval == pytest.approx(1, abs=0.5)
    assert [progress.scrapes for progress in seen] == list(range(1, recording.scrapes + 1))
    assert seen[0].duration_s == 2
    assert seen[0].recording().scrapes == recording.scrapes  # made of what there is when it is asked for


def test_two_servers_are_watched_side_by_side(server: "Server", second: "Server", page: bytes) -> None:
    started = time.monotonic()
    recording = gather_targets([served(server, page), served(second, page)], Window(3, 1))
    assert time.monotonic() - started < 6
    assert recording.instances == tuple(sorted(f"127.0.0.1:{s.port}" for s in (server, second)))


def test_a_server_that_refuses_is_a_gap_beside_one_that_answers(server: "Server", page: bytes) -> None:
    recording = gather_targets([served(server, page), NOBODY], Window(0, 1))
    assert recording.scrapes == 1
    assert recording.gaps == (
        Gap(
            "targets",
            "http://127.0.0.1:1/metrics refused the connection",
            "not read",
            "is the server running, and is this its port?",
        ),
    )


def test_a_server_that_comes_late_is_still_watched(server: "Server", second: "Server", page: bytes) -> None:
    second.serve_in_turn("/metrics", [(503, b""), (200, page)])
    recording = gather_targets([served(server, page), second.url], Window(3, 1))
    assert f"127.0.0.1:{second.port}" in recording.instances
    assert recording.gaps[0].what == f"{second.url}/metrics answered 503"


def test_a_file_beside_a_live_server_belongs_to_the_case(
    server: "Server", page: bytes, tmp_path: "Path"
) -> None:
    path = tmp_path / "gpu.om"
    path.write_text("DCGM_FI_DEV_SM_CLOCK 1410 1000\n")
    recording = gather_targets([str(path), served(server, page)], Window(0, 1))
    assert recording.instances == (f"127.0.0.1:{server.port}", "gpu.om")


def test_when_nobody_answers_the_error_comes_at_once() -> None:
    assert isinstance(failure(NOBODY), Unreachable)
    assert isinstance(failure(NOBODY, "http://127.0.0.1:2"), Unreachable)


def test_the_most_telling_error_is_raised(server: "Server") -> None:
    server.serve("/metrics", 401, b"")
    assert isinstance(failure(NOBODY, server.url), Unauthorized)


def test_a_live_server_of_something_else_is_named_at_once(server: "Server") -> None:
    server.serve("/metrics", 200, b"node_load1 0.5\n")
    error = failure(server.url)
    assert isinstance(error, NotVllm)
    assert error.message == "not a vLLM server: saw node_exporter (node_load1)"


def test_a_server_that_hides_its_metrics_is_told_the_flag(server: "Server") -> None:
    server.serve("/metrics", 200, b"python_info 1\nprocess_open_fds 20\n")
    error = failure(server.url)
    assert error.message == "not a vLLM server: saw python_info, process_open_fds"
    assert "--disable-log-stats" in error.hint


def test_ctrl_c_ends_the_watching_and_what_was_gathered_is_used(server: "Server", page: bytes) -> None:
    timer = threading.Timer(1.5, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    recording = gather_targets([served(server, page)], Window(60, 1))
    timer.join()
    assert 1 <= recording.scrapes <= 2


def test_ctrl_c_before_anything_came_is_not_enough_data(server: "Server") -> None:
    server.routes["/metrics"] = lambda _: time.sleep(3)
    timer = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    with pytest.raises(NotEnoughData):
        gather_targets([server.url], Window(60, 1))
    timer.join()


class Broken:
    """A source with a bug."""

    live = True
    beside = False

    def read(self, window: Window) -> "Iterator[Observation]":
        yield Gap("x", "y", "z")
        raise ZeroDivisionError


def test_a_bug_in_a_source_is_not_swallowed() -> None:
    with pytest.raises(ZeroDivisionError):
        list(observe([Broken()], Window(0, 1)))
