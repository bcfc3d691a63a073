"""Host memory grows with time or with requests until swapping or the OOM killer hurts."""

import math
from collections.abc import Iterator
from itertools import pairwise

import numpy as np

from vllmdoctor.case import CannotTell, Case, Kind, Limit, Onset, number, percent
from vllmdoctor.model import Severity
from vllmdoctor.rules import Yielded, rule
from vllmdoctor.statistics import FloatArray, change, finite, last, mann_kendall, rank_correlation, theil_sen

SOURCES = (
    ("host_memory", "the server's processes"),
    ("container_memory", "container working set"),
    ("process_memory", "API server process (engine core and workers are not in it)"),
)

FEWEST_POINTS = 5  # of a stretch between restarts
API_ONLY = (
    "only the API server's process was seen, and it does not grow: a leak in the engine core or in a worker "
    "would not show (give host: on the server's machine, or the container's metrics)"
)


@rule(
    summary="host memory grows steadily: a leak",
    severity=Severity.WARNING,
    signals=(("host_memory", "container_memory", "process_memory"),),
    helpful=("container_memory_limit", "container_oom_killed", "container_restarts", "requests_running"),
    limits={
        "span": Limit(2.0, "h", "a shorter history cannot tell a leak from warm-up", "degradation guide"),
        "p": Limit(0.01, "p-value", "a trend that chance does not make (Mann-Kendall)", "statistics"),
        "growth": Limit(
            0.05, "ratio", "growth of a twentieth over the history is beyond caches' breathing", "vllmdoctor"
        ),
        "amount": Limit(64 * 2**20, "bytes", "less hurts nobody", "vllmdoctor"),
        "steady": Limit(0.4, "ratio", "a warm-up slows down; a leak goes on", "degradation guide"),
        "steps": Limit(
            0.5, "ratio", "growth in a few steps at load peaks is load, not a leak", "degradation guide"
        ),
        "hours-left": Limit(24.0, "h", "the limit is reached within a day", "degradation guide"),
        "per-hour": Limit(0.10, "ratio/h", "ten per cent an hour", "degradation guide"),
    },
    explains=("restart",),
    remedies={"": ("upgrade", "rolling-restart", "raise-memory-limit", "collect-evidence-then-restart")},
)
def memory_leak(case: Case) -> Iterator[Yielded]:
    v, lim = case.vitals, case.limits
    signal, words = next(((s, w) for s, w in SOURCES if case.frame.has(s)), SOURCES[0])
    memory = case.frame.gauge(signal, "max")
    hours = (case.frame.times - case.frame.start) / 3600
    segments = _segments(case, memory)
    span = sum(float(hours[s][-1] - hours[s][0]) for s in segments)
    joined, level = _joined(memory, segments)
    slope, low, high = theil_sen(hours, joined)
    _, p = mann_kendall(joined[np.isfinite(joined)])
    start = float(np.nanmedian(level[: max(3, level.size // 20)])) if level.size else math.nan
    growth = slope * span / start if start else math.nan
    yield case.require("history of memory", span, ">=", lim["span"])
    if not span >= lim["span"].value:
        yield CannotTell(f"it takes {lim['span'].value:g} h of history to tell, here are {60 * span:.0f} min")
        return
    required = (
        case.require("growth over the history", growth, ">=", lim["growth"], detail=words),
        case.require("growth in bytes", slope * span, ">=", lim["amount"]),
        case.require("chance of such a trend (Mann-Kendall p)", p, "<=", lim["p"]),
        case.require("slope of the second half / first half", _steady(hours, joined), ">=", lim["steady"]),
        case.require("growth that falls on load peaks", _stepwise(case, joined), "<", lim["steps"]),
    )
    yield from required
    if signal == "process_memory" and any(e.met is False for e in required):
        yield CannotTell(API_ONLY)
        return
    limits = case.frame.gauge("container_memory_limit")
    # 0 is no limit
    limit_bytes = float(np.max(limits[limits > 0])) if (limits > 0).any() else math.nan
    current = last(memory)
    counted = last(case.frame.gauge("container_memory")) if case.frame.has("container_memory") else current
    left = (limit_bytes - counted) / slope if slope > 0 and signal != "process_memory" else math.nan
    yield case.support(
        "growth per hour, of current use", slope / current if current else math.nan, ">=", lim["per-hour"]
    )
    yield case.support("time to the memory limit", left, "<=", lim["hours-left"])
    requests = 3600 * float(np.nanmean(v.finished)) if np.isfinite(v.finished).any() else math.nan
    yield case.note(
        "growth per hour",
        slope,
        "bytes",
        detail=f"90 % interval {number(low / 2**20)} to {number(high / 2**20)} MiB",
    )
    yield case.note("growth per 1,000 requests", 1000 * slope / requests if requests else math.nan, "bytes")
    throughput = case.symptom("throughput")
    tied = rank_correlation(v.adjusted, memory)
    yield case.note("rank correlation of throughput with memory", tied, "")
    if case.frame.has("container_oom_events"):
        kills = float(np.nansum(case.frame.rate("container_oom_events")) * case.frame.step)
        yield case.note("OOM kills in this history", kills, "kills")
    role, share = _leaking(case, hours, segments, slope)
    if role:
        yield case.note("part of the growth that is in one process", share, "ratio", detail=role)
    critical = left <= 6 or (throughput is not None and bool(throughput.slow))
    if critical:
        yield Severity.CRITICAL
    moved = change(case.frame.smooth(joined, max(3, joined.size // 40)))
    yield Onset(
        float(
            case.frame.start
            + (moved.index if moved is not None and moved.gain > 0.8 else 0) * case.frame.step
        )
    )
    yield Kind(
        "host",
        f"{words.split(' (')[0]} {'grow' if signal == 'host_memory' else 'grows'} {number(slope / 2**20)} MiB/h"
        + (f", {percent(share)} of it in {role}" if role else "")
        + (f", {number(left)} h to its limit" if not math.isnan(left) else "")
        + (f"; restarted {len(segments) - 1} times" if len(segments) > 1 else ""),
    )


def _leaking(case: Case, hours: FloatArray, segments: list[slice], slope: float) -> tuple[str, float]:
    """The role of the process that grows most, and its part of the growth; "" where nobody knows."""
    longest = max(segments, key=lambda s: s.stop - s.start)
    slopes = {
        role: theil_sen(hours[longest], memory[longest])[0]
        for role, memory in case.frame.each("host_memory", "role", how="max").items()
        if np.isfinite(memory[longest]).sum() >= FEWEST_POINTS
    }
    role = max(slopes, key=lambda r: slopes[r], default="")
    if not role or not slope > 0 or not slopes[role] > 0:
        return "", math.nan
    return role, min(1.0, slopes[role] / slope)


def _segments(case: Case, memory: FloatArray) -> list[slice]:
    """Slices of the grid between restarts that hold at least five points of memory."""
    edges = [0]
    for t in case.frame.restarts:
        edges.append(int((t - case.frame.start) / case.frame.step))
    # a fall by a third in one step is a restart too, seen or not
    finite = np.flatnonzero(np.isfinite(memory))
    for a, b in pairwise(finite):
        if memory[b] < 0.67 * memory[a]:
            edges.append(int(b))
    edges = sorted({*edges, memory.size})
    out = [slice(a, b) for a, b in pairwise(edges)]
    return [s for s in out if np.isfinite(memory[s]).sum() >= FEWEST_POINTS] or [slice(0, memory.size)]


def _joined(memory: FloatArray, segments: list[slice]) -> tuple[FloatArray, FloatArray]:
    """The sawtooth joined into one trend: each segment starts where the last one ended.

    Of each segment after a start, its first tenth is warm-up and left out.
    """
    joined = np.full(memory.size, np.nan)
    offset = 0.0
    for n, s in enumerate(segments):
        part = memory[s].copy()
        at = np.flatnonzero(np.isfinite(part))
        if n > 0:
            part[: at[len(at) // 10]] = np.nan
            at = np.flatnonzero(np.isfinite(part))
            offset += last(joined) - offset - float(part[at[0]])
        joined[s] = part + offset
    first = memory[segments[0]]
    return joined, finite(first)


def _steady(hours: FloatArray, joined: FloatArray) -> float:
    """Slope of the second half over the slope of the first; 1 for a straight line."""
    middle = joined.size // 2
    first, _, _ = theil_sen(hours[:middle], joined[:middle])
    second, _, _ = theil_sen(hours[middle:], joined[middle:])
    if math.isnan(first) or math.isnan(second):
        return math.nan
    return second / first if first > 0 else (1.0 if second > 0 else 0.0)


def _stepwise(case: Case, joined: FloatArray) -> float:
    """The part of the growth that happens in the few bins in which load peaks.

    A leak grows in every bin; memory that follows load grows in a few and rests between.
    """
    finite = np.flatnonzero(np.isfinite(joined))
    if finite.size < 20:
        return math.nan
    rises = np.diff(joined[finite])
    total = float(joined[finite[-1]] - joined[finite[0]])
    if total <= 0:
        return math.nan
    top = np.sort(rises)[::-1][: max(2, rises.size // 20)]
    noise = float(np.median(np.abs(rises))) * max(2, rises.size // 20)
    return max(0.0, (float(top.sum()) - 3 * noise)) / total
