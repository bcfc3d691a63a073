"""Answers of the query API, read series by series while they come in.

The numbers of one series at a time stand in memory as text; what is kept of them is 8 bytes a
value. A JSON parser would hold all of them as objects at once: about 15 times as much.
"""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]

_RESULT = b'"result":'
_METRIC = b'{"metric":'
_VALUES = b',"values":[['
_VALUE = b',"value":['
_SEPARATORS = b" \t\r\n,"


class Broken(Exception):
    """The answer ends in the middle, or is no JSON of this kind."""


@dataclass(frozen=True, slots=True)
class Row:
    """One series of an answer."""

    labels: dict[str, str]
    times: FloatArray
    values: FloatArray


@dataclass(slots=True)
class Envelope:
    """What stands around the result: the status, an error, warnings."""

    fields: dict[str, Any] = field(default_factory=dict)


class _Text:
    """The bytes that have come and are not read yet."""

    def __init__(self, pieces: Iterable[bytes]) -> None:
        self._pieces = iter(pieces)
        self.data = bytearray()
        self.at = 0

    def more(self) -> None:
        piece = next(self._pieces, None)
        if piece is None:
            raise Broken("cut off in the middle")
        if self.at > 1 << 20:
            del self.data[: self.at]
            self.at = 0
        self.data += piece

    def find(self, what: bytes, start: int = 0) -> int:
        """The distance from here to `what`; more is read until it is there."""
        searched = self.at + start
        while (found := self.data.find(what, searched)) < 0:
            behind = max(self.at + start, len(self.data) - len(what)) - self.at
            self.more()
            searched = self.at + behind
        return found - self.at

    def peek(self) -> int:
        """The next byte that is no separator; the place moves there."""
        while True:
            while self.at < len(self.data):
                byte = self.data[self.at]
                if byte not in _SEPARATORS:
                    return byte
                self.at += 1
            self.more()

    def starts(self, what: bytes, offset: int = 0) -> bool:
        while len(self.data) - self.at - offset < len(what):
            self.more()
        return self.data.startswith(what, self.at + offset)

    def take(self, count: int) -> bytes:
        text = bytes(self.data[self.at : self.at + count])
        self.at += count
        return text

    def rest(self) -> bytes:
        rest = bytes(self.data[self.at :]) + b"".join(self._pieces)
        self.at, self.data = 0, bytearray()
        return rest


def read_matrix(pieces: Iterable[bytes], envelope: Envelope) -> Iterator[Row]:
    """The series of a matrix or vector; `envelope` is filled in when all is read.

    Broken where the answer is cut off or is something else.
    """
    text = _Text(pieces)
    if text.peek() != ord("{"):
        raise Broken("no JSON")
    try:
        distance = text.find(_RESULT)
    except Broken:  # all is there, and it holds no result: an error, or nothing of ours
        _close(envelope, text.rest(), b"")
        return
    head = text.take(distance + len(_RESULT))
    if text.peek() != ord("["):
        _close(envelope, head, text.rest())
        return
    text.at += 1
    while text.peek() != ord("]"):
        yield _row(text)
    text.at += 1
    _close(envelope, head + b"[]", text.rest())


def _close(envelope: Envelope, head: bytes, tail: bytes) -> None:
    try:
        fields = json.loads(head + tail)
    except ValueError:
        raise Broken("no JSON, or cut off") from None
    if not isinstance(fields, dict):
        raise Broken("no JSON object")
    envelope.fields = fields


def _row(text: _Text) -> Row:
    if text.starts(_METRIC):
        labels, length = _object_at(text, len(_METRIC))
        for key, end in ((_VALUES, b"]]"), (_VALUE, b"]")):
            if text.starts(key, len(_METRIC) + length):
                text.at += len(_METRIC) + length + len(key)
                numbers = _numbers(text.take(text.find(end)))
                text.at += text.find(b"}") + 1
                return Row(labels, numbers[0::2], numbers[1::2].copy())
    # another order of keys, other blanks, or a native histogram, which holds no plain values
    entry, length = _object_at(text, 0)
    text.at += length
    pairs = entry.get("values", [entry["value"]] if "value" in entry else [])
    numbers = np.array([float(n) for pair in pairs for n in pair], dtype=np.float64)
    return Row(entry.get("metric", {}), numbers[0::2], numbers[1::2].copy())


def _numbers(text: bytes) -> FloatArray:
    """Times and values in turn, from `[1,"2"],[3,"4"`."""
    plain = text.translate(None, b'[]" \t\r\n')
    try:
        numbers = np.array(plain.split(b","), dtype=np.float64)
    except ValueError:
        raise Broken("a value is no number") from None
    if len(numbers) % 2:
        raise Broken("a time without a value")
    return numbers


def _object_at(text: _Text, offset: int) -> tuple[dict[str, Any], int]:
    """The JSON object that starts `offset` bytes from here, and its length.

    A flat one ends at its first brace, but for those inside texts.
    """
    length = 0
    while True:
        length = text.find(b"}", offset + length) + 1 - offset
        try:
            found = json.loads(text.data[text.at + offset : text.at + offset + length])
        except ValueError:
            continue
        if not isinstance(found, dict):
            raise Broken("no JSON object")
        return found, length
