"""Limits in the wrong unit, windows too short, divisions by nothing."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from types import MappingProxyType

from vllmdoctor.model import Severity
from vllmdoctor.promlint.check_counters import RATES
from vllmdoctor.promlint.durations import duration, seconds
from vllmdoctor.promlint.flaws import Context, Step
from vllmdoctor.promlint.lives import metric
from vllmdoctor.promlint.nodes import (
    COMPARISONS,
    Aggregate,
    Binary,
    Call,
    Node,
    Number,
    Paren,
    Selector,
    bare,
    paths,
    selectors,
    walk,
)
from vllmdoctor.promlint.shape import part_of, seconds_of, share

_SAMPLES = 4  # a rate needs two; one may be missing, and scrapes are not on time
# From here on a limit on seconds was meant in milliseconds.
_MILLISECONDS: Mapping[str, float] = MappingProxyType({"ttft": 100, "itl": 20, "tpot": 20})
_MILLISECONDS_ELSE = 2000.0
_INTERVALS = frozenset(("$__interval", "${__interval}", "[[__interval]]"))
_MIB = 1048576.0
_NO_LIMIT = "container_spec_memory_limit_bytes"  # 0 where there is none


def units(tree: Node, context: Context) -> Iterator[Step]:
    """A comparison with a number in another unit than the other side's."""
    for node in walk(tree):
        if not (isinstance(node, Binary) and node.op in COMPARISONS):
            continue
        for side, other, left in ((node.lhs, node.rhs, False), (node.rhs, node.lhs, True)):
            number = bare(other)
            if isinstance(number, Number) and number.value is not None:
                found = _unit(side, number.value)
                if found is not None:
                    slug, limit, what = found
                    new = replace(node, lhs=limit) if left else replace(node, rhs=limit)
                    yield Step(slug, Severity.CRITICAL, node, new, what)


def _unit(side: Node, limit: float) -> tuple[str, Number, str] | None:
    whole = share(side)
    if whole == 1 and 1 < limit <= 100:
        right = limit / 100
        return "percent-scale", _number(right), f"it goes from 0 to 1: the limit {limit:g} is never met"
    if whole == 100 and 0 < limit < 1:
        return "percent-scale", _number(limit * 100), f"it goes from 0 to 100: {limit:g} is almost nothing"
    timed = seconds_of(side)
    if timed is not None:
        top = _MILLISECONDS.get(timed.signal.name if timed.signal else "", _MILLISECONDS_ELSE)
        if limit >= top:
            return "seconds-scale", _number(limit / 1000), f"{timed.family} is in seconds, not milliseconds"
    series = bare(side)
    found = metric(series.name) if isinstance(series, Selector) else None
    if found and found.spelling and found.spelling.scale == _MIB and limit >= 1e9:
        return "bytes-scale", _number(round(limit / _MIB)), f"{found.name} is in MiB, not bytes"
    return None


def _number(value: float) -> Number:
    return Number(f"{value:.10g}")


def panels(tree: Node, context: Context) -> Iterator[Step]:
    """A panel whose unit is not that of what it shows."""
    if context.use != "panel" or not context.unit:
        return
    whole, timed = share(tree), seconds_of(tree)
    if whole == 1 and context.unit == "percent":
        new: Node = Binary("*", Number("100"), tree)
        what = "it goes from 0 to 1 and the panel's unit is percent (0-100): 0.9 shows as 0.9 %"
    elif whole == 100 and context.unit == "percentunit":
        new = _hundredth(tree)
        what = "it goes from 0 to 100 and the panel's unit is percentunit (0-1): 90 shows as 9000 %"
    elif timed is not None and context.unit == "ms":
        new = Binary("*", Number("1000"), tree)
        what = f"{timed.family} is in seconds and the panel's unit is ms"
    elif context.unit in ("bytes", "decbytes") and _in_mib(tree):
        new = Binary("*", Number("1048576"), tree)
        what = "it is in MiB and the panel's unit is bytes"
    else:
        return
    yield Step("panel-unit", Severity.WARNING, tree, new, what)


def _in_mib(tree: Node) -> bool:
    while isinstance(tree, Aggregate):
        tree = bare(tree.expr)
    found = metric(tree.name) if isinstance(tree, Selector) else None
    return found is not None and found.spelling is not None and found.spelling.scale == _MIB


def _hundredth(tree: Node) -> Node:
    inner = bare(tree)
    if isinstance(inner, Binary) and inner.op == "*":
        for side, other in ((inner.lhs, inner.rhs), (inner.rhs, inner.lhs)):
            if isinstance(bare(other), Number):
                return side
    return Binary("/", tree, Number("100"))


