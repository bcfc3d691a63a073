"""Blocks: pieces of a side that are nearly independent, and what they say of a measure and of its spread.

The spread comes from leaving out one block at a time (the jackknife), so that one way serves means, rates
and quantiles. What is left of the dependence between neighbouring blocks widens it.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from vllmdoctor.gate.chance import lag_one
from vllmdoctor.statistics import FloatArray, Mask, bucket_quantile

FEWEST_BLOCKS = 5
MOST_BLOCKS = 20
USUAL_BLOCKS = 10
BLOCK_S = 60.0  # with fewer than the most blocks, they are this long
SHORTEST_BLOCK_S = 15.0
FEWEST_IN_BLOCK = 10.0  # requests
DEPENDENT = 0.5  # a correlation of neighbouring blocks that so few blocks do not have by chance
MOST_DEPENDENCE = 0.95
FEWEST_FREEDOM = 2.0


@dataclass(frozen=True, slots=True)
class Estimate:
    """A value, the standard error of its logarithm, the degrees of freedom of that, and the blocks behind it.

    `bucket` is the histogram bucket (or span of them, with the spread of the quantile) it lies in.
    """

    value: float
    error: float
    freedom: float
    blocks: int
    bucket: tuple[float, float] | None = None

    @property
    def known(self) -> bool:
        """Whether there are a value and a spread."""
        return self.value > 0 and math.isfinite(self.error)


UNKNOWN = Estimate(math.nan, math.nan, math.nan, 0)


class Blocks(Protocol):
    """A measure in blocks: its value from those that are kept."""

    @property
    def size(self) -> int:
        """How many blocks there are."""
        ...

    def value(self, keep: Mask) -> float:
        """The measure over the kept blocks; NaN where they hold nothing."""
        ...


@dataclass(frozen=True, slots=True)
class Ratio:
    """A sum over a sum: a rate, a mean, a share. Both arrays have a number for each block."""

    over: FloatArray
    under: FloatArray

    @property
    def size(self) -> int:
        """How many blocks there are."""
        return int(self.over.size)

    def value(self, keep: Mask) -> float:
        """The sums of the kept blocks, divided."""
        under = float(self.under[keep].sum())
        return float(self.over[keep].sum()) / under if under > 0 else math.nan


@dataclass(frozen=True, slots=True)
class Pooled:
    """A quantile of all samples: `values` ascend, `block` says where each belongs."""

    values: FloatArray
    block: NDArray[np.intp]
    size: int
    q: float

    def value(self, keep: Mask) -> float:
        """The q-quantile of the kept blocks' samples."""
        kept = self.values[keep[self.block]]
        if not kept.size:
            return math.nan
        return float(kept[min(kept.size - 1, math.ceil(self.q * kept.size) - 1)])


def pooled(values: FloatArray, block: NDArray[np.intp], size: int, q: float) -> Pooled:
    """Samples in any order, each with its block, as `Pooled`."""
    order = np.argsort(values, kind="stable")
    return Pooled(values[order], block[order], size, q)


def blocks_for(span_s: float, requests: float) -> int:
    """Into how many blocks a side is cut: 10 to 20, fewer where it is short or has few requests; or 0."""
    wanted = min(MOST_BLOCKS, max(USUAL_BLOCKS, int(span_s / BLOCK_S)))
    possible = int(span_s / SHORTEST_BLOCK_S)
    if math.isfinite(requests):
        possible = min(possible, int(requests / FEWEST_IN_BLOCK))
    count = min(wanted, possible)
    return count if count >= FEWEST_BLOCKS else 0


def estimate(blocks: Blocks, fewest: int = FEWEST_BLOCKS) -> Estimate:
    """The measure and its spread; without enough blocks only the value."""
    everything = np.ones(blocks.size, np.bool_)
    value = blocks.value(everything)
    if blocks.size < fewest or not value > 0:
        return Estimate(value, math.nan, math.nan, blocks.size)
    error, freedom = _spread(blocks.value, blocks.size, math.log)
    return Estimate(value, error, freedom, blocks.size)


def bucketed(bounds: FloatArray, counts: FloatArray, q: float, sure: Callable[[float], float]) -> Estimate:
    """A quantile of a histogram with `counts[block, bucket]`: all that is certain of it is a bucket.

    `sure` gives Student's factor for degrees of freedom: by so many standard errors of the share below it the
    quantile is moved either way, and the bucket reaches from the lower one's to the upper one's.
    """
    total = counts.sum(axis=0)
    value, bucket = bucket_quantile(bounds, total, q)
    size = counts.shape[0]
    if size < FEWEST_BLOCKS or math.isnan(value):
        return Estimate(value, math.nan, math.nan, size, bucket)
    below = counts[:, : max(0, int(np.searchsorted(bounds, bucket[1], "left")) + 1)].sum(axis=1)
    share = Ratio(below, counts.sum(axis=1))
    error, freedom = _spread(share.value, size, float)
    moved = sure(freedom) * error if math.isfinite(error) else math.nan
    if math.isnan(moved) or q - moved <= 0:
        return Estimate(value, math.nan, math.nan, size, bucket)
    low = bucket_quantile(bounds, total, q - moved)[1][0]
    high = math.inf if q + moved >= 1 else bucket_quantile(bounds, total, q + moved)[1][1]
    return Estimate(value, 0.0, freedom, size, (low, high))


def _spread(
    value: Callable[[Mask], float], size: int, scale: Callable[[float], float]
) -> tuple[float, float]:
    """(standard error, degrees of freedom) of scale(value), by leaving out one block at a time."""
    left_out = np.full(size, np.nan)
    for i in range(size):
        keep = np.ones(size, np.bool_)
        keep[i] = False
        found = value(keep)
        left_out[i] = scale(found) if found > 0 else math.nan
    if not np.isfinite(left_out).all():
        return math.nan, math.nan
    pseudo = -(size - 1) * (left_out - left_out.mean())
    variance = float((pseudo * pseudo).sum()) / (size - 1) / size
    # of a quantile that drifts only the last blocks count, so their own values are looked at as well
    own = np.array([value(np.arange(size) == i) for i in range(size)])
    dependence = min(MOST_DEPENDENCE, max(0.0, lag_one(pseudo), lag_one(own[np.isfinite(own)])))
    wider = (1 + dependence) / (1 - dependence)
    # what drifts all the while, as a queue that grows, has hardly more than one independent block
    freedom = size - 1.0 if dependence <= DEPENDENT else max(FEWEST_FREEDOM, size / wider - 1)
    return math.sqrt(variance * wider), freedom
