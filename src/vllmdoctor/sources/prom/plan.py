"""What is asked, in which steps and pieces, so that neither side is overwhelmed.

Counters and buckets are asked as they stand at each step (the newest sample that is not older than
two scrapes), not as rates: their differences are then exact, restarts stay visible, and no
extrapolation makes 3.9 requests of 4. What is summed away is summed by the server.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

from vllmdoctor.frame import STEPS_S, choose_step
from vllmdoctor.promql import one_of, quoted

MOST_POINTS_A_PIECE = 150_000
"""About 4 MB of JSON, and far below any limit of a server."""

CHEAP_POINTS = 500_000
"""Where no more than this is asked, a closer look than the judgement needs is taken."""

MOST_SERIES_A_PIECE = 2_000
_MOST_STEPS = 10_000  # a server refuses more than 11,000


@dataclass(frozen=True, slots=True)
class Grid:
    """The moments asked: gauges and counters every `fine` s, histograms every `coarse` s, from `start` on.

    `coarse` is never more than four times `fine`: beyond, a judge would take the time between for a
    gap. All moments are multiples of their step, as some servers would round them to.
    """

    start: float
    end: float
    fine: float
    coarse: float

    @property
    def coarse_end(self) -> float:
        """The last moment at which histograms are asked."""
        return self.start + math.floor((self.end - self.start) / self.coarse) * self.coarse

    def points(self, fine_series: int, coarse_series: int) -> int:
        """How many points so many series have."""
        span = self.end - self.start
        return round(fine_series * (span / self.fine + 1) + coarse_series * (span / self.coarse + 1))


def grids(start: float, end: float, scrape_s: float) -> Iterator[Grid]:
    """Grids for a history, the closest look first.

    A bin of the judgement is divided into fine steps as far as the scrapes allow; histograms are
    asked once a bin or more often. Wider ones have two fine steps a bin, so that the judgement comes to
    the same bins.
    """
    best = choose_step(end - start, scrape_s)
    scrapes = best / scrape_s
    if scrapes == int(scrapes):  # every scrape, where a bin holds a whole number of them
        coarse = next(n for n in (4, 3, 2, 1) if scrapes % n == 0) * scrape_s
        yield Grid(math.floor(start / best) * best, math.ceil(end / scrape_s) * scrape_s, scrape_s, coarse)
    halvings = max(1, math.floor(math.log2(best / (0.95 * scrape_s))))
    for halved in range(halvings, 0, -1):
        yield _grid(start, end, best, best / 2**halved)
    for width in (*(float(s) for s in STEPS_S if s > best), *(3600.0 * n for n in range(3, 200))):
        yield _grid(start, end, width, width / 2)


def _grid(start: float, end: float, width: float, fine: float) -> Grid:
    return Grid(math.floor(start / width) * width, math.ceil(end / fine) * fine, fine, min(width, 4 * fine))


def within(budget: int, start: float, end: float, scrape_s: float, fine: int, coarse: int) -> Grid:
    """The grid for so many series: as close as is cheap, never more points than the budget."""
    affordable = [grid for grid in grids(start, end, scrape_s) if grid.points(fine, coarse) <= budget]
    if not affordable:
        return list(grids(start, end, scrape_s))[-1]
    usual = [grid for grid in affordable if 4 * grid.fine >= choose_step(end - start, scrape_s)]
    cheap = [grid for grid in affordable if grid.points(fine, coarse) <= CHEAP_POINTS]
    return (cheap if cheap and (not usual or cheap[0].fine < usual[0].fine) else usual or affordable)[0]


@dataclass(frozen=True, slots=True)
class Piece:
    """One query over a range of time. `values` of `label` say which servers it is about.

    `about` groups pieces for people; `fold` is "sum" or "max"; `fresh_s` is how old a sample may be
    (0: what the server takes for stale).
    """

    about: str
    fold: str
    names: tuple[str, ...]
    by: tuple[str, ...]
    matchers: tuple[str, ...]
    label: str
    values: tuple[str, ...]
    fresh_s: float
    start: float
    end: float
    step: float

    @property
    def query(self) -> str:
        """The piece as PromQL."""
        chosen = [f"__name__=~{quoted('|'.join(self.names))}"]
        if self.label:
            chosen.append(one_of(self.label, self.values))
        inner = "{" + ",".join([*chosen, *self.matchers]) + "}"
        if self.fresh_s:
            inner = f"last_over_time({inner}[{round(self.fresh_s * 1000)}ms])"
        return f"{self.fold} by (__name__,{','.join(self.by)}) ({inner})"

    def halves(self) -> tuple["Piece", ...]:
        """Two smaller pieces that make this one; () where it cannot be divided."""
        if len(self.values) > 1:
            middle = len(self.values) // 2
            return replace(self, values=self.values[:middle]), replace(self, values=self.values[middle:])
        if len(self.names) > 1:
            middle = len(self.names) // 2
            return replace(self, names=self.names[:middle]), replace(self, names=self.names[middle:])
        steps = math.floor((self.end - self.start) / self.step)
        if steps < 16:
            return ()
        middle_time = self.start + steps // 2 * self.step
        return replace(self, end=middle_time), replace(self, start=middle_time + self.step)

    def batches(self, series_each: float) -> list["Piece"]:
        """Pieces that are each small enough, where every value of `label` has so many series."""
        steps = (self.end - self.start) / self.step + 1
        each = max(1.0, series_each)
        count = int(min(MOST_POINTS_A_PIECE / (each * steps), MOST_SERIES_A_PIECE / each))
        parts = [self]
        if len(self.values) > max(1, count):
            cuts = range(0, len(self.values), max(1, count))
            parts = [replace(self, values=self.values[i : i + max(1, count)]) for i in cuts]
        if steps <= _MOST_STEPS:
            return parts
        return [half for part in parts for half in part.halves()]
