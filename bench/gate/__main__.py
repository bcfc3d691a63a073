"""What the gate's promises are worth: ``python -m bench.gate [--jobs 2]``. Exits 1 where a limit fails.

Simulated histories (bench/gate/histories.py) of the same server on different days are compared: none is
worse, so each regression is a false alarm. Then days on which the server is a tenth slower, or its first
tokens come a quarter later, are held against sound ones. A history stands in several pairs.
"""

import argparse
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from itertools import combinations, product

import numpy as np
from bench.gate.histories import SITUATIONS, SOUND, Worse, history

from vllmdoctor.gate import Given, compare
from vllmdoctor.model_gate import Gate, Judgement
from vllmdoctor.recording import Recording

PAIRS = 500
MOST_ALARMS, LEAST_FOUND = 0.05, 0.90
MINUTES = {"closed loop": 90.0}
USUAL_MINUTES, LONG_MINUTES = 60.0, 180.0
FORMS = ("server metrics", "requests")
SLOWER, LATER = Worse(speed=0.9), Worse(first_token=1.25)


@dataclass(frozen=True, slots=True)
class Task:
    """One server in one situation: how many sound days, and how many worse ones of each kind."""

    situation: str
    server: int
    minutes: float
    sound: int
    worse: int
    alarms: bool = True


@dataclass(frozen=True, slots=True)
class Outcome:
    """One comparison: what was the matter with the candidate, and how the gate ended."""

    situation: str
    form: str
    minutes: float
    worse: Worse
    judgement: Judgement
    regressed: tuple[str, ...]
    requests: float


def outcomes(task: Task) -> list[Outcome]:
    """All comparisons of a task."""
    found = []
    days = [history(task.situation, task.server, day, task.minutes) for day in range(task.sound)]
    if task.alarms:
        for number, (one, other) in enumerate(combinations(days, 2)):
            form = number % len(FORMS)
            found.append(_outcome(task, form, SOUND, one[form], other[form]))
    for worse, day in product((SLOWER, LATER), range(task.worse)):
        bad = history(task.situation, task.server, 1000 + day, task.minutes, worse)
        for form, good in product(range(len(FORMS)), days[: max(3, task.sound // 2)]):
            found.append(_outcome(task, form, worse, good[form], bad[form]))
    return found


def _outcome(task: Task, form: int, worse: Worse, baseline: Recording, candidate: Recording) -> Outcome:
    gate: Gate = compare(Given(("baseline",), (baseline,)), Given(("candidate",), (candidate,)))
    names = tuple(m.name.partition("_")[0] for m in gate.regressed)
    requests = gate.candidate.requests
    return Outcome(task.situation, FORMS[form], task.minutes, worse, gate.judgement, names, requests)


def tasks(servers: int) -> list[Task]:
    """What is simulated: nine days make 36 pairs of a server."""
    sound = 9
    usual = [
        Task(
            name,
            server,
            MINUTES.get(name, USUAL_MINUTES),
            sound,
            3 if name in ("closed loop", "steady") else 0,
        )
        for name, server in product(SITUATIONS, range(servers))
    ]
    return [*usual, *(Task("steady", server, LONG_MINUTES, 4, 3, alarms=False) for server in range(servers))]


def main(arguments: Sequence[str] | None = None) -> int:
    """Simulate, compare, tell; the exit code says whether all limits hold."""
    parser = argparse.ArgumentParser(prog="python -m bench.gate", description=__doc__.split("\n\n", 1)[0])
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--servers", type=int, default=3, help="servers a situation")
    options = parser.parse_args(arguments)
    begun = time.process_time()
    with ProcessPoolExecutor(options.jobs) as pool:
        found = [o for many in pool.map(outcomes, tasks(options.servers)) for o in many]
    good = [*_alarms(found), *_powers(found)]
    seconds = time.process_time() - begun
    print(f"{len(found)} gates" + (f", {seconds:.0f} s CPU" if options.jobs == 1 else ""))
    return 0 if all(good) else 1


def _alarms(found: Sequence[Outcome]) -> Iterator[bool]:
    print("no difference: how gates of equal servers end")
    equal = [o for o in found if o.worse == SOUND]
    for situation, form in product(SITUATIONS, FORMS):
        of = Counter(o.judgement for o in equal if (o.situation, o.form) == (situation, form))
        rest = ", ".join(f"{of[j]} {j}" for j in (Judgement.PASS, Judgement.IMPROVED, Judgement.INCONCLUSIVE))
        print(
            f"          {situation:12} {form:15} {of[Judgement.REGRESSED]:3} of {of.total():3} alarms; {rest}"
        )
    alarms = sum(o.judgement is Judgement.REGRESSED for o in equal)
    share = alarms / len(equal)
    ok = share <= MOST_ALARMS and len(equal) >= PAIRS
    told = f"{alarms} of {len(equal)} ({share:.1%})"
    print(f"{_mark(ok)} false alarms of whole gates: {told}, limit {MOST_ALARMS:.0%} of {PAIRS} or more")
    yield ok


def _powers(found: Sequence[Outcome]) -> Iterator[bool]:
    for worse, measure, title in (
        (SLOWER, "throughput", "a tenth less throughput"),
        (LATER, "ttft", "first tokens a quarter later"),
    ):
        print(f"{title}: how often it is found")
        for situation, minutes, form in ROWS:
            of = [
                o
                for o in found
                if (o.worse, o.situation, o.minutes, o.form) == (worse, situation, minutes, form)
            ]
            caught = np.mean([o.judgement is Judgement.REGRESSED for o in of])
            named = np.mean([measure in o.regressed for o in of])
            held = (situation, minutes, form, measure) in HELD
            ok = bool(caught >= LEAST_FOUND) or not held
            told = f"{caught:4.0%} of {len(of)} regressed, {named:4.0%} by {measure}"
            size = f"{_size(found, situation, minutes):.0f} requests"
            limit = f"limit {LEAST_FOUND:.0%}" if held else "no limit"
            mark = _mark(ok) if held else " " * 9
            print(f"{mark} {situation:12} {minutes:3.0f} min {size:15} {form:15} {told}, {limit}")
            yield ok


ROWS = (
    *(("closed loop", MINUTES["closed loop"], form) for form in FORMS),
    *(("steady", minutes, form) for minutes in (USUAL_MINUTES, LONG_MINUTES) for form in FORMS),
)
HELD = {
    ("closed loop", MINUTES["closed loop"], "server metrics", "throughput"),
    ("closed loop", MINUTES["closed loop"], "requests", "throughput"),
    ("closed loop", MINUTES["closed loop"], "server metrics", "ttft"),
    ("closed loop", MINUTES["closed loop"], "requests", "ttft"),
    ("steady", USUAL_MINUTES, "server metrics", "ttft"),
    ("steady", LONG_MINUTES, "requests", "ttft"),
    ("steady", LONG_MINUTES, "requests", "throughput"),
}


def _size(found: Sequence[Outcome], situation: str, minutes: float) -> float:
    return float(np.nanmean([o.requests for o in found if (o.situation, o.minutes) == (situation, minutes)]))


def _mark(ok: bool) -> str:
    return "ok       " if ok else "NOT OK   "


if __name__ == "__main__":
    sys.exit(main())
