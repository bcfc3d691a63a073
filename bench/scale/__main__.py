"""What a diagnosis costs: ``python -m bench.scale``. Exits 1 above a limit.

One engine with a day of history at 60 s, and a hundred of them. The history is a simulated one of a faulty
server (so that every rule has to look), told again under a hundred instance names; each has its own arrays.
CPU time (user + system), least of some runs for the small one, so that a busy machine does not decide.
"""

import argparse
import cProfile
import pstats
import resource
import sys
import time
from dataclasses import replace

import numpy as np

from vllmdoctor.diagnosis import diagnose
from vllmdoctor.model import Snapshot
from vllmdoctor.recording import Column, FloatArray, Recording, gather
from vllmdoctor.simulator import SCENARIOS, Scrape, simulate

SCENARIO, SEED = "mixed-leak-beside-overload", 1
DAY_S, EVERY_S = 24 * 3600.0, 60.0
ONE_S, FLEET_S, FLEET_BYTES = 0.4, 15.0, 2**30
FLEET = 100


def one_engine() -> Recording:
    """A day of one server at one scrape a minute: the scenario's half day, and the same again after it."""
    setup = SCENARIOS[SCENARIO].setup(SEED)
    setup = replace(setup, scrape=Scrape(EVERY_S), duration_s=DAY_S / 2)
    half = gather(Snapshot(p.time_s, p.instance, p.values) for p in simulate(setup, seed=SEED))
    moved: dict[int, FloatArray] = {}

    def day(series: str, column: Column) -> Column:
        key = id(column.times)
        if key not in moved:
            later = column.times + (column.times[-1] - column.times[0]) + EVERY_S
            moved[key] = np.concatenate([column.times, later])
        counts = series.partition("{")[0].endswith(("_total", "_bucket", "_sum", "_count"))
        again = column.values + (column.values[-1] if counts else 0.0)
        return Column(moved[key], np.concatenate([column.values, again]))

    columns = {name: {s: day(s, c) for s, c in of.items()} for name, of in half.columns.items()}
    return Recording(columns, half.facts, half.events, half.gaps)


def fleet(one: Recording, size: int) -> Recording:
    """The same history under `size` instance and pod names, nothing shared between them."""
    columns: dict[str, dict[str, Column]] = {}
    for number in range(size):
        for name, of in one.columns.items():
            times: dict[int, FloatArray] = {}
            columns[f"{name}-{number}"] = {
                _renamed(series, name, number): Column(
                    times.setdefault(id(c.times), c.times.copy()), c.values.copy()
                )
                for series, c in of.items()
            }
    return Recording(columns)


def _renamed(series: str, name: str, number: int) -> str:
    for label in ("instance", "pod"):
        series = series.replace(f'{label}="{name}"', f'{label}="{name}-{number}"')
    return series


def cpu(work: Recording) -> float:
    """CPU seconds of one diagnosis."""
    begun = time.process_time()
    diagnose(work)
    return time.process_time() - begun


def main() -> int:
    """Measure, tell, and say by the exit code whether all limits hold."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", 1)[0])
    parser.add_argument("--profile", action="store_true", help="show where the time goes")
    profile = parser.parse_args().profile
    one = one_engine()
    series = sum(len(of) for of in one.columns.values())
    print(f"one engine: {one.scrapes} scrapes, {series} series, {(one.end - one.start) / 3600:.1f} h")
    if profile:
        profiler = cProfile.Profile()
        profiler.runcall(diagnose, one)
        pstats.Stats(profiler).sort_stats("cumulative").print_stats(35)
        return 0
    figures = [("one engine, 24 h at 60 s", min(cpu(one) for _ in range(5)), ONE_S, "s CPU")]
    many = fleet(one, FLEET)
    figures.append((f"{FLEET} engines", cpu(many), FLEET_S, "s CPU"))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    figures.append((f"{FLEET} engines, memory (peak)", peak / 2**20, FLEET_BYTES / 2**20, "MiB"))
    for what, value, limit, unit in figures:
        print(f"{'ok  ' if value <= limit else 'OVER'} {what}: {value:.3g} {unit}, limit {limit:g}")
    return 0 if all(value <= limit for _, value, limit, _ in figures) else 1


if __name__ == "__main__":
    sys.exit(main())
