"""What alerts are written from: the names at hand, the limits of the rules, and who is meant."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from math import inf, nan

from vllmdoctor.case import Limit
from vllmdoctor.errors import UnknownName, UsageError
from vllmdoctor.promql import Metrics
from vllmdoctor.rules import get

WHO = (
    "{{ if $labels.pod }}{{ $labels.pod }}{{ else }}{{ $labels.instance }}{{ end }}"
    "{{ with $labels.engine }} (engine {{ . }}){{ end }}"
)
"""The server that an alert is about, as a template."""
POD = (
    "{{ with $labels.namespace }}{{ . }}/{{ end }}{{ $labels.pod }}"
    "{{ with $labels.container }} ({{ . }}){{ end }}"
)
"""The container that an alert is about."""
GPU = (
    "GPU {{ $labels.gpu }}{{ with $labels.Hostname }} of {{ . }}{{ end }}"
    "{{ with $labels.pod }}, {{ . }}{{ end }}"
)
"""The GPU that an alert is about."""


@dataclass(frozen=True, slots=True)
class Basis:
    """`changed` holds limits that somebody set, as cause.limit -> value."""

    metrics: Metrics
    changed: Mapping[str, float] = field(default_factory=dict)

    def limit(self, key: str) -> float:
        """The limit cause.limit of the doctor's own rules, or what was set instead."""
        return self.changed.get(key, limit_of(key).value)

    def text(self, key: str) -> str:
        """The limit as it stands in an expression."""
        return f"{self.limit(key):.12g}"

    def percent(self, key: str) -> str:
        """A ratio's limit for people."""
        return f"{100 * self.limit(key):.3g} %"


def limit_of(key: str) -> Limit:
    """The limit written as cause.limit. Raises UnknownName for a cause or a limit that is none."""
    cause, _, name = key.partition(".")
    limits = get(cause).limits
    if name not in limits:
        raise UnknownName(f"limit of {cause}", name, limits)
    return limits[name]


def settings(given: Iterable[str], known: Collection[str]) -> dict[str, float]:
    """Limits that were set as cause.limit=value. Raises UsageError for what is none, or not among `known`."""
    found = {}
    for text in given:
        key, equals, value = text.partition("=")
        try:
            number = float(value)
        except ValueError:
            number = nan
        if not equals or "." not in key or not 0 <= number < inf:
            raise UsageError(f"not a limit: {text!r}", hint="write it as in --set overload.thrash=0.3")
        if key not in known:
            raise UnknownName("limit of an alert", key, known)
        found[key] = number
    return found
