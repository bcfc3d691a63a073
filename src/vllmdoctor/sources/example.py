"""Recordings of a real vLLM server that come with vllmdoctor: `example:NAME`."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.resources import as_file, files

from vllmdoctor.errors import UnknownName
from vllmdoctor.model import Observation
from vllmdoctor.sources import Window

_FOLDER = "examples"
_INDEX = "index.json"


@dataclass(frozen=True, slots=True)
class Example:
    """One bundled recording and what it shows, in one line."""

    name: str
    shows: str


def examples() -> tuple[Example, ...]:
    """All bundled recordings, by name."""
    index: dict[str, str] = json.loads((files("vllmdoctor") / _FOLDER / _INDEX).read_text("utf-8"))
    return tuple(Example(name, shows) for name, shows in sorted(index.items()))


def open_target(target: str) -> "ExampleSource":
    """The Source for `example:NAME`; UnknownName where there is none of that name."""
    name = target.partition(":")[2]
    known = [example.name for example in examples()]
    if name not in known:
        raise UnknownName("example", name, known)
    return ExampleSource(name)


@dataclass(frozen=True, slots=True)
class ExampleSource:
    """One bundled recording."""

    name: str

    @property
    def live(self) -> bool:
        """Recordings are read at once."""
        return False

    @property
    def beside(self) -> bool:
        """It is a case of its own."""
        return False

    def read(self, window: Window) -> Iterator[Observation]:
        """Yield all that is in the recording."""
        from vllmdoctor.sources.file import FileSource  # here: only an example that is read needs it

        with as_file(files("vllmdoctor") / _FOLDER / f"{self.name}.rec.gz") as path:
            yield from FileSource(path, self.name).read(window)
