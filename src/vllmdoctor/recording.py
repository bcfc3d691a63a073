"""The recording: everything the sources saw, as columns of numbers by instance and series.

`gather` makes one from a stream of observations. It keeps what was seen as it was seen: no
counter is unrolled, no NaN filled in. It only sorts, and says in a Gap where it had to.
"""

import math
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import cast

import numpy as np
import numpy.typing as npt

from vllmdoctor.exposition import canonical, split_series
from vllmdoctor.model import Event, Fact, Gap, Observation, Samples, Snapshot
from vllmdoctor.timeline import Piece, columns_of

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Column:
    """One series' history: `times` (unix seconds, strictly ascending) and as many `values`.

    A NaN value means that the target was scraped and did not show this series (or showed NaN).
    """

    times: FloatArray
    values: FloatArray


@dataclass(frozen=True, slots=True)
class Recording:
    """What was seen: instance -> canonical series -> Column, with facts, events and gaps.

    Columns that were scraped together share one `times` array. Immutable once gathered.
    """

    columns: Mapping[str, Mapping[str, Column]]
    facts: tuple[Fact, ...] = ()
    events: tuple[Event, ...] = ()
    gaps: tuple[Gap, ...] = ()

    @property
    def instances(self) -> tuple[str, ...]:
        """The names of the instances, sorted."""
        return tuple(sorted(self.columns))

    @property
    def start(self) -> float:
        """The first scrape (unix seconds), NaN when there is none."""
        return min((float(t[0]) for t in self._times() if len(t)), default=math.nan)

    @property
    def end(self) -> float:
        """The last scrape (unix seconds), NaN when there is none."""
        return max((float(t[-1]) for t in self._times() if len(t)), default=math.nan)

    @property
    def scrapes(self) -> int:
        """How many scrapes the busiest instance has."""
        return max((len(times) for times in self._times()), default=0)

    @property
    def interval(self) -> float:
        """The median time between two scrapes of the busiest instance (s), NaN below two scrapes."""
        busiest = max(self._times(), key=len, default=None)
        return math.nan if busiest is None or len(busiest) < 2 else float(np.median(np.diff(busiest)))

    def window(self, start: float, end: float) -> "Recording":
        """The part from `start` to `end` (unix seconds, both included); facts and gaps stay."""
        cuts: dict[int, tuple[slice, FloatArray]] = {}

        def cut(column: Column) -> Column:
            if id(column.times) not in cuts:
                first = int(np.searchsorted(column.times, start, "left"))
                last = int(np.searchsorted(column.times, end, "right"))
                cuts[id(column.times)] = (slice(first, last), column.times[first:last])
            part, times = cuts[id(column.times)]
            return Column(times, column.values[part])

        columns = {
            instance: {series: part for series, c in of.items() if len((part := cut(c)).times)}
            for instance, of in self.columns.items()
        }
        return replace(
            self,
            columns={instance: of for instance, of in columns.items() if of},
            events=tuple(e for e in self.events if start <= e.time <= end),
        )

    def _times(self) -> list[FloatArray]:
        shared = {id(c.times): c.times for of in self.columns.values() for c in of.values()}
        return list(shared.values())


def gather(observations: Iterable[Observation]) -> Recording:
    """Join a stream of observations into one Recording."""
    gatherer = Gatherer()
    for observation in observations:
        gatherer.add(observation)
    return gatherer.recording()


class Gatherer:
    """Collects observations; `recording()` may be asked for at any moment, also in the middle."""

    def __init__(self) -> None:
        self._scrapes: dict[str, _Scrapes] = {}
        self._pieces: dict[str, dict[str, list[Piece]]] = {}
        self._facts: dict[Fact, None] = {}
        self._events: dict[Event, None] = {}
        self._gaps: dict[Gap, None] = {}

    def add(self, observation: Observation) -> None:
        """Take one observation in; the numbers of `Samples` are kept, not copied."""
        match observation:
            case Snapshot():
                self._scrapes.setdefault(observation.instance, _Scrapes()).append(observation)
            case Samples():
                self._add_samples(observation)
            case Fact():
                self._facts[observation] = None
            case Event():
                self._events[observation] = None
            case Gap():
                self._gaps[observation] = None

    def recording(self) -> Recording:
        """All that was gathered so far."""
        pieces = {instance: {s: list(p) for s, p in of.items()} for instance, of in self._pieces.items()}
        for target, scrapes in self._scrapes.items():
            for key, piece in scrapes.pieces():
                instance, series = route(key, target)
                pieces.setdefault(instance, {}).setdefault(series, []).append(piece)
        columns: dict[str, dict[str, Column]] = {}
        gaps = dict(self._gaps)
        for instance in sorted(pieces):
            found, remarks = columns_of(pieces.pop(instance))
            if found:
                columns[instance] = {s: Column(*found[s]) for s in sorted(found)}
            gaps.update({Gap(instance, what, why): None for what, why in remarks})
        events = sorted(self._events, key=lambda e: (e.time, e.kind, e.text, e.instance))
        return Recording(columns, tuple(self._facts), tuple(events), tuple(gaps))

    def _add_samples(self, samples: Samples) -> None:
        instance, series = route(samples.series, samples.instance)
        size = min(len(samples.times), len(samples.values))
        piece = Piece(_as_array(samples.times)[:size], _as_array(samples.values)[:size])
        self._pieces.setdefault(instance, {}).setdefault(series, []).append(piece)


class _Scrapes:
    """The scrapes of one target: a growing column a series, NaN where a scrape did not show it."""

    def __init__(self) -> None:
        self._times = array("d")
        self._columns: dict[str, array[float]] = {}
        self._last: tuple[str, ...] = ()
        self._order: list[array[float]] = []

    def append(self, snapshot: Snapshot) -> None:
        """Add one scrape."""
        keys = tuple(snapshot.values)
        if keys != self._last:
            absent = array("d", [math.nan]) * len(self._times)
            names = [canonical(key) for key in keys]
            last = {series: at for at, series in enumerate(names)}  # spelled twice: the last counts
            self._order = [
                self._columns.setdefault(series, absent[:]) if last[series] == at else array("d")
                for at, series in enumerate(names)
            ]
            self._last = keys
        for column, value in zip(self._order, snapshot.values.values(), strict=True):
            column.append(value)
        self._times.append(snapshot.time)
        if len(keys) < len(self._columns):
            self._level()

    def pieces(self) -> Iterator[tuple[str, Piece]]:
        """Each series with a copy of its column; all share their times."""
        self._level()
        times = np.array(self._times)
        for key, column in self._columns.items():
            yield key, Piece(times, np.array(column))

    def _level(self) -> None:
        """Make all columns as long as the times, also after an interrupt in the middle of a scrape."""
        rows = len(self._times)
        for column in self._columns.values():
            if len(column) != rows:
                column.extend([math.nan] * (rows - len(column)))
                del column[rows:]


@lru_cache(maxsize=1 << 15)
def route(series: str, instance: str) -> tuple[str, str]:
    """The instance a series belongs to (its own `instance` or `pod` label decides) and its one spelling."""
    _, labels = split_series(series)
    return labels.get("instance") or labels.get("pod") or instance, canonical(series)


def _as_array(numbers: Sequence[float]) -> FloatArray:
    if isinstance(numbers, array):
        return np.frombuffer(numbers) if len(numbers) else np.empty(0)
    return np.asarray(cast("npt.ArrayLike", numbers), dtype=np.float64).view()
