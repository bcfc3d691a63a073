"""Less work arrives: throughput falls, and nothing is wrong with the server."""

import math
from collections.abc import Iterator

import numpy as np

from vllmdoctor.case import Case, Kind, Limit, Onset, percent, ratio
from vllmdoctor.model import Severity
from vllmdoctor.rules import Yielded, rule
from vllmdoctor.statistics import finite, mean


@rule(
    summary="less traffic arrives; the server itself is as fast as before",
    severity=Severity.INFO,
    signals=("requests_running", "generation_tokens"),
    helpful=("requests_waiting", "requests_finished", "ttft", "itl"),
    limits={
        "rate": Limit(0.80, "ratio", "a fall worth explaining", "runbook"),
        "demand": Limit(0.85, "ratio", "demand must have fallen about as much", "runbook"),
        "surprise": Limit(4.0, "standard errors", "a few requests more or less come by chance", "statistics"),
        "lowest": Limit(0.9, "ratio", "traffic that breathes has quiet hours by nature", "vllmdoctor"),
        "waiting": Limit(0.5, "requests", "with a queue there is no lack of work", "runbook"),
        "speed": Limit(0.80, "ratio", "the rate at equal load must have held", "runbook"),
        "latency": Limit(1.5, "ratio", "latency must not have risen", "runbook"),
    },
    remedies={"": ("no-action", "check-client")},
)
def demand_drop(case: Case) -> Iterator[Yielded]:
    v, lim = case.vitals, case.limits
    fall = ratio(case.now(v.generation), case.before(v.generation))
    demand = ratio(case.now(v.arrivals), case.before(v.arrivals))
    yield case.require("generation rate, now / before", fall, "<", lim["rate"])
    yield case.require("arrivals, now / before", demand, "<", lim["demand"])
    yield case.require("fall of demand / fall of rate", ratio(demand, fall) if fall else 1.0, "<=", 1.35, "x")
    yield case.require("fall of arrivals, in standard errors", _surprise(case), ">=", lim["surprise"])
    if case.windows.onset is None:
        # without a moment at which it fell, it must be lower than in all hours before
        yield case.require("arrivals, now / the lowest hour before", _lowest(case), "<=", lim["lowest"])
    waiting = case.now(v.waiting)
    yield case.require(
        "requests waiting (mean)", 0.0 if math.isnan(waiting) else waiting, "<", lim["waiting"]
    )
    for name, title, op, limit in (
        ("throughput", "rate at equal load, now / before", ">=", "speed"),
        ("itl", "time per output token at equal load, now / before", "<=", "latency"),
    ):
        symptom = case.symptom(name)
        # a server that gets nothing at all shows no speed
        if symptom is not None and not math.isnan(symptom.ratio) and fall > 0:
            yield case.require(title, symptom.ratio, op, lim[limit])  # type: ignore[arg-type]
    if case.windows.onset is not None:
        yield Onset(case.windows.onset)
    if demand == 0:
        yield Kind("ended", "no request arrives any more; the last work was done as fast as before")
        return
    yield Kind(
        "", f"arrivals fell to {percent(demand)} and the generation rate to {percent(fall)}, with no queue"
    )


def _surprise(case: Case) -> float:
    """How many standard errors the arrivals now lie below those before, if requests come at random."""
    step, arrivals = case.frame.step, case.vitals.arrivals
    counts = []
    for mask in (case.windows.now, case.windows.before):
        rate = finite(arrivals[mask])
        counts.append((float(rate.sum()) * step, rate.size * step))
    (now, time_now), (before, time_before) = counts
    if not (time_now and time_before):
        return math.nan
    spread = math.sqrt((now + 1) / time_now**2 + (before + 1) / time_before**2)
    return (before / time_before - now / time_now) / spread


def _lowest(case: Case) -> float:
    """Arrivals now over those of the quietest earlier stretch as long as now; 0 where there are fewer than three."""
    now = case.windows.now
    length = int(now.sum())
    first = int(np.flatnonzero(now)[0]) if length else 0
    earlier = []
    for start in range(first - length, -1, -length) if length else ():
        stretch = np.zeros(now.size, np.bool_)
        stretch[start : start + length] = True
        earlier.append(mean(case.vitals.arrivals, stretch))
    known = [x for x in earlier if not math.isnan(x)]
    return ratio(case.now(case.vitals.arrivals), min(known)) if len(known) >= 3 else 0.0
