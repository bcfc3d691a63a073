"""What a check says: the piece that is wrong, why, and what to write instead."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

from vllmdoctor.model import Severity
from vllmdoctor.promlint.nodes import Node
from vllmdoctor.release import Version

Use = Literal["alert", "record", "panel", "variable", "trigger"]


@dataclass(frozen=True, slots=True)
class Context:
    """Where an expression stands: what judges it beside its own text.

    `texts` are an alert's annotations, `unit` a panel's unit, `held` an alert's `for`; `release` is
    the one to check for, None for all; `window` is what a new rate() is written with.
    """

    use: Use
    release: Version | None = None
    scrape_s: float = 15.0
    texts: str = ""
    unit: str = ""
    held: str = ""
    recorded: frozenset[str] = frozenset()

    @property
    def alerts(self) -> bool:
        """Whether somebody or something acts on it."""
        return self.use in ("alert", "trigger")

    @property
    def window(self) -> str:
        """The window of a rate() where the file has none."""
        return "$__rate_interval" if self.use == "panel" else "5m"


@dataclass(frozen=True, slots=True)
class Step:
    """One mistake: the piece, what stands in its place when corrected (None: nothing can), and why."""

    slug: str
    severity: Severity
    old: Node
    new: Node | None
    what: str


@dataclass(frozen=True, slots=True)
class Flaw:
    """One mistake, as it is told: `piece` is the expression's own text, as far as it is wrong."""

    slug: str
    severity: Severity
    piece: str
    what: str
    names: tuple[str, ...] = ()


Check = Callable[[Node, Context], Iterator[Step]]
