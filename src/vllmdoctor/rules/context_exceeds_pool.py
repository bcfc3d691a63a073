"""One request of the allowed length does not fit the KV pool: it can wait for ever at the queue's head."""

import math
from collections.abc import Iterator

import numpy as np

from vllmdoctor.case import Case, Kind, Limit
from vllmdoctor.model import Severity
from vllmdoctor.rules import Yielded, rule


@rule(
    summary="the allowed context is longer than the whole KV pool",
    severity=Severity.INFO,
    signals=("cache_config",),
    helpful=("requests_running", "requests_waiting"),
    limits={
        "fits": Limit(1.0, "requests", "a request of full length must fit once", "vLLM source"),
        "empty": Limit(0.2, "ratio", "with the pool empty only the request's own size can be in the way", "measured cases"),
        "stuck": Limit(60.0, "s", "requests wait, none runs, the pool is empty", "measured cases"),
    },
    remedies={"": ("lower-max-model-len", "raise-gpu-memory-utilization", "fp8-kv-cache", "tensor-parallel")},
    explains=("overload", "stall", "head-of-line-blocking"),
)
def context_exceeds_pool(case: Case) -> Iterator[Yielded]:
    fits = case.number("kv_cache_max_concurrency")
    pool, longest = case.number("pool_tokens"), case.number("max_model_len")
    if math.isnan(fits) and longest > 0:
        fits = pool / longest
    yield case.require("requests of full length that fit the pool", fits, "<", case.limits["fits"])
    times, running = case.frame.raw("requests_running")
    _, waiting = case.frame.raw("requests_waiting")
    stuck = math.nan
    if waiting.size == running.size and times.size > 1:
        # a pool that is full of held blocks also admits nobody, but then it is not empty
        _, usage = case.frame.raw("kv_cache_usage")
        empty = usage < case.limits["empty"].value if usage.size == running.size else np.ones(times.size, np.bool_)
        alone = (running == 0) & (waiting > 0) & empty
        stuck = float(np.diff(times)[alone[1:] & alone[:-1]].sum())
    yield case.support("time with requests waiting and none running", stuck, ">=", case.limits["stuck"])
    if stuck >= case.limits["stuck"].value:
        yield Severity.CRITICAL
    yield Kind("", f"the pool holds {fits:.2g} requests of the allowed length; a longer one can never be admitted")
