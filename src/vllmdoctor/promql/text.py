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
_COMMA = re.compile(r"(?<=,) ")
_LEVELS = (  # where an expression is parted, the loosest place first
    _COMMA,
    _SET,
    re.compile(r" (?:[=!<>]=|[<>]) "),
    re.compile(r" [-+] "),
    re.compile(r" [*/%] "),
)
_EVEN = (_COMMA, _SET)  # what they part stands below each other
_SHORT = 20  # characters: a limit or a factor stays on the line of what it is held against


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


def in_lines(expression: str, width: int = 84) -> str:
    """An expression of ours in lines that can be read: operands below each other, long brackets opened.

    Only spaces become line ends, and line ends are put inside brackets: it says what it said. A
    series or a bracket that has no such place may stay longer than `width` characters.
    """
    return "\n".join(line for part in expression.split("\n") for line in _lines(part.strip(), width))


def _lines(text: str, width: int) -> list[str]:
    if len(text) <= width:
        return [text]
    for operators in _LEVELS:
        first, *others = _pieces(text, operators)
        if others:
            indent = "" if operators in _EVEN else "  "
            found = _lines(first, width)
            for piece in others:
                found += [indent + line for line in _lines(piece, width - len(indent))]
            return found
    opened = _opened(text)
    if opened is None:
        return [text]
    before, inside, after = opened
    return [before, *(f"  {line}" for line in _lines(inside, width - 2)), after]


def _pieces(text: str, operators: re.Pattern[str]) -> list[str]:
    """The operands, each but the first with its operator; a short one stays with its neighbour."""
    found = [m.start() for m in operators.finditer(text)]
    edges = [0, *(at + 1 for at in found if not _inside(text, at)), len(text) + 1]
    pieces: list[str] = []
    for a, b in pairwise(edges):
        piece = text[a : b - 1]
        short = len(piece) < _SHORT or (len(pieces) == 1 and len(pieces[0]) < _SHORT)
        if pieces and short and operators not in _EVEN:
            pieces[-1] += f" {piece}"
        else:
            pieces.append(piece)
    return pieces


def _opened(text: str) -> tuple[str, str, str] | None:
    """What stands before, in and after the longest pair of outermost brackets."""
    pairs: list[tuple[int, int]] = []
    start = 0
    for at, c in enumerate(text):
        if c == "(" and not _inside(text, at):
            start = at
        elif c == ")" and not _inside(text, at + 1) and not _inside(text, start):
            pairs.append((start, at))
    if not pairs:
        return None
    a, b = max(pairs, key=lambda pair: pair[1] - pair[0])
    return (text[: a + 1], text[a + 1 : b].strip(), text[b:]) if b - a > _SHORT else None


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
