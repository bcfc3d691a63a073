"""Chance in closed form: Student's t and the exact test of two shares (SciPy takes a second to load)."""

import math
from functools import lru_cache

from vllmdoctor.statistics import FloatArray

_ROUNDS = 200


@lru_cache(maxsize=1024)
def t_quantile(p: float, freedom: float) -> float:
    """The p-quantile (p > 0.5) of Student's t with `freedom` > 0 degrees; by bisection, to nine digits."""
    low, high = 0.0, 1.0
    while _t_cdf(high, freedom) < p and high < 1e9:
        high *= 2
    for _ in range(_ROUNDS):
        middle = (low + high) / 2
        if high - low < 1e-9 * max(1.0, high):
            break
        low, high = (middle, high) if _t_cdf(middle, freedom) < p else (low, middle)
    return (low + high) / 2


def _t_cdf(t: float, freedom: float) -> float:
    """P(T <= t) for t >= 0."""
    return 1 - _incomplete_beta(freedom / (freedom + t * t), freedom / 2, 0.5) / 2


def _incomplete_beta(x: float, a: float, b: float) -> float:
    """The regularised incomplete beta function, by Lentz's continued fraction."""
    if x <= 0 or x >= 1:
        return 0.0 if x <= 0 else 1.0
    if x > (a + 1) / (a + b + 2):
        return 1 - _incomplete_beta(1 - x, b, a)
    front = math.exp(
        math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x)
    )
    tiny, c, d = 1e-300, 1.0, 1 - (a + b) * x / (a + 1)
    d = 1 / (d if abs(d) > tiny else tiny)
    value = d
    for m in range(1, _ROUNDS):
        for numerator in (
            m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
            -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)),
        ):
            d = 1 + numerator * d
            d = 1 / (d if abs(d) > tiny else tiny)
            c = 1 + numerator / c
            c = c if abs(c) > tiny else tiny
            value *= c * d
        if abs(c * d - 1) < 1e-12:
            break
    return front * value / a


def fewer_by_chance(good: int, of: int, good_before: int, of_before: int) -> float:
    """How likely it is to see so few good ones, or fewer, were both shares the same (Fisher's exact test)."""
    total, all_good = of + of_before, good + good_before
    lowest = max(0, all_good - of_before)
    whole = _choose(total, of)
    return min(
        1.0,
        sum(
            math.exp(_choose(all_good, k) + _choose(total - all_good, of - k) - whole)
            for k in range(lowest, good + 1)
        ),
    )


def _choose(n: int, k: int) -> float:
    return math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)


def lag_one(values: FloatArray) -> float:
    """The correlation of each value with the next; 0 where there are too few or no spread."""
    if values.size < 4:
        return 0.0
    centred = values - values.mean()
    spread = float((centred * centred).sum())
    return float((centred[1:] * centred[:-1]).sum()) / spread if spread > 0 else 0.0
