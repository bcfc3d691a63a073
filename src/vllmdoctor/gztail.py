"""Gzip that can be read and continued while it is being written, and after a kill -9.

Each piece of text is closed with a sync flush, so that a reader sees it at once. A file whose
writer died lacks only the trailer; `finish_member` cuts what was torn and writes that trailer.
"""

import os
import zlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from vllmdoctor.errors import UsageError

MAGIC = b"\x1f\x8b"

_GZIP = 31  # zlib's window bits for a gzip header and trailer
_RAW = -15
_MOST_AT_ONCE = 1 << 20
_FLUSHED = b"\x00\x00\xff\xff"
_LAST_BLOCK = b"\x03\x00"  # an empty block that ends a deflate stream
_HEADER_SIZE = 10  # of a gzip header without a file name, as Deflater writes it


def inflate(chunks: Iterable[bytes], trouble: Callable[[str], None]) -> Iterator[bytes]:
    """The unpacked bytes of gzip, member after member, at most 1 MiB at a time.

    A stream that ends early or is damaged gives what could be read; `trouble` is then called
    once with what is wrong with it.
    """
    inflater, fresh = zlib.decompressobj(_GZIP), True
    for chunk in chunks:
        data = chunk
        while data := (data.lstrip(b"\0") if fresh else data):  # zeros may stand between members
            before, fresh = inflater.copy(), False
            try:
                piece = inflater.decompress(data, _MOST_AT_ONCE)
            except zlib.error:
                yield _up_to_damage(before, data)
                trouble("the gzip data is damaged")
                return
            yield piece
            data = inflater.unconsumed_tail
            if inflater.eof:
                data = inflater.unused_data
                inflater, fresh = zlib.decompressobj(_GZIP), True
    if not fresh:
        yield inflater.flush()
        trouble("the gzip data ends in the middle")


def _up_to_damage(inflater: "zlib._Decompress", data: bytes) -> bytes:
    """What `data` gives before its first damaged byte: an error in one call loses all of that call."""
    found = bytearray()
    for at in range(len(data)):
        try:
            found += inflater.decompress(data[at : at + 1])
        except zlib.error:
            break
    return bytes(found)


class Deflater:
    """Packs pieces of text into one gzip member; each piece can be read as soon as it is written."""

    def __init__(self) -> None:
        self._deflater = zlib.compressobj(9, zlib.DEFLATED, _GZIP)

    def piece(self, text: bytes) -> bytes:
        """The packed bytes of `text`, complete up to its end."""
        return self._deflater.compress(text) + self._deflater.flush(zlib.Z_SYNC_FLUSH)

    def end(self) -> bytes:
        """The trailer that closes the member."""
        return self._deflater.flush(zlib.Z_FINISH)


def finish_member(path: Path) -> None:
    """Give a gzip file whose writer died its missing end, so that another member may follow.

    What was written after the last sync flush cannot be read and is cut off. A file in order is
    left as it is. UsageError where the file is damaged otherwise: nothing is cut then.
    """
    data = path.read_bytes()
    start, readable = _unfinished(path, data)
    end = len(data)
    while start < len(data) and (end := data.rfind(_FLUSHED, start, end)) >= 0:
        end += len(_FLUSHED)
        trailer = _trailer(data[start + _HEADER_SIZE : end] + _LAST_BLOCK)
        if trailer:
            _replace_tail(path, end, _LAST_BLOCK + trailer)
            return
        end -= 1  # those four bytes stood there by chance
    if readable:
        raise UsageError(f"{path} ends in the middle and cannot be mended", hint="record to another file")
    _replace_tail(path, start, b"")


def _trailer(body: bytes) -> bytes:
    """Checksum and size of what a whole deflate stream unpacks to; empty where it is none."""
    raw, checksum, size = zlib.decompressobj(_RAW), 0, 0
    try:
        while body and not raw.eof:
            text = raw.decompress(body, _MOST_AT_ONCE)
            checksum, size = zlib.crc32(text, checksum), size + len(text)
            body = raw.unconsumed_tail
    except zlib.error:
        return b""
    whole = raw.eof and not raw.unused_data
    return checksum.to_bytes(4, "little") + (size % 2**32).to_bytes(4, "little") if whole else b""


def _unfinished(path: Path, data: bytes) -> tuple[int, bool]:
    """Where the member starts that does not end (else the size of `data`), and whether it has text."""
    start = 0
    while data[start:].strip(b"\0"):
        inflater = zlib.decompressobj(_GZIP)
        rest, readable = data[start:].lstrip(b"\0"), False
        start = len(data) - len(rest)
        try:
            while rest and not inflater.eof:
                readable = bool(inflater.decompress(rest, _MOST_AT_ONCE)) or readable
                rest = inflater.unconsumed_tail
        except zlib.error:
            raise UsageError(f"{path} is damaged", hint="record to another file") from None
        if not inflater.eof:
            return start, readable
        start = len(data) - len(inflater.unused_data)
    return len(data), False


def _replace_tail(path: Path, at: int, tail: bytes) -> None:
    with path.open("r+b") as file:
        file.truncate(at)
        file.seek(0, os.SEEK_END)
        file.write(tail)
