"""Public reports whose fix is known: the plan for the same finding, release and arguments holds it.

`accept` names the remedies that are the reported fix or do the same in that release (a text after the
colon must stand in the step). Where a report's fix belongs to another product, or to a part of the
server that metrics do not show, it counts as missed.
"""

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from vllmdoctor.flags import flag
from vllmdoctor.launch_text import parse_command
from vllmdoctor.model import Fact, Outcome, Severity, Status, Step
from vllmdoctor.plan import make_plan
from vllmdoctor.release import Version
from vllmdoctor.remedies import figures
from vllmdoctor.rules import all_rules

CASES: list[dict[str, Any]] = json.loads((Path(__file__).parent / "cases.json").read_text(encoding="utf-8"))
KNOWN_MISSES = {
    "09-single-runaway-generation-slowing": "healthy: nothing is found, so nothing is planned",
    "12-preemption-inflates-prefix-hit-rate": "the fix is to distrust a metric",
    "28-batch-decode-then-stuck-xpu": "a vendor's build",
    "47-ray-serve-wrapper-overhead": "a layer around the server",
    "57-last-30-requests-abort": "healthy: nothing is found, so nothing is planned",
    "71-sglang-decode-reference-kv": "another server",
}


@cache
def treatments() -> dict[str, Any]:
    return {rule.slug: rule for rule in all_rules()}


def plan_for(case: dict[str, Any]) -> tuple[Step, ...]:
    slug, _, kind = case["finding"].partition("/")
    if not slug:
        return ()
    found = Outcome(slug, slug, Status.FOUND, Severity.CRITICAL, 0.9, "0", kind)
    given = parse_command(f"vllm serve model {case['args']}", "--args").facts
    more = [Fact(key, value, "report") for key, value in case["facts"].items()]
    return make_plan(
        [found],
        figures([*given, *more]),
        Version.parse(case["version"]),
        lambda o: treatments()[o.slug].treatment(o.kind),
    )


def useful(steps: tuple[Step, ...]) -> list[Step]:
    return [s for s in steps if s.verdict in ("helps", "unknown")]


def holds(steps: tuple[Step, ...], accept: list[str]) -> bool:
    for wanted in accept:
        slug, _, text = wanted.partition(":")
        for step in useful(steps):
            if step.slug == slug and (text in f"{step.action} {step.why}" or _at_least(step.after, text)):
                return True
    return False


def _at_least(after: str, release: str) -> bool:
    """Whether the release that a step leads to is that one or newer, and so has its fix."""
    led, wanted = Version.parse(after.split(" ")[0]), Version.parse(release)
    return led is not None and wanted is not None and led >= wanted


FIXED = [case for case in CASES if case["fixed"]]


def test_the_corpus_is_whole() -> None:
    assert (len(CASES), len(FIXED)) == (58, 51)
    assert all(case["accept"] for case in FIXED)


def test_the_plan_holds_the_fix_in_four_of_five_cases() -> None:
    missed = [case["id"] for case in FIXED if not holds(plan_for(case), case["accept"])]

    assert len(missed) / len(FIXED) <= 0.2, missed
    assert set(missed) <= set(KNOWN_MISSES), missed


@pytest.mark.parametrize("case", CASES, ids=lambda c: str(c["id"]))
def test_no_plan_holds_what_backfired_or_what_the_release_refuses(case: dict[str, Any]) -> None:
    steps = plan_for(case)

    assert not {s.slug for s in useful(steps)} & set(case["must_not"])
    release = Version.parse(case["version"])
    for step in useful(steps):
        assert not step.flag or flag(step.flag).works_in(release), step.slug


def test_a_larger_budget_is_never_the_advice_where_it_shrank_the_pool() -> None:
    """One report: 2048 -> 8192 cost 9 % of the pool and 70 % of the p99 TTFT."""
    case = next(c for c in CASES if c["id"].startswith("64"))

    steps = {s.slug: s for s in plan_for(case)}

    assert "raise-max-num-batched-tokens" not in {s.slug for s in useful(tuple(steps.values()))}
    assert steps["lower-max-num-batched-tokens"].after == "2048"
