"""Files with the mistakes of public rules and dashboards: each is found, told, and written right."""

import json
import re
from pathlib import Path

import pytest

from vllmdoctor.promlint import Linted, lint_file, lint_text
from vllmdoctor.promlint.parse import parse
from vllmdoctor.promlint.show import show

FILES = Path(__file__).parent / "files"

# file -> place -> (the mistakes, the expression without them; "" where nothing says the same)
KNOWN: dict[str, dict[str, tuple[tuple[str, ...], str]]] = {
    "upgraded-fleet.yaml": {
        "alert KvCacheNearlyFull": (
            ("dead-name", "full-is-no-fault"),
            "vllm:kv_cache_usage_perc > 0.95 and vllm:num_requests_waiting > 0",
        ),
        "alert PrefixCacheUseless": (
            ("dead-name", "dead-name"),
            "sum(rate(vllm:prefix_cache_hits_total[10m])) "
            "/ sum(rate(vllm:prefix_cache_queries_total[10m])) < 0.3",
        ),
        "alert SlowTokens": (
            ("dead-name",),
            "histogram_quantile(0.99, sum by (le) (rate(vllm:inter_token_latency_seconds_bucket[5m]))) > 0.2",
        ),
        "alert Swapping": (("dead-name",), ""),
        "alert Backlog": (("dead-name",), "vllm:num_requests_waiting > 20"),
        "alert ThroughputLow": (
            ("dead-name", "fires-when-idle"),
            "rate(vllm:generation_tokens_total[5m]) < 100 "
            "and vllm:num_requests_running + vllm:num_requests_waiting > 0",
        ),
        "alert QueueSlow": (
            ("dead-name",),
            "histogram_quantile(0.95, sum by (le) (rate(vllm:request_queue_time_seconds_bucket[5m]))) > 5",
        ),
        "alert MetricsGone": (("dead-name",), "absent(vllm:kv_cache_usage_perc)"),
    },
    "scheduler-pack.yaml": {
        "alert PreemptionStorm": (("counter-without-total",), "rate(vllm:num_preemptions_total[5m]) > 1"),
        "alert PoolSaturated": (
            ("mean-of-ratio", "full-is-no-fault"),
            "max(vllm:kv_cache_usage_perc) > 0.9 and sum(vllm:num_requests_waiting) > 0",
        ),
        "alert PodSaturated": (
            ("sum-of-ratio",),
            "max by (pod) (vllm:kv_cache_usage_perc) > 0.8 and sum by (pod) (vllm:num_requests_waiting) > 5",
        ),
        "alert SlowFirstToken": (
            ("missing-le",),
            "histogram_quantile(0.99, sum by (le, namespace) "
            "(rate(vllm:time_to_first_token_seconds_bucket[5m]))) > 10",
        ),
        "alert PreemptedTooOften": (
            ("never-matches", "unguarded-division"),
            "rate(vllm:num_preemptions_total[10m]) "
            "/ (sum without (finished_reason) (rate(vllm:request_success_total[10m])) > 0) > 0.5",
        ),
        "alert BusyPoolIdleGpu": (
            ("never-matches",),
            "vllm:kv_cache_usage_perc > 0.9 and on (namespace, pod) DCGM_FI_DEV_GPU_UTIL < 30",
        ),
        "alert GpuIdle": (("percent-scale",), "avg_over_time(DCGM_FI_DEV_GPU_UTIL[30m]) < 30"),
        "alert OneServerHasAll": (
            ("never-matches", "unguarded-division"),
            "vllm:num_requests_running / on () group_left () (sum(vllm:num_requests_running) > 0) > 0.8",
        ),
        "alert Errors": (
            ("divided-by-itself",),
            'sum without (finished_reason) (rate(vllm:request_success_total{finished_reason="error"}[10m])) '
            "/ sum without (finished_reason) (rate(vllm:request_success_total[10m])) > 0.05",
        ),
        "alert NoLimit": (
            ("unguarded-division",),
            'container_memory_working_set_bytes{container="vllm"} '
            '/ (container_spec_memory_limit_bytes{container="vllm"} > 0) > 0.85',
        ),
        "alert DriverError": (("rate-of-gauge",), "changes(DCGM_FI_DEV_XID_ERRORS[5m]) > 0"),
        "alert Failures": (
            ("unknown-name",),
            'sum(rate(vllm:request_success_total{finished_reason="error"}[5m])) '
            "/ sum(rate(vllm:num_incoming_requests_total[5m])) > 0.05",
        ),
        "alert AverageFirstToken": (
            ("mean-of-quotients",),
            "sum(rate(vllm:time_to_first_token_seconds_sum[5m])) "
            "/ sum(rate(vllm:time_to_first_token_seconds_count[5m])) > 2",
        ),
    },
    "blog-rules.yml": {
        "alert NoBlocks": (("unknown-name",), ""),
        "alert PrefillLoad": (("unknown-name",), "rate(vllm:prompt_tokens_total[5m]) > 50000"),
        "alert Misses": (
            ("unknown-name",),
            "(rate(vllm:prefix_cache_queries_total[5m]) - rate(vllm:prefix_cache_hits_total[5m])) > 1000",
        ),
        "alert Ttft": (
            ("seconds-scale",),
            "histogram_quantile(0.99, rate(vllm:time_to_first_token_seconds_bucket[5m])) > 2",
        ),
        "alert TtftSummary": (
            ("bare-histogram",),
            "histogram_quantile(0.99, sum by (le) (rate(vllm:time_to_first_token_seconds_bucket[5m]))) > 5",
        ),
        "alert KvPercent": (
            ("percent-scale", "full-is-no-fault"),
            "max by (pod) (vllm:kv_cache_usage_perc) > 0.9 and sum by (pod) (vllm:num_requests_waiting) > 0",
        ),
        "alert Preempted": (("raw-counter",), "increase(vllm:num_preemptions_total[5m]) > 10"),
        "alert Stalled": (
            ("fires-when-idle",),
            "sum(rate(vllm:generation_tokens_total[1m])) == 0 "
            "and sum(vllm:num_requests_running) + sum(vllm:num_requests_waiting) > 0",
        ),
        "alert Jumpy": (("irate-in-alert",), "rate(vllm:num_preemptions_total[1m]) > 0"),
        "alert Narrow": (("short-window",), "sum(increase(vllm:num_preemptions_total[1m])) > 0"),
        "alert Instant": (("missing-for",), ""),
        "alert Batch": (("rate-of-gauge",), "deriv(vllm:num_requests_running[5m]) > 3"),
        "alert Underscored": (
            ("underscore-name", "unknown-label"),
            'vllm:num_requests_waiting{model_name="llama"} > 10',
        ),
        "alert Ninety": (
            ("quantile-range",),
            "histogram_quantile(0.95, sum by (le) (rate(vllm:e2e_request_latency_seconds_bucket[5m]))) > 30",
        ),
        "alert SinceStart": (
            ("since-start", "since-start"),
            "rate(vllm:e2e_request_latency_seconds_sum[5m]) "
            "/ rate(vllm:e2e_request_latency_seconds_count[5m]) > 10",
        ),
        "alert Deleted": (
            ("counter-as-gauge", "fires-when-idle"),
            "sum without (finished_reason) (increase(vllm:request_success_total[1h])) < 1 "
            "and vllm:num_requests_running + vllm:num_requests_waiting > 0",
        ),
        "alert Broken": (("unreadable",), ""),
        "record vllm:tokens:rate5m": (("rate-of-sum",), "sum(rate(vllm:generation_tokens_total[5m]))"),
        "record vllm:hit_ratio": (
            ("unguarded-division",),
            "sum(rate(vllm:prefix_cache_hits_total[5m])) "
            "/ (sum(rate(vllm:prefix_cache_queries_total[5m])) > 0)",
        ),
    },
    "rendered-chart.yaml": {
        'panel "KV", query A (serving.json)': (("dead-name",), 'vllm:kv_cache_usage_perc{pod=~"$pod"}'),
        "alert Queue": (("unknown-label",), "sum by (model_name) (vllm:num_requests_waiting) > 5"),
        "ScaledObject chat": (
            ("dead-name", "unknown-label"),
            'sum(vllm:num_requests_waiting{model_name="llama"})',
        ),
        "alert Inner (vllm.rules.yaml)": (
            ("counter-without-total", "fires-when-idle"),
            "sum without (finished_reason) (rate(vllm:request_success_total[5m])) < 0.01 "
            "and vllm:num_requests_running + vllm:num_requests_waiting > 0",
        ),
    },
    "router-dashboard.json": {
        "variable model": (("dead-name",), "vllm:kv_cache_usage_perc"),
        'panel "KV usage", query A': (
            ("panel-unit",),
            '100 * max(vllm:kv_cache_usage_perc{model_name=~"[[model]]"})',
        ),
        'panel "KV of the fleet", query A': (
            ("sum-of-ratio",),
            'max(vllm:kv_cache_usage_perc{pod=~"${pod:regex}"})',
        ),
        'panel "Prefix hits", query A': (
            ("dead-name", "dead-name", "since-start", "since-start"),
            "sum(rate(vllm:prefix_cache_hits_total[$__rate_interval])) "
            "/ sum(rate(vllm:prefix_cache_queries_total[$__rate_interval]))",
        ),
        'panel "TTFT", query A': (
            ("panel-unit",),
            "1000 * histogram_quantile($q, sum by (le) "
            '(rate(vllm:time_to_first_token_seconds_bucket{pod=~"$pod"}[$__rate_interval])))',
        ),
        'panel "TTFT", query B': (
            ("since-start", "since-start", "panel-unit"),
            "1000 * (avg(rate(vllm:time_to_first_token_seconds_sum[$__rate_interval])) "
            "/ avg(rate(vllm:time_to_first_token_seconds_count[$__rate_interval])))",
        ),
        'panel "Tail", query A': (
            ("mean-of-quantiles",),
            "histogram_quantile(0.95, sum by (le) "
            "(rate(vllm:e2e_request_latency_seconds_bucket[$__rate_interval])))",
        ),
        'panel "Tail", query B': (
            ("mean-of-quantiles",),
            "histogram_quantile(0.99, sum by (le) "
            "(rate(vllm:inter_token_latency_seconds_bucket[${__range_s}s])))",
        ),
        'panel "Tail", query C': (
            ("since-start",),
            "histogram_quantile(0.9, sum by (le) "
            "(rate(vllm:request_queue_time_seconds_bucket[$__rate_interval])))",
        ),
        'panel "Requests", query A': (
            ("raw-counter",),
            "sum by (finished_reason) (rate(vllm:request_success_total[$__rate_interval]))",
        ),
        'panel "Requests", query B': (("raw-counter",), "increase(vllm:request_success_total[5m])"),
        'panel "Requests", query C': (
            ("bare-histogram",),
            "rate(vllm:iteration_tokens_total_sum[$__rate_interval])",
        ),
        'panel "Acceptance", query A': (
            ("dead-name",),
            "(rate(vllm:spec_decode_num_accepted_tokens_total[$__rate_interval]) "
            "/ rate(vllm:spec_decode_num_draft_tokens_total[$__rate_interval]))",
        ),
    },
    "next-model.json": {
        'panel "Swapped", query A': (("dead-name",), ""),
        "variable pod": (("dead-name",), ""),
    },
    "right.yaml": {},
}


