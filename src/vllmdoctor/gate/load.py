"""What was asked of a server: only under the same load can latencies be compared."""

import math
from dataclasses import dataclass

import numpy as np

from vllmdoctor.model_gate import Judgement
from vllmdoctor.statistics import FloatArray, Mask, finite, mean
from vllmdoctor.symptoms import STANDING
from vllmdoctor.vitals import Vitals

SAME = 1.15
"""Loads count as the same up to this ratio: above it, a difference of latency may be the load's doing."""

SAME_IN_OVERLOAD = 1.03
"""The same where a queue stands on both sides: there a few requests more are a much longer queue."""

MEETING = 0.25  # so much of either side's time must be spent at loads that the other side had too


@dataclass(frozen=True, slots=True)
class Load:
    """The load of one side: requests arriving per second, tokens a request, whether a queue stood."""

    arrivals: float
    prompt_tokens: float
    output_tokens: float
    saturated: bool


def load_of(vitals: Vitals, mask: Mask) -> Load:
    """The load in the bins of a mask."""
    return Load(
        mean(vitals.arrivals, mask),
        vitals.mean("prompt_length", mask),
        vitals.mean("output_length", mask),
        bool(vitals.waiting_share(mask) >= STANDING.value),
    )


@dataclass(frozen=True, slots=True)
class Compared:
    """Two loads against each other: which parts of the candidate's are heavier and lighter, in words."""

    heavier: tuple[str, ...]
    lighter: tuple[str, ...]

    @property
    def same(self) -> bool:
        """Whether no part differs."""
        return not (self.heavier or self.lighter)

    @property
    def words(self) -> str:
        """What differs."""
        return " and ".join([*self.heavier, *self.lighter])

    def allows(self, judgement: Judgement) -> bool:
        """Whether a latency's judgement holds although the loads differ.

        More load cannot make a server look faster, nor less load slower.
        """
        if self.same or judgement is Judgement.INCONCLUSIVE:
            return self.same
        worse = judgement is Judgement.REGRESSED
        return not (self.heavier if worse else self.lighter)


def compared(baseline: Load, candidate: Load) -> Compared:
    """Compare two loads part by part; parts that one side does not show are left out."""
    heavier, lighter = [], []
    most = SAME_IN_OVERLOAD if baseline.saturated and candidate.saturated else SAME
    for what, before, now in (
        ("requests arriving per second", baseline.arrivals, candidate.arrivals),
        ("tokens in a prompt", baseline.prompt_tokens, candidate.prompt_tokens),
        ("tokens in an answer", baseline.output_tokens, candidate.output_tokens),
    ):
        ratio = now / before if before > 0 else math.nan
        if ratio > most:
            heavier.append(f"more {what} ({before:.3g} -> {now:.3g})")
        elif ratio < 1 / most:
            lighter.append(f"fewer {what} ({before:.3g} -> {now:.3g})")
    return Compared(tuple(heavier), tuple(lighter))


def meet(level: FloatArray, one: Mask, other: Mask) -> bool:
    """Whether two windows share levels: neither is nearly always outside the other's usual range."""
    return _inside(level, one, other) >= MEETING and _inside(level, other, one) >= MEETING


def _inside(level: FloatArray, mask: Mask, other: Mask) -> float:
    here, there = finite(level[mask]), finite(level[other])
    if not here.size or not there.size:
        return 0.0
    low, high = np.quantile(there, (0.05, 0.95))
    return float(((here >= low) & (here <= high)).mean())
