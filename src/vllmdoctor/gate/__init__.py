"""The gate: a candidate against a baseline, judged measure by measure. No clock, no chance, no files.

Three forms of evidence: requests seen by a client, a server's own metrics, and summaries of runs. Each
becomes blocks that are nearly independent; their spread gives an interval for candidate / baseline, and
the interval is held against the tolerance: wholly beyond it is a regression, wholly on its good side a
pass, across it nobody can tell.
"""

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from vllmdoctor.gate.both import by_metrics, by_requests, by_summaries
from vllmdoctor.gate.changed import changes, load_differs, requests_differ, tokens_differ
from vllmdoctor.gate.evidence import Given, Kind, common_kind, left_out, same_data, side
from vllmdoctor.gate.verdict import FALSE_ALARM, Question, whole
from vllmdoctor.model_gate import Cause, Gate, Judgement, Measure

__all__ = ["FALSE_ALARM", "Given", "Tolerances", "compare"]


@dataclass(frozen=True, slots=True)
class Tolerances:
    """How much worse each measure may get, as shares: 0.05 is 5 %, or 5 points of correctness and errors."""

    throughput: float = 0.05
    ttft: float = 0.10
    itl: float = 0.10
    correctness: float = 0.0
    errors: float = 0.0

    def questions(self) -> tuple[Question, ...]:
        """What is asked, in the order of the report."""
        return (
            Question("throughput", "throughput", "tokens/s", True, self.throughput),
            Question("ttft_p95", "time to first token (p95)", "s", False, self.ttft),
            Question("itl_p95", "time per token (p95)", "s", False, self.itl),
            Question("correctness", "correct answers", "ratio", True, self.correctness),
            Question("errors", "requests that succeeded", "ratio", True, self.errors),
        )


def compare(
    baseline: Given, candidate: Given, tolerances: Tolerances | None = None, causes: Sequence[Cause] = ()
) -> Gate:
    """Judge the candidate. NotEnoughData where the two sides have no form of evidence in common."""
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "All-NaN|Mean of empty|Degrees of freedom", RuntimeWarning)
        return _compare(baseline, candidate, tolerances or Tolerances(), causes)


def _compare(baseline: Given, candidate: Given, tolerances: Tolerances, causes: Sequence[Cause]) -> Gate:
    kind = common_kind(baseline, candidate)
    questions = tolerances.questions()
    notes: list[str] = []
    match kind:
        case Kind.REQUESTS:
            found, context = by_requests(baseline, candidate, questions)
        case Kind.METRICS:
            found, context = by_metrics(baseline, candidate, questions)
        case Kind.SUMMARIES:
            found, context = by_summaries(baseline, candidate, questions)
    measures = list(found)
    other = load_differs(baseline, candidate)
    if other:
        why = f"another load was sent: {other}"
        shares = {"errors"} if requests_differ(baseline, candidate) else {"errors", "correctness"}
        measures = [m if m.name in shares else _unlike(m, why) for m in measures]
    unlike = tokens_differ(baseline, candidate)
    if unlike:
        measures = [_unlike(m, unlike) if m.name.startswith("itl") else m for m in measures]
    if same_data(baseline, candidate):
        notes.append("both sides are the same data: this compares nothing, and tells nothing of noise")
        measures = [_same(m) for m in measures]
    judgement = whole(measures)
    changed = changes(baseline, candidate)
    if any(c.key == "model" for c in changed):
        notes.append("the two sides served different models")
    for name, given in (("baseline", baseline), ("candidate", candidate)):
        without = left_out(given, kind)
        if without:
            notes.append(
                f"{without} of {len(given.recordings)} runs of the {name} left out: no {kind.value} in it"
            )
    notes += [
        f"{g.what}: {g.why}" for given in (baseline, candidate) for r in given.recordings for g in r.gaps
    ]
    return Gate(
        judgement=judgement,
        headline=_headline(judgement, measures),
        measures=tuple(measures),
        context=context,
        baseline=side(baseline, kind),
        candidate=side(candidate, kind),
        changes=changed,
        causes=tuple(causes),
        notes=tuple(dict.fromkeys(notes)),
        false_alarm=FALSE_ALARM,
    )


def _unlike(measure: Measure, why: str) -> Measure:
    return replace(measure, judgement=Judgement.INCONCLUSIVE, why=why, detectable=math.nan)


def _same(measure: Measure) -> Measure:
    if not measure.baseline > 0:
        return measure
    return replace(measure, ratio=1.0, low=1.0, high=1.0, judgement=Judgement.PASS, why="", weighs=True)


def _headline(judgement: Judgement, measures: Sequence[Measure]) -> str:
    def named(which: Judgement) -> str:
        names = [
            m.title
            for m in measures
            if m.judgement is which and (m.weighs or which is not Judgement.INCONCLUSIVE)
        ]
        return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)

    match judgement:
        case Judgement.REGRESSED:
            return f"worse than the tolerance: {named(judgement)}"
        case Judgement.INCONCLUSIVE:
            return f"the data cannot tell: {named(judgement)}" if measures else "nothing could be compared"
        case Judgement.IMPROVED:
            return f"better than the baseline: {named(judgement)}"
    return "no worse than the tolerances allow"
