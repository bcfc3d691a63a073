"""The nouns of the gate: two sides, what was measured on each, and how the comparison ended.

Frozen and made of plain values, as those of the report: all that a renderer of the gate sees.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal


class Judgement(StrEnum):
    """How one measure, or the whole gate, ended."""

    PASS = "pass"  # noqa: S105 - certainly not worse than the tolerance
    IMPROVED = "improved"  # certainly better than the baseline
    REGRESSED = "regressed"  # certainly worse than the tolerance
    INCONCLUSIVE = "inconclusive"  # the data cannot tell


@dataclass(frozen=True, slots=True)
class Measure:
    """One question of the gate. Values are SI; `ratio`, `low`, `high` and `tolerance` are quotients.

    `detectable` is the smallest worsening (as a ratio) that data with this spread would have shown nine times
    in ten; NaN where it cannot be known. `buckets` are the histogram buckets in which the two values lie.
    `blocks` are the pieces of time or the runs that each side's spread comes from.
    `basis` says how the two were made comparable, `why` why it ended so. One that does not `weigh` is shown
    and does not hold up the gate. `share`: the values are shares, and differences are told in points.
    """

    name: str
    title: str
    unit: str
    better: Literal["higher", "lower"]
    baseline: float
    candidate: float
    ratio: float
    low: float
    high: float
    tolerance: float
    judgement: Judgement
    detectable: float = math.nan
    blocks: tuple[int, int] = (0, 0)
    buckets: tuple[tuple[float, float], tuple[float, float]] | None = None
    basis: str = ""
    why: str = ""
    weighs: bool = True
    share: bool = False


@dataclass(frozen=True, slots=True)
class Context:
    """A number to know beside the measures; it is not judged."""

    name: str
    title: str
    unit: str
    baseline: float
    candidate: float


@dataclass(frozen=True, slots=True)
class Side:
    """What was given for one side. `kind` is "requests", "server metrics" or "summaries of runs";
    `requests` is NaN where they were not counted. `about` is a written baseline's provenance."""

    targets: tuple[str, ...]
    kind: str
    model: str
    version: str
    start: float
    end: float
    runs: int
    requests: float
    about: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Change:
    """A setting that differs between the two sides; "" where one side does not have it."""

    key: str
    baseline: str
    candidate: str


@dataclass(frozen=True, slots=True)
class Cause:
    """A finding of the diagnosis on the candidate; `new` where the baseline does not have it."""

    slug: str
    title: str
    summary: str
    severity: str
    confidence: float
    new: bool
    page: str


@dataclass(frozen=True, slots=True)
class Gate:
    """All a renderer of the gate gets.

    `false_alarm` is the highest chance that a gate of two equal servers regresses. `lenient`: what the data
    cannot tell does not fail the build.
    """

    judgement: Judgement
    headline: str
    measures: tuple[Measure, ...]
    context: tuple[Context, ...]
    baseline: Side
    candidate: Side
    changes: tuple[Change, ...]
    causes: tuple[Cause, ...]
    notes: tuple[str, ...]
    false_alarm: float
    lenient: bool = False

    @property
    def passed(self) -> bool:
        """Whether the candidate is certainly no worse, or better."""
        return self.judgement in (Judgement.PASS, Judgement.IMPROVED)

    @property
    def regressed(self) -> tuple[Measure, ...]:
        """The measures that regressed."""
        return tuple(m for m in self.measures if m.judgement is Judgement.REGRESSED)
