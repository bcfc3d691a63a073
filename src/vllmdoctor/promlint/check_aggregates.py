"""Sums, means and quantiles of what cannot be summed or averaged; joins that never match."""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from vllmdoctor.model import Severity
from vllmdoctor.promlint.check_counters import RATES
from vllmdoctor.promlint.flaws import Context, Step
from vllmdoctor.promlint.lives import metric
from vllmdoctor.promlint.nodes import (
    Aggregate,
    Binary,
    Call,
    Node,
    Number,
    Selector,
    Subquery,
    bare,
    paths,
    rewrite,
    selectors,
    walk,
)
from vllmdoctor.promlint.shape import Labels, folded, labels, part_of, share

_BLENDS = frozenset(("avg", "sum", "quantile", "stddev", "stdvar"))
_TARGET = frozenset(("instance", "pod"))


def ratios(tree: Node, context: Context) -> Iterator[Step]:
    """Sums, and in alerts means, of a share over engines or pods."""
    for node, above in paths(tree):
        if not isinstance(node, Aggregate) or node.op not in ("sum", "avg"):
            continue
        if _of_quotient(node):
            yield _pushed_in(node)
        elif share(node.expr) and not isinstance(bare(node.expr), Binary):
            yield from _blended(node, above, context)


def _blended(node: Aggregate, above: tuple[Node, ...], context: Context) -> Iterator[Step]:
    if node.grouping == "by" and "engine" in node.labels and _TARGET & set(node.labels):
        return
    name = next((each.name for each in selectors(node)), "")
    if node.op == "sum":
        counted = any(isinstance(p, Binary) and p.op == "/" and _counts(p.rhs) for p in above)
        if not counted:
            what = f"{name} is a share: two engines at 0.4 add up to 0.8; take the highest"
            yield Step("sum-of-ratio", Severity.CRITICAL, node, replace(node, op="max"), what)
    elif context.alerts and not (node.grouping == "by" and _TARGET & set(node.labels)):
        if any(isinstance(each, Binary) and each.op in ("<", "<=") for each in above):
            return  # whether all together have little to do
        whose = "engine" if name.startswith("vllm") else "one"
        what = f"a mean of {name} hides one full {whose} among idle ones; take the highest"
        yield Step("mean-of-ratio", Severity.INFO, node, replace(node, op="max"), what)


def _counts(node: Node) -> bool:
    node = bare(node)
    return isinstance(node, Aggregate) and node.op == "count"


def _of_quotient(node: Aggregate) -> bool:
    inner = bare(node.expr)
    return isinstance(inner, Binary) and inner.op == "/" and all(map(_rated, (inner.lhs, inner.rhs)))


def _rated(node: Node) -> bool:
    calls = any(isinstance(each, Call) and each.func in RATES for each in walk(node))
    return calls and not any(isinstance(each, Aggregate) for each in walk(node))


def _pushed_in(node: Aggregate) -> Step:
    quotient = bare(node.expr)
    assert isinstance(quotient, Binary)  # noqa: S101 - asked by the caller
    below = bare(quotient.rhs)
    guarded = isinstance(below, Binary) and below.op == ">" and isinstance(bare(below.rhs), Number)
    bottom = below.lhs if isinstance(below, Binary) and guarded else quotient.rhs
    sides = [replace(node, op="sum", expr=bare(side), param=None) for side in (quotient.lhs, bottom)]
    lower: Node = Binary(">", sides[1], Number("0")) if guarded else sides[1]
    what = f"{node.op} of quotients: a server with two requests weighs as much as one with two thousand"
    return Step("mean-of-quotients", Severity.WARNING, node, replace(quotient, lhs=sides[0], rhs=lower), what)


def quantiles(tree: Node, context: Context) -> Iterator[Step]:
    """histogram_quantile() of what has no `le`, with a quantile that is none, and quantiles of quantiles."""
    for node in walk(tree):
        if isinstance(node, Call) and node.func == "histogram_quantile":
            yield from _quantile(node)
        elif isinstance(node, Aggregate) and node.op in _BLENDS:
            inner = bare(node.expr)
            if isinstance(inner, Call) and inner.func == "histogram_quantile":
                what = f"{node.op} of quantiles is no quantile: sum the buckets first"
                yield Step("mean-of-quantiles", Severity.WARNING, node, _over_all(node, inner), what)
        elif isinstance(node, Call) and node.func in ("avg_over_time", "quantile_over_time", "sum_over_time"):
            window = node.args[-1]
            inner = bare(window.expr) if isinstance(window, Subquery) else window
            if not isinstance(window, Subquery) or not isinstance(inner, Call):
                continue
            if inner.func == "histogram_quantile":
                what = f"{node.func}() of quantiles is no quantile: take the buckets of the whole window"
                new = rewrite(inner, partial(_widened, window=window.range))
                yield Step("mean-of-quantiles", Severity.WARNING, node, new, what)


