"""The door to promql_parser: the text of a PromQL expression in, plain values out."""

import re
from collections.abc import Iterator
from datetime import timedelta
from itertools import accumulate, combinations

import promql_parser as promql

from vllmdoctor.promlint.durations import duration
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
    Text,
    Unary,
)
from vllmdoctor.promlint.variables import QUOTED, Hidden, hide

_FEW = 4
_LONGEST, _DEEPEST, _MOST = 20_000, 100, 200  # characters, brackets, operators
_OPERATOR = re.compile(r"[-+*/%^<>=]|\b(?:and|or|unless|atan2)\b")
_OPS = {"Equal": "=", "NotEqual": "!=", "Re": "=~", "NotRe": "!~"}


class Unreadable(ValueError):
    """No expression of PromQL, and why."""


def parse(text: str) -> Node:
    """An expression of PromQL, Grafana's variables allowed. Raises Unreadable."""
    _check_size(text)
    first = ""
    for words in _guesses(hide(text).unsure):
        found = hide(text, words)
        try:
            return _node(promql.parse(found.text), found)
        except ValueError as error:
            first = first or found.named(str(error))
    raise Unreadable(first)


def _check_size(text: str) -> None:
    """What is nested deeper than anybody writes would overflow the parser's stack."""
    bare = QUOTED.sub('""', text)
    deepest = max(accumulate((c == "(") - (c == ")") for c in bare), default=0)
    if len(text) > _LONGEST or deepest > _DEEPEST or len(_OPERATOR.findall(bare)) > _MOST:
        raise Unreadable("longer, or nested deeper, than is read here")


def _guesses(unsure: int) -> Iterator[tuple[int, ...]]:
    """Which of the variables that could be numbers are names: none, all, then each choice of a few."""
    yield ()
    if unsure:
        yield tuple(range(unsure))
    if 1 < unsure <= _FEW:
        for count in range(1, unsure):
            yield from combinations(range(unsure), count)


def _time(delta: timedelta | None, hidden: Hidden) -> str:
    if delta is None:
        return ""
    milliseconds = round(delta.total_seconds() * 1000)
    sign, size = ("-", -milliseconds) if milliseconds < 0 else ("", milliseconds)
    variable = hidden.window(size)
    return sign + variable if variable else duration(milliseconds)


def _at(at: "promql.AtModifier | None") -> str:
    if at is None:
        return ""
    if at.type == promql.AtModifierType.Start:
        return "start()"
    if at.type == promql.AtModifierType.End:
        return "end()"
    return f"{at.at.timestamp():.12g}" if at.at else ""


def _matchers(found: "promql.Matchers", hidden: Hidden) -> tuple[str, tuple[Matcher, ...]]:
    """The metric's name, where a matcher tells it, and the other matchers."""
    if found.or_matchers:
        raise Unreadable("`or` between label matchers is not known to Prometheus")
    name, kept = "", []
    for each in found.matchers:
        op = _OPS[str(each.op).rpartition(".")[2]]
        if each.name == "__name__" and op == "=":
            name = each.value
        elif each.name in hidden.words and op == "=":
            kept.append(Matcher(hidden.named(each.name), "", ""))
        else:
            kept.append(Matcher(hidden.named(each.name), op, each.value))
    return name, tuple(kept)


def _number(value: float, hidden: Hidden) -> Number:
    variable = hidden.number(value)
    if variable:
        return Number(variable)
    if value != value:
        return Number("NaN")
    if value in (float("inf"), float("-inf")):
        return Number("Inf" if value > 0 else "-Inf")
    return Number(f"{value:.15g}")


def _node(found: object, hidden: Hidden) -> Node:
    match found:
        case promql.NumberLiteral():
            return _number(found.val, hidden)
        case promql.StringLiteral():
            return Text(found.val)
        case promql.VectorSelector():
            return _selector(found, "", hidden)
        case promql.MatrixSelector():
            return _selector(found.vector_selector, _time(found.range, hidden), hidden)
        case promql.Call():
            return Call(found.func.name, tuple(_node(a, hidden) for a in found.args))
        case promql.ParenExpr():
            return Paren(_node(found.expr, hidden))
        case promql.UnaryExpr():
            return Unary(_node(found.expr, hidden))
        case promql.SubqueryExpr():
            window, step = _time(found.range, hidden), _time(found.step, hidden)
            shift = _time(found.offset, hidden)
            return Subquery(_node(found.expr, hidden), window, step, shift, _at(found.at))
        case promql.AggregateExpr():
            return _aggregate(found, hidden)
        case promql.BinaryExpr():
            return _binary(found, hidden)
        case _:
            raise Unreadable(f"a kind of expression that is not known here: {type(found).__name__}")


def _selector(found: "promql.VectorSelector", window: str, hidden: Hidden) -> Selector:
    name, matchers = _matchers(found.matchers, hidden)
    name = hidden.named(found.name or name)
    return Selector(name, matchers, window, _time(found.offset, hidden), _at(found.at), said=name)


def _aggregate(found: "promql.AggregateExpr", hidden: Hidden) -> Aggregate:
    grouping, labels = "", tuple[str, ...]()
    if found.modifier is not None:
        grouping = "by" if found.modifier.type == promql.AggModifierType.By else "without"
        labels = tuple(hidden.named(label) for label in found.modifier.labels)
    param = found.param
    if param is not None and not isinstance(param, promql.Expr):
        param = Number(str(param))
    elif param is not None:
        param = _node(param, hidden)
    return Aggregate(str(found.op), _node(found.expr, hidden), grouping, labels, param)


def _binary(found: "promql.BinaryExpr", hidden: Hidden) -> Binary:
    matching, group = "", ""
    labels, include = tuple[str, ...](), tuple[str, ...]()
    modifier = found.modifier
    if modifier is not None:
        if modifier.matching is not None:
            matching = "on" if modifier.matching.type == promql.LabelModifierType.Include else "ignoring"
            labels = tuple(hidden.named(label) for label in modifier.matching.labels)
        if modifier.card == promql.VectorMatchCardinality.ManyToOne:
            group = "left"
        elif modifier.card == promql.VectorMatchCardinality.OneToMany:
            group = "right"
        include = tuple(hidden.named(label) for label in modifier.group_labels or ())
    return Binary(
        str(found.op),
        _node(found.lhs, hidden),
        _node(found.rhs, hidden),
        bool(modifier and modifier.return_bool),
        matching,
        labels,
        group,
        include,
    )
