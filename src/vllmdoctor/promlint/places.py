"""Where the strings of a file stand in its text, and how one is written anew without touching the rest."""

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vllmdoctor.errors import UsageError
from vllmdoctor.launch_yaml import Written, load_written

if TYPE_CHECKING:
    from collections.abc import Iterator

_PAIR = re.compile(r'"((?:[^"\\]|\\.)*)"\s*:\s*("(?:[^"\\]|\\.)*")')


@dataclass(frozen=True, slots=True)
class Spot:
    """A string in a text: its characters, its first line, and how to write it."""

    start: int
    end: int
    line: int
    style: str
    column: int

    def write(self, value: str, indent: int) -> str:
        """A value as it would stand there."""
        if self.style == "json":
            return json.dumps(value, ensure_ascii=False)
        if self.style in ("|", ">"):
            pad = " " * indent
            return "|-\n" + "".join(f"{pad}{line}\n" if line else "\n" for line in value.split("\n"))
        return "'" + value.replace("'", "''") + "'"


class Text:
    """A file's text with its documents, and edits that are made all at once."""

    def __init__(self, text: str, origin: str) -> None:
        self.text = text
        self._edits: dict[tuple[int, int], str] = {}  # by place: an alias is the same place again
        self._pairs: Iterator[re.Match[str]] | None = None
        self.documents: tuple[object, ...]
        json_error = ""
        if text.lstrip()[:1] in ("{", "["):
            try:
                self.documents = (json.loads(text),)
                self._pairs = _PAIR.finditer(text)
                return
            except (ValueError, RecursionError) as error:
                json_error = f"{origin} is no JSON: {error}"
        self.documents = _yaml(text, origin, json_error)

    def spot(self, key: str, value: str) -> Spot | None:
        """Where the value of a key stands. JSON is asked in the order of the text."""
        if isinstance(value, Written):
            return Spot(value.start, value.end, value.line, value.style, value.column)
        for pair in self._pairs or ():
            if pair[1] == key and json.loads(pair[2]) == value:
                line = self.text.count("\n", 0, pair.start(2)) + 1
                return Spot(pair.start(2), pair.end(2), line, "json", 0)
        return None

    def replace(self, spot: Spot, value: str) -> None:
        """Note that a string becomes another; one with an anchor or a tag is left alone."""
        if self.text[spot.start] in "&!":
            return
        indent = self._indent(spot) if spot.style in ("|", ">") else 0
        self._edits[spot.start, spot.end] = spot.write(value, indent)

    def before(self, key: Written, line: str) -> None:
        """Note that a line comes before the key of a block mapping, at its indentation."""
        head = self.text[self.text.rfind("\n", 0, key.start) + 1 : key.start]
        if not head.strip(" -"):
            self._edits[key.start, key.start] = f"{line}\n{' ' * key.column}"

    def edited(self) -> str:
        """The text with what was noted; nothing else in it is touched."""
        out = self.text
        for (start, end), value in sorted(self._edits.items(), reverse=True):
            out = out[:start] + value + out[end:]
        return out

    def _indent(self, spot: Spot) -> int:
        """The indentation of a block of lines."""
        for line in self.text[spot.start : spot.end].split("\n")[1:]:
            if line.strip():
                return len(line) - len(line.lstrip(" "))
        return spot.column


def _yaml(text: str, origin: str, json_error: str) -> tuple[object, ...]:
    try:
        return load_written(str(text), origin)  # a piece of a file is plain text again
    except UsageError as error:
        if "{{" in text:
            hint = "a chart's template? render it first: helm template"
            raise UsageError(error.message, hint=hint) from None
        raise UsageError(json_error or error.message) from None
