"""A Prometheus histogram with weights, and vLLM's bucket bounds."""

from __future__ import annotations

import math
from bisect import bisect_left
from itertools import accumulate

TTFT_OLD = (0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0,
            7.5, 10.0)  # fmt: skip
TTFT = (*TTFT_OLD, 20.0, 40.0, 80.0, 160.0, 640.0, 2560.0)
ITL_OLD = (0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5)
ITL = (*ITL_OLD, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0)
LATENCY_OLD = (0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0)
LATENCY = (*LATENCY_OLD, 120.0, 240.0, 480.0, 960.0, 1920.0, 7680.0)
ITERATION = (1.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1024.0, 2048.0, 4096.0, 8192.0,
             16384.0)  # fmt: skip
PARAMS_N = (1.0, 2.0, 5.0, 10.0, 20.0)
PREEMPTIONS = (1.0, 2.0, 3.0, 4.0, 5.0, 10.0, 20.0)
HTTP_HIGHR = (0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 2.5, 3.0, 3.5, 4.0,
              4.5, 5.0, 7.5, 10.0, 30.0, 60.0)  # fmt: skip
HTTP = (0.1, 0.5, 1.0)


def token_counts(max_model_len: int) -> tuple[float, ...]:
    """The 1-2-5 series up to ``max_model_len`` [tokens]."""
    bounds: list[float] = []
    scale = 1
    while True:
        for digit in (1, 2, 5):
            if digit * scale > max_model_len:
                return tuple(bounds)
            bounds.append(float(digit * scale))
        scale *= 10


class Histogram:
    """Counts by bucket; weights may be fractions (they are floored when shown)."""

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds = bounds
        self.counts = [0.0] * (len(bounds) + 1)
        self.total = 0.0

    def observe(self, value: float, weight: float = 1.0) -> None:
        """Count ``value`` ``weight`` times; a value on a bound belongs to it (``le``)."""
        self.counts[bisect_left(self.bounds, value)] += weight
        self.total += value * weight

    def cumulative(self) -> list[float]:
        """Cumulative whole counts, the last of them for ``+Inf``."""
        return [float(math.floor(count + 1e-6)) for count in accumulate(self.counts)]
