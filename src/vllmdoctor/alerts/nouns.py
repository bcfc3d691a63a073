"""What a rules file is made of: recordings, alerts and their groups, in no dialect yet."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from vllmdoctor.alerts.basis import Basis

Level = Literal["info", "warning", "critical"]


@dataclass(frozen=True, slots=True)
class Record:
    """A recording rule: `name` is level:metric:operations."""

    name: str
    expr: str
    what: str


@dataclass(frozen=True, slots=True)
class Told:
    """What an alert asks and says: an expression, and two Prometheus templates."""

    expr: str
    summary: str
    text: str


@dataclass(frozen=True, slots=True)
class Form:
    """An alert before names and limits are filled in.

    `cause` is the slug of its runbook page, `wait` how long it must hold, `linger` how long it stays
    when it no longer does, `means` what it says in a table, `limits` the doctor's own that stand in it, as
    cause.limit. `write` raises UnknownName where the servers lack a signal.
    """

    name: str
    cause: str
    severity: Level
    wait: str
    linger: str
    means: str
    limits: tuple[str, ...]
    write: Callable[[Basis], Told]


@dataclass(frozen=True, slots=True)
class Alert:
    """An alert for the servers at hand."""

    form: Form
    told: Told

    @property
    def name(self) -> str:
        """Its name."""
        return self.form.name

    @property
    def expr(self) -> str:
        """Its expression."""
        return self.told.expr


@dataclass(frozen=True, slots=True)
class Group:
    """Rules that are evaluated together, in order."""

    name: str
    rules: tuple[Record | Alert, ...]


@dataclass(frozen=True, slots=True)
class Missing:
    """An alert that could not be written, for want of signals that these servers do not show."""

    form: Form
    signals: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Rules:
    """All rules for some servers, and what could not be written for them."""

    groups: tuple[Group, ...]
    missing: tuple[Missing, ...]

    @property
    def records(self) -> tuple[Record, ...]:
        """The recordings, in order."""
        return tuple(r for g in self.groups for r in g.rules if isinstance(r, Record))

    @property
    def alerts(self) -> tuple[Alert, ...]:
        """The alerts, in order."""
        return tuple(r for g in self.groups for r in g.rules if isinstance(r, Alert))


def alert(
    name: str,
    cause: str,
    severity: Level,
    *,
    means: str,
    wait: str = "10m",
    linger: str = "",
    limits: tuple[str, ...] = (),
) -> Callable[[Callable[[Basis], Told]], Form]:
    """Make a form of a function that writes an expression and its texts."""

    def decorate(write: Callable[[Basis], Told]) -> Form:
        return Form(name, cause, severity, wait, linger, means, limits, write)

    return decorate
