"""What is asked, in which steps and pieces, so that neither side is overwhelmed.

Counters and buckets are asked as they stand at each step (the newest sample that is not older than
two scrapes), not as rates: their differences are then exact, restarts stay visible, and no
extrapolation makes 3.9 requests of 4. What is summed away is summed by the server.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from vllmdoctor.frame import STEPS_S, choose_step

MOST_POINTS_A_PIECE = 150_000
"""About 4 MB of JSON, and far below any limit of a server."""

MOST_SERIES_A_PIECE = 2_000
_MOST_STEPS = 10_000  # a server refuses more than 11,000


@dataclass(frozen=True, slots=True)
class Grid:
    """The moments asked: gauges and counters every `fine` s, histograms every `bin` s, from `start` on.

    `bin` is the step on which the history will be judged and a multiple of `fine`; all moments are
    multiples of their step, as some servers would round them to.
    """

    start: float
    end: float
    fine: float
    bin: float

    @property
    def coarse_end(self) -> float:
        """The last moment at which histograms are asked."""
        return self.start + math.floor((self.end - self.start) / self.bin) * self.bin

    def points(self, fine_series: int, coarse_series: int) -> int:
        """How many points so many series have."""
        span = self.end - self.start
        return round(fine_series * (span / self.fine + 1) + coarse_series * (span / self.bin + 1))


def grid_for(start: float, end: float, scrape_s: float, wider: int = 0) -> Grid:
    """The grid for a history, `wider` sizes wider than is best.

    At its best, gauges and counters have four moments a bin; beyond, two, so that the judgement
    comes to the same bins.
    """
    best = choose_step(end - start, scrape_s)
    widths = [best, best, *(float(s) for s in STEPS_S if s > best), *(3600.0 * n for n in range(3, 200))]
    width = widths[min(wider, len(widths) - 1)]
    fine = width / 4 if wider == 0 and width / 4 >= 0.95 * scrape_s else width / 2
    return Grid(math.floor(start / width) * width, math.floor(end / fine) * fine, fine, width)


def within(budget: int, start: float, end: float, scrape_s: float, fine: int, coarse: int) -> Grid:
    """The finest grid on which so many series cost no more points than the budget."""
    grid = grid_for(start, end, scrape_s)
    for wider in range(1, 40):
        if grid.points(fine, coarse) <= budget:
            break
        grid = grid_for(start, end, scrape_s, wider)
    return grid


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


def quoted(text: str) -> str:
    """A text as a string of PromQL."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def one_of(label: str, values: Sequence[str]) -> str:
    """A matcher: the label has one of these values."""
    if len(values) == 1:
        return f"{label}={quoted(values[0])}"
    return f"{label}=~{quoted('|'.join(_literal(v) for v in values))}"


def _literal(text: str) -> str:
    """A text as a regular expression of RE2 that matches it alone."""
    return "".join("\\" + c if c in r"\.+*?()|[]{}^$" else c for c in text)
