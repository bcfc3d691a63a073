"""From two estimates and a tolerance to a judgement: certainly worse, certainly not worse, or cannot tell."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from vllmdoctor.gate.blocks import FEWEST_BLOCKS, UNKNOWN, Estimate
from vllmdoctor.gate.chance import fewer_by_chance, t_quantile
from vllmdoctor.model_gate import Judgement, Measure

FALSE_ALARM = 0.05
"""The chance of a false alarm of the whole gate; its measures share it evenly."""

LIKELY = 0.9  # what the data "could have shown" is what they would show nine times in ten
WIDEST_SHARE = 0.05  # a share's drop that could not be seen up to here is too coarse for a pass


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked of a measure. `tolerance` is the allowed worsening, > 0 and as a share: 0.05 is 5 %."""

    name: str
    title: str
    unit: str
    higher_is_better: bool
    tolerance: float

    @property
    def limit(self) -> float:
        """The tolerance as candidate / baseline."""
        return 1 - self.tolerance if self.higher_is_better else 1 + self.tolerance


def judge(
    question: Question, baseline: Estimate, candidate: Estimate, alarm: float, basis: str = ""
) -> Measure:
    """Compare two estimates; `alarm` is this measure's part of the chance of a false alarm."""
    blank = _measure(question, baseline, candidate, basis)
    if baseline.bucket is not None and candidate.bucket is not None:
        return _judged_by_buckets(question, blank, baseline, candidate)
    if (
        question.higher_is_better
        and candidate.value == 0
        and candidate.blocks >= FEWEST_BLOCKS
        and baseline.known
    ):
        why = "nothing came out at all"
        return replace(blank, low=0.0, high=0.0, judgement=Judgement.REGRESSED, why=why)
    if not (baseline.known and candidate.known):
        return replace(blank, why=_unknown(baseline, candidate))
    error = math.hypot(baseline.error, candidate.error)
    factor = t_quantile(1 - alarm, _freedom(baseline, candidate))
    middle = math.log(candidate.value / baseline.value)
    low, high = middle - factor * error, middle + factor * error
    sign = -1.0 if question.higher_is_better else 1.0
    reach = (
        sign * math.log(question.limit) + (factor + t_quantile(LIKELY, _freedom(baseline, candidate))) * error
    )
    measure = replace(
        blank,
        low=math.exp(low),
        high=math.exp(high),
        detectable=math.exp(sign * reach) if reach < 700 else math.nan,
    )
    return replace(measure, judgement=_placed(question, measure.low, measure.high))


def judge_share(question: Question, good: tuple[int, int], of: tuple[int, int], alarm: float) -> Measure:
    """Compare two shares, (baseline, candidate) each; a drop counts when chance cannot explain it.

    With a tolerance of 0, no finite number of requests could show that nothing was lost: a drop that chance
    explains passes, as long as a drop of 5 points would not have been put down to chance too.
    """
    shares = [g / n if n else math.nan for g, n in zip(good, of, strict=True)]
    base = Estimate(shares[0], math.nan, math.nan, of[0])
    here = Estimate(shares[1], math.nan, math.nan, of[1])
    measure = replace(
        _measure(question, base, here, ""), share=True, tolerance=-question.tolerance, blocks=of
    )
    if not all(of):
        return replace(measure, why="no such requests on both sides")
    allowed = round(question.tolerance * of[0])
    seen = _least_drop(good[0] - allowed, of[0], of[1], alarm)
    measure = replace(measure, detectable=-seen)
    if fewer_by_chance(good[1], of[1], max(0, good[0] - allowed), of[0]) < alarm:
        return replace(measure, judgement=Judgement.REGRESSED)
    if shares[1] < shares[0] - question.tolerance and seen > WIDEST_SHARE:
        return replace(measure, why="lower, but so few requests differ so much by chance")
    if fewer_by_chance(good[0], of[0], good[1], of[1]) < alarm:
        return replace(measure, judgement=Judgement.IMPROVED)
    why = "lower, but not beyond chance" if shares[1] < shares[0] else ""
    return replace(measure, judgement=Judgement.PASS, why=why)


