"""The last hours of what live targets showed, in a memory that does not grow with time.

Each target has one block of numbers, a row a series and a column a scrape. It is as long as the time
that is kept and an eighth more; when it is full, what is still wanted moves to its front. A recording
made of it is that of the same observations, cut to the time that is kept.
"""

import math
import threading
from collections.abc import Iterator
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from vllmdoctor.exposition import canonical
from vllmdoctor.model import Event, Fact, Gap, Observation, Samples, Snapshot
from vllmdoctor.recording import Gatherer, route

MOST_POINTS = 8192
"""Scrapes of one target. Where more would be kept they are thinned, evenly."""

MOST_SERIES = 10_000
"""Series of one target. What comes beyond is not kept, and counted."""

MOST_REMARKS = 500
"""Events of all targets, and gaps."""

_GROWTH = 1.25
_IntArray = npt.NDArray[np.intp]
_Remark = TypeVar("_Remark", Event, Gap)


class History:
    """What live targets showed in the last `keep_s` seconds, scraped every `interval_s`. Thread-safe."""

    def __init__(
        self,
        keep_s: float,
        interval_s: float,
        *,
        most_points: int = MOST_POINTS,
        most_series: int = MOST_SERIES,
    ) -> None:
        self._keep_s = keep_s
        self._points = min(most_points, math.ceil(keep_s / interval_s) + 1)
        self._apart_s = keep_s / most_points if keep_s / interval_s > most_points else 0.0
        self._most_series = most_series
        self._blocks: dict[str, _Block] = {}
        self._facts: dict[tuple[str, str, str], Fact] = {}
        self._events: dict[Event, float] = {}
        self._gaps: dict[Gap, float] = {}
        self._lock = threading.Lock()

    def add(self, observation: Observation, now: float) -> None:
        """Take in what a live target showed at `now` (unix s)."""
        with self._lock:
            match observation:
                case Snapshot(_, target, _):
                    if target not in self._blocks:
                        self._blocks[target] = _Block(target, self._points, self._apart_s, self._most_series)
                    self._blocks[target].append(observation, now - self._keep_s)
                case Fact():
                    self._facts[observation.instance, observation.key, observation.origin] = observation
                case Event():
                    _remember(self._events, observation, now)
                case Gap():
                    _remember(self._gaps, observation, now)

    def pour(self, gatherer: Gatherer, now: float) -> None:
        """Give what was seen in the `keep_s` seconds before `now` to a gatherer."""
        oldest = now - self._keep_s
        with self._lock:
            self._events = {event: at for event, at in self._events.items() if at >= oldest}
            self._gaps = {gap: at for gap, at in self._gaps.items() if at >= oldest}
            remarks: list[Observation] = [*self._facts.values(), *self._events, *self._gaps]
            for remark in remarks:
                gatherer.add(remark)
            for block in self._blocks.values():
                for samples in block.samples(oldest):
                    gatherer.add(samples)

    def seen(self) -> dict[str, float]:
        """When each server was last seen (unix s), by the name that a recording has for it."""
        with self._lock:
            return {server: at for block in self._blocks.values() for server, at in block.seen.items()}

    @property
    def series(self) -> int:
        """How many series are kept."""
        return sum(block.series for block in self._blocks.values())

    @property
    def samples(self) -> int:
        """How many numbers are kept."""
        return sum(block.series * block.points for block in self._blocks.values())

    @property
    def size_bytes(self) -> int:
        """The memory that the numbers have, used or not yet."""
        return sum(block.size_bytes for block in self._blocks.values())

    @property
    def dropped(self) -> int:
        """How many series, of the last scrapes, were not kept because there are too many."""
        return sum(block.dropped for block in self._blocks.values())


def _remember(remarks: dict[_Remark, float], remark: _Remark, now: float) -> None:
    """The newest MOST_REMARKS, each once."""
    remarks.pop(remark, None)
    remarks[remark] = now
    while len(remarks) > MOST_REMARKS:
        del remarks[next(iter(remarks))]


