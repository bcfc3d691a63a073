"""What the linter writes instead is asked of a real Prometheus: it runs, and has data."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.dashboard.asking import filled, values
from tests.dashboard.conftest import END

from vllmdoctor.promlint import lint_file
from vllmdoctor.promlint.flaws import Context
from vllmdoctor.promlint.mend import judge

FILES = Path(__file__).parents[1] / "promlint" / "files"
NOW = "v0.32.0"


def corrected() -> Iterator[str]:
    for path in sorted(FILES.iterdir()):
        for each in lint_file(str(path)).faulty:
            if each.corrected:
                yield each.corrected


def found(url: str, expression: str) -> list[float]:
    for variable, value in (("[[model]]", ".*"), ("${pod:regex}", ".*"), ("${__range_s}s", "5m")):
        expression = expression.replace(variable, value)
    for variable, value in (("$q", "0.9"), ("$pod", ".*")):
        expression = expression.replace(variable, value)
    return values(url, filled(expression, NOW), END - 1200, END - 60)


def test_every_corrected_expression_runs(prometheus: str) -> None:
    expressions = list(corrected())
    assert len(expressions) > 45
    for each in expressions:
        found(prometheus, each)


# Expressions that give nothing, or something else than they say; each is made to give data.
BLIND = (
    'max(vllm:gpu_cache_usage_perc{namespace="v0.32.0"})',
    'sum(rate(vllm:num_preemptions{namespace="v0.32.0"}[5m]))',
    'sum(rate(vllm:gpu_prefix_cache_hits_total{namespace="v0.32.0"}[5m]))',
    'histogram_quantile(0.9, sum(rate(vllm:time_to_first_token_seconds_bucket{namespace="v0.32.0"}[5m])))',
    'histogram_quantile(0.9, sum by (le) (rate(vllm:time_per_output_token_seconds_bucket'
    '{namespace="v0.32.0"}[5m])))',
    'vllm:time_to_first_token_seconds{namespace="v0.32.0",quantile="0.99"}',
    'vllm:avg_generation_throughput_toks_per_s{namespace="v0.32.0"}',
    'rate(vllm:num_preemptions_total{namespace="v0.32.0"}[10m]) '
    '/ rate(vllm:request_success_total{namespace="v0.32.0"}[10m])',
    'vllm:num_requests_running{namespace="v0.32.0"} / sum(vllm:num_requests_running{namespace="v0.32.0"})',
    'vllm:num_requests_waiting{namespace="v0.32.0"} + vllm:num_requests_swapped{namespace="v0.32.0"}',
    'rate(vllm:iteration_tokens_total{namespace="v0.32.0"}[5m])',
    'rate(vllm:prefix_cache_miss_total{namespace="v0.32.0"}[5m])',
    'sum(rate(vllm:generation_tokens_total{namespace="v0.32.0"}[15s]))',
    'sum by (model) (vllm:num_requests_running{namespace="v0.32.0",model=~".+"})',
    'vllm_num_requests_running{namespace="v0.32.0"}',
)  # fmt: skip


@pytest.mark.parametrize("expression", BLIND)
def test_what_gave_nothing_gives_data_once_corrected(prometheus: str, expression: str) -> None:
    assert values(prometheus, expression, END - 1200, END - 60) == []
    judged = judge(expression, Context("record", scrape_s=30.0))
    assert found(prometheus, judged.corrected)


def test_the_average_since_start_hides_what_the_corrected_one_shows(prometheus: str) -> None:
    wrong = (
        'sum(vllm:e2e_request_latency_seconds_sum{namespace="v0.32.0"})'
        ' / sum(vllm:e2e_request_latency_seconds_count{namespace="v0.32.0"})'
    )
    judged = judge(wrong, Context("record"))
    flat, moving = (values(prometheus, each, END - 3600, END - 2100) for each in (wrong, judged.corrected))
    assert max(flat) - min(flat) < 0.5 * (max(moving) - min(moving))
