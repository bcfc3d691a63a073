"""A gate as text, for people and for the machines of a build: one format a module."""

import importlib
from collections.abc import Mapping
from typing import Protocol, cast

from vllmdoctor.errors import UnknownName
from vllmdoctor.model_gate import Gate
from vllmdoctor.render import format_for as format_of

# format -> (module, the endings of files that choose it)
FORMATS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "text": ("vllmdoctor.render.gate.terminal", (".txt", ".text")),
    "json": ("vllmdoctor.render.gate.machine", (".json",)),
    "markdown": ("vllmdoctor.render.gate.markdown", (".md", ".markdown")),
    "junit": ("vllmdoctor.render.gate.junit", (".xml",)),
    "sarif": ("vllmdoctor.render.gate.sarif", (".sarif",)),
    "github": ("vllmdoctor.render.gate.github", ()),
}


class Format(Protocol):
    """What a format's module offers."""

    def render(self, gate: Gate, *, width: int, color: bool, encoding: str) -> str:
        """The whole gate, ending in a newline."""


def render(gate: Gate, fmt: str, *, width: int = 100, color: bool = False, encoding: str = "utf-8") -> str:
    """`gate` in the format `fmt`. Raises UnknownName for a format that does not exist."""
    if fmt not in FORMATS:
        raise UnknownName("format", fmt, FORMATS)
    module = cast("Format", importlib.import_module(FORMATS[fmt][0]))
    return module.render(gate, width=width, color=color, encoding=encoding)


def format_for(path: str) -> str:
    """The format that the ending of `path` chooses; UnknownName if no format has it."""
    return format_of(path, FORMATS)
