"""Requests seen from the client's side: each run's samples, and the measures that come from them."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from vllmdoctor import probe_series as series
from vllmdoctor.gate.blocks import UNKNOWN, Estimate, Ratio, blocks_for, estimate, pooled
from vllmdoctor.recording import Column, Recording
from vllmdoctor.statistics import FloatArray

RUNS_AS_BLOCKS = 5
"""From so many repeat runs on, each is one block: their spread is the one between runs."""

TAIL = 0.95
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


def throughput(runs: Sequence[Run]) -> Estimate:
    """Generated tokens per second, booked when their request ends."""
    cuts = _cuts(runs)
    over = [np.zeros(0)]
    under = [np.zeros(0)]
    for run, count in zip(runs, cuts, strict=True):
        tokens = run.of(series.OUTPUT_TOKENS)
        places = _places(run, tokens.times, count)
        over.append(np.bincount(places, tokens.values, count).astype(np.float64))
        under.append(np.full(count, (run.end - run.start) / count))
    return estimate(Ratio(np.concatenate(over), np.concatenate(under)))


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
