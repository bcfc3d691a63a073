"""Public cases, made of the numbers their reports state: each gets its cause, or no false one."""

import json
import math

import pytest
from bench.accuracy import cases

from vllmdoctor.diagnosis import diagnose
from vllmdoctor.model import Report, Severity, Verdict
from vllmdoctor.rules import all_rules
from vllmdoctor.signals import SIGNALS, canonical_name

KNOWN = {one.slug for one in all_rules()} | {"healthy", "unexplained", "blind"}
NAMES = cases.names()
READ = {
    *("source", "version", "says", "laid_out", "label", "kind", "acceptable", "must_not", "confirmed"),
    *("onset_s", "effect_s", "interval_s", "length_s", "facts", "file"),
    *("constant", "gauge", "held", "rate", "observed"),
}


def report_on(name: str) -> Report:
    return diagnose(cases.read(name).recording)


@pytest.mark.parametrize("name", NAMES)
def test_a_public_case_gets_its_cause_or_no_false_one(name: str) -> None:
    truth, report = cases.read(name).truth, report_on(name)

    assert truth.is_right(report.primary, report.kind), report.headline
    first = {o.slug for o in report.engines[0].findings if o.severity > Severity.INFO and not o.explained_by}
    assert first.isdisjoint(truth.must_not)


@pytest.mark.parametrize("name", [n for n in NAMES if cases.read(n).truth.label == "healthy"])
def test_a_healthy_case_is_not_called_sick(name: str) -> None:
    truth, report = cases.read(name).truth, report_on(name)

    assert report.verdict is not Verdict.SICK
    if "unexplained" not in truth.acceptable:
        assert report.verdict is not Verdict.UNEXPLAINED


@pytest.mark.parametrize("name", NAMES)
def test_a_label_names_causes_that_exist_and_does_not_contradict_itself(name: str) -> None:
    case = cases.read(name)
    truth = case.truth

    assert {truth.label, *truth.acceptable, *truth.must_not} <= KNOWN
    assert {truth.label, *truth.acceptable}.isdisjoint(truth.must_not)
    assert case.told["source"].startswith("https://")
    assert case.told["laid_out"]


@pytest.mark.parametrize("name", NAMES)
def test_a_case_uses_names_that_a_server_exposes(name: str) -> None:
    exposed = {n.text for s in SIGNALS.values() for n in s.names}
    told = cases.read(name).told
    for part in ("constant", "gauge", "held", "rate", "observed"):
        for series in told.get(part, {}):
            assert canonical_name(series.partition("{")[0]) in exposed, series


def test_a_rate_is_integrated_and_a_stretch_without_one_is_absent() -> None:
    recording = cases.Case(
        "t",
        {
            "label": "healthy",
            "length_s": 40,
            "interval_s": 10,
            "rate": {
                "vllm:generation_tokens_total": [[0, 2], [20, 2], [20, None], [30, None], [30, 4], [40, 4]]
            },
            "gauge": {"vllm:num_requests_running": [[10, 1], [30, 3]]},
        },
    ).recording
    (columns,) = recording.columns.values()
    tokens = list(columns["vllm:generation_tokens_total"].values)
    running = list(columns["vllm:num_requests_running"].values)

    assert tokens[:2] == [0, 20]
    assert math.isnan(tokens[2])
    assert tokens[4] - tokens[3] == pytest.approx(40)
    assert running[1:4] == [1, 2, 3]
    assert math.isnan(running[0])
    assert math.isnan(running[4])


def test_stated_observations_fall_into_their_buckets() -> None:
    seen = {"bounds": [1.0, 5.0], "at": [[3, 0.5], [12, 7.0]]}
    recording = cases.Case(
        "t", {"label": "healthy", "length_s": 20, "interval_s": 10, "observed": {"vllm:x_seconds": seen}}
    ).recording
    (columns,) = recording.columns.values()

    assert list(columns['vllm:x_seconds_bucket{le="1.0"}'].values) == [0, 1, 1]
    assert list(columns['vllm:x_seconds_bucket{le="5.0"}'].values) == [0, 1, 1]
    assert list(columns['vllm:x_seconds_bucket{le="+Inf"}'].values) == [0, 1, 2]
    assert list(columns["vllm:x_seconds_sum"].values) == [0, 0.5, 7.5]


def test_a_case_file_holds_nothing_that_is_not_read() -> None:
    for path in cases.FOLDER.glob("*.json"):
        assert set(json.loads(path.read_text(encoding="utf-8"))) <= READ, path.name
