"""Predictions against pairs of recordings of a real server: one as it was, one with the change made."""

import json
import math
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from vllmdoctor import diagnosis
from vllmdoctor.case import Case
from vllmdoctor.diagnosis import diagnose
from vllmdoctor.model import Outcome, Prediction, Report, Severity, Status, Step
from vllmdoctor.prescribe import measured, plan_for
from vllmdoctor.recording import Recording
from vllmdoctor.release import version
from vllmdoctor.remedies import figures, predict, prescribe
from vllmdoctor.remedies.ask import Ask
from vllmdoctor.sources import Window, gather_targets

TRUTH = json.loads((Path(__file__).parent / "pairs.json").read_text(encoding="utf-8"))
MINUTES = 4.0  # each recording
RELEASE = version("0.32.0")


@cache
def recording(name: str) -> Recording:
    return gather_targets([f"example:{name}"], Window(duration_s=60, interval_s=5))


@cache
def report(name: str) -> Report:
    return diagnose(recording(name))


@cache
def case(name: str) -> Case:
    """What the remedies are asked about: the case that the diagnosis itself makes of the recording."""
    seen: list[Case] = []

    def remembering(findings: Sequence[Outcome], told: Case, *rest: Any, **more: Any) -> tuple[Step, ...]:
        seen.append(told)
        return plan_for(findings, told, *rest, **more)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(diagnosis, "plan_for", remembering)
        diagnose(recording(name))
    return seen[0]


def ask(name: str, slug: str, kind: str = "", **more: float) -> Ask:
    patient = case(name)
    known = figures(patient.facts.values(), measured(patient) | more)
    return Ask(known, RELEASE, Outcome(slug, slug, Status.FOUND, Severity.CRITICAL, 0.9, "0", kind))


def truth(name: str) -> dict[str, float]:
    """Preemptions per minute, mean queue and TTFT p95 of the whole recording."""
    told = TRUTH[name]
    return {
        predict.PREEMPTIONS: told["preemptions"] / MINUTES,
        predict.WAITING: told["waiting"],
        predict.TTFT: told["ttft_p95"],
    }


def predictions(before: str, after: str) -> tuple[Prediction, ...]:
    """What is predicted for the very change that the second recording has."""
    match after:
        case "kv-thrash-fix-blocks":
            return predict.larger_pool(ask(before, "overload", "kv-bound"), 512 / 64)
        case "overload-kv-fix-blocks":
            return predict.larger_pool(ask(before, "overload", "kv-bound"), 512 / 64)
        case "kv-thrash-fix-maxseqs":
            return predict.capped_batch(ask(before, "overload", "kv-bound"))
        case "hol-fix-threshold256":
            return predict.sliced_prompts(ask(before, "head-of-line-blocking"))
        case "hol-fix-mbt256":
            return predict.shorter_steps(ask(before, "head-of-line-blocking"))
        case "prefix-on":
            return predict.cached_prefixes(ask(before, "prefill-bound"), 1024 / 1071)
    raise AssertionError(after)


PAIRS = [(told["fix_of"], name) for name, told in sorted(TRUTH.items()) if told["fix_of"]]


def within(before: str, after: str) -> dict[str, bool]:
    """Whether each measure fell into its interval; both as a share of what it was, where it was above 0."""
    old, new = truth(before), truth(after)
    found = {}
    for each in predictions(before, after):
        assert not math.isnan(each.low), each
        if old[each.measure] > 0 and each.now > 0:
            share = new[each.measure] / old[each.measure]
            found[each.measure] = each.low / each.now <= share <= each.high / each.now
        else:
            found[each.measure] = each.low <= new[each.measure] <= each.high
    return found


def direction(now: float, then: float) -> str:
    """Down, same or up; a change of less than 0.3 (a minute, requests, seconds) and 15 % is none."""
    if abs(then - now) < 0.3 or 0.85 <= then / now <= 1.15 if now > 0 else then < 0.3:
        return "same"
    return "down" if then < now else "up"


