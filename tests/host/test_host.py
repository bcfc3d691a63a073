"""The server's processes, read while they really run: a leak, steps, a kill, and what may not be read."""

import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from tests.host.conftest import PYTHON, Seen, machine_to_itself, watch
from tests.host.server import LEAK_BYTES_PER_S, STEP_BYTES

from vllmdoctor.errors import Unreachable, UsageError
from vllmdoctor.sources import Window, open_source
from vllmdoctor.sources.host_tree import Seen as Process
from vllmdoctor.sources.host_tree import is_vllm, members, role_of, root_of, trees

Start = Callable[..., "subprocess.Popen[str]"]
SERVER = Path(__file__).with_name("server.py")


def serve(start: Start, folder: Path, *children: str) -> tuple[int, list[int]]:
    """Start a server of that look; its pid and those of its children."""
    script = folder / "vllm"
    shutil.copy(SERVER, script)
    process = start(PYTHON, str(script), "serve", *children)
    assert process.stdout is not None
    return process.pid, [int(pid) for pid in process.stdout.readline().split()]


def column(seen: Seen, name: str, pid: int, role: str) -> list[float | None]:
    return [s.values.get(f'host:{name}{{pid="{pid}",role="{role}"}}') for s in seen.snapshots]


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> "tuple[Seen, int, list[int]]":
    """Seven seconds of a server: its engine core leaks, its first worker steps, its second is killed."""
    folder = tmp_path_factory.mktemp("served")
    shutil.copy(SERVER, folder / "vllm")
    children = ["VLLM::EngineCore=leak", "VLLM::Worker_TP0=step", "VLLM::Worker_TP1=rest"]
    with machine_to_itself(tmp_path_factory):
        process = subprocess.Popen(
            [PYTHON, str(folder / "vllm"), "serve", *children],
            start_new_session=True,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert process.stdout is not None
        try:
            pids = [int(pid) for pid in process.stdout.readline().split()]
            threading.Timer(2.5, os.kill, (pids[2], signal.SIGKILL)).start()
            seen = Seen()
            for observation in open_source(f"host:{process.pid}").read(Window(7.0, 1.0)):
                seen.add(observation)
        finally:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            process.stdout.close()
    return seen, process.pid, pids


def test_a_leak_of_a_megabyte_a_second_shows_in_the_process_that_leaks(
    watched: "tuple[Seen, int, list[int]]",
) -> None:
    seen, root, (engine, _, _) = watched

    leaking = np.array(column(seen, "resident_memory_bytes", engine, "EngineCore"), float)
    resting = np.array(column(seen, "resident_memory_bytes", root, "APIServer"), float)

    times = np.array([s.time for s in seen.snapshots])
    assert np.polyfit(times, leaking, 1)[0] == pytest.approx(LEAK_BYTES_PER_S, rel=0.15)
    assert abs(np.polyfit(times, resting, 1)[0]) < 0.05 * LEAK_BYTES_PER_S


def test_steps_show_as_steps(watched: "tuple[Seen, int, list[int]]") -> None:
    seen, _, (_, stepping, _) = watched

    rises = np.diff(np.array(column(seen, "resident_memory_bytes", stepping, "Worker_TP0"), float))

    steps = [round(rise / STEP_BYTES) for rise in rises]
    assert set(steps) == {0, 1}
    assert sum(steps) in (2, 3, 4)


def test_a_process_that_is_killed_is_an_event_and_silent_from_then_on(
    watched: "tuple[Seen, int, list[int]]",
) -> None:
    seen, _, (_, _, killed) = watched

    threads = column(seen, "threads", killed, "Worker_TP1")

    assert threads[:3] == [1.0, 1.0, 1.0]
    assert threads[3:] == [None] * 5
    assert [(e.kind, e.text) for e in seen.events] == [
        ("process-ended", f"Worker_TP1 (pid {killed}) has ended")
    ]
    assert [s.values["host:processes"] for s in seen.snapshots] == [4.0] * 3 + [3.0] * 5


def test_counters_and_costlier_figures_are_there_for_each_process(
    watched: "tuple[Seen, int, list[int]]",
) -> None:
    seen, _, (engine, _, _) = watched
    values = seen.snapshots[-1].values

    told = {
        name: values[f'host:{name}{{pid="{engine}",role="EngineCore"}}']
        for name in (
            "resident_memory_bytes",
            "anonymous_memory_bytes",
            "proportional_memory_bytes",
            "swap_bytes",
            "cpu_seconds_total",
            "open_files",
            "voluntary_switches_total",
            "involuntary_switches_total",
        )
    }

    assert told["anonymous_memory_bytes"] < told["resident_memory_bytes"]
    assert 0 < told["proportional_memory_bytes"] <= told["resident_memory_bytes"]
    assert told["open_files"] >= 3
    assert told["voluntary_switches_total"] > 100
    assert 0 < told["cpu_seconds_total"] < 60
    assert 0 <= values["host:shm_used_bytes"] <= values["host:shm_total_bytes"]


def test_a_server_is_found_by_its_command_line(start: Start, tmp_path: Path) -> None:
    root, (engine,) = serve(start, tmp_path, "VLLM::EngineCore_DP0=rest")

    values = watch("host:").snapshots[0].values

    assert f'host:threads{{pid="{root}",role="APIServer"}}' in values
    assert f'host:threads{{pid="{engine}",role="EngineCore_DP0"}}' in values


def test_a_process_that_starts_later_is_found_and_told(start: Start, tmp_path: Path) -> None:
    root, _ = serve(start, tmp_path, "VLLM::EngineCore=rest")

    def another(reading: int) -> None:
        if reading == 2:
            serve(start, tmp_path, "VLLM::EngineCore=rest")

    seen = watch("host:", readings=5, between=another, step_s=10.0)

    assert [s.values["host:processes"] for s in seen.snapshots][0::4] == [2.0, 4.0]
    assert [e.kind for e in seen.events] == ["process-started", "process-started"]
    assert root


def test_two_servers_at_once_are_read_and_the_choice_is_told(start: Start, tmp_path: Path) -> None:
    first, _ = serve(start, tmp_path, "VLLM::EngineCore=rest")
    second, _ = serve(start, tmp_path, "VLLM::EngineCore=rest")

    seen = watch("host:")

    pids = ", ".join(map(str, sorted((first, second))))
    (gap,) = [gap for gap in seen.gaps if gap.what.startswith("which")]
    assert gap.why == f"all are read together: process {pids}"
    assert watch(f"host:{second}").snapshots[0].values["host:processes"] == 2.0


@pytest.mark.usefixtures("alone")
def test_without_a_server_it_says_so_and_may_be_asked_again() -> None:
    with pytest.raises(Unreachable, match="there is no vLLM server on this machine"):
        watch("host:")
    with pytest.raises(Unreachable, match="there is no process 4194001"):
        watch("host:4194001")
    with pytest.raises(UsageError, match="names no process"):
        watch("host:engine")


def test_what_may_not_be_read_is_told_once_and_the_rest_is_read(start: Start, tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("NOT CHECKED: only root can start a reader that is somebody else")
    root, _ = serve(start, tmp_path, "VLLM::EngineCore=rest")
    # everything is imported before the user changes, so that the reader needs no files of ours
    code = (
        "import os, psutil, vllmdoctor.sources.host\n"
        "from vllmdoctor.sources import Window, open_source\n"
        "os.setuid(65534)\n"
        f"for seen in open_source('host:{root}').read(Window(0.0, 1.0)):\n"
        "    print(type(seen).__name__, getattr(seen, 'what', ''), getattr(seen, 'why', ''))\n"
        "    if hasattr(seen, 'values'): print(sum('resident' in key for key in seen.values))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)

    lines = done.stdout.splitlines()
    assert done.stderr == ""
    assert "2" in lines  # both processes' resident memory
    told = [line for line in lines if line.startswith("Gap") and "permission denied" in line]
    assert len(told) == 2
    assert told[0].startswith("Gap open files of APIServer")
    assert told[1].startswith("Gap proportional memory of APIServer")


@pytest.mark.parametrize(
    ("command", "answer"),
    [
        (["/usr/bin/python3", "/usr/local/bin/vllm", "serve", "model"], True),
        (["vllm", "serve", "model"], True),
        (["python3.12", "-m", "vllm.entrypoints.openai.api_server", "--model", "m"], True),
        (["python", "-m", "vllm.entrypoints.cli.main", "serve", "m"], True),
        (["VLLM::EngineCore"], True),
        (["VLLM::Worker_TP3"], True),
        (["sh", "-c", "vllm serve model"], False),
        (["/usr/bin/python3", "/usr/bin/vllmdoctor", "record", "host:"], False),
        (["python3", "-c", "print('vllm serve')"], False),
        (["vim", "vllm", "serve"], False),
        (["vllm", "bench", "latency"], False),
        ([], False),
    ],
)
def test_vllm_is_told_from_what_only_speaks_of_it(command: list[str], answer: bool) -> None:
    assert is_vllm(command) is answer


@pytest.mark.parametrize(
    ("command", "depth", "role"),
    [
        (["VLLM::EngineCore_DP1"], 1, "EngineCore_DP1"),
        (["VLLM::Worker_TP0_EP0"], 2, "Worker_TP0_EP0"),
        (["mine::EngineCore"], 1, "EngineCore"),
        (["ray::RayWorkerWrapper.execute_method"], 2, "ray:RayWorkerWrapper"),
        (["python", "-c", "from multiprocessing.forkserver import main; ..."], 1, "forkserver"),
        (
            ["python", "-c", "from multiprocessing.resource_tracker import main;main(7)"],
            1,
            "resource-tracker",
        ),
        (["python", "-c", "from multiprocessing.spawn import spawn_main; ..."], 1, "EngineCore"),
        (["python", "-c", "from multiprocessing.spawn import spawn_main; ..."], 2, "Worker"),
        (["/usr/bin/gcc", "-O2", "x.c"], 3, "gcc"),
        (["vllm", "serve", "m"], 0, "APIServer"),
    ],
)
def test_a_role_is_the_title_or_else_the_generation(command: list[str], depth: int, role: str) -> None:
    assert role_of(command, depth) == role


def test_a_tree_is_whole_and_processes_of_one_role_are_numbered() -> None:
    spawn = ("python", "-c", "from multiprocessing.spawn import spawn_main")
    processes = {
        1: Process(1, 0, 0.0, ("init",)),
        10: Process(10, 1, 5.0, ("vllm", "serve", "m")),
        11: Process(11, 10, 6.0, spawn),
        12: Process(12, 11, 7.0, spawn),
        13: Process(13, 11, 7.0, spawn),
        20: Process(20, 1, 5.0, ("blender",)),
        30: Process(30, 1, 9.0, ("VLLM::EngineCore",)),  # its parent has gone
    }

    assert list(trees(processes)) == [10, 30]
    assert [(m.pid, m.role) for m in members(10, processes)] == [
        (10, "APIServer"),
        (11, "EngineCore"),
        (12, "Worker_0"),
        (13, "Worker_1"),
    ]
    assert [root_of(pid, processes) for pid in (13, 20, 30, 99)] == [10, None, 30, None]


def test_processes_whose_parents_form_a_ring_do_not_hang_it() -> None:
    processes = {1: Process(1, 2, 0.0, ("a",)), 2: Process(2, 1, 0.0, ("b",))}

    started = time.monotonic()

    assert trees(processes) == {}
    assert [m.pid for m in members(1, processes)] == [1, 2]
    assert time.monotonic() - started < 1.0
