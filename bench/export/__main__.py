"""What an exporter costs that runs for long: ``python -m bench.export``. Exits 1 above a limit.

Ten hours of a simulated server, which is restarted twice and gone for ten minutes each time, are watched
as `vllmdoctor export` would. The hours are simulated, the rest is real: sockets, scrapes, diagnoses, the
page. The exporter is a process of its own, whose resident memory is read at every simulated minute; the
server is another. It keeps two hours, so that the history is full for most of the time; the command's
default takes longer: `--hours 14 --keep 10h`.
"""

import argparse
import gc
import json
import statistics
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import psutil
from bench.export.stage import Stage

from vllmdoctor.exporting.commands import GARBAGE
from vllmdoctor.exporting.loop import Exporter
from vllmdoctor.exporting.metrics import application
from vllmdoctor.exporting.settings import Clock, Settings
from vllmdoctor.exporting.web import Web
from vllmdoctor.simulator import SCENARIOS
from vllmdoctor.units import parse_duration

SCENARIO, SEED = "overload-kv-step", 1
HOURS = 10.0
OUTAGES = ((3600.0, 4200.0), (6 * 3600.0, 6 * 3600.0 + 600))  # what the first one loads is no growth
GROWTH, CORE_SHARE = 0.05, 0.02


@dataclass(frozen=True, slots=True)
class Minute:
    """The exporter after a simulated minute: its memory and CPU so far, its history, and its page."""

    passed_s: float
    rss: int
    cpu_s: float
    series: int
    samples: int
    history_bytes: int
    findings: int
    up: float


def exporter(url: str, control: str, hours: float, keep: str) -> None:
    """The child: an exporter whose clock asks the parent to move on; a line of JSON a simulated minute."""
    gc.set_threshold(*GARBAGE)
    passed = 0.0
    start = 1_790_000_000.0
    process = psutil.Process()

    def sleep(seconds: float) -> bool:
        nonlocal passed
        if passed % 60 < 1e-6:
            tell()
        passed = round(passed + seconds, 6)
        urllib.request.urlopen(f"{control}/{passed}").read()
        return passed >= hours * 3600

    settings = Settings(keep_s=parse_duration(keep))
    clock = Clock(lambda: start + passed, lambda: passed, sleep)
    watching = Exporter([url], settings, clock)
    web = Web("127.0.0.1:0", application(lambda: watching.state, clock.now), lambda: True)

    def tell() -> None:
        page = urllib.request.urlopen(f"{web.url}/metrics").read().decode()
        lines = page.splitlines()
        used = process.cpu_times()
        found = Minute(
            passed,
            process.memory_info().rss,
            used.user + used.system,
            watching.history.series,
            watching.history.samples,
            watching.history.size_bytes,
            sum(line.startswith("vllmdoctor_finding{") for line in lines),
            next((float(line.rpartition(" ")[2]) for line in lines if line.startswith("vllmdoctor_up{")), -1),
        )
        print(json.dumps([getattr(found, name) for name in Minute.__slots__]), flush=True)

    watching.run()
    web.close()


def minutes(hours: float, keep: str) -> Iterator[Minute]:
    """Run it, and tell each simulated minute."""
    setup = replace(SCENARIOS[SCENARIO].setup(SEED), duration_s=hours * 3600)
    with Stage(setup, seed=SEED, outages=OUTAGES) as stage:

        class Control(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                stage.at(float(self.path.strip("/")))
                self.send_response(200)
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        control = ThreadingHTTPServer(("127.0.0.1", 0), Control)
        threading.Thread(target=control.serve_forever, daemon=True).start()
        place = f"http://127.0.0.1:{control.server_port}"
        command = [sys.executable, "-m", "bench.export", "--watch", stage.url, place]
        with subprocess.Popen(
            [*command, "--hours", str(hours), "--keep", keep], stdout=subprocess.PIPE, text=True
        ) as child:
            for line in child.stdout or ():
                yield Minute(*json.loads(line))
        control.shutdown()


def main() -> int:
    """Measure, tell, and say by the exit code whether all limits hold."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", 1)[0])
    parser.add_argument("--hours", type=float, default=HOURS, help="how many simulated hours")
    parser.add_argument("--keep", default="2h", help="the history that is kept, as for the exporter")
    parser.add_argument("--watch", nargs=2, metavar=("URL", "CONTROL"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.watch:
        url, control = given.watch
        exporter(url, control, given.hours, given.keep)
        return 0
    begun = time.monotonic()
    seen = []
    for minute in minutes(given.hours, given.keep):
        seen.append(minute)
        if minute.passed_s % 1800 == 0:
            print(
                f"{minute.passed_s / 3600:4.1f} h  {minute.rss / 2**20:6.1f} MiB  "
                f"{minute.samples:8} numbers of {minute.series} series  {minute.cpu_s:6.1f} s CPU  "
                f"{minute.findings} findings  up {minute.up:g}",
                flush=True,
            )
    return report(seen, parse_duration(given.keep) / 3600, time.monotonic() - begun)


def report(seen: list[Minute], keep_h: float, wall_s: float) -> int:
    """The figures against their limits: memory from when the history is full until the end."""
    hours = seen[-1].passed_s / 3600
    full = statistics.median(m.rss for m in seen if keep_h <= m.passed_s / 3600 <= keep_h + 1)
    late = statistics.median(m.rss for m in seen if m.passed_s / 3600 >= hours - 1)
    share = (seen[-1].cpu_s - seen[0].cpu_s) / (seen[-1].passed_s - seen[0].passed_s)
    print(f"{hours:.1f} simulated hours in {wall_s:.0f} s, peak {max(m.rss for m in seen) / 2**20:.0f} MiB")
    grown = f"memory, the last hour against hour {keep_h:g} to {keep_h + 1:g}"
    figures = (
        (grown, 100 * (late / full - 1), 100 * GROWTH, "%"),
        ("CPU, share of a core", 100 * share, 100 * CORE_SHARE, "%"),
    )
    for what, value, limit, unit in figures:
        print(f"{'ok  ' if value <= limit else 'OVER'} {what}: {value:.3g} {unit}, limit {limit:g} {unit}")
    return 0 if all(value <= limit for _, value, limit, _ in figures) else 1


if __name__ == "__main__":
    sys.exit(main())
