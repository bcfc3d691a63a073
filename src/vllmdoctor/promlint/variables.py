"""Grafana's variables, out of the way while an expression is parsed and back in its place afterwards.

`$__rate_interval`, `$model`, `[[model]]`, `${model:regex}`: what they will stand for is unknown, so
each becomes a word, a number or a duration that nobody writes, by where it stands.
"""

import re
from collections.abc import Collection
from dataclasses import dataclass, field

_VARIABLE = re.compile(r"\$\{\w+(?:\.\w+)*(?::[^}]*)?\}|\[\[\w+(?::\w+)?\]\]|\$\w+")
QUOTED = re.compile(r'"(?:[^"\\]|\\.)*"|\'(?:[^\'\\]|\\.)*\'|`[^`]*`', re.DOTALL)
_UNITS = re.compile(r"(?:ms|[smhdwy])(?![a-zA-Z0-9_])")
_LABELS = re.compile(r"(?:\bby|\bwithout|\bon|\bignoring|\bgroup_left|\bgroup_right)\s*\([^()]*\Z")
_OFFSET = re.compile(r"\boffset\s+-?\Z")
_FIRST_MS = 7_919_001  # 2 h 11 min 59.001 s: no one writes such a window
_FIRST_NUMBER = 0.012345678
_WORD = "vllmdoctor_variable_"


@dataclass(slots=True)
class Hidden:
    """An expression without variables, and what each stand-in stands for."""

    text: str = ""
    words: dict[str, str] = field(default_factory=dict)
    numbers: dict[str, str] = field(default_factory=dict)
    windows: dict[int, str] = field(default_factory=dict)
    unsure: int = 0  # how many variables could be a number or a name

    def named(self, text: str) -> str:
        """A name with its variables back in."""
        for word, variable in self.words.items():
            text = text.replace(word, variable)
        return text

    def number(self, value: float) -> str | None:
        """The variable that a number stands for."""
        return self.numbers.get(f"{value:.12g}")

    def window(self, milliseconds: int) -> str | None:
        """The variable that a duration stands for."""
        return self.windows.get(milliseconds)


def hide(text: str, words: Collection[int] = ()) -> Hidden:
    """The expression with a stand-in for each variable; strings keep theirs.

    What could be a number or a name (`topk($n, $x)`) is taken for a number, or for a name if its
    place among those is in `words`.
    """
    hidden = Hidden()
    out: list[str] = []
    at = 0
    while at < len(text):
        string = QUOTED.match(text, at)
        if string is not None:
            out.append(_string(string[0]))
            at = string.end()
            continue
        found = _VARIABLE.match(text, at)
        if found is None:
            out.append(text[at])
            at += 1
            continue
        end = found.end()
        before = "".join(out)
        if _is_window(before):
            unit = _UNITS.match(text, end)
            end = unit.end() if unit else end
            out.append(_window(hidden, text[at:end]))
        elif _is_word(before, text[end:]):
            alone = _in_braces(before) and not re.match(r"\w|\s*[=!]", text[end:])
            out.append(_word(hidden, text[at:end]) + ('=""' if alone else ""))
        else:
            stand_in = _word if hidden.unsure in words else _number
            out.append(stand_in(hidden, text[at:end]))
            hidden.unsure += 1
        at = end
    hidden.text = "".join(out)
    return hidden


def _string(text: str) -> str:
    """A string without backquotes, in which parsers differ about backslashes."""
    if not text.startswith("`"):
        return text
    return '"' + text[1:-1].replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'


def _is_window(before: str) -> bool:
    if _OFFSET.search(before):
        return True
    opened = before.rfind("[")
    return opened > before.rfind("]")


def _is_word(before: str, after: str) -> bool:
    if re.match(r"[a-zA-Z0-9_:]|\s*[{\[]", after) or re.search(r"[a-zA-Z0-9_:]\Z", before):
        return True
    return _in_braces(before) or _LABELS.search(before) is not None


def _in_braces(before: str) -> bool:
    return before.rfind("{") > before.rfind("}")


def _word(hidden: Hidden, variable: str) -> str:
    word = f"{_WORD}{len(hidden.words)}_"
    hidden.words[word] = variable
    return word


def _number(hidden: Hidden, variable: str) -> str:
    text = f"{_FIRST_NUMBER + len(hidden.numbers) * 1e-9:.12g}"
    hidden.numbers[text] = variable
    return text


def _window(hidden: Hidden, variable: str) -> str:
    milliseconds = _FIRST_MS + len(hidden.windows)
    hidden.windows[milliseconds] = variable
    return f"{milliseconds}ms"
