"""What a dashboard is made of, before it is anybody's JSON."""

from dataclasses import dataclass
from typing import Literal

Kind = Literal["timeseries", "stat"]


@dataclass(frozen=True, slots=True)
class Query:
    """One expression and what its lines are called; `faint` is for what is only there to compare."""

    expr: str
    legend: str
    faint: bool = False


@dataclass(frozen=True, slots=True)
class Limit:
    """A value from which on a panel is coloured; `above` says on which side trouble lies."""

    value: float
    severity: Literal["warning", "critical"] = "warning"
    above: bool = True


@dataclass(frozen=True, slots=True)
class Panel:
    """A question and the lines that answer it. `causes` are the runbook pages it belongs to."""

    title: str
    answers: str
    unit: str
    queries: tuple[Query, ...]
    causes: tuple[str, ...] = ()
    limits: tuple[Limit, ...] = ()
    kind: Kind = "timeseries"
    least: float | None = 0.0
    most: float | None = None
    decimals: int | None = None


@dataclass(frozen=True, slots=True)
class Row:
    """Panels under one heading; at most `across` of them stand side by side, a divisor of 24."""

    title: str
    panels: tuple[Panel, ...]
    across: int = 3
    height: int = 8


@dataclass(frozen=True, slots=True)
class Note:
    """What is marked on all panels at its time."""

    name: str
    expr: str
    color: str
    title: str
    text: str = ""


@dataclass(frozen=True, slots=True)
class Variable:
    """A choice above the panels: the values of a label."""

    name: str
    title: str
    query: str
