"""A series as one line of blocks: the time axis is shared, zero is the lowest block, unseen is a space."""

import math
from collections.abc import Sequence

from vllmdoctor.model import Trend

RAMP = "▁▂▃▄▅▆▇"  # without the full block, so that lines below each other stay apart

_LAST = 1e12  # no time beyond this is one


def axis(trends: Sequence[Trend]) -> tuple[float, float]:
    """The start and end that hold all `trends` (unix seconds)."""
    ends = [(t.start, t.end) for t in trends if 0 <= t.start < t.end < _LAST]
    return (min(a for a, _ in ends), max(b for _, b in ends)) if ends else (0.0, 0.0)


def sparkline(trend: Trend, start: float, end: float, columns: int) -> str:
    """`trend` drawn on the axis `start`..`end` with `columns` characters.

    The scale runs from 0 (or the least value, if that is negative) to the greatest value;
    a ratio that stays within 1 always runs to 1, since "full" is what one wants to see.
    """
    seen = [p for p in trend.points if math.isfinite(p)]
    if not seen:
        return " " * columns
    low, high = min(0.0, *seen), max(seen)
    if trend.unit == "ratio" and 0 <= high <= 1:
        high = 1.0
    return "".join(_block(v, low, high) for v in _columns(trend, start, end, columns))


def column_of(time: float, start: float, end: float, columns: int) -> int | None:
    """The column of a moment on the axis, or None if it is not on it."""
    if not (math.isfinite(time) and start <= time <= end and start < end):
        return None
    return min(columns - 1, int((time - start) / (end - start) * columns))


def _block(value: float, low: float, high: float) -> str:
    if math.isnan(value):
        return " "
    # Halves first: the difference of two huge floats would overflow.
    part = (value / 2 - low / 2) / (high / 2 - low / 2) if high / 2 > low / 2 else 0.0
    return RAMP[min(len(RAMP) - 1, max(0, round(part * (len(RAMP) - 1))))]


def _columns(trend: Trend, start: float, end: float, columns: int) -> list[float]:
    """The mean of the points under each column; NaN where there is none."""
    count, length = len(trend.points), trend.end - trend.start
    whole = not (start < end and math.isfinite(length) and length > 0)
    means = []
    for column in range(columns):
        left, right = column / columns, (column + 1) / columns
        if not whole:
            left = (start + left * (end - start) - trend.start) / length
            right = (start + right * (end - start) - trend.start) / length
        # A hair is taken off, so that a rounding error does not touch the neighbour's point.
        first = math.floor(min(count, max(-1.0, left * count + 1e-6)))
        last = math.floor(min(count, max(-1.0, right * count - 1e-6)))
        finite = [p for p in trend.points[max(0, first) : last + 1] if math.isfinite(p)]
        means.append(math.fsum(p / len(finite) for p in finite) if finite else math.nan)
    return means
