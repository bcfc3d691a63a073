"""Prompt processing takes the engine's time: first tokens come late while the KV pool has room."""

from collections.abc import Iterator

import numpy as np

from vllmdoctor.case import Case, Felt, Kind, Limit, lasting, number, ratio
from vllmdoctor.model import Severity
from vllmdoctor.rules import Yielded, rule
from vllmdoctor.statistics import quantile


@rule(
    summary="prompt processing takes the engine's time; first tokens come late",
    severity=Severity.WARNING,
    signals=("ttft", "prompt_tokens", "generation_tokens"),
    helpful=("prefill_time", "decode_time", "kv_cache_usage", "queue_time", "itl"),
    limits={
        "ttft": Limit(1.5, "ratio", "first tokens come half as late again", "tuning guide"),
        "late": Limit(0.5, "s", "sooner is not felt", "vllmdoctor"),
        "prompt": Limit(1.2, "ratio", "more prompt tokens per second are computed than before", "tuning guide"),
        "usage": Limit(0.9, "ratio", "with a full pool the pool is the limit", "tuning guide"),
        "mix": Limit(15.0, "x", "decoding is the smaller part of the work", "vllmdoctor"),
        "prefill": Limit(0.25, "ratio", "a quarter of a request's time in the batch is prefill", "tuning guide"),
    },
    remedies={"": ("enable-prefix-caching", "raise-max-num-batched-tokens", "set-long-prefill-token-threshold",
                   "add-replica", "limit-admission")},
    explains=("overload",),
)  # fmt: skip
def prefill_bound(case: Case) -> Iterator[Yielded]:
    v, now, before, lim = case.vitals, case.windows.now, case.windows.before, case.limits
    ttft, ttft_before = v.mean("ttft", now), v.mean("ttft", before)
    yield case.require("TTFT (mean), now / before", ratio(ttft, ttft_before), ">=", lim["ttft"])
    yield case.require("TTFT (mean)", ttft, ">=", lim["late"])
    work = v.prompt * (1 - np.nan_to_num(v.hit_ratio))
    yield case.require(
        "prompt tokens computed per s, now / before",
        ratio(case.now(work), case.before(work)),
        ">=",
        lim["prompt"],
    )
    usage = quantile(v.usage, 0.9, now)
    yield case.require("KV usage (p90)", usage, "<", lim["usage"])
    mix, prefill = v.prompt_mix(now), v.prefill_share(now)
    if mix >= lim["mix"].value:
        yield case.require("prompt tokens computed per generated token", mix, ">=", lim["mix"])
        yield case.support("prefill share of time in the batch", prefill, ">=", lim["prefill"])
    else:
        yield case.require("prefill share of time in the batch", prefill, ">=", lim["prefill"])
    slower = case.symptom("itl")
    if slower is not None:
        yield case.support("time per output token at equal load, now / before", slower.ratio, ">=", 1.1, "x")
    yield Felt()
    yield Kind(
        "",
        f"first tokens take {lasting(ttft)}, {number(ratio(ttft, ttft_before))} times as long, while the KV pool has room",
    )
