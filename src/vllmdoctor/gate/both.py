"""The questions of the gate, answered from each form of evidence."""

import math
from collections.abc import Sequence
from dataclasses import replace

from vllmdoctor import probe_series as series
from vllmdoctor import run_series
from vllmdoctor.gate import requests
from vllmdoctor.gate.changed import closed_loop
from vllmdoctor.gate.evidence import Given
from vllmdoctor.gate.lined_up import line_up
from vllmdoctor.gate.load import SAME
from vllmdoctor.gate.metrics import Servers
from vllmdoctor.gate.summaries import over_runs, succeeded
from vllmdoctor.gate.verdict import FALSE_ALARM, Question, judge, judge_share
from vllmdoctor.model_gate import Context, Judgement, Measure

Found = tuple[tuple[Measure, ...], tuple[Context, ...]]
_SHARES = {"correctness": (series.CORRECT, 1.0), "errors": (series.ERROR, 0.0)}


def by_requests(baseline: Given, candidate: Given, questions: Sequence[Question]) -> Found:
    """From requests that a client saw."""
    sides = (baseline.runs, candidate.runs)
    asked = [
        q
        for q in questions
        if q.name not in _SHARES or all(requests.counted(s, *_SHARES[q.name])[1] for s in sides)
    ]
    alarm = FALSE_ALARM / len(asked)
    lengths = _lengths_differ(baseline, candidate)
    measures = []
    for question in asked:
        if question.name in _SHARES:
            counts = [requests.counted(s, *_SHARES[question.name]) for s in sides]
            good, of = zip(*counts, strict=True)
            measures.append(judge_share(question, good, of, alarm))
            continue
        measure = _of_requests(question, baseline, candidate, alarm)
        if lengths and not math.isnan(measure.ratio):
            measure = replace(measure, judgement=Judgement.INCONCLUSIVE, why=lengths, detectable=math.nan)
        measures.append(measure)
    context = [
        Context(name, title, unit, *(requests.mean(s, of) for s in sides))
        for name, title, unit, of in (
            ("ttft_mean", "time to first token (mean)", "s", series.TTFT),
            ("itl_mean", "time per token (mean)", "s", series.ITL),
            ("e2e_mean", "whole request (mean)", "s", series.E2E),
            ("prompt_tokens", "tokens in a prompt (mean)", "tokens", series.PROMPT_TOKENS),
            ("output_tokens", "tokens in an answer (mean)", "tokens", series.OUTPUT_TOKENS),
        )
    ]
    return tuple(measures), tuple(c for c in context if not math.isnan(c.baseline + c.candidate))


def by_metrics(baseline: Given, candidate: Given, questions: Sequence[Question]) -> Found:
    """From the servers' own metrics."""
    servers = Servers(*line_up(baseline.servers, candidate.servers))
    speed = [q for q in questions if q.name not in _SHARES]
    alarm = FALSE_ALARM / len(speed)
    ask = {"throughput": servers.throughput, "ttft_p95": servers.first_token, "itl_p95": servers.token}
    measures = [ask[q.name](q, alarm) for q in speed]
    context = servers.context()
    return tuple(_batch_alone(measures, context)), context


def by_summaries(baseline: Given, candidate: Given, questions: Sequence[Question]) -> Found:
    """From summaries of runs: the p95 where both have it, else the mean; and how many requests failed."""
    names = {
        "throughput": (run_series.THROUGHPUT, ""),
        "ttft_p95": (run_series.TTFT_P95, run_series.TTFT_MEAN),
        "itl_p95": (run_series.ITL_P95, run_series.ITL_MEAN),
    }
    sides = [g.summaries for g in (baseline, candidate)]
    counts = [succeeded(side) for side in sides]
    asked = [q for q in questions if q.name in names or (q.name == "errors" and all(of for _, of in counts))]
    alarm = FALSE_ALARM / len(asked)
    measures = []
    for question in asked:
        if question.name == "errors":
            good, of = zip(*counts, strict=True)
            measures.append(judge_share(question, good, of, alarm))
            continue
        first, other = names[question.name]
        if other and not all(first in s for side in sides for s in side):
            first = other
            question = replace(
                question,
                name=question.name.replace("p95", "mean"),
                title=question.title.replace("p95", "mean"),
            )
        measure = judge(question, over_runs(sides[0], first), over_runs(sides[1], first), alarm)
        if (
            measure.judgement is Judgement.INCONCLUSIVE
            and math.isnan(measure.low)
            and not math.isnan(measure.ratio)
        ):
            measure = replace(
                measure,
                why="a summary has no spread: give three runs or more of each side, or their requests",
            )
        measures.append(measure)
    return tuple(measures), ()


def _of_requests(question: Question, baseline: Given, candidate: Given, alarm: float) -> Measure:
    before, now = baseline.runs, candidate.runs
    if question.name != "throughput":
        name = series.TTFT if question.name == "ttft_p95" else series.ITL
        return judge(question, requests.tail(before, name), requests.tail(now, name), alarm)
    if closed_loop(baseline) and closed_loop(candidate):
        return judge(
            question,
            requests.rates(before),
            requests.rates(now),
            alarm,
            "a closed loop: the server sets the pace",
        )
    base, here = requests.at_equal_load(before, now)
    return judge(question, base, here, alarm, "at equal load: what is served follows demand")


def _lengths_differ(baseline: Given, candidate: Given) -> str:
    """How the prompts that were sent differ, where they do so much that speed cannot be compared."""
    before, now = (requests.mean(g.runs, series.PROMPT_TOKENS) for g in (baseline, candidate))
    ratio = now / before if before > 0 else math.nan
    if math.isnan(ratio) or 1 / SAME <= ratio <= SAME:
        return ""
    return f"other requests were sent: {before:.3g} -> {now:.3g} tokens in a prompt"


def _batch_alone(measures: Sequence[Measure], context: Sequence[Context]) -> list[Measure]:
    """Slower tokens in a bigger batch hold up nothing where more come out and whole requests end sooner."""
    by = {m.name.partition("_")[0]: m for m in measures}
    whole = next((c for c in context if c.name == "e2e_mean"), None)
    better = (
        by["throughput"].judgement is Judgement.IMPROVED
        and whole is not None
        and whole.candidate < whole.baseline
    )
    return [
        replace(m, weighs=False)
        if m is by["itl"] and better and m.judgement is Judgement.INCONCLUSIVE and m.why.startswith("batches")
        else m
        for m in measures
    ]
