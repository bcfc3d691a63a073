"""Every bundled recording of a real server gets the diagnosis that is true of it, and no harmful one."""

import json
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from vllmdoctor.diagnosis import diagnose
from vllmdoctor.model import Report, Status, Verdict
from vllmdoctor.recording import Recording
from vllmdoctor.rules import all_rules
from vllmdoctor.signals import SIGNALS, canonical_name
from vllmdoctor.sources import Window, gather_targets

TRUTH = json.loads((Path(__file__).parent / "truth.json").read_text("utf-8"))
SLUGS = {
    "fragmentation": "kv-fragmentation",
    "head_of_line": "head-of-line-blocking",
    "demand_drop": "demand-drop",
}


def slug(label: str) -> str:
    return SLUGS.get(label, label.replace("_", "-"))


@cache
def recorded(name: str) -> Recording:
    return gather_targets([f"example:{name}"], Window())


@cache
def judged(name: str) -> Report:
    return diagnose(recorded(name), target=f"example:{name}")


@pytest.mark.parametrize("name", sorted(TRUTH))
def test_a_real_recording_gets_its_true_cause_and_kind(name: str) -> None:
    truth, report = TRUTH[name], judged(name)

    assert report.primary == slug(truth["label"])
    if truth["kind"]:
        assert report.kind == truth["kind"]


@pytest.mark.parametrize("name", sorted(TRUTH))
def test_no_harmful_mistake_is_made_on_a_real_recording(name: str) -> None:
    found = {o.slug for o in judged(name).engines[0].findings}

    assert found.isdisjoint(slug(label) for label in TRUTH[name]["must_not"])


@pytest.mark.parametrize(
    "name", [n for n in sorted(TRUTH) if TRUTH[n]["label"] in ("healthy", "demand_drop")]
)
def test_a_healthy_server_is_never_called_sick(name: str) -> None:
    assert judged(name).verdict is Verdict.HEALTHY


@pytest.mark.parametrize(
    "name", [n for n in sorted(TRUTH) if TRUTH[n]["label"] not in ("healthy", "demand_drop")]
)
def test_every_sick_server_gets_a_plan_with_a_computed_change(name: str) -> None:
    first = judged(name).plan[0]

    assert first.verdict == "helps"
    assert first.formula
    if first.flag:
        assert first.after
        assert first.after != first.before


@pytest.mark.parametrize(
    ("fault", "best"),
    [
        ("kv-thrash", "more-kv-blocks"),
        ("overload-kv", "more-kv-blocks"),
        ("hol-big-batch", "set-long-prefill-token-threshold"),
    ],
)
def test_the_first_remedy_is_the_one_that_was_measured_to_work_best(fault: str, best: str) -> None:
    assert judged(fault).plan[0].slug == best


def without(recording: Recording, signal: str) -> Recording:
    """The recording as if the server had never exposed a signal, under any of its names."""
    texts = {n.text for n in SIGNALS[signal].names}
    gone = texts | {f"{t}{s}" for t in texts for s in ("_bucket", "_sum", "_count")}
    return replace(
        recording,
        columns={
            instance: {k: c for k, c in columns.items() if canonical_name(k.split("{")[0]) not in gone}
            for instance, columns in recording.columns.items()
        },
    )


@pytest.mark.parametrize("name", [n for n in sorted(TRUTH) if TRUTH[n]["label"] not in ("healthy",)])
def test_what_was_found_is_not_found_from_the_absence_of_a_signal_it_needs(name: str) -> None:
    rules = {r.slug: r for r in all_rules()}
    for outcome in judged(name).engines[0].findings:
        for needed in rules[outcome.slug].signals:
            alternatives = (needed,) if isinstance(needed, str) else needed
            poorer = recorded(name)
            for signal in alternatives:
                poorer = without(poorer, signal)
            again = diagnose(poorer)
            status = {o.slug: o.status for o in again.engines[0].outcomes}
            assert status[outcome.slug] is Status.UNKNOWN


@pytest.mark.parametrize("name", ["overload-kv", "hol-big-batch", "kv-thrash-fix-maxseqs"])
def test_taking_away_a_helpful_signal_makes_no_new_cause(name: str) -> None:
    """Only what was found with everything in sight may be found with less in sight."""
    seen = {o.slug for o in judged(name).engines[0].findings}
    for signal in sorted({s for r in all_rules() for s in r.helpful}):
        poorer = diagnose(without(recorded(name), signal))
        assert {o.slug for o in poorer.engines[0].findings} <= seen | {"low-load"}, signal
