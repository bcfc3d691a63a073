"""The nouns: observations, evidence, outcomes, the plan and the report.

Everything here is frozen and made of plain values, so that a renderer needs nothing else.
Units are SI: seconds, bytes, ratios 0..1, unix time in UTC. Only a renderer makes percent,
GiB or local time.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum, StrEnum
from typing import Literal

# --- observations: what a source saw -------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One scrape of one target: `values` are keyed as the source spells its series,
    e.g. `vllm:num_requests_waiting{engine="0",model_name="m"}`."""

    time: float
    instance: str
    values: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Samples:
    """A piece of one series' history. `times` ascend (unix seconds) and are as long as `values`."""

    instance: str
    series: str
    times: Sequence[float]
    values: Sequence[float]


@dataclass(frozen=True, slots=True)
class Fact:
    """A setting of the server, keyed by vLLM's argument name (`max_num_seqs`, `vllm_version`, ...)."""

    key: str
    value: str | float | int | bool
    origin: str
    instance: str = ""


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened at one moment: a restart, an OOM kill, a log warning."""

    time: float
    kind: str
    text: str
    instance: str
    origin: str


@dataclass(frozen=True, slots=True)
class Gap:
    """What could not be read or judged, and why. Gaps are data: they are always shown."""

    origin: str
    what: str
    why: str
    hint: str = ""


Observation = Snapshot | Samples | Fact | Event | Gap


# --- judgement -----------------------------------------------------------------------------


class Status(StrEnum):
    """The three answers of a rule."""

    FOUND = "found"
    CLEAR = "clear"
    UNKNOWN = "unknown"


class Severity(IntEnum):
    """How bad a finding is; ordered, so that `max()` works."""

    INFO = 1
    WARNING = 2
    CRITICAL = 3


class Verdict(StrEnum):
    """What the whole report says of the server."""

    SICK = "sick"  # slow, and a cause was found
    AT_RISK = "at-risk"  # a cause was found, not (yet) slow
    UNEXPLAINED = "unexplained"  # slow, and no rule explains it
    HEALTHY = "healthy"  # not slow, and the rules that matter could look
    BLIND = "blind"  # too little was seen to say anything


Op = Literal[">=", ">", "<=", "<", ""]
Role = Literal["required", "supports", "against", "note"]


@dataclass(frozen=True, slots=True)
class Evidence:
    """One comparison: a measured value, the limit it was held against and where the limit comes from.

    `observed` is NaN when the signal was absent. `interval` carries a quantile's bucket.
    `role`: a rule needs all `required`; `supports` and `against` move its confidence; a `note`
    is shown and decides nothing (its `op` is "").
    """

    what: str
    observed: float
    op: Op
    limit: float
    unit: str
    role: Role = "required"
    source: str = ""
    interval: tuple[float, float] | None = None
    detail: str = ""

    @property
    def met(self) -> bool | None:
        """Whether the comparison holds; None when it could not be made."""
        if self.op == "" or math.isnan(self.observed) or math.isnan(self.limit):
            return None
        match self.op:
            case ">=":
                return self.observed >= self.limit
            case ">":
                return self.observed > self.limit
            case "<=":
                return self.observed <= self.limit
            case _:
                return self.observed < self.limit


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one rule says of one engine.

    `kind` names a sub-kind or mechanism ("kv-bound"), `summary` is one sentence with numbers,
    `reason` says why the rule cannot tell. `onset` is unix seconds, `share` the part of the
    decline (0..1) that this cause explains where that can be computed. `explained_by` names the
    finding that this one is a consequence of. `felt`: the evidence itself is what users feel now.
    """

    slug: str
    title: str
    status: Status
    severity: Severity
    confidence: float
    engine: str
    kind: str = ""
    summary: str = ""
    evidence: tuple[Evidence, ...] = ()
    reason: str = ""
    onset: float | None = None
    share: float | None = None
    explained_by: str = ""
    felt: bool = False


