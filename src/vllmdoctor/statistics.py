"""The judge's own statistics: trends, change points, ranks and quantiles from buckets.

A dozen short functions over numpy. SciPy has most of them, but its `stats` package costs about a
second to import, as much as the whole diagnosis. All accept NaN (ignored, pairwise where there
are two arguments) and return NaN when there is too little to say.
"""

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
Mask = NDArray[np.bool_]

MAX_PAIRWISE = 400  # points beyond which Theil-Sen and Mann-Kendall work on block medians


def finite(values: FloatArray) -> FloatArray:
    """The values that are numbers."""
    return values[np.isfinite(values)]


def mean(values: FloatArray, mask: Mask) -> float:
    """Mean of the finite values under a mask; NaN when there are none."""
    picked = finite(values[mask])
    return float(picked.mean()) if picked.size else math.nan


def quantile(values: FloatArray, q: float, mask: Mask) -> float:
    """Quantile of the finite values under a mask; NaN when there are none."""
    picked = finite(values[mask])
    return float(np.quantile(picked, q)) if picked.size else math.nan


def last(values: FloatArray) -> float:
    """The last finite value; NaN when there is none."""
    known = finite(values)
    return float(known[-1]) if known.size else math.nan


def thin(x: FloatArray, y: FloatArray, limit: int = MAX_PAIRWISE) -> tuple[FloatArray, FloatArray]:
    """The finite points, reduced to at most `limit` block medians."""
    keep = np.isfinite(x) & np.isfinite(y)
    x, y = x[keep], y[keep]
    if x.size <= limit:
        return x, y
    size = math.ceil(x.size / limit)
    whole = x.size // size * size
    return (
        np.median(x[:whole].reshape(-1, size), axis=1),
        np.median(y[:whole].reshape(-1, size), axis=1),
    )


def theil_sen(x: FloatArray, y: FloatArray) -> tuple[float, float, float]:
    """Median slope of all pairs (units of y per unit of x) with a ~90 % interval (low, high)."""
    x, y = thin(x, y)
    n = x.size
    if n < 4:
        return math.nan, math.nan, math.nan
    i, j = np.triu_indices(n, 1)
    dx = x[j] - x[i]
    slopes = np.sort((y[j] - y[i])[dx > 0] / dx[dx > 0])
    if not slopes.size:
        return math.nan, math.nan, math.nan
    # Sen's interval: ranks of the slopes half a Kendall-score deviation from the middle
    half = 1.645 * math.sqrt(n * (n - 1) * (2 * n + 5) / 18) / 2
    middle = (slopes.size - 1) / 2
    low = slopes[max(0, math.floor(middle - half))]
    high = slopes[min(slopes.size - 1, math.ceil(middle + half))]
    return float(np.median(slopes)), float(low), float(high)


def mann_kendall(y: FloatArray) -> tuple[float, float]:
    """Kendall's tau against time and its two-sided p-value (normal approximation, ties corrected)."""
    _, y = thin(np.arange(y.size, dtype=np.float64), y)
    n = y.size
    if n < 8:
        return math.nan, math.nan
    signs = np.sign(y[None, :] - y[:, None])
    score = float(np.triu(signs, 1).sum())
    _, ties = np.unique(y, return_counts=True)
    variance = (n * (n - 1) * (2 * n + 5) - float((ties * (ties - 1) * (2 * ties + 5)).sum())) / 18
    if variance <= 0:
        return 0.0, 1.0
    z = (score - math.copysign(1, score)) / math.sqrt(variance) if score else 0.0
    return score / (n * (n - 1) / 2), math.erfc(abs(z) / math.sqrt(2))


def ranks(x: FloatArray) -> FloatArray:
    """Average ranks, 0-based."""
    _, inverse, counts = np.unique(x, return_inverse=True, return_counts=True)
    ends = np.cumsum(counts)
    return ((ends - counts + ends - 1) / 2)[inverse].astype(np.float64)


def rank_correlation(x: FloatArray, y: FloatArray) -> float:
    """Spearman's rho of the pairs where both are finite; NaN below 8 pairs or without spread."""
    keep = np.isfinite(x) & np.isfinite(y)
    if keep.sum() < 8:
        return math.nan
    a, b = ranks(x[keep]), ranks(y[keep])
    a, b = a - a.mean(), b - b.mean()
    spread = math.sqrt(float((a * a).sum() * (b * b).sum()))
    return float((a * b).sum()) / spread if spread else math.nan


@dataclass(frozen=True, slots=True)
class Change:
    """One change of level in a series.

    `index` is the first point of the new state (for a ramp: where it starts), `before` and `after`
    are medians (for a ramp `after` is that of the last fifth), `shape` is "step" or "ramp", `gain`
    the share of the variance that the change explains, `noise` the spread around the level before.
    """

    index: int
    before: float
    after: float
    shape: str
    gain: float
    noise: float

    @property
    def ratio(self) -> float:
        """after / before."""
        return self.after / self.before if self.before else math.nan


