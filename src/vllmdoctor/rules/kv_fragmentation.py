"""Effective KV capacity is lost: blocks are held that serve no live token."""

import math
from collections.abc import Iterator

import numpy as np

from vllmdoctor.case import Case, Kind, Limit, Onset, percent, ratio
from vllmdoctor.model import Severity
from vllmdoctor.rules import Yielded, rule
from vllmdoctor.statistics import finite, quantile, worst_fall

DEFAULT_SLOTS = 256  # the least of vLLM's own defaults for max_num_seqs


@rule(
    summary="KV cache capacity is lost: blocks are held that serve no request",
    severity=Severity.CRITICAL,
    signals=(("kv_cache_usage", "cache_config"),),
    helpful=("preemptions", "requests_waiting", "prefix_cache_hits"),
    limits={
        "lost": Limit(0.20, "ratio", "a fifth of the pool gone is more than the noise of a request mix", "runbook"),
        "coarse": Limit(256.0, "tokens", "a block this large costs a short request far more than its tokens", "vllmdoctor"),
        "fits": Limit(1.0, "x", "not even the shortest request for each slot fits", "measured cases"),
        "floor": Limit(0.03, "ratio", "an idle engine holds no blocks: reusable cached ones count as free", "vLLM source"),
        "usage": Limit(0.95, "ratio", "the next long request must evict another", "runbook"),
        "preemptions": Limit(1.0, "per minute", "a healthy server preempts less than once a minute", "runbook"),
        "mix": Limit(1.3, "ratio", "longer requests hold more blocks without any loss", "vllmdoctor"),
    },
    remedies={
        "": ("upgrade", "rolling-restart", "raise-gpu-memory-utilization", "lower-max-num-seqs",
             "enable-prefix-caching", "lower-gpu-memory-utilization", "split-traffic-by-length"),
    },
    explains=("restart", "overload", "head-of-line-blocking", "stall"),
)  # fmt: skip
def kv_fragmentation(case: Case) -> Iterator[Yielded]:
    v, lim = case.vitals, case.limits
    frame = v.frame
    width = max(5, frame.size // 25)
    # an engine that makes no token shows frozen gauges: they say nothing of its pool
    capacity = frame.smooth(np.where(v.active & (v.generation > 0), v.capacity, np.nan), width)
    moved = worst_fall(capacity, v.lives, gain=0.4)
    by_capacity, onset = math.nan, None
    if np.isfinite(capacity).sum() >= 12:
        by_capacity = 1 - moved.ratio if moved else 0.0
        onset = frame.start + moved.index * frame.step if moved else None
    floor = v.idle_floor
    floors = finite(floor)
    fifth = max(1, floors.size // 5)
    held_now = float(np.median(floors[-fifth:])) if floors.size else math.nan
    held_before = float(np.median(floors[:fifth])) if floors.size else math.nan
    risen = held_now - held_before
    # blocks held at idle are lost beyond doubt; and where idle shows none held, none are lost
    empty = held_now < lim["floor"].value and _recent_idle(case)
    lost = 0.0 if empty else max((x for x in (by_capacity, risen) if not math.isnan(x)), default=math.nan)
    if risen >= lim["floor"].value and held_now >= 0.1:
        lost = max(lost, lim["lost"].value)
    if math.isnan(by_capacity) and not empty and not risen >= lim["floor"].value:
        # without the requests' lengths only an idle engine tells: what it holds is lost, since when or not
        lost = held_now if held_now >= lim["lost"].value else math.nan
    fits = _fits_at_least(case)
    if fits < lim["fits"].value and not lost >= lim["lost"].value:
        size = case.number("block_size")
        yield case.require("shortest requests that fit the pool / slots", fits, "<", lim["fits"])
        yield case.note("tokens per block", size, "tokens")
        yield Severity.WARNING if case.now(v.waiting) >= 1 else Severity.INFO
        yield Kind("large blocks", f"each request holds blocks of {size:.0f} tokens, however short it is: "
                   f"at most {case.number('pool_tokens') / size:.0f} fit the pool")  # fmt: skip
        return
    yield case.require("effective KV capacity lost", lost, ">=", lim["lost"])
    prompts = ratio(case.now(v.prompt_length), case.before(v.prompt_length))
    outputs = ratio(case.now(v.output_length), case.before(v.output_length))
    longer = max((x for x in (prompts, outputs) if not math.isnan(x)), default=math.nan)
    if not math.isnan(longer) and not risen >= lim["floor"].value:
        yield case.require("request length, now / before", longer, "<=", lim["mix"])
    usage = quantile(v.usage, 0.9, case.windows.now)
    preemptions = 60 * case.now(v.preemptions)
    yield case.support("KV usage (p90)", usage, ">=", lim["usage"])
    yield case.support("preemptions", preemptions, ">=", lim["preemptions"])
    if floors.size:
        yield case.support("KV usage held while idle", held_now, ">=", lim["floor"])
    demand = ratio(case.now(v.offered_tokens()), case.before(v.offered_tokens()))
    yield case.against("offered tokens, now / before", demand, ">", 1.15, "x")
    if onset is not None and lost >= lim["lost"].value:
        yield Onset(float(onset))
    leaked = held_now >= lim["floor"].value
    yield Kind(
        "leaked-blocks" if leaked else "lost-capacity",
        f"the pool serves {percent(lost)} fewer live tokens than before at the same usage"
        + (f"; {percent(held_now)} of it is held while nothing runs" if leaked else ""),
    )


def _fits_at_least(case: Case) -> float:
    """Requests of one block each that the pool holds, for each slot; NaN where blocks are small."""
    size, pool, slots = (case.number(key) for key in ("block_size", "pool_tokens", "max_num_seqs"))
    if not size >= case.limits["coarse"].value:
        return math.nan
    return pool / size / (DEFAULT_SLOTS if math.isnan(slots) else slots)


def _recent_idle(case: Case) -> bool:
    """Whether an idle moment lies in the last quarter of the history."""
    idle = np.flatnonzero(np.isfinite(case.vitals.idle_floor))
    return bool(idle.size and idle[-1] >= 0.75 * case.frame.size)
