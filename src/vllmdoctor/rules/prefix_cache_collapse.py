"""The prefix cache stops hitting although prompts still repeat; every prompt is computed anew."""

import math
from collections.abc import Iterator

import numpy as np

from vllmdoctor.case import Case, Kind, Limit, Onset, number, percent, ratio
from vllmdoctor.model import Severity
from vllmdoctor.rules import Yielded, rule
from vllmdoctor.statistics import change


@rule(
    summary="the prefix cache hits far less than before, and prompts are computed anew",
    severity=Severity.WARNING,
    signals=("prefix_cache_hits", "prefix_cache_queries"),
    helpful=("ttft", "prefill_time", "preemptions", "prompt_length"),
    limits={
        "before": Limit(0.15, "ratio", "what hardly hit cannot collapse", "vllmdoctor"),
        "fall": Limit(0.6, "ratio", "two fifths of the hits gone", "guidance"),
        "later": Limit(0.1, "s", "a first token that comes a tenth of a second later is felt", "vllmdoctor"),
        "prefill": Limit(1.4, "ratio", "a cache that mattered makes prefill longer when it goes", "vllmdoctor"),
        "goal": Limit(0.6, "ratio", "expected where a system prompt repeats", "runbook"),
        "mix": Limit(1.3, "ratio", "longer prompts take longer by themselves", "vllmdoctor"),
    },
    remedies={"": ("prefix-cache-retention", "upgrade", "prefix-aware-routing", "raise-gpu-memory-utilization",
                   "enable-prefix-caching")},
    explains=("overload", "prefill-bound", "head-of-line-blocking", "kv-fragmentation"),
)  # fmt: skip
def prefix_cache_collapse(case: Case) -> Iterator[Yielded]:
    v, lim = case.vitals, case.limits
    frame = v.frame
    hits = frame.smooth(v.hit_ratio, max(3, frame.size // 40))
    moved = change(hits)
    known = np.isfinite(hits)
    if not known.any():
        yield case.require("prefix cache lookups", 0.0, ">", 0.0, "tokens")
        return
    before = moved.before if moved else float(np.nanmedian(hits))
    after = moved.after if moved else before
    yield case.require("hit ratio before", before, ">=", lim["before"])
    yield case.require("hit ratio, now / before", after / before if before else math.nan, "<=", lim["fall"])
    if moved is None:
        return
    at = np.arange(frame.size)
    then, since = (at < moved.index) & v.seen, (at >= moved.index) & v.seen
    if moved.shape == "ramp":
        since &= at >= frame.size - max(4, frame.size // 8)
    slower = ratio(v.mean("prefill_time", since), v.mean("prefill_time", then))
    later = ratio(v.mean("ttft", since), v.mean("ttft", then))
    worst = max((x for x in (slower, later) if not math.isnan(x)), default=math.nan)
    yield case.require("prefill time or TTFT, now / before", worst, ">=", lim["prefill"])
    yield case.require(
        "TTFT (mean), now - before", v.mean("ttft", since) - v.mean("ttft", then), ">=", lim["later"]
    )
    yield case.support("prefix hit ratio", after, "<", lim["goal"])
    longer = ratio(v.mean("prompt_length", since), v.mean("prompt_length", then))
    yield case.against("prompt length, now / before", longer, ">", lim["mix"])
    yield Onset(float(frame.start + moved.index * frame.step))
    yield Kind(
        "",
        f"the hit ratio fell from {percent(before)} to {percent(after)}; prefill takes {number(worst)} times as long",
    )