@pytest.fixture(params=sorted(KNOWN))
def linted(request: pytest.FixtureRequest) -> Linted:
    return lint_file(str(FILES / request.param))


def test_every_file_is_in_the_table() -> None:
    assert {path.name for path in FILES.iterdir()} == set(KNOWN)


def test_each_mistake_is_found_and_written_right_and_nothing_else(linted: Linted) -> None:
    told = {each.place: (tuple(f.slug for f in each.findings), each.corrected) for each in linted.faulty}
    assert told == KNOWN[Path(linted.origin).name]


def test_corrected_expressions_can_be_read(linted: Linted) -> None:
    for each in linted.faulty:
        if each.corrected:
            assert show(parse(each.corrected)) == each.corrected


def test_the_corrected_file_has_only_what_a_person_must_decide(linted: Linted) -> None:
    again = lint_text(linted.corrected, linted.origin)
    assert again.expressions == linted.expressions
    left = {each.place for each in linted.faulty if not each.corrected}
    assert {each.place for each in again.faulty} == left - {"alert Instant"}  # which got its `for`


def test_each_finding_names_the_line_on_which_its_piece_stands(linted: Linted) -> None:
    lines = Path(linted.origin).read_text().splitlines()
    for each in linted.faulty:
        for finding in each.findings:
            name = re.search(r"[a-zA-Z_]+:?[a-zA-Z_]{6,}\w*", finding.piece)
            if finding.piece.startswith(("vllm:", "vllm_")):
                assert name is not None and name[0] in lines[finding.line - 1], finding


