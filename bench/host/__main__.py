"""What watching the machine costs: `python bench/host`.

CPU time of one reading of two GPUs and a tree of 16 processes, and the share of a core that recording them
every second takes. The GPUs are the tests' fake driver behind the real pynvml: the driver's own work is not
in it. Exits 1 when a figure is above its limit.
"""

import ctypes
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from vllmdoctor.model import Observation, Snapshot
from vllmdoctor.sources import Window, open_source
from vllmdoctor.storage import Recorder

ROOT = Path(__file__).parents[2]
PROCESSES = 16
READINGS = 120
MOST_MS_A_READING = 30.0
MOST_SHARE = 0.01  # of a core, at one reading a second
GPU = (
    "gpu name=NVIDIA_H100_80GB_HBM3 uuid=GPU-{at} total=81559 used=71000 reserved=559 gpu=87 mem=40 sm=1980 "
    "mclk=2619 maxsm=1980 maxmclk=2619 temp=56 power=651250 limit=700000 reasons=4 procs={pid}:70000:80"
)


@contextmanager
def machine(folder: Path) -> Iterator[int]:
    """A fake driver with two GPUs, and a server of 16 processes; yields the server's pid."""
    library = folder / "libnvidia-ml.so.1"
    flags = ["-O2", "-shared", "-fPIC", "-Wl,-soname,libnvidia-ml.so.1"]
    subprocess.run(["gcc", *flags, "-o", str(library), str(ROOT / "tests/host/fake_nvml.c")], check=True)
    ctypes.CDLL(str(library))
    script = folder / "vllm"
    script.write_text((ROOT / "tests/host/server.py").read_text(encoding="utf-8"), encoding="utf-8")
    titles = ["VLLM::EngineCore", *(f"VLLM::Worker_TP{n}" for n in range(PROCESSES - 2))]
    process = subprocess.Popen(
        [sys.executable, str(script), "serve", *(f"{title}=rest" for title in titles)],
        stdout=subprocess.PIPE,
        start_new_session=True,
        text=True,
    )
    try:
        assert process.stdout is not None
        engine = process.stdout.readline().split()[0]
        gpus = folder / "gpus"
        gpus.write_text("".join(GPU.format(at=at, pid=engine) + "\n" for at in (0, 1)), encoding="utf-8")
        os.environ["FAKE_NVML"] = str(gpus)
        yield process.pid
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def readings(target: str) -> tuple[list[float], list[Observation]]:
    """CPU seconds of each of READINGS readings a (pretended) second apart, and what was read."""
    now = [1_800_000_000.0]

    def sleep(_: float) -> bool:
        now[0] += 1.0
        return False

    window = Window(READINGS - 1.0, 1.0, clock=lambda: now[0], sleep=sleep)
    spent, seen = [], []
    start = time.process_time()
    for observation in open_source(target).read(window):
        seen.append(observation)
        if isinstance(observation, Snapshot):
            spent.append(time.process_time() - start)
            start = time.process_time()
    return spent, seen


def main() -> int:
    """Print the figures; the exit code says whether all are within their limits."""
    with tempfile.TemporaryDirectory() as name, machine(Path(name)) as pid:
        gpus, of_gpus = readings("nvml:")
        tree, of_tree = readings(f"host:{pid}")
        start = time.process_time()
        file = Path(name) / "bench.rec"
        with Recorder(file, {"targets": ["nvml:", "host:"], "interval": 1.0}) as recorder:
            for observation in of_gpus + of_tree:
                recorder.write(observation)
        writing = (time.process_time() - start) / READINGS
        size = sum(path.stat().st_size for path in Path(name).glob("bench*"))
    once = 1000 * (statistics.median(gpus[1:]) + statistics.median(tree[1:]))
    first = 1000 * (gpus[0] + tree[0])
    mean = statistics.fmean(gpus[1:]) + statistics.fmean(tree[1:])
    share = mean + writing
    print(f"GPUs: {1000 * statistics.median(gpus[1:]):.2f} ms CPU a reading (2 GPUs, the driver's own apart)")
    print(f"processes: {1000 * statistics.median(tree[1:]):.2f} ms CPU a reading ({PROCESSES} processes)")
    print(f"writing: {1000 * writing:.2f} ms CPU a reading, {size / READINGS:.0f} bytes")
    print(f"first reading, with finding the processes and loading the libraries: {first:.0f} ms")
    cheap, light = once <= MOST_MS_A_READING, share <= MOST_SHARE
    print(f"{_mark(cheap)} one reading: {once:.2f} ms, limit {MOST_MS_A_READING:g} ms")
    print(f"{_mark(light)} recording every second: {share:.2%} of a core, limit {MOST_SHARE:.0%}")
    return 0 if cheap and light else 1


def _mark(within: bool) -> str:
    return "ok  " if within else "OVER"


if __name__ == "__main__":
    sys.exit(main())
