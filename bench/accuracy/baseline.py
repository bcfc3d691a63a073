"""What plain thresholds of a runbook say of the same history: the yardstick, not a straw man to be tuned.

- KV usage above 0.95 in the last hour: the pool is full. With preemptions it is called fragmentation,
  without any overload.
- Preemptions at all in the last hour: fragmentation.
- Generation rate of the last hour below 0.7 of the same hour eight hours earlier (of the first hour where
  the history is shorter): declining, cause unknown.
- Else healthy.
"""

import numpy as np

from vllmdoctor.engines import frames
from vllmdoctor.frame import Frame
from vllmdoctor.recording import FloatArray, Recording
from vllmdoctor.statistics import Mask

FULL, DECLINED = 0.95, 0.7
HOUR_S = 3600.0
BACK_S = 8 * HOUR_S
DECLINING = "unexplained"  # sick, and no cause named


def thresholds(recording: Recording) -> str:
    """The worst answer of the thresholds over all engines: a cause, `unexplained` or `healthy`."""
    order = ("healthy", DECLINING, "overload", "kv-fragmentation")
    return max((_of(f) for f in frames(recording)), key=order.index, default="healthy")


def _of(frame: Frame) -> str:
    last = frame.times > frame.end - HOUR_S
    usage, preempted = _mean(frame.gauge("kv_cache_usage"), last), _mean(frame.rate("preemptions"), last)
    if preempted > 0:
        return "kv-fragmentation"
    if usage > FULL:
        return "overload"
    rate = frame.rate("generation_tokens")
    from_end = frame.end - frame.times
    before = (from_end >= BACK_S) & (from_end < BACK_S + HOUR_S)
    if frame.end - frame.start < BACK_S + HOUR_S:
        before = frame.times < frame.start + min(HOUR_S, (frame.end - frame.start) / 3)
    earlier = _mean(rate, before)
    return DECLINING if earlier > 0 and _mean(rate, last) < DECLINED * earlier else "healthy"


def _mean(values: FloatArray, mask: Mask) -> float:
    picked = values[mask & np.isfinite(values)]
    return float(picked.mean()) if picked.size else 0.0
