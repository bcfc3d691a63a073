"""Requests seen from the client's side: each run's samples, and the measures that come from them."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from vllmdoctor import probe_series as series
from vllmdoctor.gate.blocks import UNKNOWN, Estimate, Ratio, blocks_for, estimate, pooled
from vllmdoctor.recording import Column, Recording
from vllmdoctor.statistics import FloatArray
from vllmdoctor.vitals import usual_rate

RUNS_AS_BLOCKS = 5
"""From so many repeat runs on, each is one block: their spread is the one between runs."""

TAIL = 0.95
BINS, SHORTEST_BIN_S = 120, 2.0  # a run is laid on about so many bins
ROWS = 4096  # requests at a time: memory stays small
Places = NDArray[np.intp]


@dataclass(frozen=True, slots=True)
class Samples:
    """One series' known samples: `times` (unix seconds) and `values`."""

    times: FloatArray
    values: FloatArray


@dataclass(frozen=True, slots=True)
class Run:
    """The requests of one run, series by series; `start` and `end` (unix seconds) hold all of them."""

    samples: Mapping[str, Samples]
    start: float
    end: float

    def of(self, name: str) -> Samples:
        """The samples of one series; empty where the run has none."""
        return self.samples.get(name, Samples(np.empty(0), np.empty(0)))

    @property
    def completed(self) -> int:
        """How many requests completed."""
        return int(max(self.of(series.E2E).times.size, self.of(series.TTFT).times.size))

    def beside(self, name: str, times: FloatArray) -> FloatArray:
        """The samples of a series at the times of another; 0 where it has none."""
        samples = self.of(name)
        if not samples.times.size:
            return np.zeros(times.size)
        at = np.minimum(np.searchsorted(samples.times, times), samples.times.size - 1)
        return np.where(samples.times[at] == times, samples.values[at], 0.0)

    def mean(self, name: str) -> float:
        """The mean of a series; NaN without samples."""
        values = self.of(name).values
        return float(values.mean()) if values.size else math.nan


def runs_of(recording: Recording) -> tuple[Run, ...]:
    """The runs in a recording: each instance with a probe's series is one."""
    found = []
    for columns in recording.columns.values():
        samples = {
            name: s
            for name, c in columns.items()
            if name.startswith("probe:") and (s := _known(c)).times.size
        }
        if not samples:
            continue
        ends = samples.get(series.E2E) or samples.get(series.TTFT)
        sent = ends.times - ends.values if ends else np.empty(0)
        first = min([*sent.tolist(), *(float(s.times[0]) for s in samples.values())])
        found.append(Run(samples, first, max(float(s.times[-1]) for s in samples.values())))
    return tuple(found)


def _known(column: Column) -> Samples:
    keep = np.isfinite(column.values) & (column.values >= 0)
    return Samples(column.times[keep], column.values[keep])


def rates(runs: Sequence[Run]) -> Estimate:
    """Generated tokens per second as they were."""
    grids = [_grid(run, count) for run, count in zip(runs, _cuts(runs), strict=True)]
    return _summed(grids, [np.full(g.tokens.size, g.step) for g in grids])


def at_equal_load(baseline: Sequence[Run], candidate: Sequence[Run]) -> tuple[Estimate, Estimate]:
    """Generated tokens per second at the mean load of both: over what each load usually brings."""
    sides = [
        [_grid(run, count) for run, count in zip(runs, _cuts(runs), strict=True)]
        for runs in (baseline, candidate)
    ]
    grids = [grid for side in sides for grid in side]
    usual = usual_rate(
        np.concatenate([g.load for g in grids]), np.concatenate([g.tokens / g.step for g in grids])
    )
    level = float(np.nanmean(usual)) if np.isfinite(usual).any() else math.nan
    shares = np.split(usual, np.cumsum([g.load.size for g in grids])[:-1])
    first = _summed(sides[0], [s * g.step for s, g in zip(shares, sides[0], strict=False)])
    other = _summed(sides[1], [s * g.step for s, g in zip(shares[len(sides[0]) :], sides[1], strict=True)])
    return replace(first, value=first.value * level), replace(other, value=other.value * level)


