"""The engine makes no progress while it has work: no counter moves."""

import math
from collections.abc import Iterator

import numpy as np

from vllmdoctor.case import Case, Kind, Limit, Onset
from vllmdoctor.model import Severity
from vllmdoctor.rules import Yielded, rule
from vllmdoctor.statistics import FloatArray

MOVING = ("generation_tokens", "prompt_tokens", "requests_finished")
NOT_WORK = ("/v1/models", "/metrics", "/health", "/version", "/ping", "/load")


@rule(
    summary="the engine has work and makes no progress",
    severity=Severity.CRITICAL,
    signals=("generation_tokens", "requests_running"),
    helpful=("requests_waiting", "iteration_tokens", "http_requests"),
    limits={
        "still": Limit(60.0, "s", "a busy engine counts tokens many times a second", "guidance"),
        "scrapes": Limit(3.0, "scrapes", "one late scrape proves nothing", "vllmdoctor"),
    },
    remedies={"": ("collect-evidence-then-restart", "upgrade")},
    explains=("overload", "head-of-line-blocking", "kv-fragmentation", "demand-drop", "host-cpu-bound", "low-load"),
)
def stall(case: Case) -> Iterator[Yielded]:
    lim = case.limits
    times, moved, work = _progress(case)
    still, at, count = _longest_still(times, moved, work, 4 * case.frame.interval)
    yield case.require("longest time with work and no progress", still, ">=", lim["still"])
    yield case.require("scrapes in it", float(count), ">=", lim["scrapes"])
    now = bool(times.size) and at + still >= times[-1] - 2 * case.frame.interval
    load = case.vitals.load
    held = float(np.nanmax(load)) if np.isfinite(load).any() else math.nan
    yield case.note("requests in the system (max)", held, "requests")
    if still >= lim["still"].value:
        yield Onset(at)
    yield Kind(
        "going on" if now else "over",
        f"no token and no finished request for {still:.0f} s with work at hand" + ("" if now else "; it moved again since"),
    )


def _progress(case: Case) -> tuple[FloatArray, "np.ndarray[tuple[int, ...], np.dtype[np.bool_]]", FloatArray]:
    """(times, any counter moved since the scrape before, requests in the system or arriving)."""
    times, _ = case.frame.raw("generation_tokens")
    moved = np.zeros(times.size, np.bool_)
    for signal in MOVING:
        t, values = case.frame.raw(signal)
        if t.size == times.size and t.size:
            step = np.diff(values)
            moved[1:] |= np.nan_to_num(step) != 0
    histogram = case.frame.names.get("iteration_tokens")
    if histogram is not None:
        for x in case.frame.families.get(histogram.text + "_count", ()):
            if x.column.times.size == times.size:
                moved[1:] |= np.nan_to_num(np.diff(x.column.values)) != 0
    work = np.zeros(times.size)
    for signal in ("requests_running", "requests_waiting"):
        t, values = case.frame.raw(signal)
        if t.size == times.size:
            work += np.nan_to_num(values)
    return times, moved, work + _knocking(case, times)


def _knocking(case: Case, times: FloatArray) -> FloatArray:
    """1 from a scrape on in which HTTP requests were counted, for as long as they keep coming.

    In a real wedge the gauges may read 0, so arriving HTTP requests count as work.
    """
    knocks = np.zeros(times.size)
    for x in case.frame.columns("http_requests"):
        handler = x.labels.get("handler", "")
        if not handler.startswith("/v1/") or handler in NOT_WORK or x.column.times.size != times.size:
            continue
        knocks[1:] += np.nan_to_num(np.diff(x.column.values)) > 0
    recent = np.convolve(knocks, np.ones(5), "full")[: knocks.size]
    return (recent > 0).astype(np.float64)


def _longest_still(
    times: FloatArray, moved: "np.ndarray[tuple[int, ...], np.dtype[np.bool_]]", work: FloatArray, gap: float
) -> tuple[float, float, int]:
    """(seconds, start, scrapes) of the longest run of scrapes with work and no movement."""
    best, best_at, best_count = 0.0, math.nan, 0
    start, count = -1, 0
    for i in range(1, times.size):
        if not moved[i] and work[i] > 0 and work[i - 1] > 0 and times[i] - times[i - 1] <= gap:
            if start < 0:
                start, count = i - 1, 0
            count += 1
            if times[i] - times[start] > best:
                best, best_at, best_count = float(times[i] - times[start]), float(times[start]), count
        else:
            start = -1
    return best, best_at, best_count
