"""The engine makes no progress while it has work: no counter moves."""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from vllmdoctor.case import Case, Felt, Kind, Limit, Onset, lasting, number, percent, ratio
from vllmdoctor.frame import GAP_SCRAPES
from vllmdoctor.model import Severity
from vllmdoctor.rules import Yielded, rule
from vllmdoctor.statistics import FloatArray

MOVING = ("generation_tokens", "prompt_tokens", "requests_finished")
KNOCKS = 3  # HTTP requests ending in so many scrapes without any token: somebody wants something
Flags = NDArray[np.bool_]


@rule(
    summary="the engine has work and makes no progress",
    severity=Severity.CRITICAL,
    signals=("generation_tokens", "requests_running"),
    helpful=("requests_waiting", "requests_waiting_deferred", "iteration_tokens", "http_requests"),
    limits={
        "still": Limit(60.0, "s", "a busy engine counts tokens many times a second", "guidance"),
        "many": Limit(10.0, "requests", "a few deferred ones are grammars or transfers", "vllmdoctor"),
        "deferred": Limit(
            0.8, "ratio", "not for want of room: the scheduler holds them back", "measured cases"
        ),
        "free": Limit(
            0.5, "ratio", "with the pool half empty room is not what they wait for", "measured cases"
        ),
        "few": Limit(0.3, "ratio", "and the batch has shrunk to a rest", "measured cases"),
        "scrapes": Limit(3.0, "scrapes", "one late scrape proves nothing", "vllmdoctor"),
    },
    remedies={"over": ("read-why-it-happened", "upgrade"), "": ("collect-evidence-then-restart", "upgrade")},
    explains=("restart", "overload", "head-of-line-blocking", "demand-drop", "host-cpu-bound", "low-load"),
)
def stall(case: Case) -> Iterator[Yielded]:
    lim = case.limits
    waiting, deferred = case.now(case.vitals.waiting), case.now(case.frame.gauge("requests_waiting_deferred"))
    part = ratio(deferred, waiting)
    if waiting >= lim["many"].value and part >= lim["deferred"].value:
        yield from _admission(case, waiting, part)
        return
    track = _track(case)
    still = _longest(track, GAP_SCRAPES * case.frame.interval)
    yield case.require("longest time with work and no progress", still.seconds, ">=", lim["still"])
    yield case.require("scrapes in it", float(still.scrapes), ">=", lim["scrapes"])
    going_on = (
        bool(track.times.size) and still.start + still.seconds >= track.times[-1] - 2 * case.frame.interval
    )
    load = case.vitals.load
    yield case.note(
        "requests in the system (max)",
        float(np.nanmax(load)) if np.isfinite(load).any() else math.nan,
        "requests",
    )
    if still.seconds >= lim["still"].value:
        yield Onset(still.start)
        yield Felt() if going_on else Severity.WARNING
    yield Kind(
        "going on" if going_on else "over",
        f"no token and no finished request for {lasting(still.seconds)} with work at hand"
        + ("" if going_on else "; it moved again since"),
    )


def _admission(case: Case, waiting: float, part: float) -> Iterator[Yielded]:
    """The scheduler admits nobody although slots and blocks are free: those who wait are deferred."""
    v, lim = case.vitals, case.limits
    running = case.frame.gauge("requests_running", "max")
    most = float(np.nanmax(running)) if np.isfinite(running).any() else math.nan
    usage = case.now(v.usage)
    yield case.require("waiting requests that are deferred", part, ">=", lim["deferred"])
    yield case.require("KV usage (mean)", usage, "<", lim["free"])
    yield case.require("requests running, now / at most", ratio(case.now(v.running), most), "<=", lim["few"])
    yield case.support("preemptions", 60 * case.now(v.preemptions), "<", 1.0, "per minute")
    yield Felt()
    yield Kind(
        "admission",
        f"{number(waiting)} requests wait, {percent(part)} of them deferred, while {number(case.now(v.running))} run "
        f"and {percent(1 - usage)} of the pool is free",
    )


@dataclass(frozen=True, slots=True)
class _Track:
    """Scrape by scrape: did any counter move, how many requests were inside, did HTTP requests end."""

    times: FloatArray
    moved: Flags
    known: Flags
    inside: FloatArray
    knocked: Flags


@dataclass(frozen=True, slots=True)
class _Still:
    """The longest run without progress."""

    seconds: float = 0.0
    start: float = math.nan
    scrapes: int = 0


def _track(case: Case) -> _Track:
    times, _ = case.frame.raw("generation_tokens")
    moved, known, knocked = (np.zeros(times.size, np.bool_) for _ in range(3))

    def steps(values: FloatArray) -> Flags:
        return np.asarray(np.nan_to_num(np.diff(values)) != 0)

    for signal in MOVING:
        _, values = case.frame.raw(signal)
        if values.size == times.size and times.size:
            moved[1:] |= steps(values)
            # a counter that is not there stands for nothing
            known[1:] |= np.isfinite(np.diff(values))
    iterations = case.frame.names.get("iteration_tokens")
    for x in case.frame.families.get(iterations.text + "_count", ()) if iterations else ():
        if x.column.times.size == times.size:
            moved[1:] |= steps(x.column.values)
    inside = np.zeros(times.size)
    for signal in ("requests_running", "requests_waiting"):
        _, values = case.frame.raw(signal)
        if values.size == times.size:
            inside += np.nan_to_num(values)
    for x in case.frame.columns("http_requests"):
        handler, status = x.labels.get("handler", ""), x.labels.get("status", "")
        served = handler.startswith("/v1/") and handler != "/v1/models" and not status.startswith("4")
        if served and x.column.times.size == times.size:
            knocked[1:] |= steps(x.column.values)
    return _Track(times, moved, known, inside, knocked)


def _longest(track: _Track, gap: float) -> _Still:
    """The longest run of scrapes in which nothing moved although there was work.

    Work is a request in the gauges at both ends of each step or, since in a real wedge the gauges
    may read 0, HTTP requests that end again and again without a single token having been made.
    """
    best = _Still()
    start, work, knocks = 0, 0, 0
    for i in range(1, track.times.size):
        if track.moved[i] or not track.known[i] or track.times[i] - track.times[i - 1] > gap:
            start, work, knocks = i, 0, 0
            continue
        if track.inside[i] > 0 and track.inside[i - 1] > 0:
            work += 1
        elif knocks == 0 and not track.knocked[i]:
            start, work = i, 0
            continue
        knocks += bool(track.knocked[i])
        seconds = float(track.times[i] - track.times[start])
        if (work == i - start or knocks >= KNOCKS) and seconds > best.seconds:
            best = _Still(seconds, float(track.times[start]), i - start)
    return best
