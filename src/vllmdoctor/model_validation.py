"""The nouns of a validation, frozen and made of plain values, as in `model`. SI units, NaN is "not seen"."""

from dataclasses import dataclass
from enum import StrEnum

from vllmdoctor.model import Gap, Op


class Standing(StrEnum):
    """What a criterion says; the value is what people read."""

    PASS = "pass"  # noqa: S105
    FAIL = "fail"
    UNKNOWN = "cannot tell"
    MOOT = "does not apply"


@dataclass(frozen=True, slots=True)
class Criterion:
    """One line of the acceptance: what was measured, against which limit, and the answer.

    `why` is the limit's reason, `source` whose it is. `needs_s` is how long a history it takes, `short`
    says that this one is shorter. `detail` is a remark, `reason` why it cannot tell or does not apply.
    """

    name: str
    title: str
    standing: Standing
    observed: float
    op: Op
    limit: float
    unit: str
    why: str
    source: str
    needs_s: float
    short: bool = False
    detail: str = ""
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Compared:
    """One measure before the fix and since; `ratio` is now / before."""

    name: str
    title: str
    before: float
    now: float
    ratio: float
    unit: str


@dataclass(frozen=True, slots=True)
class EngineValidation:
    """The acceptance of one engine. `covered_s` of the time from `start` to `end` was seen."""

    engine: str
    instance: str
    model: str
    version: str
    start: float
    end: float
    covered_s: float
    restarts: int
    standing: Standing
    criteria: tuple[Criterion, ...]
    compared: tuple[Compared, ...]


@dataclass(frozen=True, slots=True)
class Validation:
    """All a renderer gets: the engines with the worst first, and what they add up to."""

    target: str
    before: str
    standing: Standing
    engines: tuple[EngineValidation, ...]
    gaps: tuple[Gap, ...]
