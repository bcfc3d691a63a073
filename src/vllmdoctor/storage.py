"""Writes recordings: append-only, each scrape on the disk at once, rotated by size, never over another file.

`night.rec` goes on in `night.2.rec` when it is full; each part can be read alone. A path that ends
in `.gz` is packed on the way.
"""

import fcntl
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import NoReturn, TypeAlias

from vllmdoctor import __version__
from vllmdoctor.errors import FileExists, UsageError
from vllmdoctor.gztail import MAGIC, Deflater, finish_member, inflate
from vllmdoctor.model import Event, Fact, Gap, Observation, Samples, Snapshot
from vllmdoctor.recording import Recording
from vllmdoctor.recording_lines import FAMILY, SCHEMA, Encoder, header, line
from vllmdoctor.redaction import Redactor

DEFAULT_MAX_BYTES = 256 * 2**20

About: TypeAlias = Mapping[str, str | float | bool | list[str]]
"""What the header tells beside the schema: targets, interval (s)."""

_TAIL = 1 << 16


class Recorder:
    """An open recording. Use it in a `with` statement; each `write` is on the disk when it returns.

    `append` goes on where a recording stands (in its last part), or starts one. `max_bytes` is the
    size at which a new part begins. UsageError where the file cannot be written or is none of ours,
    FileExists where it exists and `append` is not asked for.
    """

    def __init__(
        self,
        path: Path,
        about: About,
        *,
        append: bool = False,
        max_bytes: int = DEFAULT_MAX_BYTES,
        redactor: Redactor | None = None,
    ) -> None:
        self._about = {"vllmdoctor": __version__, **about, "redacted": redactor is not None}
        self._max_bytes = max_bytes
        self._redactor = redactor
        self._facts: dict[Fact, None] = {}
        self._part: _Part | None = None
        self.paths: list[Path] = []
        if append and path.exists():
            path = _last_part(path)
            _check_continuable(path, redacted=redactor is not None)
        self._open(path, new=not (append and path.exists()))

    def __enter__(self) -> "Recorder":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def size(self) -> int:
        """The bytes of the part being written."""
        return self._part.size if self._part else 0

    def write(self, observation: Observation) -> None:
        """Add one observation."""
        if self._part is None:
            raise UsageError("the recording is closed")
        if self._redactor is not None:
            observation = self._redactor.redact(observation)
        if isinstance(observation, Fact):
            self._facts[observation] = None
        self._part.write(self._encoder.encode(observation))
        if isinstance(observation, Snapshot | Samples) and self._part.size >= self._max_bytes:
            self._rotate()

    def close(self) -> None:
        """End the recording; closing twice does nothing."""
        if self._part is not None:
            self._part.close()
            self._part = None

    def _open(self, path: Path, *, new: bool) -> None:
        self._part = _Part(path, new=new)
        self.paths.append(path)
        self._encoder = Encoder()
        self._part.write(header(**self._about, part=_split(path)[1], resumed=not new))
        for fact in self._facts:
            self._part.write(self._encoder.encode(fact))

    def _rotate(self) -> None:
        following = _free_name(self.paths[-1])
        if self._part is not None:
            self._part.write(line({"next": following.name}))
        self.close()
        self._open(following, new=True)


def save(
    recording: Recording, path: Path, about: About | None = None, *, redactor: Redactor | None = None
) -> None:
    """Write a whole Recording to a new file; FileExists where there is one."""
    with Recorder(path, about or {}, max_bytes=sys.maxsize, redactor=redactor) as recorder:
        events: tuple[Fact | Event | Gap, ...] = (*recording.facts, *recording.events, *recording.gaps)
        for observation in events:
            recorder.write(observation)
        for instance, columns in recording.columns.items():
            most = max((c.times for c in columns.values()), key=len)
            together = {s: c.values.tolist() for s, c in columns.items() if c.times is most}
            for time, *row in zip(most.tolist(), *together.values(), strict=True):
                recorder.write(Snapshot(time, instance, dict(zip(together, row, strict=True))))
            for series, column in columns.items():
                if column.times is not most:
                    recorder.write(Samples(instance, series, column.times.tolist(), column.values.tolist()))


