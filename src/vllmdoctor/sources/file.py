"""Files and standard input: what is in them decides how they are read, not how they are called."""

import re
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from vllmdoctor.errors import UsageError, VllmDoctorError
from vllmdoctor.exposition import read_timestamped
from vllmdoctor.model import Gap, Observation
from vllmdoctor.recording_lines import Decoder
from vllmdoctor.sources import Source, Window, open_source
from vllmdoctor.sources.input import Input, Kind, open_input
from vllmdoctor.sources.moments import moment_of_name
from vllmdoctor.sources.pages import PageReader, SavedPage, by_process, by_server, laid_out
from vllmdoctor.sources.query import read_query
from vllmdoctor.sources.smi import read_smi

_STDIN = "-"
_FASTEST_S = 0.2  # pages written closer together than this were not scraped then


def open_target(target: str) -> "FileSource | FilesSource":
    """The Source for a path, or for `-`; UsageError where there is no such file."""
    if target == _STDIN:
        return FileSource(None, "stdin")
    path = Path(target)
    if path.is_dir():
        files = sorted(p for p in path.iterdir() if p.is_file() and not p.name.startswith("."))
        if not files:
            raise UsageError(f"the directory {target} holds no files")
        return FilesSource(tuple(files), path.resolve().name)
    if not path.exists():
        raise UsageError(f"no such file: {target}", hint="a live server is given as http://HOST:PORT")
    return FileSource(path, path.name)


def open_together(targets: Sequence[str]) -> list[Source]:
    """The Sources for several targets; the files among them become one source."""
    files = [target for target in targets if target != _STDIN and Path(target).is_file()]
    if len(files) < 2:
        return [open_source(target) for target in targets]
    others = [open_source(target) for target in targets if target not in files]
    return [FilesSource(tuple(map(Path, dict.fromkeys(files))), ""), *others]


@dataclass(frozen=True, slots=True)
class FileSource:
    """One file (None: standard input). `siblings` are read by others, so it is not gone on into them."""

    path: Path | None
    instance: str
    siblings: frozenset[Path] = frozenset()

    @property
    def live(self) -> bool:
        """Files are read at once."""
        return False

    @property
    def beside(self) -> bool:
        """It is a case of its own."""
        return False

    def read(self, window: Window) -> Iterator[Observation]:
        """Yield all that is in the file."""
        with open_input(self.path) as source:
            kind = source.kind()
            if kind is not Kind.PAGES:
                yield from self.read_open(source, kind, window)
                return
            reader = PageReader(self.instance)
            pages = list(reader.pages(source.texts()))
            end = window.clock() if self.path is None else _moment(self.path)
            yield from laid_out(pages, self.instance, end=end, interval=window.interval_s)
            yield from reader.gaps()
            yield from _troubles(source, self.instance)

    def read_open(self, source: Input, kind: Kind, window: Window) -> Iterator[Observation]:
        """Yield all of an open file whose samples have times."""
        if kind is Kind.RECORDING:
            yield from self._recording(source)
            return
        if kind is Kind.LOG:
            now = window.clock() if self.path is None else _moment(self.path)
            # here: its many patterns are compiled only for a log
            from vllmdoctor.sources.log.reader import read_log

            yield from read_log(source.pieces(), self.instance, now)
            yield from _troubles(source, self.instance)
            return
        if kind is Kind.SMI:
            written = window.clock() if self.path is None else _moment(self.path)
            yield from read_smi(source.text(), self.instance, written, window.interval_s)
            yield from _troubles(source, self.instance)
            return
        if kind is Kind.TIMESTAMPED:
            yield from read_timestamped(source.texts(), self.instance, self.instance)
        else:
            yield from read_query(source.text(), self.instance, self.instance)
        yield from _troubles(source, self.instance)

    def _recording(self, source: Input) -> Iterator[Observation]:
        """The recording, with the parts it goes on in where they lie beside it."""
        following = yield from self._part(source)
        if self.path is None:
            return
        path, seen = self.path, {self.path.resolve(), *self.siblings}
        while following:
            path = path.with_name(Path(following).name)
            if path.resolve() in seen:
                return
            seen.add(path.resolve())
            if not path.exists():
                why = "it does not lie beside the part before it"
                yield Gap(self.instance, f"the recording goes on in {path.name}", why)
                return
            with open_input(path) as part:
                if part.kind() is not Kind.RECORDING:
                    return
                following = yield from self._part(part)

    def _part(self, source: Input) -> Generator[Observation, None, str]:
        decoder = Decoder(Path(source.name).name)
        yield from decoder.decode(source.lines())
        # That its packed data has no end yet is how a recording is while it is being written.
        yield from (gap for gap in _troubles(source, self.instance) if "damaged" in gap.why)
        return decoder.next_part


@dataclass(frozen=True, slots=True)
class FilesSource:
    """Files given together or in one directory. Single pages of one server are joined by time."""

    paths: tuple[Path, ...]
    name: str

    @property
    def live(self) -> bool:
        """Files are read at once."""
        return False

    @property
    def beside(self) -> bool:
        """It is a case of its own."""
        return False

    def read(self, window: Window) -> Iterator[Observation]:
        """Yield all that is in the files; one that cannot be read is a Gap, if another can."""
        siblings = frozenset(path.resolve() for path in self.paths)
        names = [path.name for path in self.paths]
        single: dict[Path, SavedPage] = {}
        errors: list[VllmDoctorError] = []
        for path in self.paths:
            name = path.name if names.count(path.name) == 1 else str(path)
            try:
                with open_input(path) as source:
                    kind = source.kind()
                    if kind is not Kind.PAGES:
                        yield from FileSource(path, name, siblings).read_open(source, kind, window)
                        continue
                    reader = PageReader(name)
                    pages = list(reader.pages(source.texts()))
                    yield from reader.gaps()
                    if len(pages) == 1:
                        single[path] = pages[0]
                    else:
                        yield from laid_out(pages, name, end=_moment(path), interval=window.interval_s)
                    yield from _troubles(source, name)
            except VllmDoctorError as error:
                errors.append(error)
                yield Gap(name, error.message, "not read", error.hint)
        if errors and len(errors) == len(self.paths):
            raise errors[0]
        yield from self._joined(single, window)

    def _joined(self, single: dict[Path, SavedPage], window: Window) -> Iterator[Observation]:
        """The files of one page each, by server."""
        moments = {path: _moment(path) for path in single}
        spread = max(moments.values(), default=0.0) - min(moments.values(), default=0.0)
        if spread < _FASTEST_S * (len(single) - 1):  # copied together: those are no scrape times
            groups = by_process([single[path] for path in sorted(single, key=_natural)])
        else:
            timed = (
                p if p.time is not None else replace(p, time=moments[path]) for path, p in single.items()
            )
            groups = by_server(timed)
        for number, pages in enumerate(groups, 1):
            name = f"{self.name or 'pages'}-{number}" if len(groups) > 1 else self.name or "pages"
            end = max(moments.values())
            yield from laid_out(pages, name, end=end, interval=window.interval_s)


def _troubles(source: Input, origin: str) -> Iterator[Gap]:
    for trouble in source.troubles:
        yield Gap(origin, "the end of the file", trouble, "what could be read was used")


def _moment(path: Path) -> float:
    """When a file's page was taken: as its name says, else when the file was written (unix s)."""
    named = moment_of_name(path.name)
    return path.stat().st_mtime if named is None else named


def _natural(path: Path) -> list[tuple[int, str]]:
    """A key that sorts page-2 before page-10."""
    return [(int(digits or 0), text) for text, digits in re.findall(r"(\D*)(\d*)", path.name)]
