"""Times: pieces of history are joined, sorted and laid on the scrape times they share.

A series that is missing from some scrapes of its target gets NaN there, so that all columns of
one target stand on one `times` array and "was scraped, showed nothing" is told from "was not
scraped".
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]

_MOST_GRIDS = 16
"""Beyond so many different sets of scrape times in one instance, a series keeps its own."""

_NO_MOMENT = 1e12
"""Unix seconds that no clock shows (the year 33658); NaN and infinity are none either."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of one series' history: `times` in unix seconds, in whatever order they were seen."""

    times: FloatArray
    values: FloatArray


def columns_of(
    pieces: Mapping[str, list[Piece]],
) -> tuple[dict[str, tuple[FloatArray, FloatArray]], list[tuple[str, str]]]:
    """One (times, values) a series of one instance, and remarks (what, why) on odd times."""
    ledger = _Ledger()
    joined = {series: ledger.join(parts) for series, parts in pieces.items()}
    joined = {series: column for series, column in joined.items() if len(column[0])}
    placed = _placements(list({id(times): times for times, _ in joined.values()}.values()))
    columns = {series: _lay(column, placed[id(column[0])]) for series, column in joined.items()}
    for times, values in columns.values():
        times.flags.writeable = False
        values.flags.writeable = False
    return columns, ledger.remarks()


class _Ledger:
    """Joins pieces and keeps one array object for equal times."""

    def __init__(self) -> None:
        self._repeated = self._backwards = self._timeless = 0
        self._by_parts: dict[tuple[int, ...], tuple[FloatArray, npt.NDArray[np.intp] | None]] = {}
        self._by_content: dict[tuple[int, int], FloatArray] = {}
        self._kept: list[list[Piece]] = []  # while ids are keys, the arrays must live

    def join(self, parts: list[Piece]) -> tuple[FloatArray, FloatArray]:
        """The pieces of one series as one column in time order; the last of equal times wins."""
        key = tuple([id(piece.times) for piece in parts])
        if key not in self._by_parts:
            self._kept.append(parts)
            self._by_parts[key] = self._order(parts)
        times, order = self._by_parts[key]
        values = parts[0].values if len(parts) == 1 else np.concatenate([p.values for p in parts])
        return times, values if order is None else values[order]

    def _order(self, parts: list[Piece]) -> tuple[FloatArray, npt.NDArray[np.intp] | None]:
        times = parts[0].times if len(parts) == 1 else np.concatenate([p.times for p in parts])
        if bool(np.all(times[1:] > times[:-1])) and bool(np.all(_is_moment(times))):
            return self.intern(times), None
        order = np.argsort(times, kind="stable")
        finite = order[_is_moment(times[order])]
        ascending = times[finite]
        last = np.append(ascending[1:] != ascending[:-1], True)[: len(ascending)]
        self._timeless = max(self._timeless, len(order) - len(finite))
        self._repeated = max(self._repeated, len(ascending) - int(last.sum()))
        # Parts may come in any order (files given by hand); only inside one did a clock step back.
        moments = [part.times[_is_moment(part.times)] for part in parts]
        self._backwards = max(self._backwards, sum(int((m[1:] < m[:-1]).sum()) for m in moments))
        return self.intern(ascending[last]), finite[last]

    def intern(self, times: FloatArray) -> FloatArray:
        """The one array object that stands for these times."""
        key = (len(times), hash(times.tobytes()))
        known = self._by_content.setdefault(key, times)
        return known if known is times or np.array_equal(known, times) else times

    def remarks(self) -> list[tuple[str, str]]:
        """What had to be mended, in words."""
        found = (
            (self._backwards, "clock", "the time goes backwards {}; the samples were sorted by time"),
            (self._repeated, "samples", "a time repeats {}; the last sample of each was kept"),
            (self._timeless, "samples", "a time is no moment {}; those samples were dropped"),
        )
        return [(what, why.format("once" if n == 1 else f"{n} times")) for n, what, why in found if n]


def _is_moment(times: FloatArray) -> npt.NDArray[np.bool_]:
    return np.abs(times) < _NO_MOMENT


Placement = tuple[FloatArray, npt.NDArray[np.intp] | None]


def _placements(candidates: list[FloatArray]) -> dict[int, Placement]:
    """For each times array the grid it lies on, and where (None: it is the grid itself)."""
    grids: list[FloatArray] = []
    placed: dict[int, Placement] = {}
    for times in sorted(candidates, key=len, reverse=True):
        for grid in grids:
            where = _where(times, grid)
            if where is not None:
                placed[id(times)] = (grid, where)
                break
        else:
            placed[id(times)] = (times, None)
            if len(grids) < _MOST_GRIDS:
                grids.append(times)
    return placed


def _where(times: FloatArray, grid: FloatArray) -> npt.NDArray[np.intp] | None:
    """The positions of `times` on `grid`, or None where one is not on it."""
    for edge in (times[0], times[-1]):
        at = int(np.searchsorted(grid, edge))
        if at == len(grid) or grid[at] != edge:
            return None
    where = np.searchsorted(grid, times)
    return where if bool(np.all(grid[where] == times)) else None


def _lay(column: tuple[FloatArray, FloatArray], placement: Placement) -> tuple[FloatArray, FloatArray]:
    grid, where = placement
    if where is None:
        return grid, column[1]
    values = np.full(len(grid), np.nan)
    values[where] = column[1]
    return grid, values
