"""Histograms on the frame's grid, and their observations in one window."""

import math
from dataclasses import dataclass

import numpy as np

from vllmdoctor.statistics import FloatArray, Mask, bucket_quantile, count_above


@dataclass(frozen=True, slots=True)
class Buckets:
    """A histogram's observations in one window: `counts` per bucket, not cumulative."""

    bounds: FloatArray
    counts: FloatArray
    sum: float
    count: float

    @property
    def mean(self) -> float:
        """Sum over count; NaN without observations."""
        return self.sum / self.count if self.count > 0 else math.nan

    def quantile(self, q: float) -> tuple[float, tuple[float, float]]:
        """The q-quantile and the bucket it lies in."""
        return bucket_quantile(self.bounds, self.counts, q)

    def above(self, limit: float) -> float:
        """How many observations were certainly above `limit`."""
        return count_above(self.bounds, self.counts, limit)


@dataclass(frozen=True, slots=True)
class Histogram:
    """A histogram on the grid: `counts[bin, bucket]`, `sum[bin]`, `count[bin]`, increments each."""

    bounds: FloatArray
    counts: FloatArray
    sum: FloatArray
    count: FloatArray

    @property
    def mean(self) -> FloatArray:
        """The mean per bin; NaN where nothing was observed."""
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.where(self.count > 0, self.sum / self.count, np.nan)

    def over(self, mask: Mask) -> Buckets:
        """All observations of the bins where `mask` is true."""
        return Buckets(
            self.bounds,
            np.nansum(self.counts[mask], axis=0),
            float(np.nansum(self.sum[mask])),
            float(np.nansum(self.count[mask])),
        )

    def quantiles(self, q: float, smooth: int = 1) -> FloatArray:
        """The q-quantile per bin, each from the `smooth` bins around it."""
        out = np.full(self.count.size, np.nan)
        counts = np.nan_to_num(self.counts)
        if smooth > 1:
            total = np.cumsum(np.vstack([np.zeros((1, counts.shape[1])), counts]), axis=0)
            low = np.maximum(np.arange(self.count.size) - smooth // 2, 0)
            high = np.minimum(low + smooth, self.count.size)
            counts = total[high] - total[low]
        for i in np.flatnonzero(counts.sum(axis=1) > 0):
            out[i] = bucket_quantile(self.bounds, counts[i], q)[0]
        return out
