"""Whatever the figures are, no remedy fails, and none prints a number that is none."""

import math
import re

from hypothesis import given, settings
from hypothesis import strategies as st

from vllmdoctor.flags import Release
from vllmdoctor.model import Outcome, Severity, Status, Step
from vllmdoctor.plan import make_plan
from vllmdoctor.release import VersionRange, version
from vllmdoctor.remedies import FIGURES, REMEDIES, figures, prescribe
from vllmdoctor.rules import all_rules

NUMBERS = st.one_of(
    st.sampled_from([0.0, -1.0, 1.0, 1e-300, 1e300, -1e300, math.nan, math.inf, -math.inf, 0.5, 2048.0]),
    st.floats(allow_nan=True, allow_infinity=True),
    st.integers(min_value=-(10**9), max_value=10**15).map(float),
)
TEXTS = st.sampled_from(
    ["auto", "fp8", "True", "False", "None", "align", "gguf", "{}", "priority", "nan", "inf", ""]
)
VALUES = st.one_of(NUMBERS, TEXTS, st.booleans())
PATIENTS = st.dictionaries(st.sampled_from(sorted(FIGURES)), VALUES, max_size=len(FIGURES))
FULL = st.fixed_dictionaries({name: NUMBERS for name, figure in FIGURES.items() if figure.unit})
FINDINGS = [(rule.slug, kind) for rule in all_rules() for kind in rule.remedies]
RELEASES: list[Release] = [
    None,
    *(
        version(text)
        for text in ("0.2.7", "0.6.0", "0.7.3", "0.8.5", "0.11.0", "0.19.0", "0.27.1", "0.32.0", "9.0.0")
    ),
    VersionRange(version("0.9.0"), version("0.30.0"), "V1"),
    VersionRange(None, None),
]


def outcome(slug: str, kind: str) -> Outcome:
    return Outcome(slug, slug, Status.FOUND, Severity.CRITICAL, 0.9, "0", kind)


def wrong_words(step: Step) -> list[str]:
    text = " ".join(
        (step.title, step.action, step.why, step.before, step.after, step.formula, step.effect, step.tradeoff)
    )
    return re.findall(r"(?<![\w-])-?(?:nan|inf)\b|\?", text)


def check(step: Step | None) -> None:
    if step is None:
        return
    assert wrong_words(step) == [], step
    assert all(
        (math.isfinite(p.low) and p.low <= p.high < math.inf) or p.why_not for p in step.predictions
    ), step
    assert not step.after.startswith("-"), step


@settings(max_examples=40, deadline=None)
@given(PATIENTS, st.sampled_from(RELEASES), st.sampled_from(FINDINGS))
def test_no_combination_of_figures_breaks_a_remedy(
    measured: dict[str, float | str | bool], release: Release, found: tuple[str, str]
) -> None:
    known = figures(measured=measured)
    for slug in REMEDIES:
        check(prescribe(slug, known, release, outcome(*found)))


@settings(max_examples=40, deadline=None)
@given(FULL, st.sampled_from(FINDINGS))
def test_no_full_set_of_figures_breaks_a_remedy(measured: dict[str, float], found: tuple[str, str]) -> None:
    known = figures(measured=measured)
    for slug in REMEDIES:
        check(prescribe(slug, known, version("0.32.0"), outcome(*found)))


@settings(max_examples=25, deadline=None)
@given(PATIENTS, st.lists(st.sampled_from(FINDINGS), min_size=1, max_size=3), st.sampled_from(RELEASES))
def test_no_combination_of_findings_breaks_a_plan(
    measured: dict[str, float | str | bool], found: list[tuple[str, str]], release: Release
) -> None:
    treatments = {rule.slug: rule for rule in all_rules()}
    outcomes = [outcome(*each) for each in found]

    steps = make_plan(
        outcomes, figures(measured=measured), release, lambda o: treatments[o.slug].treatment(o.kind)
    )

    for step in steps:
        check(step)
    assert len({s.slug for s in steps}) == len(steps)
