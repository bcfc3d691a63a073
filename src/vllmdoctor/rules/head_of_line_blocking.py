"""A few heavy requests hold up the many: the tail runs away while the median stays."""

import math
from collections.abc import Iterator

import numpy as np

from vllmdoctor.case import CannotTell, Case, Felt, Kind, Limit, lasting, number, ratio
from vllmdoctor.model import Severity
from vllmdoctor.rules import Yielded, rule
from vllmdoctor.statistics import Mask


@rule(
    summary="a few heavy requests hold up the many: the slow tail runs away from the median",
    severity=Severity.WARNING,
    signals=(("ttft", "prompt_tokens"),),
    helpful=("itl", "queue_time", "prefill_time", "prompt_length", "iteration_tokens", "kv_cache_usage"),
    limits={
        "tail": Limit(3.0, "x the median", "healthy is 2 to 3", "degradation guide"),
        "rise": Limit(1.5, "x its baseline", "a tail that was always there is the traffic's, not a fault", "degradation guide"),
        "extreme": Limit(8.0, "x the median", "no healthy recording came near, whatever its traffic", "real traces"),
        "excess": Limit(0.5, "s", "a tail this short is not felt", "vllmdoctor"),
        "median": Limit(1.25, "ratio", "a median that rises too is overload or prefill", "degradation guide"),
        "preempted": Limit(0.05, "per request", "preemption makes such tails by itself", "measured cases"),
        "standing": Limit(0.6, "ratio", "a queue that stands is overload", "vllmdoctor"),
        "beyond": Limit(0.5, "ratio", "bursts that fill the server and drain have long tails by nature", "vllmdoctor"),
        "uneven": Limit(3.0, "x", "prompt work that comes in lumps", "real traces"),
        "starved": Limit(0.9, "ratio", "while a long prompt is computed others' tokens must wait", "real traces"),
        "inside": Limit(1.5, "x", "more requests inside should make more tokens", "real traces"),
        "errors": Limit(2.0, "standard errors", "a slow interval or two come by chance", "statistics"),
        "gaps": Limit(0.0005, "ratio", "inter-token gaps above 1 s are rare unless a long step blocks", "real traces"),
    },
    remedies={
        "": ("set-long-prefill-token-threshold", "lower-max-num-batched-tokens", "split-traffic-by-length",
             "priority-scheduling"),
    },
)  # fmt: skip
def head_of_line_blocking(case: Case) -> Iterator[Yielded]:
    if not case.frame.has("ttft"):
        yield from _by_rates(case)
        return
    v, now, before, lim = case.vitals, case.windows.now, case.windows.before, case.limits
    tail, excess, p50, p95, bucket = _tail(case, now)
    tail_before, _, p50_before, _, _ = _tail(case, before)
    rise = ratio(tail, tail_before)
    yield case.require("TTFT p95 / p50", tail, ">=", lim["tail"])
    yield case.require("TTFT p95 - p50", excess, ">=", lim["excess"], interval=bucket)
    preempted, standing = v.preempted_per_finished(now), v.waiting_share(now)
    if rise >= lim["rise"].value and case.windows.onset is not None:
        yield case.require("TTFT tail ratio, now / before", rise, ">=", lim["rise"])
        yield case.require("TTFT p50, now / before", ratio(p50, p50_before), "<=", lim["median"])
    else:
        yield case.require("TTFT p95 / p50 (always so)", tail, ">=", lim["extreme"])
        if v.full_while_waiting(now):
            # bursts that fill the pool or the slots and drain have long tails by nature
            own = v.quantile("queue_time", 0.95, now)[0] + v.quantile("prefill_time", 0.5, now)[0]
            yield case.require(
                "part of TTFT p95 beyond queue and prefill", (p95 - own) / p95, ">=", lim["beyond"]
            )
    if not math.isnan(preempted):
        yield case.require("preemptions per finished request", preempted, "<=", lim["preempted"])
    if not math.isnan(standing):
        yield case.require("time with requests waiting", standing, "<", lim["standing"])
    gaps = _gap_share(case, now)
    yield case.support("inter-token gaps above 1 s", gaps, ">=", lim["gaps"])
    own = v.quantile("queue_time", 0.95, now)[0] + v.quantile("prefill_time", 0.5, now)[0]
    yield case.support("TTFT p95 - (queue p95 + prefill p50)", p95 - own, ">=", lim["excess"])
    spread = ratio(v.quantile("prompt_length", 0.99, now)[0], v.quantile("prompt_length", 0.5, now)[0])
    yield case.support("prompt length p99 / p50", spread, ">=", 8.0, "x the median")
    usage = case.now(v.usage)
    yield case.support("KV usage (mean)", usage, "<", 0.9, "ratio")
    yield Felt()
    yield Kind(
        "long prompts" if spread >= 8 else "",
        f"the slowest 5 % wait {lasting(p95)} for their first token, the median {lasting(p50)}",
    )