def change(y: FloatArray, *, margin: int = 4) -> Change | None:
    """The best single change of level in `y`: a step, or flat and then a straight ramp.

    Works on values clipped to their 2..98 % range, so that single spikes decide nothing. `margin`
    points are left on either side. None when there are too few points or no spread.
    """
    at = np.flatnonzero(np.isfinite(y))
    v = y[at]
    n = v.size
    if n < 2 * margin + 2:
        return None
    low, high = np.quantile(v, (0.02, 0.98))
    v = np.clip(v, low, high)
    total = float(((v - v.mean()) ** 2).sum())
    if total <= 1e-12 * max(1.0, float((v * v).sum())):
        return None
    sums, squares = np.cumsum(v), np.cumsum(v * v)
    k = np.arange(margin, n - margin)
    left, right = sums[k - 1], sums[-1] - sums[k - 1]
    step = squares[-1] - left**2 / k - right**2 / (n - k)
    best_step = int(np.argmin(step))
    best, split, shape = float(step[best_step]), int(k[best_step]), "step"
    # a hinge a + b*max(0, i-k): closed form of the two-parameter least squares for each k
    index = np.arange(n, dtype=np.float64)
    tail_v = (sums[-1] - np.concatenate(([0.0], sums)))[:-1]
    tail_iv = np.cumsum((index * v)[::-1])[::-1]
    starts = np.arange(0, n - 2 * margin)
    m = n - starts
    h1 = (m - 1) * m / 2.0
    h2 = (m - 1) * m * (2 * m - 1) / 6.0
    hv = tail_iv[starts] - starts * tail_v[starts]
    det = n * h2 - h1**2
    b = np.where(det > 0, (n * hv - h1 * sums[-1]) / np.where(det > 0, det, 1), 0.0)
    a = (sums[-1] - b * h1) / n
    ramp = squares[-1] - a * sums[-1] - b * hv
    best_ramp = int(np.argmin(ramp))
    if float(ramp[best_ramp]) < 0.9 * best:
        best, split, shape = float(ramp[best_ramp]), int(starts[best_ramp]), "ramp"
    head = v[: max(split, margin)]
    before = float(np.median(head))
    after = float(np.median(v[split:] if shape == "step" else v[-max(margin, n // 10) :]))
    noise = float(np.median(np.abs(head - before))) * 1.4826
    if shape == "ramp" and after != before:
        split = _bend(v, before, after)
    return Change(int(at[split]), before, after, shape, 1 - best / total, noise)


def _bend(v: FloatArray, before: float, after: float) -> int:
    """Where a ramp leaves its old level: the line through a quarter and half of the way, drawn back to it.

    The fitted hinge lies too early when the ramp ends in a new plateau.
    """
    way = (v - before) / (after - before)
    quarter, half = int(np.argmax(way >= 0.25)), int(np.argmax(way >= 0.5))
    return min(quarter, max(0, quarter - (half - quarter)))


def worst_fall(y: FloatArray, pieces: list[slice], *, gain: float) -> Change | None:
    """The deepest fall of level inside any of the pieces; each piece is judged by itself.

    Pieces lie between restarts: what a restart resets would otherwise hide in the whole. Falls that
    explain less than `gain` of the variance or lie within three times the noise do not count.
    """
    falls = []
    for piece in pieces:
        found = change(y[piece])
        if found is None or not found.after < found.before:
            continue
        if found.gain >= gain and found.before - found.after >= 3 * found.noise:
            falls.append(replace(found, index=found.index + (piece.start or 0)))
    return min(falls, key=lambda c: c.ratio, default=None)


def bucket_quantile(bounds: FloatArray, counts: FloatArray, q: float) -> tuple[float, tuple[float, float]]:
    """A quantile from histogram bucket counts (not cumulative) and the bucket it lies in.

    `bounds` are the upper bounds, the last one +Inf. Linear within the bucket, as Prometheus does;
    in the +Inf bucket the value is the last finite bound. NaN without counts.
    """
    total = float(counts.sum())
    if not total > 0:
        return math.nan, (math.nan, math.nan)
    cumulative = np.cumsum(counts)
    i = min(int(np.searchsorted(cumulative, q * total, side="left")), bounds.size - 1)
    low = 0.0 if i == 0 else float(bounds[i - 1])
    high = float(bounds[i])
    if math.isinf(high):
        return low, (low, math.inf)
    inside = float(counts[i])
    before = float(cumulative[i]) - inside
    share = (q * total - before) / inside if inside else 1.0
    return low + (high - low) * min(1.0, max(0.0, share)), (low, high)


def count_above(bounds: FloatArray, counts: FloatArray, limit: float) -> float:
    """How many observations lie above `limit`, taken from the bucket bound nearest below or at it."""
    return float(counts[np.searchsorted(bounds, limit, side="left") + 1 :].sum())
