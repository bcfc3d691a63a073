"""PromQL as plain values: what the parser reads, the checks look at, and the printer writes.

Frozen, so that a corrected expression is a new one and the old one can still be shown.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, fields, replace
from typing import Any


@dataclass(frozen=True, slots=True)
class Node:
    """Any expression."""


@dataclass(frozen=True, slots=True)
class Number(Node):
    """A number, as it was written."""

    text: str

    @property
    def value(self) -> float | None:
        """Its value; None for a dashboard's variable."""
        try:
            return float(self.text)
        except ValueError:
            return None


@dataclass(frozen=True, slots=True)
class Text(Node):
    """A string, unescaped."""

    value: str


@dataclass(frozen=True, slots=True)
class Matcher:
    """One label matcher; `value` is unescaped."""

    label: str
    op: str
    value: str


@dataclass(frozen=True, slots=True)
class Selector(Node):
    """Series; with `range` those of a window. Durations are text, a dashboard's variable included.

    `said` is the name as the file has it, whatever it was corrected to.
    """

    name: str
    matchers: tuple[Matcher, ...] = ()
    range: str = ""
    offset: str = ""
    at: str = ""
    said: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class Call(Node):
    """A function of PromQL."""

    func: str
    args: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Aggregate(Node):
    """`sum by (pod) (...)`; `grouping` is "by", "without" or "" for one series of all."""

    op: str
    expr: Node
    grouping: str = ""
    labels: tuple[str, ...] = ()
    param: Node | None = None


@dataclass(frozen=True, slots=True)
class Binary(Node):
    """Two sides and an operator; `matching` is "on", "ignoring" or "", `group` "left", "right" or ""."""

    op: str
    lhs: Node
    rhs: Node
    as_bool: bool = False
    matching: str = ""
    labels: tuple[str, ...] = ()
    group: str = ""
    include: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Unary(Node):
    """A minus in front of something."""

    expr: Node


@dataclass(frozen=True, slots=True)
class Paren(Node):
    """Something in brackets."""

    expr: Node


@dataclass(frozen=True, slots=True)
class Subquery(Node):
    """`expr[range:step]`."""

    expr: Node
    range: str
    step: str = ""
    offset: str = ""
    at: str = ""


COMPARISONS = frozenset(("==", "!=", ">", "<", ">=", "<="))
SETS = frozenset(("and", "or", "unless"))


def children(node: Node) -> Iterator[Node]:
    """The expressions directly inside one."""
    for each in fields(node):
        value = getattr(node, each.name)
        if isinstance(value, Node):
            yield value
        elif isinstance(value, tuple):
            yield from (v for v in value if isinstance(v, Node))


def walk(node: Node) -> Iterator[Node]:
    """The expression and all inside it, outer ones first."""
    yield node
    for child in children(node):
        yield from walk(child)


def paths(node: Node, above: tuple[Node, ...] = ()) -> Iterator[tuple[Node, tuple[Node, ...]]]:
    """The expression and all inside it, each with what it stands in, nearest last."""
    yield node, above
    for child in children(node):
        yield from paths(child, (*above, node))


def rewrite(node: Node, change: Callable[[Node], Node]) -> Node:
    """The expression with each part replaced by what `change` makes of it, inner ones first."""
    changed: dict[str, Any] = {}
    for each in fields(node):
        value = getattr(node, each.name)
        if isinstance(value, Node):
            new: Any = rewrite(value, change)
        elif isinstance(value, tuple) and value and isinstance(value[0], Node):
            new = tuple(rewrite(v, change) for v in value)
        else:
            continue
        if new is not value and new != value:
            changed[each.name] = new
    return change(replace(node, **changed) if changed else node)


def swap(tree: Node, old: Node, new: Node) -> Node:
    """The expression with one part, found by identity, replaced."""
    if tree is old:
        return new
    changed: dict[str, Any] = {}
    for each in fields(tree):
        value = getattr(tree, each.name)
        if isinstance(value, Node):
            inner: Any = swap(value, old, new)
            if inner is not value:
                changed[each.name] = inner
        elif isinstance(value, tuple) and value and isinstance(value[0], Node):
            items = tuple(swap(v, old, new) for v in value)
            if any(a is not b for a, b in zip(items, value, strict=True)):
                changed[each.name] = items
    return replace(tree, **changed) if changed else tree


def bare(node: Node) -> Node:
    """What is inside the brackets."""
    while isinstance(node, Paren):
        node = node.expr
    return node


def selectors(node: Node) -> Iterator[Selector]:
    """All series that an expression reads."""
    return (each for each in walk(node) if isinstance(each, Selector))
