"""An expression as text that Prometheus takes, on one line."""

import re

from vllmdoctor.promlint.nodes import (
    COMPARISONS,
    SETS,
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

_NAME = re.compile(r"[a-zA-Z_:$\[{][a-zA-Z0-9_:$\[\]{}.]*\Z")
_PLACED = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*\Z")
_RANK = {"or": 1, "and": 2, "unless": 2, **dict.fromkeys(COMPARISONS, 3), "+": 4, "-": 4, "^": 6}
_PRODUCT = 5
_UNARY = 5.5


def show(node: Node, *, said: bool = False) -> str:
    """The expression as text; `said` takes the metrics' names as the file has them."""
    match node:
        case Number(text):
            return text
        case Text(value):
            return quoted(value)
        case Selector():
            return _selector(node, said)
        case Call(func, args):
            return f"{func}({', '.join(show(a, said=said) for a in args)})"
        case Aggregate():
            return _aggregate(node, said)
        case Binary():
            return _binary(node, said)
        case Unary(expr):
            return f"-{_inside(expr, _UNARY, said)}"
        case Paren(expr):
            return f"({show(expr, said=said)})"
        case Subquery(expr, window, step, offset, at):
            return f"{_inside(expr, 9, said)}[{window}:{step}]{_shift(offset, at)}"
        case _:  # pragma: no cover - all kinds are above
            raise TypeError(node)


def rank(node: Node) -> float:
    """How strongly an expression holds together."""
    if isinstance(node, Binary):
        return _RANK.get(node.op, _PRODUCT)
    return _UNARY if isinstance(node, Unary) else 10


def held(node: Node) -> Node:
    """An expression that stands safely beside any operator: in brackets where it needs them."""
    return node if rank(node) == 10 else Paren(node)


def quoted(text: str) -> str:
    """A string of PromQL."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\t", "\\t")
    return f'"{escaped}"'


def _inside(node: Node, above: float, said: bool, right: bool = False) -> str:
    text = show(node, said=said)
    weaker = rank(node) < above or (right and rank(node) == above)
    return f"({text})" if weaker else text


def _matcher(matcher: Matcher) -> str:
    if not matcher.op:
        return matcher.label  # a dashboard's variable that stands for matchers
    return f"{matcher.label}{matcher.op}{quoted(matcher.value)}"


def _shift(offset: str, at: str) -> str:
    return (f" @ {at}" if at else "") + (f" offset {offset}" if offset else "")


def _selector(node: Selector, said: bool) -> str:
    name = (node.said or node.name) if said else node.name
    inside = [_matcher(m) for m in node.matchers]
    if name and not (_PLACED.match(name) or _NAME.match(name)):
        inside, name = [quoted(name), *inside], ""
    body = f"{{{', '.join(inside)}}}" if inside or not name else ""
    return f"{name}{body}" + (f"[{node.range}]" if node.range else "") + _shift(node.offset, node.at)


def _aggregate(node: Aggregate, said: bool) -> str:
    inner = show(node.expr, said=said)
    if node.param is not None:
        inner = f"{show(node.param, said=said)}, {inner}"
    by = f" {node.grouping} ({', '.join(node.labels)}) " if node.grouping else ""
    return f"{node.op}{by}({inner})"


def _binary(node: Binary, said: bool) -> str:
    above = rank(node)
    left = _inside(node.lhs, above, said, right=node.op == "^")
    right = _inside(node.rhs, above, said, right=node.op != "^")
    words = [node.op]
    if node.as_bool:
        words.append("bool")
    if node.matching:
        words.append(f"{node.matching} ({', '.join(node.labels)})")
    if node.group:
        words.append(f"group_{node.group} ({', '.join(node.include)})")
    if node.op in SETS and len(words) == 1:
        return f"{left} {node.op} {right}"
    return f"{left} {' '.join(words)} {right}"
