"""The page of metrics: what it says of a report, and that Prometheus' own tool has nothing to find in it."""

import math
import os
import re
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families
from tests.prometheus import store
from tests.sample_report import SAMPLES

from vllmdoctor.exporting.metrics import page
from vllmdoctor.exporting.state import State, TargetState
from vllmdoctor.exporting.troubles import ERRORS
from vllmdoctor.model import Verdict

GOLDEN = Path(__file__).parent.parent / "golden" / "export.prom"
NOW = 1795961000.0
Labels = dict[str, str]


def state(name: str = "kv-bound") -> State:
    return State(
        targets=(
            TargetState("http://10.0.0.1:8000", True, 240, 2, NOW - 5),
            TargetState("http://10.0.0.2:8000", False, 240, 240),
            TargetState("nvml:"),
        ),
        answers=SAMPLES[name].engines,
        holds_until=NOW + 180,
        errors={kind: 0 for kind, _ in ERRORS} | {"unreachable": 3},
        diagnoses=60,
        diagnosis_s=7.5,
        last_diagnosis_s=0.125,
        last_success=NOW - 20,
        series=403,
        samples=96720,
    )


def samples(text: bytes) -> dict[str, list[tuple[Labels, float]]]:
    found: dict[str, list[tuple[Labels, float]]] = {}
    for family in text_string_to_metric_families(text.decode()):
        for sample in family.samples:
            found.setdefault(sample.name, []).append((sample.labels, sample.value))
    return found


def test_the_page_of_a_sample_is_its_golden_file() -> None:
    text = re.sub(r'version="[^"]+"', 'version="X"', page(state(), NOW).decode())
    if os.environ.get("UPDATE_GOLDEN") == "1":
        GOLDEN.write_text(text, encoding="utf-8")

    assert (GOLDEN.read_text(encoding="utf-8") if GOLDEN.exists() else "") == text


@pytest.mark.parametrize("name", SAMPLES)
def test_promtool_has_nothing_to_say_of_it(name: str) -> None:
    tools = store.binaries()
    if not tools:
        pytest.skip("no promtool: install `prometheus`, or name a folder in " + store.PROMETHEUS)
    for tool in tools:
        done = subprocess.run(
            [tool.promtool, "check", "metrics"], input=page(state(name), NOW), capture_output=True
        )
        assert (done.returncode, done.stdout, done.stderr) == (0, b"", b""), tool.version


@pytest.mark.parametrize("name", SAMPLES)
def test_every_rule_has_just_one_of_three_answers(name: str) -> None:
    said = samples(page(state(name), NOW)).get("vllmdoctor_rule_status", [])
    by_rule: dict[tuple[str, ...], list[float]] = {}
    for labels, value in said:
        by_rule.setdefault(
            tuple(labels[n] for n in ("instance", "engine", "model_name", "cause")), []
        ).append(value)

    assert all(sorted(values) == [0, 0, 1] for values in by_rule.values())
    assert len(by_rule) == sum(len(engine.outcomes) for engine in SAMPLES[name].engines)


def test_a_finding_is_there_with_how_sure_it_is_and_since_when() -> None:
    found = samples(page(state(), NOW))
    (finding,) = [labels for labels, _ in found["vllmdoctor_finding"] if labels["cause"] == "overload"]
    sure = {labels["cause"]: value for labels, value in found["vllmdoctor_finding_confidence_ratio"]}

    assert (finding["kind"], finding["severity"]) == ("kv-bound", "critical")
    assert sure["overload"] == SAMPLES["kv-bound"].engines[0].findings[0].confidence
    assert found["vllmdoctor_finding_onset_timestamp_seconds"][0][1] > 1.79e9
    assert {labels["verdict"]: value for labels, value in found["vllmdoctor_verdict"]} == {
        verdict.value: float(verdict is Verdict.SICK) for verdict in Verdict
    }


def test_what_cannot_be_told_is_not_said_to_be_well() -> None:
    found = samples(page(state("blind"), NOW))
    slow = {labels["symptom"] for labels, _ in found.get("vllmdoctor_symptom_slow", [])}
    (engine,) = SAMPLES["blind"].engines
    unknown = {s.name for s in engine.symptoms if s.slow is None}

    assert not slow & unknown
    assert not {labels["symptom"] for labels, _ in found.get("vllmdoctor_symptom_ratio", [])} & {
        s.name for s in engine.symptoms if not math.isfinite(s.ratio)
    }


def test_an_answer_that_holds_no_more_is_absent_and_the_exporter_itself_is_not() -> None:
    found = samples(page(state(), NOW + 181))

    assert not [name for name in found if name.startswith(("vllmdoctor_finding", "vllmdoctor_verdict"))]
    assert not [name for name in found if name.startswith(("vllmdoctor_rule", "vllmdoctor_symptom"))]
    assert found["vllmdoctor_up"] == [
        ({"target": "http://10.0.0.1:8000"}, 1.0),
        ({"target": "http://10.0.0.2:8000"}, 0.0),
    ]


def test_strange_names_of_models_are_escaped() -> None:
    (engine,) = SAMPLES["kv-bound"].engines
    odd = 'a"b\\c\nd'
    found = samples(page(State(answers=(replace(engine, model=odd),)), NOW))

    assert found["vllmdoctor_finding"][0][0]["model_name"] == odd


def test_before_anything_was_seen_nothing_is_said() -> None:
    found = samples(page(State(targets=(TargetState("http://10.0.0.1:8000"),)), NOW))

    assert "vllmdoctor_up" not in found
    assert "vllmdoctor_diagnosis_last_success_timestamp_seconds" not in found
    assert found["vllmdoctor_scrapes_total"] == [({"target": "http://10.0.0.1:8000"}, 0.0)]
