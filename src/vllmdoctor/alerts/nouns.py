"""What a rules file is made of: recordings, alerts and their groups, in no dialect yet."""

from dataclasses import dataclass
from typing import Literal

Kind = Literal["cause", "symptom", "blind"]


@dataclass(frozen=True, slots=True)
class Record:
    """A recording rule: `name` is level:metric:operations."""

    name: str
    expr: str
    what: str


@dataclass(frozen=True, slots=True)
class Alert:
    """An alert of one cause.

    `cause` is the slug of the runbook page. `wait` is how long it must hold, `linger` how long it stays
    after it no longer does. `summary` and `text` are Prometheus templates; `limits` are the limits
    that stand in it, as cause.limit. `means` is for the table of alerts.
    """

    name: str
    cause: str
    severity: Literal["info", "warning", "critical"]
    expr: str
    wait: str
    summary: str
    text: str
    means: str
    limits: tuple[str, ...] = ()
    linger: str = ""


@dataclass(frozen=True, slots=True)
class Group:
    """Rules that are evaluated together, in order."""

    name: str
    rules: tuple[Record | Alert, ...]


@dataclass(frozen=True, slots=True)
class Missing:
    """A rule that could not be written, and the signals that these servers do not show."""

    name: str
    cause: str
    signals: tuple[str, ...]
