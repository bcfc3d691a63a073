"""A signal as PromQL: under the names at hand, once per series, in units that can be compared."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.alerts import promtool
from tests.prometheus.store import Binaries

from vllmdoctor.alerts import Basis, rules_for
from vllmdoctor.errors import UsageError
from vllmdoctor.launch_yaml import dump_all
from vllmdoctor.promlint.parse import parse
from vllmdoctor.promql import (
    Metrics,
    NotShown,
    all_names,
    bare,
    in_lines,
    matchers_of,
    names_for,
    names_on,
    one_of,
    quoted,
)
from vllmdoctor.release import VersionRange, version


def of(release: str) -> Metrics:
    return Metrics(names_for(version(release)))


def test_a_gauge_has_the_name_of_its_release() -> None:
    assert of("0.6.0").gauge("kv_cache_usage") == "vllm:gpu_cache_usage_perc"
    assert of("0.11.0").gauge("kv_cache_usage") == "vllm:kv_cache_usage_perc"  # the old name is hidden
    both = "(vllm:kv_cache_usage_perc or vllm:gpu_cache_usage_perc)"
    assert of("0.10.0").gauge("kv_cache_usage") == both
    assert Metrics(all_names()).gauge("kv_cache_usage") == both


def test_a_range_of_releases_has_the_names_of_all_of_them() -> None:
    names = names_for(VersionRange(version("0.12.0"), version("0.33.0")))
    assert [n.text for n in names["kv_cache_usage"]] == ["vllm:kv_cache_usage_perc"]
    names = names_for(VersionRange(version("0.8.0"), version("0.12.0")))
    assert len(names["kv_cache_usage"]) == 2


def test_matchers_of_the_servers_go_where_their_labels_are() -> None:
    m = Metrics(all_names(), matchers_of('namespace="a",job="v",model_name="x"'))
    assert m.gauge("requests_running") == 'vllm:num_requests_running{namespace="a",job="v",model_name="x"}'
    assert m.gauge("scrape_up") == 'up{namespace="a",job="v"}'
    assert 'job="v"' not in m.gauge("container_memory")
    assert 'namespace="a",container!="",container!="POD"' in m.gauge("container_memory")
    assert m.gauge("gpu_xid") == "DCGM_FI_DEV_XID_ERRORS"


def test_labels_that_divide_an_engine_are_summed_away() -> None:
    expected = "sum without (finished_reason) (rate(vllm:request_success_total[5m]))"
    assert Metrics(all_names()).rate("requests_finished", "5m") == expected
    deferred = of("0.32.0").gauge("requests_waiting_deferred")
    assert deferred == 'sum without (reason) (vllm:num_requests_waiting_by_reason{reason="deferred"})'


def test_other_units_become_si() -> None:
    m = Metrics(all_names())
    assert "(DCGM_FI_DEV_FB_USED * 1048576)" in m.gauge("gpu_memory_used")
    assert "(avg_over_time(DCGM_FI_DEV_SM_CLOCK[5m]) * 1000000)" in m.gauge("gpu_sm_clock", "avg", "5m")


def test_a_quantile_is_of_each_engine_or_of_what_is_put_together() -> None:
    m = of("0.32.0")
    rate = "rate(vllm:time_to_first_token_seconds_bucket[5m])"
    assert m.quantile(0.95, "ttft", "5m") == f"histogram_quantile(0.95, {rate})"
    together = m.quantile(0.95, "ttft", "5m", by=["model_name"])
    assert together == f"histogram_quantile(0.95, sum by (model_name, le) ({rate}))"


def test_a_signal_that_a_release_lacks_is_named() -> None:
    m = of("0.6.0")
    assert not m.has("prefix_cache_hits")
    with pytest.raises(NotShown, match="prefix_cache_hits"):
        m.rate("prefix_cache_hits", "5m")


def test_names_are_spelt_as_the_page_spells_them() -> None:
    page = {"ray_vllm_num_requests_running", "ray_vllm_time_to_first_token_seconds_bucket"}
    m = Metrics(names_on([page]))
    assert m.gauge("requests_running") == "ray_vllm_num_requests_running"
    assert "ray_vllm_time_to_first_token_seconds_sum" in m.mean("ttft", "5m")
    assert not m.has("kv_cache_usage")


def test_two_releases_side_by_side_are_both_asked() -> None:
    m = Metrics(names_on([{"vllm:gpu_cache_usage_perc"}, {"vllm:kv_cache_usage_perc"}]))
    assert m.gauge("kv_cache_usage") == "(vllm:kv_cache_usage_perc or vllm:gpu_cache_usage_perc)"


@pytest.mark.parametrize("text", ["", "{}", " { } "])
def test_no_matchers_are_none(text: str) -> None:
    assert matchers_of(text) == ()


def test_matchers_may_hold_commas_braces_and_quotes_in_their_values() -> None:
    told = """{a="x,y",b=~"(p|q){2}", c!='"', d!~`e\\.f`}"""
    assert matchers_of(told) == ('a="x,y"', 'b=~"(p|q){2}"', "c!='\"'", "d!~`e\\.f`")


@pytest.mark.parametrize("text", ["a", "a=b", 'a="b" c="d"', 'a=="b"', '="b"', 'a="b'])
def test_what_is_no_matcher_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="not a label matcher"):
        matchers_of(text)


@given(st.text())
def test_any_text_is_matchers_or_a_usage_error(text: str) -> None:
    try:
        found = matchers_of(text)
    except UsageError:
        return
    assert matchers_of(",".join(found)) == found


@given(st.text(min_size=1), st.text(min_size=1))
def test_any_values_make_one_matcher(a: str, b: str) -> None:
    assert len(matchers_of(one_of("pod", [a, b]))) == 1
    assert quoted(a).count("\n") == 0


@pytest.mark.parametrize(
    ("text", "inside"),
    [("(a)", "a"), ("(a) + (b)", "(a) + (b)"), ("a", "a"), ('(a{b=")"})', 'a{b=")"}'), ("((a))", "(a)")],
)
def test_brackets_around_all_of_an_expression_are_taken_off(text: str, inside: str) -> None:
    assert bare(text) == inside


@pytest.mark.parametrize("one", promtool.params())
def test_a_server_that_shows_old_and_new_names_counts_once(one: Binaries, tmp_path: Path) -> None:
    m = Metrics(all_names())
    labels = {
        "both": '{pod="both",engine="0"}',
        "old": '{pod="old",engine="0"}',
        "new": '{pod="new",engine="0"}',
    }

    def shown(stem: str, new: str, old: str, values: str) -> list[dict[str, str]]:
        names = {"both": (new, old), "old": (old,), "new": (new,)}
        return [
            {"series": f"{name}{stem}{labels[who]}", "values": values}
            for who, of in names.items()
            for name in of
        ]

    series = shown("", "vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc", "0.5x30")
    prefix = "vllm:prefix_cache_hits_total", "vllm:gpu_prefix_cache_hits_total"
    series += shown("", *prefix, "0+60x30")
    itl = "vllm:inter_token_latency_seconds", "vllm:time_per_output_token_seconds"
    series += shown("_sum", *itl, "0+6x30") + shown("_count", *itl, "0+60x30")

    def expect(expr: str, value: float, several: int) -> dict[str, Any]:
        return {
            "expr": f"sum({expr}) * {several} / count({expr})",
            "eval_time": "30m",
            "exp_samples": [{"value": value * several}],
        }

    asked = [
        expect(m.gauge("kv_cache_usage"), 0.5, 3),
        expect(m.gauge("kv_cache_usage", "avg", "10m"), 0.5, 3),
        expect(m.rate("prefix_cache_hits", "10m"), 1.0, 3),
        expect(m.mean("itl", "10m"), 0.1, 3),
        {
            "expr": f"count({m.rate('prefix_cache_hits', '10m')})",
            "eval_time": "30m",
            "exp_samples": [{"value": 3}],
        },
        {"expr": f"count({m.gauge('kv_cache_usage')})", "eval_time": "30m", "exp_samples": [{"value": 3}]},
    ]
    path = tmp_path / "test.yml"
    path.write_text(
        dump_all([{"tests": [{"interval": "1m", "input_series": series, "promql_expr_test": asked}]}])
    )
    promtool.run(one, "test", "rules", str(path))


def test_a_long_expression_has_a_line_for_each_operand_and_means_the_same() -> None:
    long = 'a{x="b and c"} > 1 and (d or e) unless f or g'
    lines = in_lines(long, 10).split("\n")
    assert lines == ['a{x="b and c"} > 1', "and (d or e)", "unless f", "or g"]
    assert " ".join(lines) == long
    assert in_lines(long) == long


def test_a_long_operand_is_parted_at_its_operators_and_brackets_and_a_limit_stays_with_it() -> None:
    long = 'sum by (pod) (rate(tokens_total{pod="a, b"}[5m])) / (clamp_min(requests_running, 1) > 0) >= 0.5'
    assert in_lines(long, 40).split("\n") == [
        "sum by (pod) (",
        '  rate(tokens_total{pod="a, b"}[5m])',
        ")",
        "  / (",
        "    clamp_min(requests_running, 1) > 0",
        "  ) >= 0.5",
    ]
    assert in_lines(f"clamp_max({'x' * 40}, 1)", 40).split("\n") == [
        "clamp_max(",
        f"  {'x' * 40},",
        "  1",
        ")",
    ]
    assert in_lines("x" * 100, 40) == "x" * 100


def test_every_rule_means_the_same_in_lines() -> None:
    for rule in (one for group in rules_for(Basis(Metrics(all_names()))).groups for one in group.rules):
        assert parse(in_lines(rule.expr, 30)) == parse(rule.expr)
