"""From the rows of an answer to observations, in the shape that a scrape would have given them."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import cast

import numpy as np

from vllmdoctor.exposition import canonical_series
from vllmdoctor.model import Samples
from vllmdoctor.sources.prom.companions import KEPT, Link
from vllmdoctor.sources.prom.matrix import FloatArray, Row
from vllmdoctor.sources.prom.names import INFO
from vllmdoctor.sources.prom.plan import Grid
from vllmdoctor.sources.prom.survey import Survey
from vllmdoctor.sources.prom.targets import Target

_FINE_BACK_S = 0.5
_COARSE_BACK_S = 0.75
_APART_S = 0.125  # lone samples stand on no grid, so that they stay lone
_NOT_A_SETTING = frozenset(
    ("__name__", "job", "service", "endpoint", "prometheus", "prometheus_replica", "container", "replica")
)


@dataclass(slots=True)
class Emitter:
    """Writes samples of one reading; remembers which servers were seen, and when.

    A value asked at t was sampled shortly before t. So samples are dated a little back (but for the
    first of all): the growth over a bin then falls into that bin and not into the next. Fine and
    coarse samples are dated differently, so that each keep times of their own.
    """

    grid: Grid
    told: Survey
    seen: dict[str, tuple[float, float]] = field(default_factory=dict)
    _times: dict[float, FloatArray] = field(default_factory=dict)
    _series: dict[tuple[str, tuple[tuple[str, str], ...]], str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for step, back, end in (
            (self.grid.fine, _FINE_BACK_S, self.grid.end),
            (self.grid.coarse, _COARSE_BACK_S, self.grid.coarse_end),
        ):
            count = round((end - self.grid.start) / step) + 1
            times = np.float64(self.grid.start) + step * np.arange(count, dtype=np.float64)
            times[1:] -= back
            self._times[step] = times

    def engines(self, rows: Iterable[Row], step: float) -> Iterator[Samples]:
        """vLLM's own series; they say when a server was there."""
        for target, row, times in self._of_servers(rows, step):
            first, last = float(times[0]), float(times[-1])
            low, high = self.seen.get(target.name, (first, last))
            self.seen[target.name] = (min(low, first), max(high, last))
            yield _samples(target, self._key(target, row.labels), times, row.values)

    def processes(self, rows: Iterable[Row]) -> Iterator[Samples]:
        """The other series of the same scrapes."""
        for target, row, times in self._of_servers(rows, self.grid.fine):
            yield from self._inside(target, row.labels, times, row.values)

    def around(self, rows: Iterable[Row], link: Link) -> Iterator[Samples]:
        """The series of containers, GPUs and workloads, given to their servers."""
        for row in rows:
            times = self._dated(row, self.grid.fine)
            kept = {label: row.labels.get(label, "") for label in ("__name__", *KEPT)}
            for target in link.of(row.labels):
                yield from self._inside(target, kept, times, row.values)

    def _of_servers(self, rows: Iterable[Row], step: float) -> Iterator[tuple[Target, Row, FloatArray]]:
        for row in rows:
            target = self.told.targets.get(self.told.scheme.key(row.labels))
            if target is not None and len(row.times):
                yield target, row, self._dated(row, step)

    def _inside(
        self, target: Target, labels: Mapping[str, str], times: FloatArray, values: FloatArray
    ) -> Iterator[Samples]:
        """What was there while the server was: beyond, it would make the server's history longer."""
        low, high = self.seen.get(target.name, (np.inf, -np.inf))
        first, last = np.searchsorted(times, low, "left"), np.searchsorted(times, high, "right")
        if first == 0 and last == len(times):
            yield _samples(target, self._key(target, labels), times, values)
        elif first < last:
            yield _samples(target, self._key(target, labels), times[first:last], values[first:last])

    def info(self, rows: Iterable[Row]) -> Iterator[Samples]:
        """The settings that stand in labels: one sample for each set, the newest set last."""
        for row in rows:
            target = self.told.targets.get(self.told.scheme.key(row.labels))
            if target is None or target.name not in self.seen or not len(row.times):
                continue
            low, high = self.seen[target.name]
            last = bool(row.times[-1] >= self.grid.end - 1) or float(row.times[-1]) > high
            time = max(low, high - _APART_S if last else float(row.times[-1]))
            settings = {k: v for k, v in row.labels.items() if k == "__name__" or k not in _NOT_A_SETTING}
            yield _samples(target, self._key(target, settings), np.array([time]), row.values[-1:])

    def present(self, asked: frozenset[str]) -> Iterator[Samples]:
        """Names that servers show and that were not asked for: one empty sample each.

        Which names there are tells the server's release.
        """
        for key, shown in self.told.shown.items():
            target = self.told.targets[key]
            if target.name not in self.seen:
                continue
            low, high = self.seen[target.name]
            at = np.array([max(low, high - _APART_S)])
            for raw in sorted(shown):
                name = self.told.spelling.canonical(raw)
                told = raw in asked or self.told.spelling.signal_of(raw) == INFO
                if name.startswith("vllm:") and not told:
                    series = canonical_series(name, self._labels(target, {}))
                    yield _samples(target, series, at, np.array([np.nan]))

    def _dated(self, row: Row, step: float) -> FloatArray:
        grid = self._times[step]
        at = np.rint((row.times - self.grid.start) / step).astype(np.intp)
        inside = at[(at >= 0) & (at < len(grid))]
        if len(inside) == len(grid):
            return grid
        if len(inside) != len(at):  # a server that rounds moments in its own way
            return row.times
        return grid[inside]

    def _key(self, target: Target, labels: Mapping[str, str]) -> str:
        found = (target.name, tuple(sorted(labels.items())))
        if found not in self._series:
            name = self.told.spelling.canonical(labels.get("__name__", ""))
            self._series[found] = canonical_series(name, self._labels(target, labels))
        return self._series[found]

    def _labels(self, target: Target, labels: Mapping[str, str]) -> dict[str, str]:
        """The labels of a series, with the server's name where a scrape has the address."""
        scheme = self.told.scheme
        dropped = {"__name__", "instance", scheme.pod, scheme.namespace}
        kept = {k: v for k, v in labels.items() if v and k not in dropped}
        place = {"instance": target.name, "pod": target.pod, "namespace": target.namespace}
        return kept | {k: v for k, v in place.items() if v}


def _samples(target: Target, series: str, times: FloatArray, values: FloatArray) -> Samples:
    return Samples(target.name, series, cast("Sequence[float]", times), cast("Sequence[float]", values))
