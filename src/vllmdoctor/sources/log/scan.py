"""Finding the few lines that matter among millions: bytes first, text only for what is left.

Most of a busy server's log is access lines. They are counted, not read.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from vllmdoctor.sources.log.shapes import SPECULATION
from vllmdoctor.sources.log.statistics import read_statistics

_LONGEST = 1 << 16  # of a longer line only the start is read
_TAIL = 200  # so many last lines are kept, to see when the log ends
_WRAPS = 4  # a statistics line is at most so many pieces of a narrow terminal
_ACCESS = b" HTTP/1."
_COLOUR = re.compile(rb"\x1b\[[0-9;]*[A-Za-z]")
_WANTED = re.compile(
    rb"throughput|tput: |RUNNING: |metrics: |KV cache|refix cache|version |engine \(|args: |max model len"
    rb"|max_num_batched|blocks: |_override|block size|oncurrency|memory|Model loading|Graph capturing|ERROR|Error"
    rb"|died|timed out|timeout|hutdown|Shutting|FSM|JIT|tats logging|preempted|block found"
)
_REQUEST = re.compile(rb"(?:Received|Added|Aborted|Finished) request")
_STATISTICS = (b"throughput", b"tput: ", b"metrics: ")
_NEW = re.compile(
    rb"\s*(?:\(\w+[ )]|\[|\{|\d{4}-\d\d-\d\d|\d\d:\d\d:|(?:DEBUG|INFO|WARNING|ERROR|CRITICAL)\b|[A-Z][a-z]{2} +\d"
    rb"|[\w.-]+ +\| |Traceback)"
)
_SERVER = re.compile(rb"(?:\[pod/([\w.-]+)/[\w.-]+\] |([\w.-]+?)\s+\| )")


@dataclass(frozen=True, slots=True)
class Line:
    """A line that matters: its text, the server its prefix names ("" without), and how many API requests
    were answered with 200 since the line before."""

    text: str
    server: str
    served: int


class Scanner:
    """Yields the lines that matter. Afterwards `tail` holds the last lines, whatever they are."""

    def __init__(self) -> None:
        self.tail: list[str] = []

    def scan(self, pieces: Iterable[bytes]) -> Iterator[Line]:
        """The lines that matter of pieces of whole lines."""
        joiner = _Joiner()
        last: list[bytes] = []
        for piece in pieces:
            lines = piece.split(b"\n")
            last = [*last, *lines][-_TAIL:] if len(lines) < _TAIL else lines[-_TAIL:]
            at = 0
            for i, line in [(i, x) for i, x in enumerate(lines) if x and _ACCESS not in x]:
                joiner.served += _served(lines, at, i)
                at = i
                for part in _cleaned(line):
                    yield from joiner.add(part)
            joiner.served += _served(lines, at, len(lines))
        yield from joiner.end()
        self.tail = [_text(part) for line in last for part in _cleaned(line)]


def _served(lines: list[bytes], start: int, end: int) -> int:
    if end - start < 2:
        return int(end > start and b"POST /v1/" in lines[start] and b"200 OK" in lines[start])
    return sum(b"POST /v1/" in x and b"200 OK" in x for x in lines[start:end])


def _cleaned(line: bytes) -> list[bytes]:
    """The line without colours; where a progress bar was overwritten, its parts."""
    line = line[:_LONGEST]
    if b"\x1b" in line:
        line = _COLOUR.sub(b"", line)
    line = line.strip(b"\0").rstrip(b"\r")
    return line.split(b"\r") if b"\r" in line else [line]


class _Joiner:
    """Joins what a terminal wrapped, in the middle of a word or not."""

    def __init__(self) -> None:
        self.served = 0
        self._held = b""  # a statistics line that may go on
        self._pieces = 0
        self._before = b""

    def add(self, line: bytes) -> Iterator[Line]:
        """Take one line; yield what is complete."""
        if self._held:
            if self._pieces < _WRAPS and not _NEW.match(line) and _goes_on(self._held, line):
                self._held += line
                self._pieces += 1
                return
            yield from self.end()
        if _WANTED.search(line) and not _REQUEST.search(line):
            if any(word in line for word in _STATISTICS):
                if b"Avg" not in line and not _NEW.match(line) and _starts(self._before + line):
                    line = self._before + line  # wrapped before the words that tell it
                self._held, self._pieces = line, 1
            else:
                yield self._line(line)
        self._before = line

    def end(self) -> Iterator[Line]:
        """Yield what is held back."""
        if self._held:
            held, self._held = self._held, b""
            yield self._line(held)

    def _line(self, line: bytes) -> Line:
        served, self.served = self.served, 0
        server = _SERVER.match(line)
        name = (server[1] or server[2] or b"").decode("utf-8", "replace") if server else ""
        return Line(_text(line[server.end() :] if server else line), name, served)


def _goes_on(held: bytes, line: bytes) -> bool:
    """Whether the line after a statistics line adds numbers to it."""
    more = _text(held + line)
    if not SPECULATION.pattern.search(_text(held)) and SPECULATION.pattern.search(more):
        return True
    before, after = read_statistics(_text(held)), read_statistics(more)
    return after is not None and (before is None or before.values != after.values)


def _starts(line: bytes) -> bool:
    return read_statistics(_text(line)) is not None


def _text(line: bytes) -> str:
    return line.decode("utf-8", "replace")
