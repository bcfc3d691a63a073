# ruff: noqa: E501  lines of a log stand here as they are
"""How fast a log is read: statistics lines among fifty times as many access lines.

    python -m bench.logs [MEGABYTES]

Each measurement runs in its own process, so that its memory is its own.
"""

import gzip
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ACCESS_LINES = 50
_ACCESS = '(APIServer pid=7681) INFO:     10.0.{}.{}:{} - "POST /v1/chat/completions HTTP/1.1" 200 OK\n'
_STATISTICS = (
    "(APIServer pid=7681) INFO {:02d}-{:02d} {:02d}:{:02d}:{:02d} [loggers.py:335] Engine 000: Avg prompt throughput: {:.1f} "
    "tokens/s, Avg generation throughput: {:.1f} tokens/s, Running: {} reqs, Waiting: {} reqs, GPU KV cache usage: "
    "{:.1f}%, Prefix cache hit rate: 42.4%\n"
)


def write(path: Path, megabytes: int) -> int:
    """Write a log of about that size; returns how many statistics lines are in it."""
    count, size = 0, 0
    packed = path.suffix == ".gz"
    with gzip.open(path, "wt", 1) if packed else path.open("w") as file:
        while size < megabytes * 1_000_000:
            block = []
            for _ in range(200):
                seconds = 10 * count
                day, rest = divmod(seconds, 86400)
                block += [
                    _ACCESS.format(count % 250, i, 40000 + (count * 7 + i) % 20000)
                    for i in range(ACCESS_LINES)
                ]
                block.append(
                    _STATISTICS.format(
                        1 + day // 28 % 12, 1 + day % 28, rest // 3600, rest // 60 % 60, rest % 60,
                        200 + count % 97, 800 + count % 31, 30 + count % 7, count % 5, 40 + count % 50,
                    )
                )  # fmt: skip
                count += 1
            text = "".join(block)
            size += len(text)
            file.write(text)
    return count


def measure(path: Path) -> None:
    """Read a log and print what it took (runs in a process of its own)."""
    from vllmdoctor.model import Samples
    from vllmdoctor.sources import Window, open_source

    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start, cpu = time.perf_counter(), time.process_time()
    lines = 0
    for seen in open_source(str(path)).read(Window()):
        if isinstance(seen, Samples) and seen.series.startswith("log:num_requests_running"):
            lines = sum(value == value for value in seen.values)
    wall, cpu = time.perf_counter() - start, time.process_time() - cpu
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    sys.stdout.write(f"{lines} {wall} {cpu} {peak / 1024} {before / 1024}\n")


def main() -> None:
    """Write the logs, measure each, print a table."""
    if len(sys.argv) > 2 and sys.argv[1] == "--measure":
        measure(Path(sys.argv[2]))
        return
    megabytes = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    sys.stdout.write(f"{'log':12} {'MB':>6} {'lines':>8} {'read':>8} {'s':>7} {'MB/s':>7} {'peak MiB':>9}\n")
    with tempfile.TemporaryDirectory() as folder:
        for name, size in (("server.log", megabytes), ("server.log.gz", max(1, megabytes // 5))):
            path = Path(folder) / name
            count = write(path, size)
            done = subprocess.run(
                [sys.executable, "-m", "bench.logs", "--measure", str(path)],
                capture_output=True,
                text=True,
                check=True,
            )
            lines, wall, cpu, peak, _ = (float(x) for x in done.stdout.split())
            sys.stdout.write(
                f"{name:12} {size:6d} {count:8d} {lines:8.0f} {wall:7.2f} {size / cpu:7.0f} {peak:9.0f}\n"
            )
            path.unlink()


if __name__ == "__main__":
    main()