class _Block:
    """The scrapes of one target."""

    def __init__(self, target: str, points: int, apart_s: float, most_series: int) -> None:
        self._target, self._apart_s, self._most_series = target, apart_s, most_series
        self._most_points = points
        capacity = points + points // 8 + 2
        self._times = np.full(capacity, math.nan)
        self._values = np.full((0, capacity), math.nan)
        self._rows: dict[str, int] = {}
        self._keys: tuple[str, ...] = ()
        self._to: _IntArray = np.empty(0, np.intp)  # the row of each value of a page, for those kept
        self._kept: _IntArray = np.empty(0, np.intp)  # which values of a page those are
        self._servers: frozenset[str] = frozenset()
        self.seen: dict[str, float] = {}
        self.points = 0
        self.dropped = 0

    @property
    def series(self) -> int:
        return len(self._rows)

    @property
    def size_bytes(self) -> int:
        return self._values.nbytes + self._times.nbytes

    def append(self, snapshot: Snapshot, oldest: float) -> None:
        """Add one scrape; what is older than `oldest` may go."""
        if self.points == len(self._times):
            self._move(oldest)
        keys = tuple(snapshot.values)
        if keys != self._keys:
            self._meet(keys)
        at = self.points
        # the newest is always there; the one before it stays if it is far enough from its own neighbour
        if self._apart_s and at >= 2 and self._times[at - 1] - self._times[at - 2] < 0.99 * self._apart_s:
            at -= 1
        page = np.fromiter(snapshot.values.values(), np.float64, len(keys))
        self._times[at] = snapshot.time
        self._values[:, at] = math.nan
        self._values[self._to, at] = page[self._kept]  # a series that is spelt twice: the last counts
        self.points = at + 1
        self.seen = {server: t for server, t in self.seen.items() if t >= oldest}
        self.seen |= dict.fromkeys(self._servers, snapshot.time)

    def samples(self, oldest: float) -> Iterator[Samples]:
        """What was seen since `oldest`, one for each series; all share their times."""
        first = self._first(oldest)
        if first == self.points:
            return
        times = self._times[first : self.points].copy()
        values = self._values[: len(self._rows), first : self.points].copy()
        there = np.isfinite(values).any(axis=1)
        there[self._to] = True
        for series, row in self._rows.items():
            if there[row]:
                yield Samples(self._target, series, times, values[row])  # type: ignore[arg-type]

    def _first(self, oldest: float) -> int:
        """The first scrape that is wanted; a clock that was set back makes no difference to the others."""
        wanted = self._times[: self.points] >= oldest
        return int(np.argmax(wanted)) if wanted.any() else self.points

    def _meet(self, keys: tuple[str, ...]) -> None:
        """Another page than the last: find the rows of its series, and make those that are new."""
        names = [canonical(key) for key in keys]
        for name in names:
            if name not in self._rows and len(self._rows) < self._most_series:
                self._rows[name] = len(self._rows)
        if len(self._rows) > len(self._values):
            size = max(len(self._rows), min(self._most_series, int(_GROWTH * len(self._values))))
            grown = np.full((size, len(self._times)), math.nan)
            grown[: len(self._values)] = self._values
            self._values = grown
        rows = [self._rows.get(name, -1) for name in names]
        self._kept = np.array([i for i, row in enumerate(rows) if row >= 0], np.intp)
        self._to = np.array([row for row in rows if row >= 0], np.intp)
        self._servers = frozenset(route(key, self._target)[0] for key in keys)
        self._keys = keys
        self.dropped = len(set(names) - set(self._rows))

    def _move(self, oldest: float) -> None:
        """Make room: what is wanted to the front, and no rows for series that are not shown any more."""
        first = max(self._first(oldest), self.points - self._most_points)
        kept = self.points - first
        self._times[:kept] = self._times[first : self.points].copy()
        alive = np.isfinite(self._values[:, first : self.points]).any(axis=1)
        alive[self._to] = True
        rows = [(series, row) for series, row in self._rows.items() if alive[row]]
        for to, (_, row) in enumerate(rows):  # one by one, upwards: no second block, however short its life
            self._values[to, :kept] = self._values[row, first : self.points]
        self._values[: len(rows), kept:] = math.nan
        self._values[len(rows) :] = math.nan
        self._rows = {series: to for to, (series, _) in enumerate(rows)}
        self.points = kept
        keys, self._keys = self._keys, ()
        self._meet(keys)
