"""The door to PyYAML: text of strangers in, plain values out, and plain values as text.

A Deployment's manifest and vLLM's own --config file are YAML, which the standard library cannot read.
"""

from collections.abc import Sequence
from typing import Any

import yaml

from vllmdoctor.errors import UsageError


def load_all(text: str, origin: str) -> tuple[object, ...]:
    """Every document of a YAML (or JSON) text that is not empty. Raises UsageError for broken text."""
    return _load(text, origin, yaml.SafeLoader)


def _load(text: str, origin: str, loader: type[yaml.SafeLoader]) -> tuple[object, ...]:
    try:
        return tuple(each for each in yaml.load_all(text, loader) if each is not None)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        where = f", line {mark.line + 1}" if mark is not None else ""
        raise UsageError(f"{origin} is no YAML{where}: {getattr(error, 'problem', None) or error}") from error


class Written(str):
    """A string of a YAML text, and where it stands: line from 1, first and last character, column, style.

    `style` is "|" or ">" for a block of lines, a quote, or "" for plain text.
    """

    __slots__ = ("column", "end", "line", "start", "style")
    line: int
    start: int
    end: int
    column: int
    style: str


class _Marking(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """Strings remember where they stand. Ten times as fast where libyaml is there."""


def _written(loader: yaml.SafeLoader, node: yaml.ScalarNode) -> Written:
    text = Written(loader.construct_scalar(node))
    text.line, text.column = node.start_mark.line + 1, node.start_mark.column
    text.start, text.end, text.style = node.start_mark.index, node.end_mark.index, node.style or ""
    return text


_Marking.add_constructor("tag:yaml.org,2002:str", _written)


def load_written(text: str, origin: str) -> tuple[object, ...]:
    """As `load_all`, with each string a `Written`. Raises UsageError for broken text."""
    return _load(text, origin, _Marking)


class _Dumper(yaml.SafeDumper):
    """Lists are indented under their key, and text of several lines is a block."""

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        super().increase_indent(flow, False)


def _text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style="|" if "\n" in value else None)


_Dumper.add_representer(str, _text)


def dump_all(documents: Sequence[Any]) -> str:
    """The documents as YAML text, keys in the order given."""
    return yaml.dump_all(
        documents,
        Dumper=_Dumper,
        sort_keys=False,
        default_flow_style=False,
        width=100,
        allow_unicode=True,
        explicit_start=len(documents) > 1,
    )
