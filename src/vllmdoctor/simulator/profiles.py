"""How a rate changes over time: factors on a base rate as a function of seconds from start."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from random import Random
from typing import Protocol


class Profile(Protocol):
    """A factor over time."""

    def factor(self, t_s: float) -> float:
        """The factor at ``t_s`` seconds from the start."""
        ...

    @property
    def peak(self) -> float:
        """An upper bound of the factor (for thinning a Poisson process)."""
        ...


@dataclass(frozen=True, slots=True)
class Constant:
    """Always ``value``."""

    value: float = 1.0

    def factor(self, t_s: float) -> float:
        """The factor at ``t_s``."""
        return self.value

    @property
    def peak(self) -> float:
        """An upper bound of the factor."""
        return self.value


ALWAYS = Constant()


@dataclass(frozen=True, slots=True)
class Ramp:
    """``before`` until ``start_s``, then linear to ``after`` at ``end_s``, then flat.

    With ``end_s == start_s`` it is a step.
    """

    start_s: float
    end_s: float
    before: float
    after: float

    def factor(self, t_s: float) -> float:
        """The factor at ``t_s``."""
        if t_s < self.start_s:
            return self.before
        if t_s >= self.end_s:
            return self.after
        share = (t_s - self.start_s) / (self.end_s - self.start_s)
        return self.before + share * (self.after - self.before)

    @property
    def peak(self) -> float:
        """An upper bound of the factor."""
        return max(self.before, self.after)


def step(at_s: float, before: float, after: float) -> Ramp:
    """A sudden change at ``at_s``."""
    return Ramp(at_s, at_s, before, after)


@dataclass(frozen=True, slots=True)
class Diurnal:
    """A day's wave: 1 +- ``amplitude``, highest at ``peak_s`` seconds from the start."""

    amplitude: float
    peak_s: float
    period_s: float = 86400.0

    def factor(self, t_s: float) -> float:
        """The factor at ``t_s``."""
        return 1.0 + self.amplitude * math.cos(2 * math.pi * (t_s - self.peak_s) / self.period_s)

    @property
    def peak(self) -> float:
        """An upper bound of the factor."""
        return 1.0 + self.amplitude


@dataclass(frozen=True, slots=True)
class Bursts:
    """1 most of the time, ``height`` for ``length_s`` about once every ``period_s``."""

    period_s: float
    length_s: float
    height: float
    seed: int = 0
    from_s: float = 0.0

    def factor(self, t_s: float) -> float:
        """The factor at ``t_s``."""
        if t_s < self.from_s:
            return 1.0
        index = int(t_s // self.period_s)
        start = index * self.period_s + _uniform(self.seed, index) * max(0.0, self.period_s - self.length_s)
        return self.height if start <= t_s < start + self.length_s else 1.0

    @property
    def peak(self) -> float:
        """An upper bound of the factor."""
        return max(1.0, self.height)


@dataclass(frozen=True, slots=True)
class Wander:
    """Slow random demand: lognormal knots every ``knot_s``, linear between them."""

    sigma: float
    knot_s: float = 1200.0
    seed: int = 0

    def factor(self, t_s: float) -> float:
        """The factor at ``t_s``."""
        index, share = divmod(t_s / self.knot_s, 1.0)
        low = _gauss(self.seed, int(index))
        high = _gauss(self.seed, int(index) + 1)
        return math.exp(self.sigma * (low + share * (high - low)))

    @property
    def peak(self) -> float:
        """An upper bound of the factor."""
        return math.exp(2.0 * self.sigma)


@dataclass(frozen=True, slots=True)
class Product:
    """Several profiles at once."""

    parts: tuple[Profile, ...]

    def factor(self, t_s: float) -> float:
        """The factor at ``t_s``."""
        return math.prod(part.factor(t_s) for part in self.parts)

    @property
    def peak(self) -> float:
        """An upper bound of the factor."""
        return math.prod(part.peak for part in self.parts)


@lru_cache(maxsize=65536)
def _uniform(seed: int, index: int) -> float:
    return Random(seed * 1_000_003 + index).random()


@lru_cache(maxsize=65536)
def _gauss(seed: int, index: int) -> float:
    # Cut at two sigma so that ``Wander.peak`` really is a bound.
    return max(-2.0, min(2.0, Random(seed * 1_000_003 + index).gauss(0.0, 1.0)))