def windows(tree: Node, context: Context) -> Iterator[Step]:
    """rate() over less than four scrapes."""
    needed = _SAMPLES * context.scrape_s
    for node in walk(tree):
        if not (isinstance(node, Call) and node.func in RATES and node.args):
            continue
        series = bare(node.args[0])
        if not isinstance(series, Selector) or metric(series.name) is None:
            continue
        if series.range in _INTERVALS and context.use == "panel":
            new = replace(series, range=context.window)
            what = f"{series.range} can be shorter than two scrapes when zoomed in: no data then"
            yield Step("short-window", Severity.WARNING, series, new, what)
        length = seconds(series.range)
        if length is not None and length < needed:
            new = replace(series, range=duration(round(needed * 1000)))
            what = (
                f"{node.func}() over {series.range} at one scrape in {context.scrape_s:g} s: "
                f"a late scrape leaves a gap; four scrapes are {duration(round(needed * 1000))}"
            )
            yield Step("short-window", Severity.WARNING, series, new, what)


def divisions(tree: Node, context: Context) -> Iterator[Step]:
    """A divisor that can be 0: something divided by it is +Inf, and 0 divided by it is NaN."""
    if context.use == "variable":
        return
    for node, above in paths(tree):
        if not (isinstance(node, Binary) and node.op == "/"):
            continue
        if not _can_be_zero(node.rhs):
            continue
        if context.alerts and _below(node, above):
            continue
        harmless = part_of(node.lhs, node.rhs) or _mean(node)
        if harmless and context.use != "record" and not _averaged(above):
            continue
        new = replace(node, rhs=Binary(">", bare(node.rhs), Number("0")))
        if context.alerts and _requests(node):  # many wait and none runs: it must fire then
            new = replace(node, rhs=Call("clamp_min", (bare(node.rhs), Number("1"))))
        if harmless:
            what = "without traffic this is 0/0 = NaN, and every mean over it becomes NaN"
            yield Step("unguarded-division", Severity.INFO, node, new, what)
        else:
            severity = Severity.WARNING if context.alerts else Severity.INFO
            what = "when the divisor is 0 this is +Inf, and the rule fires" if context.alerts else (
                "when the divisor is 0 this is +Inf or NaN")  # fmt: skip
            yield Step("unguarded-division", severity, node, new, what)


def _mean(node: Binary) -> bool:
    """Whether it is a histogram's sum by its count: no count is no sum either."""
    above, below = ([metric(each.name) for each in selectors(side)] for side in (node.lhs, node.rhs))
    if len(above) != 1 or len(below) != 1 or above[0] is None or below[0] is None:
        return seconds_of(node) is not None
    top, bottom = above[0], below[0]
    return top.family == bottom.family and (top.part, bottom.part) == ("_sum", "_count")


def _below(node: Binary, above: tuple[Node, ...]) -> bool:
    """Whether it is only held against an upper end: +Inf and NaN are not below anything."""
    inside: Node = node
    for parent in reversed(above):
        if isinstance(parent, Binary) and parent.op in COMPARISONS:
            return parent.op in ("<", "<=") and parent.lhs is inside and not parent.as_bool
        if not isinstance(parent, Paren):
            return False
        inside = parent
    return False


def _requests(node: Binary) -> bool:
    """Whether requests are divided by other requests, as those that wait by those that run."""
    above, below = (set(selectors(side)) for side in (node.lhs, node.rhs))
    counted = all(
        each.name.endswith(("num_requests_running", "num_requests_waiting")) for each in above | below
    )
    return counted and not above <= below


def _averaged(above: tuple[Node, ...]) -> bool:
    return any(isinstance(p, Call) and p.func.endswith("_over_time") for p in above)


def _can_be_zero(node: Node) -> bool:
    """Whether a divisor moves and nothing keeps it from 0; sizes of a machine are never 0."""
    whole = bare(node)
    if isinstance(whole, Aggregate) and whole.op in ("count", "group"):
        return False  # of nothing there is no count at all
    if any(isinstance(each, Binary) and each.op in COMPARISONS for each in walk(node)):
        return False
    if any(isinstance(each, Call) and each.func in ("clamp_min", "count_over_time") for each in walk(node)):
        return False
    known = [found for each in selectors(node) if (found := metric(each.name)) is not None]
    if not known:
        return False
    return any(
        each.cumulative or each.family.startswith("vllm:num_requests") or each.family == _NO_LIMIT
        for each in known
    )
