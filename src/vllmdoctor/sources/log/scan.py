"""Finding the few lines that matter among millions, by bytes; text is made of those only.

Most of a busy server's log is access lines. They are counted, not looked at one by one.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial

from vllmdoctor.sources.log.shapes import SPECULATION, STATISTICS
from vllmdoctor.sources.log.statistics import read_statistics

_LONGEST = 1 << 16  # of a longer line only the start is read
_TAIL = 1 << 16  # so many last bytes are kept, to see when the log ends
_WRAPS = 8  # a statistics line is at most so many pieces of a narrow terminal
_ACCESS = b" HTTP/1."
_COLOUR = re.compile(rb"\x1b\[[0-9;]*[A-Za-z]")

# Bytes that a line must hold to be looked at. vLLM's own lines name their source file; other formats are
# looked for by more words, until the first line shows that they need not be.
_FILES = (b".py:", b".rs:")
_ALWAYS = (b"hroughput: ", b"Error")
_WORDS = (
    b"tput: ", b"RUNNING: ", b"KV cache", b"args: ", b"LLM engine (v", b"server version", b"preempted by",
    b"block found", b"died unex", b"timed out", b"not freed yet", b"advance FSM", b"metrics: ",
)  # fmt: skip
_REQUEST = re.compile(rb"(?:Received|Added|Aborted|Finished) request")
_STATISTICS = (b"hroughput", b"tput: ", b"metrics: ")
_NEW = re.compile(
    rb"\s*(?:\(\w+[ )]|\[|\{|\d{4}-\d\d-\d\d|\d\d:\d\d:|(?:DEBUG|INFO|WARNING|ERROR|CRITICAL)\b"
    rb"|[A-Z][a-z]{2} +\d|[\w.-]+ +\| |Traceback)"
)
_SERVER = re.compile(rb"(?:\[pod/([\w.-]+)/[\w.-]+\] |([\w.-]+?)\s+\| )")
_POST = b"POST /v1/"
_GOOD = b" 200 OK"
_GOOD_POST = re.compile(rb"POST /v1/[^\n]*200 OK")


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
        self._joiner = _Joiner()
        self._own = False
        self._done = 0  # up to where the piece was read as continuation
        self._last = b""  # the last line of the piece before

    def scan(self, pieces: Iterable[bytes]) -> Iterator[Line]:
        """The lines that matter of pieces of whole lines."""
        end = b""
        for piece in pieces:
            yield from self._piece(piece)
            end = piece[-_TAIL:] if len(piece) >= _TAIL else end[-_TAIL:] + piece
            self._last = end.rstrip(b"\n").rpartition(b"\n")[2]
        yield from self._joiner.end()
        self.tail = [_text(part) for line in end.split(b"\n") for part in _cleaned(line)]

    def _piece(self, piece: bytes) -> Iterator[Line]:
        joiner = self._joiner
        failures = piece.count(_ACCESS) != piece.count(_GOOD)
        counted = self._done = 0
        if joiner.holds:
            yield from self._following(piece, 0)
        for start, end in self._candidates(piece):
            if start < self._done:  # taken as the continuation of the line before
                continue
            joiner.served += _served(piece, counted, start, failures)
            counted = start
            line = piece[start : min(end, start + _LONGEST)]
            if _ACCESS in line or (b" request" in line and _REQUEST.search(line)):
                continue
            for part in _cleaned(line):
                if part:
                    yield from joiner.add(part, partial(self._before, piece, start))
            if joiner.holds:
                yield from self._following(piece, end + 1)
        joiner.served += _served(piece, counted, len(piece), failures)

    def _candidates(self, piece: bytes) -> list[tuple[int, int]]:
        """(start, end) of the lines that hold any of the bytes looked for."""
        found: dict[int, int] = {}
        self._own = self._own or any(name in piece for name in _FILES)
        for needle in (*_FILES, *_ALWAYS) if self._own else (*_FILES, *_ALWAYS, *_WORDS):
            at = piece.find(needle)
            while at >= 0:
                end = piece.find(b"\n", at)
                end = len(piece) if end < 0 else end
                found[piece.rfind(b"\n", 0, at) + 1] = end
                at = piece.find(needle, end)
        return sorted(found.items())

    def _following(self, piece: bytes, at: int) -> Iterator[Line]:
        """Give the joiner the lines after a statistics line, as long as they may be its continuation."""
        while self._joiner.holds and at < len(piece):
            end = piece.find(b"\n", at)
            end = len(piece) if end < 0 else end
            line = piece[at : min(end, at + _LONGEST)].rstrip(b"\r")
            at = end + 1
            joined = self._joiner.go_on(line)
            if joined is None:
                self._done = at
            else:
                yield joined

    def _before(self, piece: bytes, start: int) -> bytes:
        """The line before the one that starts there."""
        if start == 0:
            return self._last
        return piece[piece.rfind(b"\n", 0, start - 1) + 1 : start - 1].rstrip(b"\r")


def _served(piece: bytes, start: int, end: int, failures: bool) -> int:
    if failures:
        return len(_GOOD_POST.findall(piece, start, end))
    return piece.count(_POST, start, end)


def _cleaned(line: bytes) -> list[bytes]:
    """The line without colours; where a progress bar was overwritten, its parts."""
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

    @property
    def holds(self) -> bool:
        """Whether a line is held back because the next may belong to it."""
        return bool(self._held)

    def add(self, line: bytes, before: Callable[[], bytes]) -> Iterator[Line]:
        """Take a line of interest; yield what is complete."""
        yield from self.end()
        if not any(word in line for word in _STATISTICS):
            yield self._line(line)
            return
        if not _NEW.match(line):
            start = before()
            if _NEW.match(start) and not any(word in start for word in _STATISTICS):
                line = start + line  # wrapped before the words that tell what it is
        self._held, self._pieces = line, 1

    def go_on(self, line: bytes) -> Line | None:
        """Join the line after the one that is held; where it is none of it, give what is held."""
        if self._pieces < _WRAPS and line and not _NEW.match(line) and _goes_on(self._held, line):
            self._held += line
            self._pieces += 1
            return None
        held, self._held = self._held, b""
        return self._line(held)

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
    text, more = _text(held), _text(held + line)
    if STATISTICS.pattern.search(more) is None:
        return not SPECULATION.pattern.search(text) and SPECULATION.pattern.search(more) is not None
    before, after = read_statistics(text), read_statistics(more)
    return after is not None and (before is None or before.values != after.values)


def _text(line: bytes) -> str:
    return line.decode("utf-8", "replace")
