"""What is true of a recording: the label that a diagnosis is held against, and which history it is."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

REAL, CASES, TUNING, HELD_OUT = "real", "cases", "tuning", "held-out"
GROUPS = (REAL, CASES, TUNING, HELD_OUT)
WELL = ("healthy", "demand-drop", "low-load", "client-side")  # labels under which the server itself is fine
NOT_A_CAUSE = ("healthy", "unexplained", "at-risk", "blind")
RENAMED = {"fragmentation": "kv-fragmentation", "head_of_line": "head-of-line-blocking"}
KINDS = ("kv-bound", "slot-bound", "prefill-bound", "compute-bound")  # kinds that ask for different remedies


@dataclass(frozen=True, slots=True)
class History:
    """Which recording: its group, its name (a scenario's for a simulated one) and its seed."""

    group: str
    name: str
    seed: int = 0

    @property
    def key(self) -> str:
        """What notes call it."""
        return f"{self.name}-{self.seed}" if self.seed else self.name


@dataclass(frozen=True, slots=True)
class Truth:
    """`label`, `acceptable` and `must_not` are slugs of causes or verdicts; times are unix seconds.

    `onset` is when the cause began, `effect` about when the work began to suffer (slow leaks: later).
    `confirmed`: somebody proved the cause, it was not only inferred from the numbers.
    """

    label: str
    kind: str = ""
    acceptable: tuple[str, ...] = ()
    must_not: tuple[str, ...] = ()
    onset: float | None = None
    effect: float | None = None
    confirmed: bool = True

    @property
    def well(self) -> bool:
        """Whether the server itself is fine."""
        return self.label in WELL

    def is_right(self, primary: str, kind: str) -> bool:
        """Whether an answer names the true cause, or one that is true as well."""
        if primary == self.label or primary in self.acceptable:
            return True
        # prompt processing at its limit has two names: a cause of its own, and a kind of overload
        return self.label == "prefill-bound" and (primary, kind) == ("overload", "prefill-bound")


def slug(label: str) -> str:
    """A label of the simulator or of the real recordings as the slug of a cause."""
    return RENAMED.get(label, label.replace("_", "-"))


def truth_of(told: Mapping[str, Any], start: float = 0.0) -> Truth:
    """From the keys of a label file; `start` is added to the onsets, which count from there."""

    def moment(key: str) -> float | None:
        value = told.get(key)
        return None if value is None else start + float(value)

    return Truth(
        label=slug(told["label"]),
        kind=told.get("kind", ""),
        acceptable=tuple(slug(x) for x in told.get("acceptable", ())),
        must_not=tuple(slug(x) for x in told.get("must_not", ())),
        onset=moment("onset_s"),
        effect=moment("effect_s"),
        confirmed=bool(told.get("confirmed", True)),
    )
