"""What reading and keeping costs: `python bench/read`. Exits 1 when a limit is missed.

* text with timestamps, against prometheus_client's parser line by line: at least 5 times faster;
* a day of 600 series at 15 s (3.5 million samples), as a recording and as OpenMetrics: diagnosed
  within 600 MB;
* the same day recorded: at most 15 MB.

The day is made of a bundled recording of a real server, stretched: every 15th second of it is a
scrape, and its counters go on where they stood when it starts again.
"""

import gzip
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from vllmdoctor.exposition import read_timestamped
from vllmdoctor.model import Snapshot
from vllmdoctor.openmetrics import openmetrics
from vllmdoctor.recording import gather
from vllmdoctor.sources import Window, gather_targets
from vllmdoctor.storage import Recorder

EXAMPLE = "example:kv-thrash-fix-blocks"
SERIES, SCRAPES, INTERVAL = 600, 5760, 15
LEAST_RATIO, MOST_RSS, MOST_BYTES = 5.0, 600e6, 15e6
JUDGE = "import sys; from vllmdoctor.cli import main; sys.exit(main(sys.argv[1:]))"
GATHER = (
    "import sys; from vllmdoctor.sources import Window, gather_targets;"
    "r = gather_targets(sys.argv[1:], Window());"
    "assert r.scrapes == 5760, r.scrapes"
)


def main() -> int:
    good = ratio() >= LEAST_RATIO
    with tempfile.TemporaryDirectory() as place:
        recording, text = Path(place) / "day.rec.gz", Path(place) / "day.om.gz"
        with Recorder(recording, {"targets": ["bench"]}) as recorder:
            for scrape in day():
                recorder.write(scrape)
        size = recording.stat().st_size
        print(f"a day of {SERIES} series recorded: {size / 1e6:.1f} MB (limit {MOST_BYTES / 1e6:.0f})")
        good &= size <= MOST_BYTES
        with gzip.open(text, "wt", compresslevel=1) as file:
            file.writelines(openmetrics(gather(day())))
        for path in (recording, text):
            good &= child(f"gather {path.name}", GATHER, str(path)) <= MOST_RSS
            good &= child(f"diagnose {path.name}", JUDGE, "diagnose", str(path)) <= MOST_RSS
    return 0 if good else 1


def ratio() -> float:
    """How many times faster than prometheus_client text with timestamps is read."""
    part = gather_targets([EXAMPLE], Window())
    text = "".join(openmetrics(part.window(part.start, part.start + 60)))
    lines = text.count("\n")
    ours = min(cpu(lambda: list(read_timestamped([text], "bench", "bench"))) for _ in range(5))
    theirs = min(cpu(lambda: list(text_string_to_metric_families(text))) for _ in range(2))
    print(
        f"{lines} lines with timestamps: {lines / ours / 1e6:.2f} million/s, prometheus_client "
        f"{lines / theirs / 1e6:.2f}: {theirs / ours:.0f} times faster (at least {LEAST_RATIO:.0f})"
    )
    return theirs / ours


def day() -> Iterator[Snapshot]:
    """The stretched day."""
    (columns,) = gather_targets([EXAMPLE], Window()).columns.values()
    rows = [
        dict(zip(columns, row, strict=True))
        for row in zip(*(c.values for c in columns.values()), strict=True)
    ]
    growth = {s: float(c.values[-1] - c.values[0]) for s, c in columns.items() if is_counter(s)}
    more = [f'bench:more_total{{n="{at}"}}' for at in range(SERIES - len(columns))]
    for at in range(SCRAPES):
        again, row = divmod(at * INTERVAL, len(rows))
        values = {s: float(v) for s, v in rows[row].items()}
        for series, step in growth.items():
            values[series] += again * step
        values |= {series: at * (number % 7) * 1.25 for number, series in enumerate(more)}
        yield Snapshot(1795960204.219 + INTERVAL * at, "bench:8000", values)


def is_counter(series: str) -> bool:
    name = series.partition("{")[0]
    return name.endswith(("_total", "_bucket", "_sum", "_count"))


def cpu(work: Callable[[], object]) -> float:
    """CPU seconds of this process for one run."""
    start = time.process_time()
    work()
    return time.process_time() - start


def child(what: str, code: str, *arguments: str) -> float:
    """The largest resident memory (bytes) of a process that runs `code`."""
    process = subprocess.Popen([sys.executable, "-c", code, *arguments], stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    rss = usage.ru_maxrss * 1024.0
    seconds = usage.ru_utime + usage.ru_stime
    note = "" if process.returncode == 0 else f"  (exit {process.returncode})"
    print(f"{what}: {rss / 1e6:.0f} MB at most (limit {MOST_RSS / 1e6:.0f}), {seconds:.1f} s of CPU{note}")
    return rss


if __name__ == "__main__":
    sys.exit(main())
