"""What asking a Prometheus costs, beside curl and beside pulling the raw series.

    python -m bench.prometheus [--engines 20] [--hours 24] [--every 15] [--keep FOLDER]

A real Prometheus is filled with so many engines, each with the series of a real page.
Then, each in a process of its own: our source; curl with the very same queries, one by one; and
prometheus-api-client, which pulls every raw series. Needs `prometheus`, `promtool` and `curl` on
PATH and the package prometheus-api-client.
"""

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.prometheus.history import END, FLAGS, fill
from tests.prometheus import store


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--engines", type=int, default=20)
    parser.add_argument("--hours", type=float, default=24.0)
    parser.add_argument("--every", type=float, default=15.0, help="seconds between scrapes")
    parser.add_argument("--keep", type=Path, help="a folder for the filled store, to use it again")
    parser.add_argument("--max-points", type=int, default=0)
    options = parser.parse_args()
    found = store.binaries()
    if not found:
        sys.exit("needs `prometheus` and `promtool` on PATH")
    with folder_for(options.keep) as folder:
        filled, started = (folder / "data").exists(), time.monotonic()
        with store.prometheus(found[0], [], folder, *FLAGS) as url:
            print(f"Prometheus {found[0].version}", flush=True)
            for samples in () if filled else fill(url, options.engines, options.hours * 3600, options.every):
                took = time.monotonic() - started
                print(f"\r{samples / 1e6:.1f} million samples written, {took:.0f} s", end="", flush=True)
            print()
            window = options.hours * 3600
            ours = measured("ours", url, window, str(folder / "queries.json"), str(options.max_points))
            print(row("vllmdoctor", ours), f"  at {ours['fine']:g} s, histograms at {ours['coarse']:g} s")
            curl = measured("curl", url, window, str(folder / "queries.json"), "0")
            print(row("curl, one by one", curl))
            naive = measured("naive", url, window, "", "0")
            print(row("raw series, prometheus-api-client", naive))
    print(f"wall / curl:      {ours['wall'] / curl['wall']:.2f}  (at most 1.5)")
    print(f"peak memory:      {ours['rss_mb']:.0f} MB  (at most 400)")
    print(f"data, naive/ours: {naive['bytes'] / ours['bytes']:.1f}  (at least 10)")
    print(f"time, naive/ours: {naive['wall'] / ours['wall']:.1f}  (at least 5)")
    return 0


@contextmanager
def folder_for(keep: Path | None) -> Iterator[Path]:
    if keep is not None:
        keep.mkdir(parents=True, exist_ok=True)
        yield keep
        return
    folder = Path(tempfile.mkdtemp())
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def measured(way: str, url: str, window: float, queries: str, points: str) -> dict[str, float]:
    """One way in a process of its own: wall seconds, CPU seconds, MB, requests, bytes, points."""
    command = [
        sys.executable,
        "-m",
        "bench.prometheus.ways",
        way,
        url,
        str(END),
        str(window),
        queries,
        points,
    ]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{way}: {done.stderr}")
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def row(name: str, of: dict[str, float]) -> str:
    return (
        f"{name:35} {of['wall']:7.2f} s wall {of['cpu']:7.2f} s CPU {of['rss_mb']:6.0f} MB "
        f"{of['requests']:5.0f} requests {of['bytes'] / 1e6:8.1f} MB read "
        f"{of['points'] / 1e6:7.2f} million points"
    )


if __name__ == "__main__":
    sys.exit(main())
