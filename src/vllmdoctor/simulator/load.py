"""What clients send: request classes, their lengths, and when they come."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeAlias

from vllmdoctor.simulator.profiles import ALWAYS, Profile

if TYPE_CHECKING:
    from random import Random


class Lengths(Protocol):
    """A distribution of token counts."""

    def draw(self, rng: Random) -> int:
        """One length [tokens], at least 1."""
        ...

    @property
    def mean(self) -> float:
        """Expected length [tokens]."""
        ...


@dataclass(frozen=True, slots=True)
class Uniform:
    """Uniform over the integers ``low``..``high``, both included."""

    low: int
    high: int

    def draw(self, rng: Random) -> int:
        """One length [tokens]."""
        return rng.randint(self.low, self.high)

    @property
    def mean(self) -> float:
        """Expected length [tokens]."""
        return (self.low + self.high) / 2


@dataclass(frozen=True, slots=True)
class LogNormal:
    """Lognormal around ``median``, clipped to ``low``..``high``."""

    median: float
    sigma: float
    low: int = 1
    high: int = 1_000_000

    def draw(self, rng: Random) -> int:
        """One length [tokens]."""
        value = self.median * math.exp(self.sigma * rng.gauss(0.0, 1.0))
        return min(self.high, max(self.low, round(value)))

    @property
    def mean(self) -> float:
        """Expected length [tokens]."""
        # Of the unclipped distribution: good enough to size a load.
        return self.median * math.exp(0.5 * self.sigma**2)


@dataclass(frozen=True, slots=True)
class RequestClass:
    """One kind of request; ``prompt`` excludes the shared prefix."""

    name: str
    prompt: Lengths
    output: Lengths
    prefix_tokens: int = 0
    prefix_groups: int = 1
    """Distinct shared prefixes; each request picks one of them evenly."""
    timeout_s: float = math.inf
    """The client gives up this long after sending (the median, with a spread)."""
    patience_sigma: float = 0.0
    """Lognormal spread of the patience: people and programs differ."""
    max_tokens: int = 0
    """The request's ``max_tokens``; 0 = exactly its output length (it ends by length)."""
    handler: str = "/v1/chat/completions"

    def patience(self, rng: Random) -> float:
        """How long [s] one client waits for its answer."""
        if not self.patience_sigma or math.isinf(self.timeout_s):
            return self.timeout_s
        return self.timeout_s * math.exp(self.patience_sigma * rng.gauss(0.0, 1.0))


@dataclass(frozen=True, slots=True)
class OpenLoop:
    """Poisson arrivals at ``rate_per_s`` times the profile, whatever the server does."""

    requests: RequestClass
    rate_per_s: float
    profile: Profile = ALWAYS


@dataclass(frozen=True, slots=True)
class ClosedLoop:
    """``clients`` that each send, wait for the answer, think, and send again."""

    requests: RequestClass
    clients: int
    think_s: float = 1.0
    """Mean of an exponential pause; also multiplied by the profile's factor."""
    profile: Profile = ALWAYS


@dataclass(frozen=True, slots=True)
class Recorded:
    """A fixed list of arrivals: (time [s from start], prompt tokens, output tokens)."""

    requests: RequestClass
    arrivals: tuple[tuple[float, int, int], ...]


Stream: TypeAlias = OpenLoop | ClosedLoop | Recorded
