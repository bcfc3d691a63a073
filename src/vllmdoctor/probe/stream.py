"""Server-sent events out of bytes that came in pieces, each with the time it came at.

Events are cut out after the last piece came, so that nothing but the clock stands between two reads.
A piece may end anywhere: inside a character, inside a line end, between the two line ends of an event.
"""

import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import accumulate

Piece = tuple[float, bytes]

_LINE_END = re.compile(rb"\r\n|\n|\r")
_BOM = b"\xef\xbb\xbf"


def events(pieces: Sequence[Piece]) -> Iterator[tuple[float, str]]:
    """(time, data) of every event with data: the time is that of the piece with which it was complete.

    An event that the end of the stream leaves without its blank line counts with the last piece.
    """
    whole = b"".join(piece for _, piece in pieces)
    ends = list(accumulate(len(piece) for _, piece in pieces))
    data: list[bytes] = []
    start = len(_BOM) if whole.startswith(_BOM) else 0
    for found in _LINE_END.finditer(whole, start):
        line, start = whole[start : found.start()], found.end()
        if line:
            _take(line, data)
        elif data:
            yield pieces[bisect_left(ends, found.end())][0], _text(data)
            data = []
    _take(whole[start:], data)
    if data:
        yield pieces[-1][0], _text(data)


def _take(line: bytes, data: list[bytes]) -> None:
    """Keep a line's data; comments and other fields say nothing here."""
    name, _, value = line.partition(b":")
    if name == b"data":
        data.append(value.removeprefix(b" "))


def _text(data: list[bytes]) -> str:
    return b"\n".join(data).decode("utf-8", "replace")