def test_comments_and_order_of_a_rules_file_stay() -> None:
    path = FILES / "upgraded-fleet.yaml"
    before = path.read_text().splitlines()
    after = lint_file(str(path)).corrected.splitlines()
    kept = [line for line in before if "expr" not in line and "vllm:" not in line and "histogram" not in line]
    assert [line for line in after if line in kept] == kept
    assert "        - alert: KvCacheNearlyFull   # pages the on-call" in after


def corrected(expr: str) -> str:
    """An alert's expression as it is written right; "" where nothing is said against it."""
    rule = {"alert": "A", "expr": expr, "for": "5m"}
    found = lint_text(json.dumps({"groups": [{"rules": [rule]}]}), "rules.json").faulty
    return found[0].corrected if found else ""


@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        (  # folded first, compared then: one reason without a request is no stall
            "vllm:num_requests_running > 0 and rate(vllm:request_success_total[5m]) == 0",
            "vllm:num_requests_running > 0 "
            "and sum without (finished_reason) (rate(vllm:request_success_total[5m])) == 0",
        ),
        (  # a ratio of sums, not a sum of each reason's ratio
            "rate(vllm:request_success_total[5m]) / rate(vllm:request_success_total[5m] offset 1d) < 0.5",
            "sum without (finished_reason) (rate(vllm:request_success_total[5m])) "
            "/ sum without (finished_reason) (rate(vllm:request_success_total[5m] offset 1d)) < 0.5 "
            "and vllm:num_requests_running + vllm:num_requests_waiting > 0",
        ),
        (  # topk() lets series through with all their labels
            "topk(3, vllm:kv_cache_usage_perc) > 0.95",
            "topk(3, vllm:kv_cache_usage_perc) > 0.95 and vllm:num_requests_waiting > 0",
        ),
        (  # many wait and none runs: a wedge, in which it must go on firing
            "sum(vllm:num_requests_waiting) / sum(vllm:num_requests_running) > 2",
            "sum(vllm:num_requests_waiting) / clamp_min(sum(vllm:num_requests_running), 1) > 2",
        ),
        (  # NIM writes no prefix, Ray its own
            "gpu_cache_usage_perc > 0.9",
            "kv_cache_usage_perc > 0.9 and num_requests_waiting > 0",
        ),
        (
            "ray_vllm_kv_cache_usage_perc > 0.9",
            "ray_vllm_kv_cache_usage_perc > 0.9 and ray_vllm_num_requests_waiting > 0",
        ),
        (
            "increase(vllm:e2e_request_latency_seconds_count[5m]) == 0",
            "increase(vllm:e2e_request_latency_seconds_count[5m]) == 0 "
            "and vllm:num_requests_running + vllm:num_requests_waiting > 0",
        ),
        ("avg(DCGM_FI_DEV_GPU_UTIL) < 0.3", "avg(DCGM_FI_DEV_GPU_UTIL) < 30"),
    ],
)
def test_what_is_written_instead_does_what_was_meant(wrong: str, right: str) -> None:
    assert corrected(wrong) == right