def test_there_are_six_measured_pairs() -> None:
    assert PAIRS == [
        ("hol-big-batch", "hol-fix-mbt256"),
        ("hol-big-batch", "hol-fix-threshold256"),
        ("kv-thrash", "kv-thrash-fix-blocks"),
        ("kv-thrash", "kv-thrash-fix-maxseqs"),
        ("overload-kv", "overload-kv-fix-blocks"),
        ("prefix-off", "prefix-on"),
    ]


@pytest.mark.parametrize(("before", "after"), PAIRS)
def test_the_predicted_direction_is_the_measured_one(before: str, after: str) -> None:
    old, new = truth(before), truth(after)
    for each in predictions(before, after):
        expected = direction(each.now, (each.low + each.high) / 2)
        assert direction(old[each.measure], new[each.measure]) == expected, each


def test_the_measured_change_is_within_its_interval() -> None:
    found = {(before, after): within(before, after) for before, after in PAIRS}

    right = [pair for pair, told in found.items() if all(told.values())]
    assert len(right) / len(PAIRS) >= 0.8, found


@pytest.mark.parametrize(
    ("name", "slug", "flag", "last"),
    [
        ("kv-thrash", "more-kv-blocks", "--num-gpu-blocks-override", "lower-max-num-seqs"),
        ("overload-kv", "more-kv-blocks", "--num-gpu-blocks-override", "lower-max-num-seqs"),
        (
            "hol-big-batch",
            "set-long-prefill-token-threshold",
            "--long-prefill-token-threshold",
            "lower-max-num-batched-tokens",
        ),
        ("kv-thrash-fix-maxseqs", "more-kv-blocks", "--num-gpu-blocks-override", "limit-admission"),
    ],
)
def test_the_first_remedy_is_the_one_that_was_measured_best(
    name: str, slug: str, flag: str, last: str
) -> None:
    helping = [s for s in report(name).plan if s.verdict == "helps"]

    assert (helping[0].slug, helping[0].flag) == (slug, flag)
    assert last in [s.slug for s in helping[1:]]


def test_the_best_remedies_were_indeed_measured_best() -> None:
    assert TRUTH["kv-thrash-fix-blocks"]["completed"] > TRUTH["kv-thrash-fix-maxseqs"]["completed"]
    assert TRUTH["kv-thrash-fix-blocks"]["waiting"] < TRUTH["kv-thrash-fix-maxseqs"]["waiting"]
    assert TRUTH["hol-fix-threshold256"]["cl_short_ttft_p95"] < TRUTH["hol-fix-mbt256"]["cl_short_ttft_p95"]


def test_steps_of_a_real_plan_carry_their_predictions() -> None:
    step = report("kv-thrash").plan[0]

    assert [p.measure for p in step.predictions] == [predict.PREEMPTIONS, predict.WAITING, predict.TTFT]
    preemptions = step.predictions[0]
    assert preemptions.now == pytest.approx(47.3, abs=0.1)
    assert (preemptions.low, preemptions.high) == (0.0, preemptions.now / 2)


def test_a_pool_that_stays_too_small_promises_no_more_than_a_queue_that_gets_no_longer() -> None:
    preemptions, waiting, ttft = predict.larger_pool(ask("overload-kv", "overload", "kv-bound"), 1.5)

    assert (waiting.high, ttft.high) == (waiting.now, ttft.now)
    assert preemptions.high == 1.5 * preemptions.now  # half as many requests more run, and are preempted


def test_caching_predicts_nothing_where_it_is_not_known_whether_prompts_repeat() -> None:
    step = prescribe(
        "enable-prefix-caching",
        ask("prefix-off", "prefill-bound").figures,
        RELEASE,
        ask("prefix-off", "x").finding,
    )

    assert step is not None
    assert step.verdict == "unknown"
    assert {p.why_not for p in step.predictions} == {"the share of prompt tokens that repeat is not known"}
    assert all(math.isnan(p.low) and math.isnan(p.high) for p in step.predictions)
