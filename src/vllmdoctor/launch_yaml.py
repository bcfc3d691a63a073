"""The door to PyYAML: text of strangers in, plain values out, and plain values as text.

A Deployment's manifest and vLLM's own --config file are YAML, which the standard library cannot read.
"""

from collections.abc import Sequence
from typing import Any

import yaml

from vllmdoctor.errors import UsageError


def load_all(text: str, origin: str) -> tuple[object, ...]:
    """Every document of a YAML (or JSON) text that is not empty. Raises UsageError for broken text."""
    try:
        return tuple(each for each in yaml.safe_load_all(text) if each is not None)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        where = f", line {mark.line + 1}" if mark is not None else ""
        raise UsageError(f"{origin} is no YAML{where}: {getattr(error, 'problem', None) or error}") from error


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
