"""What a rule is given: one engine's vitals, the windows to compare, limits, and verbs for evidence."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from vllmdoctor.frame import Frame
from vllmdoctor.model import Event, Evidence, Fact, Op, Symptom
from vllmdoctor.statistics import FloatArray, Mask, mean
from vllmdoctor.vitals import Vitals


@dataclass(frozen=True, slots=True)
class Limit:
    """A threshold with its unit, why it stands there, and whose it is."""

    value: float
    unit: str
    why: str
    source: str


@dataclass(frozen=True, slots=True)
class Kind:
    """Yielded by a rule to name the sub-kind or mechanism it saw, with a sentence of numbers."""

    name: str
    summary: str = ""


@dataclass(frozen=True, slots=True)
class Onset:
    """Yielded by a rule to say since when its own signal moved (unix seconds)."""

    time: float


@dataclass(frozen=True, slots=True)
class Felt:
    """Yielded by a rule whose evidence is what users feel now: it needs no comparison to be called slow."""


@dataclass(frozen=True, slots=True)
class CannotTell:
    """Yielded by a rule whose signals are there but do not suffice, with the reason."""

    reason: str


@dataclass(frozen=True, slots=True)
class Windows:
    """The two windows that are compared, as masks over the frame's bins.

    `before` is empty when there is nothing to compare with; `baseline` names it for people.
    """

    now: Mask
    before: Mask
    baseline: str
    onset: float | None


@dataclass(frozen=True, slots=True)
class Fleet:
    """What the other engines of the same recording did (for causes that only a fleet shows)."""

    frames: tuple[Frame, ...]
    vitals: tuple[Vitals, ...]


@dataclass(frozen=True)
class Case:
    """One engine to be judged."""

    vitals: Vitals
    windows: Windows
    symptoms: tuple[Symptom, ...]
    facts: Mapping[str, Fact]
    events: tuple[Event, ...]
    fleet: Fleet
    limits: Mapping[str, Limit] = field(default_factory=dict)

    @property
    def frame(self) -> Frame:
        """The engine's frame."""
        return self.vitals.frame

    def now(self, values: FloatArray) -> float:
        """Mean over the window now; NaN when nothing was seen."""
        return mean(values, self.windows.now)

    def before(self, values: FloatArray) -> float:
        """Mean over the window before; NaN without one."""
        return mean(values, self.windows.before)

    def symptom(self, name: str) -> Symptom | None:
        """A symptom by name."""
        return next((s for s in self.symptoms if s.name == name), None)

    def number(self, key: str) -> float:
        """A fact as a number; NaN when it is unknown or not a number."""
        fact = self.facts.get(key)
        try:
            return float(fact.value) if fact is not None else math.nan
        except ValueError:
            return math.nan

    def _evidence(
        self,
        what: str,
        observed: float,
        op: Op,
        limit: Limit | float,
        unit: str,
        role: str,
        interval: tuple[float, float] | None,
        detail: str,
    ) -> Evidence:
        return Evidence(
            what=what,
            observed=float(observed),
            op=op,
            limit=limit.value if isinstance(limit, Limit) else float(limit),
            unit=unit or (limit.unit if isinstance(limit, Limit) else ""),
            role=role,  # type: ignore[arg-type]
            source=limit.source if isinstance(limit, Limit) else "",
            interval=interval,
            detail=detail,
        )

    def require(
        self,
        what: str,
        observed: float,
        op: Op,
        limit: Limit | float,
        unit: str = "",
        *,
        interval: tuple[float, float] | None = None,
        detail: str = "",
    ) -> Evidence:
        """Evidence without which the rule is not found."""
        return self._evidence(what, observed, op, limit, unit, "required", interval, detail)

    def support(
        self,
        what: str,
        observed: float,
        op: Op,
        limit: Limit | float,
        unit: str = "",
        *,
        interval: tuple[float, float] | None = None,
        detail: str = "",
    ) -> Evidence:
        """Evidence that raises confidence when it holds."""
        return self._evidence(what, observed, op, limit, unit, "supports", interval, detail)

    def against(
        self,
        what: str,
        observed: float,
        op: Op,
        limit: Limit | float,
        unit: str = "",
        *,
        interval: tuple[float, float] | None = None,
        detail: str = "",
    ) -> Evidence:
        """Evidence that lowers confidence when it holds."""
        return self._evidence(what, observed, op, limit, unit, "against", interval, detail)

    def note(self, what: str, observed: float, unit: str, *, detail: str = "") -> Evidence:
        """A number that is shown and decides nothing."""
        return self._evidence(what, observed, "", math.nan, unit, "note", None, detail)


def share(condition: Mask, mask: Mask) -> float:
    """The part of the bins under a mask in which a condition holds; NaN for an empty mask."""
    return float(condition[mask].mean()) if mask.any() else math.nan


def ratio(now: float, before: float) -> float:
    """now / before; NaN when either is unknown or before is 0."""
    return now / before if before else math.nan


def number(value: float) -> str:
    """A number for a sentence: three digits, never an exponent: "9,810", "4.46", "0.058"."""
    if math.isnan(value) or math.isinf(value):
        return "?"
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}" if abs(value) >= 0.001 or value == 0 else "0"


def lasting(seconds: float) -> str:
    """A time for a sentence: "0.058 s", "91 min", "2.5 h"."""
    if math.isnan(seconds):
        return "?"
    if seconds < 120:
        return f"{number(seconds)} s"
    return f"{number(seconds / 60)} min" if seconds < 7200 else f"{number(seconds / 3600)} h"


def percent(value: float) -> str:
    """A ratio for a sentence: "97 %"."""
    return "?" if math.isnan(value) else f"{100 * value:.0f} %"