def _by_rates(case: Case) -> Iterator[Yielded]:
    """Where latencies are unknown, as in a log: do fewer tokens come out just while much prompt work goes in?"""
    v, lim = case.vitals, case.limits
    times, prompt = case.frame.raw("prompt_tokens")
    _, made = case.frame.raw("generation_tokens")
    _, running = case.frame.raw("requests_running")
    if not times.size == made.size == running.size:
        yield CannotTell("latencies are not in the log, and its rates do not suffice")
        return
    seconds = np.diff(times)
    near = (seconds > 0) & (seconds <= 1.5 * case.frame.interval) & np.isfinite(running[1:])
    work, out, inside = (
        np.diff(prompt)[near] / seconds[near],
        np.diff(made)[near] / seconds[near],
        running[1:][near],
    )
    busy = np.flatnonzero(work + out > 0)[1:-1]  # load comes and goes in the first and the last
    work, out, inside = work[busy], out[busy], inside[busy]
    low, high = np.quantile(work, (0.1, 0.9)) if work.size >= 12 else (math.nan, math.nan)
    heavy = work >= math.sqrt(max(low, 1.0) * high)
    if math.isnan(high) or min(heavy.sum(), (~heavy).sum()) < 4:
        yield CannotTell("latencies are not in the log, and its prompt rates do not come in lumps")
        return
    a, b = out[heavy], out[~heavy]
    spread = math.sqrt(float(a.var()) / a.size + float(b.var()) / b.size)
    fewer = ratio(float(a.mean()), float(b.mean()))
    errors = float(b.mean() - a.mean()) / spread if spread else math.nan
    yield case.require("prompt rate, p90 / p10", float(high / max(low, 1.0)), ">=", lim["uneven"])
    yield case.require("generation rate, with much prompt work / with little", fewer, "<=", lim["starved"])
    yield case.require("that difference, in standard errors", errors, ">=", lim["errors"])
    more = ratio(float(inside[heavy].mean()), float(inside[~heavy].mean()))
    yield case.require("requests running, with much prompt work / with little", more, ">=", lim["inside"])
    yield case.require("time with requests waiting", v.waiting_share(case.windows.now), "<", lim["standing"])
    yield case.support("KV usage (mean)", case.now(v.usage), "<", 0.9, "ratio")
    # all of it comes out as chance, or as a prompt that is as long as others: what the log cannot show stays unknown
    if not (fewer <= lim["starved"].value and more >= lim["inside"].value and errors >= lim["errors"].value):
        yield CannotTell("latencies are not in the log, and its rates show no sign of it")
    yield Kind(
        "long prompts",
        f"while long prompts are computed, {number(more)} times as many requests get {fewer:.0%} of the tokens",
    )


def _tail(case: Case, mask: Mask) -> tuple[float, float, float, float, tuple[float, float]]:
    """(p95/p50, p95-p50, p50, p95, bucket of p95) of TTFT in a window."""
    p50, _ = case.vitals.quantile("ttft", 0.5, mask)
    p95, bucket = case.vitals.quantile("ttft", 0.95, mask)
    return ratio(p95, p50), p95 - p50, p50, p95, bucket


def _gap_share(case: Case, mask: Mask) -> float:
    """The share of inter-token gaps certainly above one second."""
    buckets = case.vitals.buckets("itl", mask)
    return buckets.above(1.0) / buckets.count if buckets and buckets.count else math.nan