def _widened(node: Node, window: str) -> Node:
    return replace(node, range=window) if isinstance(node, Selector) and node.range else node


def _over_all(node: Aggregate, inner: Call) -> Node:
    series = bare(inner.args[1])
    if isinstance(series, Aggregate) and series.op in ("sum", "avg"):
        series = bare(series.expr)
    if node.grouping == "without":
        kept = tuple(label for label in node.labels if label != "le")
        total = Aggregate("sum", series, "without", kept)
    else:
        total = Aggregate("sum", series, "by", ("le", *(label for label in node.labels if label != "le")))
    return replace(inner, args=(inner.args[0], total))


def _quantile(node: Call) -> Iterator[Step]:
    q, inner = node.args[0], bare(node.args[1])
    value = q.value if isinstance(q, Number) else None
    if value is not None and 1 < value <= 100:
        new: Node = replace(node, args=(Number(f"{value / 100:g}"), node.args[1]))
        what = f"the quantile is from 0 to 1: {value:g} gives +Inf"
        yield Step("quantile-range", Severity.CRITICAL, node, new, what)
    what = "histogram_quantile() needs the label le, which this aggregation drops: it gives nothing"
    if isinstance(inner, Aggregate) and inner.op in ("sum", "avg", "max", "min"):
        if inner.grouping != "without" and "le" not in inner.labels:
            fixed = replace(inner, grouping="by", labels=("le", *inner.labels))
            yield Step("missing-le", Severity.CRITICAL, inner, fixed, what)
        elif inner.grouping == "without" and "le" in inner.labels:
            fixed = replace(inner, labels=tuple(label for label in inner.labels if label != "le"))
            yield Step("missing-le", Severity.CRITICAL, inner, fixed, what)
    for each in selectors(inner):
        found = metric(each.name)
        if found and found.kind == "histogram" and found.part in ("_sum", "_count"):
            new = replace(each, name=found.family + "_bucket")
            what = "histogram_quantile() reads the buckets: _sum and _count have none"
            yield Step("not-buckets", Severity.CRITICAL, each, new, what)


def joins(tree: Node, context: Context) -> Iterator[Step]:
    """Operators between series whose labels differ: nothing matches, and nothing comes out."""
    for node in walk(tree):
        if not isinstance(node, Binary) or node.matching or node.op == "or":
            continue
        left, right = labels(node.lhs), labels(node.rhs)
        if left is None or right is None:
            continue
        if left == right:
            yield from _by_itself(node, left)
            continue
        new, why = _joined(node, left, right)
        effect = "never holds back anything" if node.op == "unless" else "gives nothing"
        hint = "" if new is not None else "; group both sides by the same labels"
        what = f"{why}: `{node.op}` matches no series and {effect}{hint}"
        yield Step("never-matches", Severity.CRITICAL, node, new, what)


def _by_itself(node: Binary, both: Labels) -> Iterator[Step]:
    """`x{finished_reason="stop"} / x`: each series is divided by its own twin."""
    if node.op != "/" or both.exact or not both.names or not part_of(node.lhs, node.rhs):
        return
    chosen = {m.label for each in selectors(node.lhs) for m in each.matchers}
    if chosen & both.names:
        new = replace(node, lhs=folded(node.lhs, both.names), rhs=folded(node.rhs, both.names))
        what = (
            "both sides keep the label that one is chosen by, so each series is divided by itself: always 1"
        )
        yield Step("divided-by-itself", Severity.CRITICAL, node, new, what)


def _joined(node: Binary, left: Labels, right: Labels) -> tuple[Node | None, str]:
    if not left.exact and not right.exact:
        if left.origin != right.origin:
            why = f"series of {left.origin} and of {right.origin} have other labels; a pod's name is in both"
            joined = _on(node, frozenset(("namespace", "pod")), "")
            return joined if node.op in ("and", "unless") else None, why
        more = sorted(left.names ^ right.names)
        why = f"only one side has the label {', '.join(more)}"
        lhs, rhs = (folded(side, frozenset(more)) for side in (node.lhs, node.rhs))
        return replace(node, lhs=lhs, rhs=rhs), why
    if left.exact and right.exact:
        why = f"one side has {_told(left)}, the other {_told(right)}"
        if left.names < right.names:
            return _on(node, left.names, "right"), why
        return (_on(node, right.names, "left"), why) if right.names < left.names else (None, why)
    exact = left if left.exact else right
    why = f"one side has {_told(exact)}, the other all labels"
    return _on(node, exact.names, "right" if left.exact else "left"), why


def _on(node: Binary, names: frozenset[str], group: str) -> Node:
    """Joined on these labels; set operators and comparisons that keep one side need no group."""
    if node.op in ("and", "unless"):
        group = ""
    return replace(node, matching="on", labels=tuple(sorted(names)), group=group)


def _told(of: Labels) -> str:
    return f"the labels {', '.join(sorted(of.names))}" if of.names else "no labels"
