"""PromQL in, PromQL out: what is read comes back as the same expression, and nothing makes it fall over."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from vllmdoctor.promlint.flaws import Context, Use
from vllmdoctor.promlint.mend import judge
from vllmdoctor.promlint.nodes import (
    Aggregate,
    Binary,
    Call,
    Matcher,
    Node,
    Number,
    Paren,
    Selector,
    Subquery,
    Unary,
    rewrite,
)
from vllmdoctor.promlint.parse import Unreadable, parse
from vllmdoctor.promlint.show import show

NAMES = (
    "vllm:num_requests_waiting",
    "vllm:kv_cache_usage_perc",
    "vllm:gpu_cache_usage_perc",
    "vllm:num_preemptions_total",
    "vllm:num_preemptions",
    "vllm:request_success_total",
    "vllm:time_to_first_token_seconds_bucket",
    "vllm:time_to_first_token_seconds_sum",
    "vllm:iteration_tokens_total",
    "vllm:avg_generation_throughput_toks_per_s",
    "vllm:num_free_blocks",
    "DCGM_FI_DEV_GPU_UTIL",
    "node_load1",
)
LABELS = st.sampled_from(("pod", "le", "model", "engine", "finished_reason"))
TEXTS = st.text(st.characters(codec="utf-8", exclude_categories=("Cs", "Cc")), max_size=6)
WINDOWS = st.sampled_from(("15s", "5m", "1h", "90s", "$__rate_interval", "${__range_s}s"))


@st.composite
def series(draw: st.DrawFn, window: bool) -> Selector:
    matchers = draw(st.lists(st.builds(Matcher, LABELS, st.sampled_from(("=", "!=")), TEXTS), max_size=2))
    name = draw(st.sampled_from(NAMES))
    offset = draw(st.sampled_from(("", "", "6h", "-5m")))
    return Selector(name, tuple(matchers), draw(WINDOWS) if window else "", offset)


def vectors(inner: st.SearchStrategy[Node]) -> st.SearchStrategy[Node]:
    grouping = st.sampled_from(("by", "without"))
    names = st.lists(LABELS, max_size=2, unique=True).map(tuple)
    ranges = st.one_of(series(window=True), st.builds(Subquery, inner, st.just("1h"), st.just("1m")))
    functions = st.sampled_from(("rate", "increase", "delta", "avg_over_time"))
    quantiles, folds = st.sampled_from(("0.95", "95")), st.sampled_from(("sum", "avg", "max", "count"))
    operators = st.sampled_from(("+", "-", "*", "/", "^", "and", "or", "unless", ">", "=="))
    compared, numbers = st.sampled_from((">", "<", "==", "/")), st.sampled_from(("0", "0.9", "90", "$x"))
    return st.one_of(
        st.builds(lambda f, a: Call(f, (a,)), functions, ranges),
        st.builds(lambda q, a: Call("histogram_quantile", (Number(q), a)), quantiles, inner),
        st.builds(Aggregate, folds, inner, grouping, names),
        st.builds(Binary, operators, inner, inner),
        st.builds(Binary, compared, inner, numbers.map(Number)),
        st.builds(Paren, inner),
        st.builds(Unary, inner),
    )


EXPRESSIONS = st.recursive(series(window=False), vectors, max_leaves=6)


def settled(node: Node) -> Node:
    """The expression without brackets, which stand where they are needed when it is shown."""
    return rewrite(node, lambda each: each.expr if isinstance(each, Paren) else each)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(EXPRESSIONS)
def test_what_is_written_is_read_back_as_the_same_expression(tree: Node) -> None:
    text = show(tree)
    assert settled(parse(text)) == settled(tree)
    assert show(parse(text)) == text


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(EXPRESSIONS, st.sampled_from(("alert", "record", "panel", "variable")))
def test_a_corrected_expression_can_be_read_and_needs_no_second_correction(tree: Node, use: Use) -> None:
    judged = judge(show(tree), Context(use))
    if judged.corrected:
        assert judge(judged.corrected, Context(use)).corrected == ""


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.text(max_size=60))
def test_no_text_makes_it_fall_over(text: str) -> None:
    judge(text, Context("panel"))


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.text("vlm:_{}[]()$\"'`\\= ~5ms,by<>/+-|$", max_size=40))
def test_no_broken_expression_makes_it_fall_over(text: str) -> None:
    judge(f"rate(vllm:num_preemptions[5m]){text}", Context("alert"))


@pytest.mark.parametrize(
    "text",
    [
        'sum by ($by) (rate(vllm:prompt_tokens_total{model_name=~"$model", $more}[$__rate_interval]))',
        "topk($n, sum by (pod) ($metric))",
        'max_over_time([[metric]]{a="b"}[5m:$__interval] offset $back) > $limit',
        'a{x=~"${v:regex}"} @ end() offset 5m',
        "$a / $b",
        "rate(vllm:$name[$__range])",
        "a / on (pod) group_left (node) b",
        "a == bool 3",
        '{"vllm:a-b", x="y"}',
        '{__name__=~"vllm:.*"}',
        "a unless on () b",
        "a - (b - c) - d",
        "2 ^ 3 ^ a",
        "(a or b) and c",
    ],
)
def test_variables_and_operators_come_back_as_they_were(text: str) -> None:
    assert show(parse(text)) == text


@pytest.mark.parametrize(
    "text",
    [
        "(" * 20_000 + "up" + ")" * 20_000,
        "-" * 20_000 + "up",
        "+".join(["up"] * 9_000),
        "sum(" * 300 + ")" * 300,
    ],
    ids=["brackets", "signs", "terms", "calls"],
)
def test_what_is_too_deep_is_said_and_does_not_end_the_program(text: str) -> None:
    with pytest.raises(Unreadable, match="nested deeper"):
        parse(text)


@pytest.mark.parametrize("text", ["", "a{", "rate(a)", "a default 0", "{{ .Values.query }}", "$"])
def test_what_is_no_expression_is_said_to_be_none(text: str) -> None:
    with pytest.raises(Unreadable):
        parse(text)
