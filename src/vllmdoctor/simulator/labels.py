"""Label text as Prometheus clients write it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


def series(name: str, labels: Mapping[str, str]) -> str:
    """``name{a="b",...}`` with labels in alphabetical order, as vLLM's pages have them."""
    if not labels:
        return name
    inside = ",".join(f'{key}="{_escape(labels[key])}"' for key in sorted(labels))
    return f"{name}{{{inside}}}"


def _escape(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def bound(value: float) -> str:
    """A bucket bound as the Python client prints it (``0.3``, ``1.0``, ``16384.0``)."""
    return repr(float(value))
