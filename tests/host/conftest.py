"""GPUs made of a text file behind the real pynvml, and a clock that does not wait."""

import ctypes
import fcntl
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from vllmdoctor.model import Event, Fact, Gap, Observation, Snapshot
from vllmdoctor.sources import Window, open_source

SOURCE = Path(__file__).with_name("fake_nvml.c")
H100 = {
    "name": "NVIDIA_H100_80GB_HBM3",
    "total": 81559,
    "used": 71000,
    "reserved": 559,
    "gpu": 87,
    "mem": 40,
    "sm": 1980,
    "mclk": 2619,
    "maxsm": 1980,
    "maxmclk": 2619,
    "temp": 56,
    "power": 651250,
    "limit": 700000,
    "reasons": 0x4,
    "thermal": 0,
    "powerviol": 5_000_000_000,
}


@dataclass
class FakeGpus:
    """The file that the library reads: `gpus` and `failures` are written with `write`."""

    path: Path
    gpus: list[dict[str, object]] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)

    def add(self, **changes: object) -> None:
        self.gpus.append({"uuid": f"GPU-{len(self.gpus)}", **H100, **changes})
        self.write()

    def change(self, at: int, **changes: object) -> None:
        self.gpus[at] |= changes
        self.write()

    def fail(self, function: str, code: int, gpu: int | None = None) -> None:
        self.failures.append(f"fail {function} {code}" + ("" if gpu is None else f" {gpu}"))
        self.write()

    def write(self) -> None:
        lines = ["driver 580.95.05", *self.failures]
        lines += ["gpu " + " ".join(f"{k}={v}" for k, v in gpu.items()) for gpu in self.gpus]
        new = self.path.with_suffix(".new")
        new.write_text("\n".join(lines) + "\n", encoding="utf-8")
        new.replace(self.path)


@pytest.fixture(scope="session")
def nvml_library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The fake driver's library, loaded under the name that pynvml asks for."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        pytest.skip("NOT CHECKED: there is no C compiler, so no fake NVML could be built")
    library = tmp_path_factory.mktemp("nvml") / "libnvidia-ml.so.1"
    flags = ["-O1", "-shared", "-fPIC", "-Wl,-soname,libnvidia-ml.so.1"]
    subprocess.run([compiler, *flags, "-o", str(library), str(SOURCE)], check=True)
    ctypes.CDLL(str(library))  # pynvml's own load finds it by its name
    return library


@pytest.fixture
def gpus(nvml_library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeGpus:
    """A machine without GPUs so far."""
    fake = FakeGpus(tmp_path / "gpus")
    fake.write()
    monkeypatch.setenv("FAKE_NVML", str(fake.path))
    return fake


@dataclass
class Seen:
    """What a source yielded, by kind."""

    snapshots: list[Snapshot] = field(default_factory=list)
    gaps: list[Gap] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    facts: list[Fact] = field(default_factory=list)

    def add(self, observation: Observation) -> None:
        match observation:
            case Snapshot():
                self.snapshots.append(observation)
            case Gap():
                self.gaps.append(observation)
            case Event():
                self.events.append(observation)
            case Fact():
                self.facts.append(observation)


def watch(
    target: str, readings: int = 1, between: Callable[[int], object] | None = None, step_s: float = 1.0
) -> Seen:
    """Read a live target so many times without waiting; `between` is called before each further reading."""
    now = [1_800_000_000.0]
    done = [0]

    def sleep(_: float) -> bool:
        now[0] += step_s
        done[0] += 1
        if between is not None:
            between(done[0])
        return False

    window = Window(duration_s=readings - 1.0, interval_s=1.0, clock=lambda: now[0], sleep=sleep)
    seen = Seen()
    for observation in open_source(target).read(window):
        seen.add(observation)
    return seen


@contextmanager
def machine_to_itself(factory: pytest.TempPathFactory) -> Iterator[None]:
    """No other test looks at, or adds to, the processes of this machine meanwhile."""
    base = factory.getbasetemp()
    place = base.parent if os.environ.get("PYTEST_XDIST_WORKER") else base
    with (place / "machine.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@pytest.fixture
def alone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """The machine's processes for this test alone."""
    with machine_to_itself(tmp_path_factory):
        yield


@pytest.fixture
def start(alone: None) -> Iterator[Callable[..., "subprocess.Popen[str]"]]:
    """Starts real processes, and ends them with all their children."""
    running: list[subprocess.Popen[str]] = []

    def run(*command: str, title: str = "") -> "subprocess.Popen[str]":
        words = [title, *command[1:]] if title else list(command)
        process = subprocess.Popen(
            words, executable=command[0], start_new_session=True, stdout=subprocess.PIPE, text=True
        )
        running.append(process)
        return process

    yield run
    for process in running:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        if process.stdout is not None:
            process.stdout.close()


PYTHON = sys.executable
