"""Counters and gauges: what grows for ever needs a rate(), and what goes up and down must not have one."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from types import MappingProxyType

from vllmdoctor.model import Severity
from vllmdoctor.promlint.flaws import Context, Step
from vllmdoctor.promlint.lives import Metric, metric
from vllmdoctor.promlint.nodes import (
    COMPARISONS,
    Aggregate,
    Binary,
    Call,
    Node,
    Paren,
    Selector,
    Subquery,
    bare,
    paths,
    walk,
)

RATES = frozenset(("rate", "irate", "increase"))
_WHOLE = frozenset(  # these ask whether, when or how often a series is there, or read its restarts
    ("absent", "absent_over_time", "present_over_time", "count_over_time", "timestamp", "resets", "changes")
)
_COUNTED = frozenset(("count", "group", "count_values"))
_FOR_COUNTERS: Mapping[str, str] = MappingProxyType(
    {"delta": "increase", "idelta": "irate", "deriv": "rate", "avg_over_time": "rate", "predict_linear": ""}
)
_FOR_GAUGES: Mapping[str, str] = MappingProxyType({"rate": "deriv", "irate": "deriv", "increase": "delta"})


def rates_of_sums(tree: Node, context: Context) -> Iterator[Step]:
    """`rate(sum(x)[5m:])`: one server's restart looks like a fall of the whole sum."""
    for node in walk(tree):
        if not (isinstance(node, Call) and node.func in RATES and isinstance(node.args[0], Subquery)):
            continue
        window, total = node.args[0], bare(node.args[0].expr)
        inner = bare(total.expr) if isinstance(total, Aggregate) else None
        if not (isinstance(total, Aggregate) and isinstance(inner, Selector) and not inner.range):
            continue
        found = metric(inner.name)
        if found is None or not found.cumulative:
            continue
        rate = Call(node.func, (replace(inner, range=window.range, offset=window.offset or inner.offset),))
        yield Step(
            "rate-of-sum", Severity.WARNING, node, replace(total, expr=rate),
            f"{node.func}() of a sum: a restart of one server reads as a fall of all; sum the rates",
        )  # fmt: skip


def gauges(tree: Node, context: Context) -> Iterator[Step]:
    """rate(), irate() or increase() of a gauge."""
    for node in walk(tree):
        if not (isinstance(node, Call) and node.func in _FOR_GAUGES and node.args):
            continue
        series = bare(node.args[0])
        found = metric(series.name) if isinstance(series, Selector) else None
        if found is None or found.kind != "gauge" or found.part:
            continue
        codes = found.signal is not None and found.signal.unit in ("code", "bits")
        right = "changes" if codes else _FOR_GAUGES[node.func]
        yield Step(
            "rate-of-gauge", Severity.WARNING, node, Call(right, node.args),
            f"{found.name} is a gauge: {node.func}() takes each fall for a restart; {right}() does not",
        )  # fmt: skip


def counters(tree: Node, context: Context) -> Iterator[Step]:
    """Counters, and the parts of histograms, that are read as they are: totals since the last restart."""
    if context.use == "variable":
        return
    for node, above in paths(tree):
        found = metric(node.name) if isinstance(node, Selector) else None
        if isinstance(node, Selector) and found is not None and found.cumulative:
            yield from _counter(node, found, above, context)


def _counter(node: Selector, found: Metric, above: tuple[Node, ...], context: Context) -> Iterator[Step]:
    calls = [each for each in above if isinstance(each, Call)]
    if any(each.func in _WHOLE for each in calls):
        return
    if node.range:
        func = calls[-1].func if calls else ""
        if func not in RATES:
            yield from _wrong_call(node, found, calls[-1] if calls else None)
        return
    if any(isinstance(each, Aggregate) and each.op in _COUNTED for each in above):
        return
    if any(isinstance(each, Subquery) for each in above) and any(each.func in RATES for each in calls):
        return
    if _only_there(node, above) or _subtrahend(node, above):
        return
    yield _raw(node, found, above, context)


def _wrong_call(node: Selector, found: Metric, call: Call | None) -> Iterator[Step]:
    if call is None:
        return
    right = _FOR_COUNTERS.get(call.func, "rate" if call.func.endswith("_over_time") else None)
    if right is None:
        return
    new: Node | None = Call(right, (node,)) if right else None
    if call.func.endswith("_over_time") and call.func not in _FOR_COUNTERS:
        series = replace(node, range="5m", offset="", at="")
        inner = Subquery(Call("rate", (series,)), node.range, "", node.offset, node.at)
        new = replace(call, args=tuple(inner if a is node else a for a in call.args))
    yield Step(
        "counter-as-gauge", Severity.WARNING, call, new,
        f"{found.name} is a counter: {call.func}() reads its total since the last restart",
    )  # fmt: skip


def _only_there(node: Selector, above: tuple[Node, ...]) -> bool:
    """Whether only its presence counts: the right side of `and` or `unless`, with no comparison."""
    inside: Node = node
    for parent in reversed(above):
        if isinstance(parent, Binary):
            appears = parent.op == "unless" and parent.lhs is inside and _same(parent.lhs, parent.rhs)
            return appears or (parent.op in ("and", "unless") and parent.rhs is inside)
        inside = parent
    return False


def _same(one: Node, other: Node) -> bool:
    """Whether both are the same series: `x unless x offset 10m` asks which ones are new."""
    left, right = bare(one), bare(other)
    return isinstance(left, Selector) and isinstance(right, Selector) and left.name == right.name


def _raw(node: Selector, found: Metric, above: tuple[Node, ...], context: Context) -> Step:
    divided = any(isinstance(each, Binary) and each.op == "/" for each in above)
    quantile = any(isinstance(each, Call) and each.func == "histogram_quantile" for each in above)
    earlier = _difference(node, above)
    if earlier is not None:
        difference, window = earlier
        new = Call("increase", (replace(node, range=window),))
        what = "a counter: after a restart this is negative; increase() is not"
        return Step("raw-counter", Severity.WARNING, difference, new, what)
    verb = "rate" if divided or quantile or not _compared(above) else "increase"
    new = Call(verb, (replace(node, range=context.window),))
    if divided or quantile:
        of = "a quantile" if quantile else "an average"
        what = f"without rate(): {of} since the server started, which hides a decline"
        return Step("since-start", Severity.CRITICAL, node, new, what)
    severity = Severity.WARNING if context.use != "panel" else Severity.INFO
    what = "a counter: its value is a total since the last restart"
    return Step("raw-counter", severity, node, new, what)


def _compared(above: tuple[Node, ...]) -> bool:
    return any(isinstance(each, Binary) and each.op in COMPARISONS for each in above)


def _difference(node: Selector, above: tuple[Node, ...]) -> tuple[Binary, str] | None:
    """`x - x offset 5m`, and its window."""
    parent = next((each for each in reversed(above) if not isinstance(each, Paren)), None)
    if not (isinstance(parent, Binary) and parent.op == "-"):
        return None
    left, right = bare(parent.lhs), bare(parent.rhs)
    if left is not node or not isinstance(right, Selector) or not right.offset or node.offset:
        return None
    return (parent, right.offset) if replace(right, offset="") == node else None


def _subtrahend(node: Selector, above: tuple[Node, ...]) -> bool:
    """Whether it is the earlier one of `x - x offset 5m`, which is told with the later one."""
    parent = next((each for each in reversed(above) if not isinstance(each, Paren)), None)
    if not (isinstance(parent, Binary) and parent.op == "-" and bare(parent.rhs) is node):
        return False
    return node.offset != "" and bare(parent.lhs) == replace(node, offset="")
