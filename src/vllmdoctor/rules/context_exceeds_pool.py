"""One request of the allowed length does not fit the KV pool: it can wait for ever at the queue's head."""

import math
from collections.abc import Iterator

import numpy as np

from vllmdoctor.case import Case, Kind, Limit, lasting, number
from vllmdoctor.model import Severity
from vllmdoctor.rules import Yielded, rule


@rule(
    summary="the allowed context is longer than the whole KV pool",
    severity=Severity.INFO,
    signals=("cache_config",),
    helpful=("requests_running", "requests_waiting"),
    limits={
        "fits": Limit(1.0, "requests", "a request of full length must fit once", "vLLM source"),
        "empty": Limit(
            0.2,
            "ratio",
            "with the pool empty only the request's own size can be in the way",
            "measured cases",
        ),
        "episodes": Limit(2.0, "times", "once may be a start-up", "vllmdoctor"),
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
    episodes, longest_stuck = _stuck(case)
    if math.isnan(fits) and episodes >= case.limits["episodes"].value:
        # the sizes are unknown, but this is how it looks: the queue stands before an empty pool, again and again
        yield case.require(
            "times that requests waited before an empty pool", float(episodes), ">=", case.limits["episodes"]
        )
    else:
        yield case.require("requests of full length that fit the pool", fits, "<", case.limits["fits"])
    yield case.support("longest wait before an empty pool", longest_stuck, ">=", case.limits["stuck"])
    if longest_stuck >= case.limits["stuck"].value:
        yield Severity.CRITICAL
    if math.isnan(fits):
        yield Kind(
            "suspected",
            f"{episodes} times nothing ran for up to {lasting(longest_stuck)} while requests waited before an empty pool",
        )
    else:
        yield Kind(
            "",
            f"the pool holds {number(fits)} requests of the allowed length; a longer one can never be admitted",
        )


def _stuck(case: Case) -> tuple[int, float]:
    """(episodes, longest in s) of requests waiting while none runs and the pool is empty.

    A pool that is full of held blocks also admits nobody, but then it is not empty.
    """
    times, running = case.frame.raw("requests_running")
    _, waiting = case.frame.raw("requests_waiting")
    _, usage = case.frame.raw("kv_cache_usage")
    if not times.size == running.size == waiting.size == usage.size:
        return 0, math.nan
    alone = (running == 0) & (waiting > 0) & (usage < case.limits["empty"].value)
    _, made = case.frame.raw("generation_tokens")
    if made.size == times.size:
        alone[1:] &= ~(np.diff(made) > 0)  # between two looks requests came and went
    edges = np.flatnonzero(np.diff(np.r_[False, alone, False].astype(np.int8)))
    spans = [float(times[b - 1] - times[a]) for a, b in zip(edges[::2], edges[1::2], strict=True)]
    long = [s for s in spans if s >= case.limits["stuck"].value]
    return len(long), max(spans, default=0.0)
