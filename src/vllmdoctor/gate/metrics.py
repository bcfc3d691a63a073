"""A server's own metrics: throughput at equal load, and latencies from histograms with honest buckets.

What must be equal for a latency to be compared is what was asked of the server. Where that is so,
latencies are compared as they are; where it is not, time per token is compared at equal batch size, and
a latency's judgement stands only where the difference of load speaks against it.
"""

import math
from dataclasses import dataclass, replace

import numpy as np

from vllmdoctor.gate.blocks import UNKNOWN, Estimate, Ratio, bucketed, estimate
from vllmdoctor.gate.chance import t_quantile
from vllmdoctor.gate.lined_up import Half
from vllmdoctor.gate.load import Compared, compared, load_of, meet
from vllmdoctor.gate.verdict import Question, judge
from vllmdoctor.model_gate import Context, Judgement, Measure
from vllmdoctor.statistics import FloatArray, Mask, mean
from vllmdoctor.vitals import Vitals
from vllmdoctor.windows import at_equal_load

TAIL = 0.95
AT_EQUAL_BATCH = "at equal batch size"


@dataclass(frozen=True, slots=True)
class Servers:
    """Two sides of server metrics on one grid."""

    vitals: Vitals
    baseline: Half
    candidate: Half

    @property
    def halves(self) -> tuple[Half, Half]:
        """Baseline and candidate."""
        return self.baseline, self.candidate

    @property
    def saturated(self) -> tuple[bool, bool]:
        """Whether a queue stood on either side."""
        base, here = (load_of(self.vitals, half.mask).saturated for half in self.halves)
        return base, here

    @property
    def load(self) -> Compared:
        """The candidate's load against the baseline's."""
        return compared(*(load_of(self.vitals, half.mask) for half in self.halves))

    def throughput(self, question: Question, alarm: float) -> Measure:
        """Generated tokens per second: as it is where the server was the limit, else at equal load."""
        saturated, load = self.saturated, self.load
        if any(saturated):
            basis = "both had more work than they could do" if all(saturated) else "the same load was offered"
            measure = judge(question, *self._rates(), alarm, basis)
            if all(saturated) or load.same:
                return measure
            # where a queue stands the rate is all that the server can do; the other could have done more
            telling = Judgement.REGRESSED if saturated[1] else Judgement.IMPROVED
            if measure.judgement is telling:
                return replace(
                    measure, basis=f"the {'candidate' if saturated[1] else 'baseline'} did all it could"
                )
        measure = judge(
            question, *self._at_equal_load(), alarm, "at equal load: what is served follows demand"
        )
        if not load.same and not meet(self.vitals.load, self.baseline.mask, self.candidate.mask):
            why = f"the loads differ too much to compare: {load.words}"
            return replace(measure, judgement=Judgement.INCONCLUSIVE, why=why, detectable=math.nan)
        return measure

    def first_token(self, question: Question, alarm: float) -> Measure:
        """Time to first token, held against the load."""
        return self._under_load(self._latency(question, "ttft", alarm))

    def token(self, question: Question, alarm: float) -> Measure:
        """Time per token: as it is at equal load and without a queue, else at equal batch size."""
        signal = "itl" if self.vitals.frame.has("itl") else "tpot"
        if self.load.same and not any(self.saturated):
            return self._latency(question, signal, alarm)
        together = meet(self.vitals.running, self.baseline.mask, self.candidate.mask)
        if together:
            pair = self._at_equal_batch(signal)
            return self._under_load(judge(_mean_of(question), *pair, alarm, AT_EQUAL_BATCH))
        plain = judge(_mean_of(question), *self._means(signal), alarm)
        batches = [mean(self.vitals.running, half.mask) for half in self.halves]
        why = f"batches of {batches[0]:.3g} and {batches[1]:.3g} requests: tokens of a step share its time"
        return replace(plain, judgement=Judgement.INCONCLUSIVE, why=why, detectable=math.nan)

    def context(self) -> tuple[Context, ...]:
        """Numbers to know beside the measures."""
        v, halves = self.vitals, self.halves
        rows = (
            ("rate", "generation rate", "tokens/s", v.generation),
            ("arrivals", "arriving requests", "1/s", v.arrivals),
            ("running", "requests running", "requests", v.running),
            ("waiting", "requests waiting", "requests", v.waiting),
            ("kv_usage", "KV usage", "ratio", v.usage),
            ("hit_ratio", "prefix cache hits", "ratio", v.hit_ratio),
        )
        found = [Context(n, t, u, *(mean(s, half.mask) for half in halves)) for n, t, u, s in rows]
        for name, title, signal in (
            ("ttft_mean", "time to first token (mean)", "ttft"),
            ("e2e_mean", "whole request (mean)", "e2e_latency"),
            ("queue_mean", "time in the queue (mean)", "queue_time"),
        ):
            found.append(Context(name, title, "s", *(v.mean(signal, half.mask) for half in halves)))
        lost = [v.preempted_per_finished(half.mask) for half in halves]
        found.append(Context("preemptions", "preemptions per finished request", "per request", *lost))
        return tuple(c for c in found if not (math.isnan(c.baseline) and math.isnan(c.candidate)))

    def _rates(self) -> tuple[Estimate, Estimate]:
        v = self.vitals
        known = np.isfinite(v.generation)
        return self._each(v.generation * v.frame.step, np.full(v.frame.size, v.frame.step), known)

    def _at_equal_load(self) -> tuple[Estimate, Estimate]:
        """Tokens per second at the mean load of both: the rate over what each load usually brings."""
        v = self.vitals
        known = np.isfinite(v.generation) & np.isfinite(v.expected)
        pair = self._each(v.generation, v.expected, known)
        usual = mean(v.expected, self.baseline.mask | self.candidate.mask)
        base, here = (replace(one, value=one.value * usual) for one in pair)
        return base, here

    def _at_equal_batch(self, signal: str) -> tuple[Estimate, Estimate]:
        """Mean time per token at the batch of both: over the best that a batch as big had, times that."""
        histogram = self.vitals.frame.histogram(signal)
        if histogram is None:
            return UNKNOWN, UNKNOWN
        slowness = at_equal_load(self.vitals, histogram.mean)
        known = np.isfinite(slowness) & (slowness > 0)
        with np.errstate(invalid="ignore", divide="ignore"):
            best = histogram.count * histogram.mean / slowness
        pair = self._each(histogram.sum, best, known)
        both = (self.baseline.mask | self.candidate.mask) & known
        usual = (
            float(best[both].sum() / histogram.count[both].sum())
            if histogram.count[both].sum() > 0
            else math.nan
        )
        base, here = (replace(one, value=one.value * usual) for one in pair)
        return base, here

    def _means(self, signal: str) -> tuple[Estimate, Estimate]:
        histogram = self.vitals.frame.histogram(signal)
        if histogram is None:
            return UNKNOWN, UNKNOWN
        return self._each(histogram.sum, histogram.count, np.isfinite(histogram.count))

    def _each(self, over: FloatArray, under: FloatArray, known: Mask) -> tuple[Estimate, Estimate]:
        base, here = (
            estimate(Ratio(half.sums(over, known), half.sums(under, known))) for half in self.halves
        )
        return base, here

    def _latency(self, question: Question, signal: str, alarm: float) -> Measure:
        """The p95 where its buckets can tell, else the mean beside it."""
        histogram = self.vitals.frame.histogram(signal)
        if histogram is None:
            return judge(question, UNKNOWN, UNKNOWN, alarm)

        def tail(half: Half) -> Estimate:
            columns = [half.sums(column) for column in histogram.counts.T]
            return bucketed(
                histogram.bounds, np.column_stack(columns), TAIL, lambda free: t_quantile(1 - alarm / 4, free)
            )

        by_bucket = judge(question, tail(self.baseline), tail(self.candidate), alarm / 2)
        if by_bucket.judgement is not Judgement.INCONCLUSIVE:
            return by_bucket
        by_mean = judge(_mean_of(question), *self._means(signal), alarm / 2)
        return replace(
            by_mean, buckets=by_bucket.buckets, basis="the mean: p95's buckets are too wide to tell"
        )

    def _under_load(self, measure: Measure) -> Measure:
        load = self.load
        if load.allows(measure.judgement):
            return measure
        why = f"the loads differ too much to compare: {load.words}"
        return replace(measure, judgement=Judgement.INCONCLUSIVE, why=why, detectable=math.nan)


def _mean_of(question: Question) -> Question:
    return replace(
        question, name=question.name.replace("p95", "mean"), title=question.title.replace("p95", "mean")
    )
