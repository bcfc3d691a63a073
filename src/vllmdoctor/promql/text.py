"""Words of PromQL: strings, matchers, and a choice between expressions."""

import re
from collections.abc import Iterable, Sequence
from itertools import pairwise

from vllmdoctor.errors import UsageError

_MATCHER = re.compile(
    r"""\s*(?P<label>[a-zA-Z_][a-zA-Z0-9_]*)\s*(?P<op>=~|!~|!=|=)\s*
        (?P<value>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'|`[^`]*`)\s*(?:,|$)""",
    re.VERBOSE,
)


_SET = re.compile(r" (?:and|or|unless) ")


def quoted(text: str) -> str:
    """A text as a string of PromQL."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def one_of(label: str, values: Sequence[str]) -> str:
    """A matcher: the label has one of these values."""
    if len(values) == 1:
        return f"{label}={quoted(values[0])}"
    return f"{label}=~{quoted('|'.join(literal(v) for v in values))}"


def literal(text: str) -> str:
    """A text as a regular expression of RE2 that matches it alone."""
    return "".join("\\" + c if c in r"\.+*?()|[]{}^$" else c for c in text)


def matchers_of(text: str) -> tuple[str, ...]:
    """The matchers written in a text, with or without braces; () for an empty one.

    Raises UsageError where it is no list of matchers, with the place.
    """
    body = text.strip().removeprefix("{").removesuffix("}").strip()
    found: list[str] = []
    at = 0
    while at < len(body):
        match = _MATCHER.match(body, at)
        if match is None:
            raise UsageError(
                f"not a label matcher: {body[at:]}",
                hint="""write it as in PromQL, for a shell: --match 'namespace="inference",pod=~"chat-.*"'""",
            )
        found.append(f"{match['label']}{match['op']}{match['value']}")
        at = match.end()
    return tuple(found)


def label_of(matcher: str) -> str:
    """The label that a matcher is about."""
    return re.split(r"[=!]", matcher, maxsplit=1)[0].strip()


def either(expressions: Iterable[str]) -> str:
    """The first of the expressions that has a value, series by series; in brackets where there are several.

    Operators between vectors ignore the metric's name, so a series that shows both its old and its
    new name counts once.
    """
    found = list(dict.fromkeys(expressions))
    return found[0] if len(found) == 1 else f"({' or '.join(found)})"


def in_lines(expression: str, width: int = 90) -> str:
    """An expression with a line for each operand of `and`, `or` and `unless`, if it is too long for one."""
    lines = []
    for line in expression.split("\n"):
        found = [m.start() for m in _SET.finditer(line)] if len(line) > width else []
        edges = [0, *(at + 1 for at in found if not _inside(line, at)), len(line) + 1]
        lines += [line[a : b - 1] for a, b in pairwise(edges)]
    return "\n".join(lines)


def _inside(text: str, at: int) -> bool:
    """Whether a place is in brackets or in a string."""
    depth, quote = 0, ""
    for before, c in zip(" " + text, text[:at], strict=False):
        if quote:
            quote = "" if c == quote and before != "\\" else quote
        elif c in "\"'`":
            quote = c
        else:
            depth += (c in "([{") - (c in ")]}")
    return bool(quote) or depth > 0


def bare(expression: str) -> str:
    """An expression without the brackets around all of it."""
    if not expression.startswith("("):
        return expression
    depth, inside = 0, ""
    for at, c in enumerate(expression):
        if inside:
            inside = "" if c == inside and expression[at - 1] != "\\" else inside
        elif c in "\"'`":
            inside = c
        elif c in "()":
            depth += 1 if c == "(" else -1
            if depth == 0:
                return expression[1:-1] if at == len(expression) - 1 else expression
    return expression
