"""A report as text: one format is one module with `render(report, ...) -> str`.

Nothing heavy is imported here: the table holds names, and a format's module is loaded when it is used.
"""

import importlib
from collections.abc import Mapping
from pathlib import PurePath
from typing import Protocol, cast

from vllmdoctor.errors import UnknownName
from vllmdoctor.model import Report

# format -> (module, the endings of files that choose it)
FORMATS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "text": ("vllmdoctor.render.terminal", (".txt", ".text")),
    "json": ("vllmdoctor.render.machine", (".json",)),
}


class Format(Protocol):
    """What a format's module offers."""

    def render(self, report: Report, *, width: int, color: bool, verbose: bool, encoding: str) -> str:
        """The whole report, ending in a newline."""


def render(
    report: Report,
    fmt: str,
    *,
    width: int = 100,
    color: bool = False,
    verbose: bool = False,
    encoding: str = "utf-8",
) -> str:
    """`report` in the format `fmt`, ending in a newline.

    `width` is in columns. `encoding` is that of the place the text goes to: what it cannot spell is
    replaced, so that writing never fails. Raises UnknownName for a format that does not exist.
    """
    if fmt not in FORMATS:
        raise UnknownName("format", fmt, FORMATS)
    module = cast("Format", importlib.import_module(FORMATS[fmt][0]))
    return module.render(report, width=width, color=color, verbose=verbose, encoding=encoding)


def format_for(path: str | PurePath, formats: Mapping[str, tuple[str, tuple[str, ...]]] = FORMATS) -> str:
    """The one of `formats` that the ending of `path` chooses; UnknownName if none has it."""
    ending = PurePath(path).suffix.lower()
    for fmt, (_, endings) in formats.items():
        if ending in endings:
            return fmt
    known = [e for _, endings in formats.values() for e in endings]
    raise UnknownName("format for files", ending or PurePath(path).name, known)