@dataclass(frozen=True, slots=True)
class Symptom:
    """One question of "is it slow?": `now` against `before`, with the named baseline.

    `ratio` is now/before; `slow` is None when it could not be judged. `onset` and `slope_per_hour`
    (relative change of the adjusted value per hour) are None when there is no decline.
    """

    name: str
    title: str
    now: float
    before: float
    unit: str
    ratio: float
    limit: float
    op: Op
    baseline: str
    slow: bool | None
    onset: float | None = None
    slope_per_hour: float | None = None
    detail: str = ""
    absolute: bool = False  # the limit is held against `now`, not against `ratio`


@dataclass(frozen=True, slots=True)
class Trend:
    """A line for the eye: evenly spaced points (NaN where nothing was seen) from `start` to `end`."""

    signal: str
    title: str
    unit: str
    start: float
    end: float
    points: tuple[float, ...]
    limit: float | None = None


class Effort(IntEnum):
    """What applying a remedy costs; the order in which remedies are offered."""

    LIVE = 1
    RESTART = 2
    CAPACITY = 3


RemedyVerdict = Literal["helps", "moot", "harmful", "unknown"]


@dataclass(frozen=True, slots=True)
class Prediction:
    """What one measure becomes once a step is done: from `now` to between `low` and `high`.

    Both are NaN where it cannot be predicted, and `why_not` says why.
    """

    measure: str
    unit: str
    now: float
    low: float
    high: float
    why_not: str = ""


@dataclass(frozen=True, slots=True)
class Step:
    """One remedy, computed for this server.

    `before` -> `after` is the flag's change ("" when it has none); `formula` shows the arithmetic
    with its numbers; `effect` predicts or says why it cannot; `verdict` is "moot" or "harmful" for
    advice that is well known and wrong here, with the reason in `why`. `predictions` are the effect
    in numbers, to be held against a recording made afterwards.
    """

    slug: str
    title: str
    action: str
    verdict: RemedyVerdict
    why: str
    effort: Effort
    treats: tuple[str, ...]
    flag: str = ""
    before: str = ""
    after: str = ""
    formula: str = ""
    effect: str = ""
    tradeoff: str = ""
    verify: str = ""
    restart: bool = True
    missing: tuple[str, ...] = ()
    predictions: tuple[Prediction, ...] = ()


@dataclass(frozen=True, slots=True)
class EngineReport:
    """All that was judged of one engine of one server."""

    engine: str
    instance: str
    model: str
    version: str
    verdict: Verdict
    headline: str
    primary: str
    kind: str
    confidence: float
    onset: float | None
    symptoms: tuple[Symptom, ...]
    outcomes: tuple[Outcome, ...]
    trends: tuple[Trend, ...]
    facts: tuple[Fact, ...]

    @property
    def findings(self) -> tuple[Outcome, ...]:
        """The outcomes that were found, the primary one first."""
        return tuple(o for o in self.outcomes if o.status is Status.FOUND)


@dataclass(frozen=True, slots=True)
class Report:
    """All a renderer gets. `engines` come worst first; `primary` etc. are those of the worst.

    `compared` says what was compared with what; `notes` are findings about the data itself
    (renamed metrics, counter resets, a restart); `coverage` is (rules that could look, rules).
    """

    target: str
    start: float
    end: float
    scrapes: int
    interval: float
    version: str
    version_origin: str
    verdict: Verdict
    headline: str
    primary: str
    kind: str
    confidence: float
    onset: float | None
    compared: str
    engines: tuple[EngineReport, ...]
    plan: tuple[Step, ...]
    notes: tuple[str, ...]
    events: tuple[Event, ...]
    gaps: tuple[Gap, ...]
    coverage: tuple[int, int]

    @property
    def worst(self) -> Severity | None:
        """The severity of the worst finding, or None."""
        found = [o.severity for e in self.engines for o in e.findings]
        return max(found, default=None)