@dataclass(frozen=True, slots=True)
class _Grid:
    """One run in bins of `step` seconds: tokens made and requests in flight in each, and its block."""

    step: float
    tokens: FloatArray
    load: FloatArray
    block: NDArray[np.intp]
    blocks: int


def _grid(run: Run, blocks: int) -> _Grid:
    """A request's tokens lie evenly between its first one and its end."""
    bins = blocks * max(1, min(BINS // blocks, int((run.end - run.start) / blocks / SHORTEST_BIN_S)))
    tokens = run.of(series.OUTPUT_TOKENS)
    sent = tokens.times - run.beside(series.E2E, tokens.times)
    edges = np.linspace(run.start, run.end, bins + 1)
    made = _until(edges, sent + run.beside(series.TTFT, tokens.times), tokens.times, tokens.values)
    inside = _until(edges, sent, tokens.times, tokens.times - sent)
    step = (run.end - run.start) / bins
    return _Grid(step, np.diff(made), np.diff(inside) / step, np.arange(bins) * blocks // bins, blocks)


def _until(edges: FloatArray, begun: FloatArray, ended: FloatArray, amount: FloatArray) -> FloatArray:
    """How much there is before each edge, where each amount grows evenly from `begun` to `ended`."""
    length = np.maximum(ended - begun, 1e-9)
    total = np.zeros(edges.size)
    for part in np.array_split(np.arange(ended.size), max(1, ended.size // ROWS)):
        grown = np.clip((edges[:, None] - begun[part]) / length[part], 0.0, 1.0)
        total += (grown * amount[part]).sum(axis=1)
    return total


def _summed(grids: Sequence[_Grid], under: Sequence[FloatArray]) -> Estimate:
    tops, bottoms = [], []
    for grid, usual in zip(grids, under, strict=True):
        known = np.isfinite(usual)
        tops.append(np.bincount(grid.block[known], grid.tokens[known], grid.blocks))
        bottoms.append(np.bincount(grid.block[known], usual[known], grid.blocks))
    return estimate(Ratio(np.concatenate(tops), np.concatenate(bottoms)))


def tail(runs: Sequence[Run], name: str) -> Estimate:
    """The p95 of a series over all runs."""
    values: list[FloatArray] = []
    places: list[Places] = []
    before = 0
    for run, count in zip(runs, _cuts(runs), strict=True):
        samples = run.of(name)
        values.append(samples.values)
        places.append(before + _places(run, samples.times, count))
        before += count
    together = np.concatenate(values) if values else np.zeros(0)
    if not together.size:
        return UNKNOWN
    return estimate(pooled(together, np.concatenate(places), before, TAIL))


def mean(runs: Sequence[Run], name: str) -> float:
    """The mean of a series over all runs."""
    values = np.concatenate([run.of(name).values for run in runs])
    return float(values.mean()) if values.size else math.nan


def counted(runs: Sequence[Run], name: str, value: float) -> tuple[int, int]:
    """(how many samples of a yes-no series have the value, how many there are)."""
    values = np.concatenate([run.of(name).values for run in runs])
    return int((values == value).sum()), int(values.size)


def _cuts(runs: Sequence[Run]) -> list[int]:
    """Into how many blocks each run is cut: one, where there are many runs."""
    if len(runs) >= RUNS_AS_BLOCKS:
        return [1] * len(runs)
    return [max(1, blocks_for(run.end - run.start, run.completed)) for run in runs]


def _places(run: Run, times: FloatArray, count: int) -> Places:
    length = max(run.end - run.start, 1e-9)
    return np.clip(((times - run.start) / length * count).astype(np.intp), 0, count - 1)
