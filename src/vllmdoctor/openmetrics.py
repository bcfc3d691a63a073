"""Writes a Recording as OpenMetrics text, which `promtool tsdb create-blocks-from openmetrics` takes.

A recording keeps no metric types, so they are told from the names, as Prometheus' conventions
have them. NaN samples are left out: they mean that nothing was shown.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from vllmdoctor.exposition import canonical_series, split_series
from vllmdoctor.recording import Column, Recording

_PARTS = ("_bucket", "_count", "_sum", "_created")


@dataclass(frozen=True, slots=True)
class _Series:
    name: str
    labels: Mapping[str, str]
    column: Column

    def text(self) -> str:
        return canonical_series(self.name, self.labels)

    def metric(self) -> str:
        """What the parts of one histogram or summary have in common: their labels but for the bound."""
        return canonical_series("m", {k: v for k, v in self.labels.items() if k not in ("le", "quantile")})

    def rank(self) -> tuple[int, float, str]:
        """The place within a metric: buckets by bound, then the rest."""
        bound = self.labels.get("le", self.labels.get("quantile", ""))
        return (0 if bound else 1, _number(bound), self.text())


def openmetrics(recording: Recording) -> Iterator[str]:
    """The lines of the text. Every series gets an `instance` label, if it has none of its own."""
    names = _Names()
    families: dict[str, list[_Series]] = {}
    everything: list[_Series] = []
    for instance, columns in recording.columns.items():
        for key, column in columns.items():
            name, labels = split_series(key)
            everything.append(_Series(name, {"instance": instance, **labels}, column))
            names.add(name, labels)
    for series in everything:
        families.setdefault(names.family(series.name), []).append(series)
    for family in sorted(families):
        kind = names.kind(family)
        if kind:
            yield f"# TYPE {family} {kind}\n"
        metrics: dict[str, list[_Series]] = {}
        for series in families[family]:
            metrics.setdefault(series.metric(), []).append(series)
        for metric in sorted(metrics):
            yield from _metric(sorted(metrics[metric], key=_Series.rank))
    yield "# EOF\n"


class _Names:
    """Which family a name belongs to, judged by all names together."""

    def __init__(self) -> None:
        self._all: set[str] = set()
        self._histograms: set[str] = set()
        self._summaries: set[str] = set()

    def add(self, name: str, labels: Mapping[str, str]) -> None:
        self._all.add(name)
        if "le" in labels and name.endswith("_bucket"):
            self._histograms.add(name.removesuffix("_bucket"))
        elif "quantile" in labels:
            self._summaries.add(name)

    def family(self, name: str) -> str:
        for part in _PARTS:
            base = name.removesuffix(part)
            if base != name and (self.kind(base) in ("histogram", "summary")):
                return base
        base = name.removesuffix("_created")
        if base != name and self.kind(base) == "counter":
            return base
        base = name.removesuffix("_total")
        return base if base != name and self.kind(base) == "counter" else name

    def kind(self, family: str) -> str:
        """The type, or "" where the name alone does not tell it without a contradiction."""
        if family in self._histograms:
            return "histogram"
        if family in self._summaries or {f"{family}_sum", f"{family}_count"} <= self._all:
            return "summary"
        if f"{family}_total" in self._all:
            return "" if family in self._all else "counter"
        return "" if family.endswith("_total") else "gauge"


def _metric(parts: list[_Series]) -> Iterator[str]:
    """The samples of one metric: scrape by scrape where its series were scraped together."""
    if all(series.column.times is parts[0].column.times for series in parts):
        texts = [series.text() for series in parts]
        rows = zip(*(series.column.values.tolist() for series in parts), strict=True)
        for time, row in zip(parts[0].column.times.tolist(), rows, strict=True):
            for text, value in zip(texts, row, strict=True):
                if value == value:  # not NaN
                    yield f"{text} {_spelled(value)} {time!r}\n"
        return
    for series in parts:
        text = series.text()
        for time, value in zip(series.column.times.tolist(), series.column.values.tolist(), strict=True):
            if value == value:
                yield f"{text} {_spelled(value)} {time!r}\n"


def _spelled(value: float) -> str:
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    return repr(value)


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.inf