def check_free(path: Path) -> None:
    """FileExists where writing to `path` would overwrite something."""
    if path.exists():
        raise _exists(path)


class _Part:
    """One file being appended to, packed where its name ends in .gz; locked against a second writer."""

    def __init__(self, path: Path, *, new: bool) -> None:
        self._path = path
        try:
            flags = os.O_WRONLY | os.O_APPEND | (os.O_CREAT | os.O_EXCL if new else 0)
            self._file = os.open(path, flags, 0o644)
        except FileExistsError:
            raise _exists(path) from None
        except OSError as error:
            _cannot_write(path, error)
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(self._file)
            raise UsageError(f"{path} is being written by another recorder") from None
        except OSError:
            pass  # a file system without locks, as some network ones are
        self._deflater = Deflater() if path.suffix == ".gz" else None
        if not new:
            _mend(path)
        self.size = os.fstat(self._file).st_size

    def write(self, text: str) -> None:
        data = text.encode("ascii")
        self._write(self._deflater.piece(data) if self._deflater else data)

    def close(self) -> None:
        try:
            if self._deflater:
                self._write(self._deflater.end())
        finally:
            os.close(self._file)

    def _write(self, data: bytes) -> None:
        try:
            while data:
                written = os.write(self._file, data)
                self.size += written
                data = data[written:]
        except OSError as error:
            _cannot_write(self._path, error)


def _mend(path: Path) -> None:
    """Cut off a torn end, so that what follows can be read."""
    if path.suffix == ".gz":
        finish_member(path)
        return
    with path.open("r+b") as file:
        end = file.seek(0, os.SEEK_END)
        while end > 0:
            start = max(0, end - _TAIL)
            file.seek(start)
            newline = file.read(end - start).rfind(b"\n")
            if newline >= 0:
                file.truncate(start + newline + 1)
                return
            end = start
        file.truncate(0)


def _check_continuable(path: Path, *, redacted: bool) -> None:
    """UsageError unless `path` is empty or a recording of this schema, redacted or not as asked."""
    try:
        with path.open("rb") as file:
            head = file.read(_TAIL)
    except OSError as error:
        _cannot_write(path, error)
    packed = head.startswith(MAGIC)
    text = b"".join(inflate([head], lambda _: None)) if packed else head
    if not head:
        return
    first = text.partition(b"\n")[0].replace(b" ", b"")
    if SCHEMA.encode() not in first or packed != (path.suffix == ".gz"):
        what = "a recording of another schema" if FAMILY.encode() in first else "no recording of vllmdoctor's"
        raise UsageError(f"{path} is {what}; nothing was appended", hint="give another name")
    if (b'"redacted":true' in first) != redacted:
        wanted = "without --redact" if redacted else "with --redact"
        raise UsageError(f"{path} was recorded {wanted}; nothing was appended", hint="give another name")


def _last_part(path: Path) -> Path:
    """The newest part of a recording that was rotated."""
    while (following := _numbered(path, _number_of(path) + 1)).exists():
        path = following
    return path


def _free_name(path: Path) -> Path:
    number = _number_of(path) + 1
    while (following := _numbered(path, number)).exists():
        number += 1
    return following


def _split(path: Path) -> tuple[str, int, str]:
    """`night`, 2 and `.rec.gz` of `night.2.rec.gz`; a first part has the number 1."""
    ending = ".gz" if path.suffix == ".gz" else ""
    plain = Path(path.name.removesuffix(ending))
    stem, _, number = plain.stem.rpartition(".")
    if stem and number.isdigit():
        return stem, int(number), plain.suffix + ending
    return plain.stem, 1, plain.suffix + ending


def _number_of(path: Path) -> int:
    return _split(path)[1]


def _numbered(path: Path, number: int) -> Path:
    stem, _, ending = _split(path)
    return path.with_name(f"{stem}.{number}{ending}")


def _exists(path: Path) -> FileExists:
    hint = "give another name, or --append to go on with a recording"
    return FileExists(f"{path} exists already", hint=hint)


def _cannot_write(path: Path, error: OSError) -> NoReturn:
    raise UsageError(f"cannot write {path}: {(error.strerror or str(error)).lower()}") from None
