"""Files as people have them: what cannot be read is said, and what is generated here has no mistakes."""

import json
import re
from pathlib import Path

import pytest
import yaml

from vllmdoctor.alerts import Basis, rules_for
from vllmdoctor.alerts.forms import FORMATS, text
from vllmdoctor.dashboard import dashboard
from vllmdoctor.errors import UsageError
from vllmdoctor.promlint import as_json, lint_file, lint_text
from vllmdoctor.promql import Metrics, names_for
from vllmdoctor.release import version

FILES = Path(__file__).parent / "files"
RELEASES = (None, "0.6.6", "0.8.2", "0.8.5", "0.9.2", "0.10.2", "0.11.0", "0.12.0", "0.16.0", "0.33.0")


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("server", ["pod", "instance"])
def test_our_own_dashboards_have_no_mistakes(release: str | None, server: str) -> None:
    told = version(release) if release else None
    linted = lint_text(dashboard(told, server=server), "own", told)
    assert linted.expressions > 40
    assert linted.faulty == ()


@pytest.mark.parametrize(
    ("release", "form"),
    [*((release, "rules") for release in RELEASES), *((None, form) for form in FORMATS if form != "rules")],
)
def test_our_own_alerts_have_no_mistakes(release: str | None, form: str) -> None:
    told = version(release) if release else None
    for matchers in ((), ('namespace="inference"', 'model_name="m"')):
        rules = rules_for(Basis(Metrics(names_for(told), matchers), {}))
        linted = lint_text(text(rules, form, "all", told, "https://runbooks/"), "own", told)
        assert linted.expressions > 20
        assert linted.faulty == ()


def one(expression: str, release: str = "", **rule: str) -> list[tuple[str, str]]:
    """(slug, what) of the mistakes of one alert."""
    document = {"groups": [{"rules": [{"alert": "A", "expr": expression, "for": "5m", **rule}]}]}
    linted = lint_text(yaml.safe_dump(document), "rules", version(release) if release else None)
    return [(f.slug, f.what) for each in linted.faulty for f in each.findings]


@pytest.mark.parametrize(
    ("release", "told"),
    [
        ("0.8.5", []),
        ("0.10.2", []),
        ("0.11.0", [
            ("hidden-name", "removed in 0.12 (hidden from 0.11): shown only on request; now "
             "vllm:kv_cache_usage_perc")
        ]),
        ("0.12.0", [
            ("dead-name", "removed in 0.12 (hidden from 0.11): no series has this name; now "
             "vllm:kv_cache_usage_perc")
        ]),
    ],
)  # fmt: skip
def test_a_name_is_judged_for_the_release_that_is_given(release: str, told: list[tuple[str, str]]) -> None:
    expression = "vllm:gpu_cache_usage_perc > 0.9 and vllm:num_requests_waiting > 5"
    assert one(expression, release) == told


def test_a_name_that_is_too_new_for_the_release_is_told_with_the_older_one() -> None:
    expression = "vllm:kv_cache_usage_perc > 0.9 and vllm:num_requests_waiting > 5"
    assert one(expression) == []
    assert one(expression, "0.8.5") == [
        ("not-yet", "came with 0.9.2; this is 0.8.5; now vllm:gpu_cache_usage_perc")
    ]


def test_a_scrape_interval_decides_which_windows_are_short() -> None:
    rules = "groups: [{rules: [{record: r, expr: 'sum(rate(vllm:prompt_tokens_total[1m]))'}]}]"
    assert lint_text(rules, "r", None, 15.0).faulty == ()
    [faulty] = lint_text(rules, "r", None, 30.0).faulty
    assert faulty.corrected == "sum(rate(vllm:prompt_tokens_total[2m]))"


def test_only_metrics_of_vllm_and_its_surroundings_are_judged() -> None:
    assert one("rate(node_load1[10s]) > 5 and http_server_errors / http_server_requests > 90") == []


def test_recorded_names_are_the_files_own() -> None:
    rules = (
        "groups: [{rules: [{record: 'vllm:busy', expr: 'vllm:num_requests_running > 0'},"
        " {alert: A, for: 5m, expr: 'avg(vllm:busy) > 3'}, {alert: B, for: 5m, expr: 'vllm:ttft:p95 > 3'}]}]"
    )
    assert lint_text(rules, "r").faulty == ()


def test_metricsql_is_not_read_and_that_is_said() -> None:
    [(slug, what)] = one("vllm:num_requests_waiting default 0 > 5")
    assert (slug, what) == ("unreadable", "not read: invalid promql query")


def test_a_dashboard_keeps_its_text_but_for_the_expressions() -> None:
    path = FILES / "router-dashboard.json"
    before, after = path.read_text().splitlines(), lint_file(str(path)).corrected.splitlines()
    changed = [(a, b) for a, b in zip(before, after, strict=True) if a != b]
    assert len(changed) == 14
    assert all('"expr"' in a or '"query"' in a or '"definition"' in a for a, _ in changed)
    assert json.loads("\n".join(after))["title"] == "vLLM serving"


