"""Every history of the labelled set: its truth and its recording, made or taken from a cache.

A simulated history is kept under a name made of its whole setup and of the simulator's sources, so that a
cache folder never answers with an outdated one.
"""

import hashlib
import inspect
import json
import pickle
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

from bench.accuracy import cases
from bench.accuracy.truth import CASES, HELD_OUT, REAL, TUNING, History, Truth, truth_of

from vllmdoctor import simulator
from vllmdoctor.model import Snapshot
from vllmdoctor.recording import Recording, gather
from vllmdoctor.simulator import SCENARIOS, Scrape, Setup, simulate, truth
from vllmdoctor.sources import Window, gather_targets

ROOT = Path(__file__).parents[2]
REAL_TRUTH = ROOT / "tests" / "truth.json"
TUNING_SEEDS = (1, 2)
HELD_OUT_SEEDS = (5, 6)
# What is drawn for a seed says nothing of what the judge does: these may change without another world.
UNCONCERNED = ("scenarios", "draw.py", "__main__.py", "openmetrics.py", "fit.py", "replay.py", "sizing.py")


def histories(groups: Sequence[str], tuning: Sequence[int], held_out: Sequence[int]) -> Iterator[History]:
    """The histories of some groups; `tuning` and `held_out` are the seeds of the simulated ones."""
    if REAL in groups:
        yield from (History(REAL, name) for name in sorted(_real()))
    if CASES in groups:
        yield from (History(CASES, name) for name in cases.names())
    for group, seeds in ((TUNING, tuning), (HELD_OUT, held_out)):
        if group in groups:
            yield from (History(group, name, seed) for seed in seeds for name in SCENARIOS)


def open_history(history: History, folder: Path | None = None) -> tuple[Truth, Recording]:
    """A history's truth and recording; `folder` caches the simulated ones."""
    if history.group == REAL:
        return truth_of(_real()[history.name]), gather_targets([f"example:{history.name}"], Window())
    if history.group == CASES:
        case = cases.read(history.name)
        return case.truth, case.recording
    setup = setup_of(history)
    told = truth(SCENARIOS[history.name], seed=history.seed)
    return truth_of(told, setup.start_unix_s), _simulated(setup, history, folder)


def setup_of(history: History) -> Setup:
    """The setup of a simulated history.

    Held-out ones are scraped as no tuning history is: every 20 or 45 s, more unevenly, one scrape in a
    hundred lost. (Everything else is drawn anew for each seed: version, speed, lengths, moments, companions.)
    """
    setup = SCENARIOS[history.name].setup(history.seed)
    if history.group != HELD_OUT:
        return setup
    scrape = setup.scrape
    interval = 20.0 if history.seed % 2 else 45.0
    other = Scrape(interval, max(scrape.jitter_s, 0.3), max(scrape.missed, 0.01), scrape.gaps)
    return replace(setup, scrape=other)


def _simulated(setup: Setup, history: History, folder: Path | None) -> Recording:
    def made() -> Recording:
        pages = simulate(setup, seed=history.seed)
        return gather(Snapshot(p.time_s, p.instance, p.values) for p in pages)

    if folder is None:
        return made()
    key = hashlib.sha256(f"{_world()} {history.seed} {setup!r}".encode()).hexdigest()[:16]
    path = folder / f"{history.key}-{key}.pickle"
    if path.exists():
        kept: Recording = pickle.loads(path.read_bytes())
        return kept
    recording = made()
    folder.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(".part")
    part.write_bytes(pickle.dumps(recording))
    part.replace(path)
    return recording


@cache
def _world() -> str:
    """A fingerprint of the code that turns a setup into pages."""
    here = Path(inspect.getfile(simulator)).parent
    files = sorted(p for p in here.rglob("*.py") if p.relative_to(here).parts[0] not in UNCONCERNED)
    return hashlib.sha256(b"".join(p.read_bytes() for p in files)).hexdigest()


@cache
def _real() -> dict[str, dict[str, object]]:
    told: dict[str, dict[str, object]] = json.loads(REAL_TRUTH.read_text(encoding="utf-8"))
    return told