def whole(measures: Sequence[Measure]) -> Judgement:
    """The gate's judgement: the worst of what weighs; improved only where nothing else is in doubt."""
    weighing = [m.judgement for m in measures if m.weighs]
    if Judgement.REGRESSED in weighing:
        return Judgement.REGRESSED
    if not weighing or Judgement.INCONCLUSIVE in weighing:
        return Judgement.INCONCLUSIVE
    return Judgement.IMPROVED if Judgement.IMPROVED in weighing else Judgement.PASS


def _measure(question: Question, baseline: Estimate, candidate: Estimate, basis: str) -> Measure:
    ratio = candidate.value / baseline.value if baseline.value > 0 else math.nan
    return Measure(
        name=question.name,
        title=question.title,
        unit=question.unit,
        better="higher" if question.higher_is_better else "lower",
        baseline=baseline.value,
        candidate=candidate.value,
        ratio=ratio,
        low=math.nan,
        high=math.nan,
        tolerance=question.limit,
        judgement=Judgement.INCONCLUSIVE,
        blocks=(baseline.blocks, candidate.blocks),
        basis=basis,
    )


def _judged_by_buckets(
    question: Question, blank: Measure, baseline: Estimate, candidate: Estimate
) -> Measure:
    before, now = baseline.bucket or (math.nan,) * 2, candidate.bucket or (math.nan,) * 2
    measure = replace(blank, buckets=(before, now))
    if math.isnan(baseline.error) or math.isnan(candidate.error):
        return replace(measure, why=_unknown(baseline, candidate))
    low = now[0] / before[1] if before[1] > 0 else math.nan
    high = now[1] / before[0] if before[0] > 0 else math.inf
    judgement = _placed(question, low, high)
    why = "its histogram's buckets are too wide to tell" if judgement is Judgement.INCONCLUSIVE else ""
    return replace(measure, low=low, high=high, judgement=judgement, why=why)


def _placed(question: Question, low: float, high: float) -> Judgement:
    """Where an interval of candidate / baseline lies: beyond the tolerance, below 1, or between."""
    if question.higher_is_better:
        low, high, limit = (
            1 / high if high > 0 else math.inf,
            1 / low if low > 0 else math.inf,
            1 / question.limit,
        )
    else:
        limit = question.limit
    if low > limit:
        return Judgement.REGRESSED
    if high < 1:
        return Judgement.IMPROVED
    return Judgement.PASS if high < limit else Judgement.INCONCLUSIVE


def _freedom(a: Estimate, b: Estimate) -> float:
    """Welch and Satterthwaite's degrees of freedom."""
    both = math.hypot(a.error, b.error)
    if both <= 0:
        return min(a.freedom, b.freedom)
    return 1 / ((a.error / both) ** 4 / a.freedom + (b.error / both) ** 4 / b.freedom)


def _unknown(baseline: Estimate, candidate: Estimate) -> str:
    for side, one in (("baseline", baseline), ("candidate", candidate)):
        if one is UNKNOWN or math.isnan(one.value):
            return f"the {side} does not show it"
    for side, one in (("baseline", baseline), ("candidate", candidate)):
        if math.isnan(one.error):
            return f"the {side} has too little of it to know its spread"
    return "it is zero on one side"


def _least_drop(good: int, of: int, of_now: int, alarm: float) -> float:
    """The smallest drop of a share that would have been called one; 1 where even losing all would not."""
    low, high = 0, of_now + 1  # of good ones now: the most that is still a drop lies in [low - 1, high - 1]
    while low < high:
        middle = (low + high) // 2
        if fewer_by_chance(middle, of_now, max(0, good), of) < alarm:
            low = middle + 1
        else:
            high = middle
    return 1.0 if low == 0 else max(0.0, good / of - (low - 1) / of_now)
