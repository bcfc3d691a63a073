"""Reading a file or standard input: unpacked, in pieces of whole lines, and told apart by content."""

import re
import sys
from collections.abc import Iterator
from enum import Enum
from itertools import chain
from pathlib import Path
from typing import BinaryIO

from vllmdoctor.errors import NotEnoughData, NotVllm, UsageError
from vllmdoctor.exposition import parse_line
from vllmdoctor.gztail import MAGIC, inflate
from vllmdoctor.recording_lines import FAMILY
from vllmdoctor.sources.smi import looks_like

_CHUNK = 1 << 18
_HEAD = 1 << 16
_LONGEST_LINE = 1 << 20
_LONGEST_OWN_LINE = 1 << 24
_WHAT_IS_READ = (
    "a recording, a saved /metrics page, OpenMetrics text, a Prometheus answer, vLLM's log or what "
    "nvidia-smi prints is read"
)
_PACKED = {
    b"\xfd7zXZ": "xz",
    b"\x28\xb5\x2f\xfd": "zstd",
    b"BZh": "bzip2",
    b"PK\x03\x04": "zip",
    b"7z\xbc\xaf": "7-zip",
}
_LOG = re.compile(
    r"(?:DEBUG|INFO|WARNING|ERROR) \d\d-\d\d \d\d:\d\d:\d\d [^\n]{0,40}\.(?:py|rs):\d+\]"
    r"|Avg prompt (?:throughput|tput): |vLLM API server version|OutOfMemoryError: \w+ out of memory"
)
_CONTROL = re.compile(rb"[\x00-\x08\x0e-\x1a\x1c-\x1f]")


class Kind(Enum):
    """What is in a file."""

    RECORDING = "our own recording"
    QUERY = "a saved Prometheus answer"
    TIMESTAMPED = "samples with timestamps"
    LOG = "the log of a vLLM server"
    SMI = "what nvidia-smi printed"
    PAGES = "pages as a server answers them"


class Input:
    """One file or standard input; close it, or use it in a `with` statement.

    `troubles` tells, after reading, what was wrong with it as a whole.
    """

    def __init__(self, name: str, stream: BinaryIO) -> None:
        self.name = name
        self.troubles: list[str] = []
        self._stream = stream
        chunks = iter(lambda: stream.read(_CHUNK), b"")
        first = next(chunks, b"")
        source = chain([first], chunks)
        self._bytes = inflate(source, self.troubles.append) if first.startswith(MAGIC) else source
        head = b""
        while len(head) < _HEAD and (piece := next(self._bytes, None)) is not None:
            head += piece
        if head.startswith((b"\xff\xfe", b"\xfe\xff")):  # UTF-16, as PowerShell's > writes it
            whole = head + b"".join(self._bytes)
            head, self._bytes = whole.decode("utf-16", "replace").encode(), iter(())
        self._head = head.removeprefix(b"\xef\xbb\xbf")

    def __enter__(self) -> "Input":
        return self

    def __exit__(self, *_: object) -> None:
        if self._stream is not sys.stdin.buffer:
            self._stream.close()

    def kind(self) -> Kind:
        """What it is, judged by its first 64 KiB; a VllmDoctorError says what it is instead."""
        head = self._head[:_HEAD]
        start = head.lstrip()
        if not start:
            why = f": {self.troubles[0]}" if self.troubles else ""
            raise NotEnoughData(f"{self.name} is empty{why}", hint="was it still being written, or cut off?")
        if start.startswith(b"{") and FAMILY.encode() in start.partition(b"\n")[0]:
            return Kind.RECORDING
        if _LOG.search(head.decode("utf-8", "replace")):
            return Kind.LOG  # whatever else is in it: a log is cut, copied and piped in many ways
        for magic, packer in _PACKED.items():
            if head.startswith(magic):
                raise UsageError(
                    f"{self.name} is packed with {packer}", hint="unpack it first; gzip is read as it is"
                )
        if b"\0" in head or len(_CONTROL.findall(head)) > len(head) / 100:
            raise UsageError(f"{self.name} is a binary file, not metrics", hint=_WHAT_IS_READ)
        if looks_like(head.decode("utf-8", "replace")):
            return Kind.SMI
        if start.startswith(b"<"):
            raise NotVllm(f"{self.name} is an HTML page", hint="save what the server answers at /metrics")
        return self._kind_of_text(head.decode("utf-8", "replace"))

    def lines(self) -> Iterator[bytes]:
        """The lines with their line feeds; the last may lack it."""
        for piece in self._pieces(_LONGEST_OWN_LINE):
            yield from (
                piece.splitlines(keepends=True) if b"\r" not in piece else re.findall(rb"[^\n]*\n?", piece)
            )

    def pieces(self) -> Iterator[bytes]:
        """Pieces of whole lines as they are; of a line that is too long only the start is kept."""
        yield from self._pieces(_LONGEST_LINE)

    def texts(self) -> Iterator[str]:
        """Pieces of whole lines as text, each ending in a line feed.

        A last line without one may be cut off in the middle of a number, so it is left out (a
        trouble), unless it is all there is.
        """
        any_line = False
        for piece in self._pieces(_LONGEST_LINE):
            text = piece.decode("utf-8", "replace")
            if text.endswith("\n") or not any_line:
                yield text if text.endswith("\n") else text + "\n"
            elif not text.startswith("#"):
                self.troubles.append("the last line has no line feed and may be cut off; it was left out")
            any_line = True

    def text(self) -> str:
        """All of it as one text."""
        return b"".join(self._pieces(_LONGEST_OWN_LINE)).decode("utf-8", "replace")

    def _pieces(self, longest: int) -> Iterator[bytes]:
        """Pieces of whole lines; of a line longer than `longest` bytes only the start is kept."""
        head, self._head = self._head, b""
        rest = b""
        for piece in chain([head], self._bytes):
            whole, line_feed, tail = piece.rpartition(b"\n")
            if line_feed:
                yield rest + whole + line_feed
                rest = tail
            elif len(rest) < longest:
                rest += piece
        if rest:
            yield rest

    def _kind_of_text(self, text: str) -> Kind:
        whole, _, tail = text.rpartition("\n")
        samples = [s for line in whole.split("\n") if (s := parse_line(line))]
        if not samples and (sample := parse_line(tail)):
            samples = [sample]
        if samples:
            stamped = sum(sample.time is not None for sample in samples)
            return Kind.TIMESTAMPED if 2 * stamped > len(samples) else Kind.PAGES
        if text.lstrip().startswith(("{", "[")):
            if '"resultType"' in text or '"metric"' in text:
                return Kind.QUERY
            raise NotVllm(f"{self.name} is JSON without samples", hint=_WHAT_IS_READ)
        return Kind.LOG  # its first lines tell nothing yet


def open_input(path: Path | None) -> Input:
    """Open a file, or standard input for None; UsageError where it cannot be read."""
    try:
        if path is None:
            return Input("standard input", sys.stdin.buffer)
        return Input(str(path), path.open("rb"))
    except OSError as error:
        raise UsageError(f"cannot read {path}: {(error.strerror or str(error)).lower()}") from None
