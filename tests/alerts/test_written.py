"""What `vllmdoctor alerts` writes: the three forms, the names, the limits, and what it refuses."""

import subprocess
from pathlib import Path
from typing import Any

import pytest
from tests.alerts.promtool import BINARIES
from tests.manifests.making import custom_errors
from tests.prometheus import store

from vllmdoctor.alerts import FORMS, LIMITS, SILENT_CAUSES, Basis, limit_of, of_causes, rules_for
from vllmdoctor.alerts.forms import FORMATS, document
from vllmdoctor.alerts.records import ACCEPTED, LEAK, MEMORY
from vllmdoctor.cli import main
from vllmdoctor.flags import Release
from vllmdoctor.launch_yaml import dump_all, load_all
from vllmdoctor.promql import Metrics, all_names, names_for
from vllmdoctor.release import Version, version
from vllmdoctor.rules import all_rules

GOLDEN = Path(__file__).parents[1] / "golden"
ROOT = Path(__file__).parents[2]


def output(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main(["alerts", *words]) == 0
    return capsys.readouterr().out


def parsed(text: str) -> dict[str, Any]:
    (found,) = load_all(text, "the output")
    assert isinstance(found, dict)
    return found


def error(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main(["alerts", *words]) == 2
    return " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize("form", FORMATS)
def test_each_form_is_as_it_was(form: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = ("--vllm-version", "0.33.0", "--match", 'namespace="inference"', "-f", form)
    assert output(capsys, *words) == (GOLDEN / f"alerts.{form}.yaml").read_text(encoding="utf-8")


def test_the_operators_objects_hold_the_same_groups(capsys: pytest.CaptureFixture[str]) -> None:
    plain = parsed(output(capsys))
    for form, kind in (("prometheusrule", "PrometheusRule"), ("vmrule", "VMRule")):
        found = parsed(output(capsys, "--format", form))
        assert (found["kind"], found["spec"]) == (kind, plain)


def test_the_schema_of_prometheusrule_finds_no_fault(capsys: pytest.CaptureFixture[str]) -> None:
    assert custom_errors([parsed(output(capsys, "--format", "prometheusrule"))]) == [[]]


def test_vmalert_can_read_every_expression_and_template(tmp_path: Path) -> None:
    victoria = store.victoria()
    tool = Path(victoria).with_name("vmalert") if victoria else None
    if tool is None or not tool.exists():
        pytest.skip("NOT CHECKED: no vmalert (apt-get install victoria-metrics)")
    body = document(rules_for(Basis(Metrics(all_names()))).groups, "rules", "runbooks/")
    for rule in (rule for group in body["groups"] for rule in group["rules"]):
        rule.pop("keep_firing_for", None)  # Debian's vmalert is older than this field
    path = tmp_path / "rules.yml"
    path.write_text(dump_all([body]))
    done = subprocess.run([str(tool), "-dryRun", f"-rule={path}"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]


def test_every_cause_has_an_alert_or_a_reason_for_having_none() -> None:
    told = {form.cause for form in FORMS} - {"unexplained", "blind"}
    assert told | set(SILENT_CAUSES) == {rule.slug for rule in all_rules()}
    assert not told & set(SILENT_CAUSES)


def test_every_alert_says_how_bad_it_is_the_number_its_limit_and_where_to_read_on() -> None:
    for alert in rules_for(Basis(Metrics(all_names()))).alerts:
        assert alert.form.severity in ("info", "warning", "critical")
        assert "(limit" in alert.told.text, alert.name
        assert "$value" in alert.told.text or alert.form.cause == "blind" or "$labels" in alert.told.text
        assert (ROOT / "runbooks" / f"{alert.form.cause}.md").exists()
        for key in alert.form.limits:
            limit_of(key)


def test_a_server_is_asked_by_the_names_it_shows(capsys: pytest.CaptureFixture[str]) -> None:
    text = output(capsys, "example:overload-kv")
    assert "vllm:kv_cache_usage_perc" in text
    assert "vllm:gpu_cache_usage_perc" not in text
    assert "# Not written: VLLMSpecDecodeDecay, for want of spec_draft_tokens" in text


def test_an_old_release_is_asked_by_its_names_and_told_what_it_lacks(
    capsys: pytest.CaptureFixture[str],
) -> None:
    text = output(capsys, "--vllm-version", "0.6.6")
    assert "vllm:gpu_cache_usage_perc" in text
    assert "kv_cache_usage_perc{" not in text
    assert "VLLMAdmissionStopped, for want of requests_waiting_deferred: came with 0.20" in text


def test_without_a_version_old_and_new_names_are_asked_for_once_per_series(
    capsys: pytest.CaptureFixture[str],
) -> None:
    text = output(capsys)
    assert "(vllm:kv_cache_usage_perc or vllm:gpu_cache_usage_perc)" in " ".join(text.split())


def test_matchers_stand_in_every_series_of_vllm(capsys: pytest.CaptureFixture[str]) -> None:
    rules = parsed(output(capsys, "--match", '{namespace="a",model_name=~"x|y"}'))["groups"]
    for rule in (rule for group in rules for rule in group["rules"]):
        for piece in rule["expr"].split("vllm:")[1:]:
            assert piece.split("{", 1)[1].startswith('namespace="a",model_name=~"x|y"'), rule["expr"]


def test_a_limit_that_is_set_stands_in_the_expression_and_in_the_text(
    capsys: pytest.CaptureFixture[str],
) -> None:
    rules = parsed(output(capsys, "--set", "overload.thrash=0.25"))["groups"]
    thrash = next(r for g in rules for r in g["rules"] if r.get("alert") == "VLLMPreemptionThrash")
    assert ">= 0.25" in thrash["expr"]
    assert "(limit: 0.25)" in thrash["annotations"]["description"]


@pytest.mark.parametrize("key", LIMITS)
def test_every_limit_that_can_be_set_changes_an_expression(key: str) -> None:
    usual = {a.name: a.expr for a in rules_for(Basis(Metrics(all_names()))).alerts}
    other = rules_for(Basis(Metrics(all_names()), {key: 0.9 * limit_of(key).value + 0.001})).alerts
    changed = {a.name for a in other if a.expr != usual[a.name]}
    named = {form.name for form in FORMS if key in form.limits}
    assert changed == named


def test_the_runbook_is_linked_where_the_pages_are_served(capsys: pytest.CaptureFixture[str]) -> None:
    rules = parsed(output(capsys, "--runbooks", "https://wiki.example/vllm"))["groups"]
    links = {r["annotations"]["runbook_url"] for g in rules for r in g["rules"] if "alert" in r}
    assert "https://wiki.example/vllm/overload.md" in links


def test_a_file_is_written_once_and_never_over_another(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "rules.yml"
    assert main(["alerts", "-o", str(path)]) == 0
    assert "alerts and" in capsys.readouterr().err
    before = path.read_bytes()
    assert "exists" in error(capsys, "-o", str(path))
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    ("given", "whose", "told"),
    [
        ("0.5.0", "every release of vLLM", "vLLM 0.5.0 has no names known here"),
        ("99.1", "vLLM 99.1", "vLLM 99.1 is newer than the names known here"),
    ],
)
def test_a_release_whose_names_are_not_known_is_told(
    given: str, whose: str, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["alerts", "--vllm-version", given]) == 0
    said = capsys.readouterr()
    assert said.err.startswith(told)
    assert said.out.splitlines()[0].endswith(f" for {whose}.")


def test_a_target_that_cannot_be_read_is_told_where_another_gives_the_names(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["alerts", "example:healthy", "http://127.0.0.1:1"]) == 0
    told = capsys.readouterr()
    failure = "http://127.0.0.1:1/metrics refused the connection"
    assert told.err == f"{failure}: its names are not in these rules\n"
    assert told.out.splitlines()[0].endswith(f"example:healthy http://127.0.0.1:1 (not read: {failure}).")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--match", "namespace=prod"), "not a label matcher: namespace=prod"),
        (("--set", "overload.thrash"), "not a limit"),
        (("--set", "overload.trash=1"), "did you mean 'overload.thrash'?"),
        (("--set", "stall.still=30"), "no limit of an alert named 'stall.still'"),
        (("--set", "overload.thrash=much"), "not a limit"),
        (("--set", "overload.thrash=nan"), "not a limit: 'overload.thrash=nan'"),
        (("--set", "overload.thrash=-1"), "not a limit: 'overload.thrash=-1'"),
        (("--match", 'namespace=~"("'), "illegal regex"),
        (("--match", '__name__="up"'), "metric name must not be set twice"),
        (("--fail-on", "critical"), "are for --existing"),
        (("--format", "helm"), "no format named 'helm'"),
        (("--vllm-version", "new"), "not a vLLM version"),
        (("--vllm-version", "0.9.0", "example:overload-kv"), "a target says its own names"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(
    words: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert said in error(capsys, *words)


def test_the_rules_of_some_causes_hold_the_recordings_that_they_read_and_no_others() -> None:
    some = of_causes(rules_for(Basis(Metrics(all_names()))), {"spec-decode-decay", "memory-leak"})
    assert {a.form.cause for a in some.alerts} == {"spec-decode-decay", "memory-leak"}
    assert {r.name for r in some.records} == {ACCEPTED, MEMORY, LEAK}


@pytest.mark.parametrize("release", [None, version("0.6.6"), version("0.9.2"), version("0.33.0")], ids=str)
def test_the_check_of_existing_rules_finds_no_mistake_in_these(release: Release) -> None:
    pytest.importorskip("promql_parser", reason="NOT CHECKED: no promql-parser (pip install promql-parser)")
    from vllmdoctor.promlint import lint_text

    body = document(rules_for(Basis(Metrics(names_for(release)))).groups, "rules", "runbooks/")
    found = lint_text(dump_all([body]), "rules.yml", release if isinstance(release, Version) else None).faulty
    assert [(each.place, f.slug) for each in found for f in each.findings] == []


def test_the_same_call_gives_the_same_bytes(capsys: pytest.CaptureFixture[str]) -> None:
    assert output(capsys) == output(capsys)


def test_templates_are_filled_in_with_number_and_limit(tmp_path: Path) -> None:
    from tests.alerts import promtool
    from tests.alerts.test_promtool import written

    if not BINARIES:
        pytest.skip("NOT CHECKED: no promtool (apt-get install prometheus)")
    rules, _ = written(tmp_path)
    labels = {"pod": "vllm-0", "instance": "vllm-0:8000", "engine": "0", "model_name": "m"}
    inside = ",".join(f'{k}="{v}"' for k, v in labels.items())
    series = {"num_requests_running": "4x30", "num_requests_waiting": "2x30"}
    series |= dict.fromkeys(
        ("generation_tokens_total", "prompt_tokens_total", "request_success_total"), "100x30"
    )
    stall = {
        "exp_labels": {"severity": "critical", "cause": "stall", **labels},
        "exp_annotations": {
            "summary": "vllm-0 (engine 0) has work and makes no progress",
            "description": "6 requests are inside, and no token was made and none finished in 3 min "
            "(limit: one of them).",
            "runbook_url": "runbooks/stall.md",
        },
    }
    told = {
        "interval": "1m",
        "input_series": [{"series": f"vllm:{n}{{{inside}}}", "values": v} for n, v in series.items()],
        "alert_rule_test": [{"alertname": "VLLMStall", "eval_time": "20m", "exp_alerts": [stall]}],
    }
    promtool.run(BINARIES[0], "test", "rules", str(promtool.test_file(tmp_path, rules, [told])))
