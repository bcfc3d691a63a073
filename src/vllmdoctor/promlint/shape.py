"""What an expression measures: a share, seconds, and which labels its series have."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from vllmdoctor.promlint.lives import Metric, metric
from vllmdoctor.promlint.nodes import (
    COMPARISONS,
    SETS,
    Aggregate,
    Binary,
    Call,
    Node,
    Number,
    Paren,
    Selector,
    Subquery,
    Unary,
    bare,
    selectors,
)

_PASSES = frozenset(("max", "min", "avg", "quantile", "topk", "bottomk"))
_NEW_LABELS = frozenset(
    ("absent", "absent_over_time", "vector", "scalar", "label_replace", "label_join", "time")
)
_PARTS_OF_WHOLES = frozenset(
    (
        ("prefix_cache_hits", "prefix_cache_queries"),
        ("external_prefix_cache_hits", "external_prefix_cache_queries"),
        ("spec_accepted_tokens", "spec_draft_tokens"),
        ("prompt_tokens_cached", "prompt_tokens"),
        ("container_cpu_throttled_periods", "container_cpu_periods"),
    )
)


def share(node: Node) -> float:
    """100 for what goes from 0 to 100, 1 for what goes from 0 to 1, 0 for anything else."""
    node = bare(node)
    match node:
        case Selector():
            found = metric(node.name)
            return found.share if found and found.kind == "gauge" else 0
        case Aggregate(op, expr) if op in _PASSES:
            return share(expr)
        case Call(func, args) if func.endswith("_over_time") and args:
            return share(args[-1]) if func not in ("sum_over_time", "count_over_time") else 0
        case Call(func, args) if func in ("clamp_min", "clamp_max", "clamp", "label_replace") and args:
            return share(args[0])
        case Subquery(expr):
            return share(expr)
        case Binary("*", lhs, rhs):
            return _times(lhs, rhs) or _times(rhs, lhs)
        case Binary("/", lhs, rhs):
            top = share(lhs)
            return top / 100 if _value(rhs) == 100 and top == 100 else float(part_of(lhs, rhs))
        case Binary(op, lhs, rhs) if op == "or":
            return share(lhs) if share(lhs) == share(rhs) else 0
        case Binary("-", lhs, rhs) if _value(lhs) == share(rhs):
            return share(rhs)
        case _:
            return 0


def _times(node: Node, factor: Node) -> float:
    return 100 if _value(factor) == 100 and share(node) == 1 else 0


def _value(node: Node) -> float | None:
    node = bare(node)
    return node.value if isinstance(node, Number) else None


def part_of(lhs: Node, rhs: Node) -> bool:
    """Whether the left side counts a part of what the right side counts."""
    top, bottom = [_signals(side) for side in (lhs, rhs)]
    if len(top) == 1 and len(bottom) == 1:
        pair = (*top, *bottom)
        if pair in _PARTS_OF_WHOLES:
            return True
    upper, lower = list(selectors(lhs)), list(selectors(rhs))
    if len(upper) != 1 or len(lower) != 1:
        return False
    one, other = metric(upper[0].name), metric(lower[0].name)
    if one is None or other is None or one.family != other.family:
        return False
    if (one.part, other.part) == ("_bucket", "_count"):
        return True
    more = set(upper[0].matchers) > set(lower[0].matchers)
    return one.part == other.part and one.cumulative and more


def _signals(node: Node) -> set[str]:
    found = (metric(each.name) for each in selectors(node))
    return {each.signal.name for each in found if each is not None and each.signal is not None}


def seconds_of(node: Node) -> Metric | None:
    """The histogram of seconds of which this is a quantile or a mean."""
    node = bare(node)
    match node:
        case Aggregate(op, expr) if op in _PASSES:
            return seconds_of(expr)
        case Call("histogram_quantile", (_, inner)):
            return _timed(inner)
        case Binary("/", lhs, rhs):
            top, bottom = _timed(lhs), _timed(rhs)
            if top and bottom and (top.family, top.part, bottom.part) == (bottom.family, "_sum", "_count"):
                return top
    return None


def _timed(node: Node) -> Metric | None:
    for each in selectors(node):
        found = metric(each.name)
        if found and found.kind == "histogram" and (found.signal is None or found.signal.unit == "s"):
            return found if found.family.endswith("_seconds") else None
    return None


@dataclass(frozen=True, slots=True)
class Labels:
    """Which labels series have: exactly `names`, or all of a page's (`origin`) and `names` besides."""

    origin: str
    names: frozenset[str]

    @property
    def exact(self) -> bool:
        """Whether an aggregation has left just these."""
        return self.origin == ""


def labels(node: Node) -> Labels | None:
    """The labels of an expression's series; None for a number, or where it cannot be told."""
    node = bare(node)
    match node:
        case Selector():
            found = metric(node.name)
            return Labels(found.origin, frozenset(found.apart)) if found else None
        case Aggregate():
            return _grouped(node)
        case Call("histogram_quantile", (_, inner)):
            buckets = labels(inner)
            return Labels(buckets.origin, buckets.names - {"le"}) if buckets else None
        case Call(func, args) if func not in _NEW_LABELS:
            return labels(args[-1]) if args else None
        case Subquery(expr) | Unary(expr):
            return labels(expr)
        case Binary():
            return _both(node)
        case _:
            return None


def _grouped(node: Aggregate) -> Labels | None:
    if any("$" in label or "[" in label for label in node.labels):
        return None
    if node.op in ("topk", "bottomk"):
        return labels(node.expr)
    if node.op == "count_values":
        return None
    if node.grouping != "without":
        return Labels("", frozenset(node.labels))
    inner = labels(node.expr)
    if inner is None or inner.exact:
        return None if inner is None else Labels("", inner.names - frozenset(node.labels))
    own = frozenset(node.labels)
    if own - {"le", "finished_reason", "reason", "source", "position", "handler", "method", "status"}:
        return None  # labels of the target are gone: which are left cannot be told
    return Labels(inner.origin, inner.names - own)


def _both(node: Binary) -> Labels | None:
    left, right = labels(node.lhs), labels(node.rhs)
    if node.op == "or":
        return left if left == right else None
    if left is None or isinstance(bare(node.lhs), Number):
        return right if isinstance(bare(node.lhs), Number) else None
    if right is None or node.op in SETS or node.op in COMPARISONS:
        return left if isinstance(bare(node.rhs), Number) or node.op in SETS or right is not None else None
    if node.matching == "on" and not node.group:
        return Labels("", frozenset(node.labels))
    return left if node.group != "right" else right


def folded(node: Node, names: frozenset[str]) -> Node:
    """The expression with the series that these labels divide summed first, before anything is compared."""
    own = labels(node)
    if own is None or not own.names & names:
        return node
    if isinstance(node, Paren):
        return Paren(folded(node.expr, names))
    if isinstance(node, Binary):
        return replace(node, lhs=folded(node.lhs, names), rhs=folded(node.rhs, names))
    return Aggregate("sum", node, "without", tuple(sorted(own.names & names)))


def terms(node: Node) -> Iterator[Node]:
    """The sides of `and`, `or` and `unless`, brackets taken off."""
    node = bare(node)
    if isinstance(node, Binary) and node.op in SETS:
        yield from terms(node.lhs)
        yield from terms(node.rhs)
    else:
        yield node if not isinstance(node, Paren) else node.expr