@pytest.mark.parametrize(
    "right",
    [
        "rate(container_cpu_cfs_throttled_periods_total[5m]) "
        "/ rate(container_cpu_cfs_periods_total[5m]) > 0.25",
        "rate(vllm:prompt_tokens_total[5m]) / rate(vllm:prompt_tokens_total[5m] offset 1d) < 0.5 "
        "and on (pod) vllm:num_requests_running > 2",
        "sum(vllm:num_requests_waiting) / count(vllm:num_requests_running) > 100",
        "rate(vllm:iteration_tokens_total_sum[5m]) / rate(vllm:iteration_tokens_total_count[5m]) > 8000",
        "vllm:iteration_tokens_total_count unless vllm:iteration_tokens_total_count offset 2m",
        "vllm:gpu_prefix_cache_hit_rate > 0.9 or 0 * rate(vllm:prefix_cache_queries_total[5m]) > 1",
    ],
)
def test_nothing_is_said_against_what_is_right(right: str) -> None:
    assert corrected(right) == ""


@pytest.mark.parametrize(
    ("wrong", "unit", "right"),
    [
        (
            "rate(vllm:generation_tokens_total[$__interval])",
            "none",
            "rate(vllm:generation_tokens_total[$__rate_interval])",
        ),
        ("sum(DCGM_FI_DEV_FB_USED)", "bytes", "1048576 * sum(DCGM_FI_DEV_FB_USED)"),
        ("DCGM_FI_DEV_FB_USED", "decmbytes", ""),
        ("1048576 * DCGM_FI_DEV_FB_USED", "bytes", ""),
    ],
)
def test_a_panel_s_window_and_unit_fit_what_it_shows(wrong: str, unit: str, right: str) -> None:
    panel = {
        "title": "P",
        "fieldConfig": {"defaults": {"unit": unit}},
        "targets": [{"refId": "A", "expr": wrong}],
    }
    found = lint_text(json.dumps({"panels": [panel]}), "d.json").faulty
    assert [each.corrected for each in found] == ([right] if right else [])