def test_alerts_that_grafana_keeps_itself_are_read() -> None:
    provisioned = """
apiVersion: 1
groups:
  - orgId: 1
    name: vllm
    rules:
      - uid: a
        title: KV
        condition: B
        data:
          - refId: A
            datasourceUid: prometheus
            model: {expr: 'vllm:gpu_cache_usage_perc', refId: A}
          - refId: B
            datasourceUid: __expr__
            model: {type: threshold, expression: A, refId: B}
        for: 5m
"""
    [faulty] = lint_text(provisioned, "rules").faulty
    assert (faulty.place, faulty.corrected) == ('panel "KV", query A', "vllm:kv_cache_usage_perc")


def test_what_is_nested_too_deeply_is_said() -> None:
    deep = '{"panels": ' * 900 + '{"expr": "up"}' + "}" * 900
    with pytest.raises(UsageError, match=r"nested too deeply|no JSON"):
        lint_text(deep, "deep")


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("a: [1", "rules is no YAML, line", ""),
        ('{"a": ', "rules is no JSON", ""),
        ("a: 1\n", "no rules and no queries in rules", "alert rules"),
        ("", "no rules and no queries in rules", "alert rules"),
        ("{{- if .Values.alerts }}\ngroups: []\n{{- end }}\n", "rules is no YAML, line 1", "helm template"),
        ("expr: {{ .Values.limit }}\n", "rules is no YAML, line 1", "helm template"),
    ],
)
def test_what_is_no_rules_file_is_said_in_one_line(text: str, message: str, hint: str) -> None:
    with pytest.raises(UsageError) as caught:
        lint_text(text, "rules")
    assert message in caught.value.message
    assert hint in caught.value.hint


def test_a_file_that_cannot_be_read_is_said(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"cannot read .*: no such file"):
        lint_file(str(tmp_path / "none.yaml"))
    binary = tmp_path / "binary.yaml"
    binary.write_bytes(b"\xff\xfe\x00\x01")
    with pytest.raises(UsageError, match="is no text"):
        lint_file(str(binary))


def test_signs_of_any_language_before_an_expression_do_not_shift_it() -> None:
    rules = "# 显存 é 🙂\ngroups:\n- rules:\n  - {alert: Ü🙂, expr: vllm:num_preemptions > 0, for: 5m}\n"
    assert "  - {alert: Ü🙂, expr: 'increase(vllm:num_preemptions_total[5m]) > 0', for: 5m}" in (
        lint_text(rules, "r").corrected
    )


def test_aliases_that_multiply_without_end_are_refused() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 12)]
    with pytest.raises(UsageError, match="aliases repeat its parts"):
        lint_text("\n".join([*lines, "groups: *a11"]), "bomb.yml")


def test_what_stands_at_two_places_by_an_alias_is_written_once() -> None:
    rules = (
        "groups:\n- rules:\n  - &first\n    alert: A\n    expr: vllm:num_preemptions > 0\n    for: 5m\n"
        "  - alert: B\n    expr: &bare vllm:num_preemptions > 1\n    for: 5m\n"
        "  - {alert: C, expr: *bare, for: 1m}\n- rules: [*first]\n"
    )
    linted = lint_text(rules, "r")
    assert [each.place for each in linted.faulty] == ["alert A", "alert B", "alert C", "alert A"]
    assert linted.corrected == rules.replace(
        "vllm:num_preemptions > 0", "'increase(vllm:num_preemptions_total[5m]) > 0'"
    )


def test_the_file_itself_is_never_touched() -> None:
    path = FILES / "blog-rules.yml"
    before = path.read_bytes()
    assert lint_file(str(path)).corrected != before.decode()
    assert path.read_bytes() == before


def test_the_json_of_findings_is_complete() -> None:
    document = json.loads(as_json(lint_file(str(FILES / "scheduler-pack.yaml"))))
    assert document["schema"] == "vllmdoctor/alerts-lint/1"
    assert document["expressions"] == 13
    assert document["findings"][0] == {
        "severity": "critical",
        "slug": "counter-without-total",
        "line": 5,
        "place": "alert PreemptionStorm",
        "piece": "vllm:num_preemptions",
        "what": "the counter is exposed as vllm:num_preemptions_total: this name has no series",
        "expression": "rate(vllm:num_preemptions[5m]) > 1",
        "corrected": "rate(vllm:num_preemptions_total[5m]) > 1",
    }


def test_every_slug_has_a_line_on_the_page() -> None:
    root = Path(__file__).parents[2]
    source = "".join(path.read_text() for path in (root / "src/vllmdoctor/promlint").glob("*.py"))
    slugs = set(
        re.findall(r'(?:Step\(|Flaw\(|slug, severity = |return )\s*"([a-z]+-[a-z-]+|unreadable)"', source)
    )
    told = set(re.findall(r"^\| `([a-z-]+)` \|", (root / "docs/lint-alerts.md").read_text(), re.MULTILINE))
    assert slugs == told
