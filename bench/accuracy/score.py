"""Rows -> figures: shares, confusion, precision and recall, delays and calibration."""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from bench.accuracy.judging import Row
from bench.accuracy.truth import NOT_A_CAUSE

BINS = (0.0, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
PATIENCE_MIN = 60.0


@dataclass(frozen=True, slots=True)
class Class:
    """How one label fares: `answers` are the primary answers given to it."""

    label: str
    histories: int
    right: int
    precision: float  # share of the answers with this name that are right
    answers: tuple[tuple[str, int], ...]

    @property
    def recall(self) -> float:
        """Share of this label's histories that were answered rightly."""
        return share(self.right, self.histories)


@dataclass(frozen=True, slots=True)
class Delays:
    """How soon the causes with an onset were found. Times in minutes."""

    faults: int
    found: int
    alerted: int  # of them, those where the runbook's alert fires
    in_time: int  # of these, found at most PATIENCE_MIN after it
    before: int  # of these, found before it
    after_alert: float  # median
    worst_after_alert: float
    after_effect: float  # median, of all that were found
    onset_error: float  # median size, against the cause's onset
    effect_error: float  # median size; 0 anywhere between the cause's and its effect's onset


def share(part: int, whole: int) -> float:
    """part / whole; NaN of nothing."""
    return part / whole if whole else math.nan


def count(rows: Iterable[Row], condition: Callable[[Row], bool | None]) -> int:
    """How many rows meet a condition."""
    return sum(1 for row in rows if condition(row))


def classes(rows: Sequence[Row]) -> list[Class]:
    """One line for each label, as they come in the alphabet."""
    out = []
    for label in sorted({r.truth.label for r in rows}):
        mine = [r for r in rows if r.truth.label == label]
        named = [r for r in rows if r.primary == label]
        answers = Counter(_answer(r) for r in mine)
        out.append(
            Class(
                label,
                len(mine),
                count(mine, lambda r: r.right),
                share(count(named, lambda r: r.right), len(named)),
                tuple(answers.most_common()),
            )
        )
    return out


def kinds(rows: Sequence[Row]) -> tuple[int, int]:
    """(right, all) of the kinds that ask for different remedies, where the cause was right."""
    known = [r.kind_right for r in rows if r.kind_right is not None]
    return sum(known), len(known)


def delays(rows: Sequence[Row]) -> Delays:
    """How soon the faults with an onset were found."""
    faults = [r for r in rows if not (r.truth.well or r.truth.onset is None or r.truth.label in NOT_A_CAUSE)]
    known = [r for r in faults if not math.isnan(r.found)]
    alerted = [r for r in faults if not math.isnan(r.alerted)]
    lag = [r.found - r.alerted if not math.isnan(r.found) else math.inf for r in alerted]
    return Delays(
        faults=len(faults),
        found=len(known),
        alerted=len(alerted),
        in_time=sum(x <= PATIENCE_MIN for x in lag),
        before=sum(x <= 0 for x in lag),
        after_alert=_median(lag),
        worst_after_alert=max(lag, default=math.nan),
        after_effect=_median([r.found for r in known]),
        onset_error=_median([abs(r.onset_error) for r in faults if r.right]),
        effect_error=_median([abs(r.effect_error) for r in faults if r.right]),
    )


def late(rows: Iterable[Row]) -> list[Row]:
    """Faults found too late after the runbook's alert, or never though it fired."""
    return [r for r in rows if not math.isnan(r.alerted) and not r.found - r.alerted <= PATIENCE_MIN]


def calibration(rows: Sequence[Row], *, causes: bool) -> list[tuple[str, int, int]]:
    """(bin, answers, right answers); `causes`: those that name a cause, else clean and open verdicts."""
    out = []
    for low, high in pairwise(BINS):
        inside = [
            r
            for r in rows
            if (r.primary not in NOT_A_CAUSE) == causes
            and low <= r.confidence
            and (r.confidence < high or high == BINS[-1])
        ]
        if inside:
            name = f"below {high}" if not low else f">= {low}" if high == BINS[-1] else f"{low} to {high}"
            out.append((name, len(inside), count(inside, lambda r: r.right)))
    return out


def _answer(row: Row) -> str:
    return f"{row.primary} ({row.kind})" if row.primary == "overload" and row.kind else row.primary


def _median(values: Iterable[float]) -> float:
    known = [x for x in values if not math.isnan(x)]
    return float(np.median(known)) if known else math.nan
