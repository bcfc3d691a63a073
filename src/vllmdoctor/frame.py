"""One engine's history on an even time grid: the door to pandas, and where raw series become measures.

A frame resolves canonical signals by presence, merges label sets, turns counters into rates
(resets and gaps taken into account) and histograms into counts per bucket and bin. Absence is NaN.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TypeVar, cast

import numpy as np
import pandas as pd

from vllmdoctor.histogram import Histogram
from vllmdoctor.recording import Column
from vllmdoctor.signals import SIGNALS, Name, resolve
from vllmdoctor.statistics import FloatArray

BINS = 300  # about how many points a history is judged on
STEPS_S = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200)
T = TypeVar("T")

MOST_RATIO = 1.05  # a share may be rounded up a little, not more
GAP_SCRAPES = 4  # a hole longer than this many scrapes is a gap: nothing is known inside it

_SUFFIXES = ("_bucket", "_sum", "_count")


@dataclass(frozen=True, slots=True)
class Labelled:
    """A column with the labels of its series."""

    labels: Mapping[str, str]
    column: Column


@dataclass(frozen=True)
class Frame:
    """The history of one engine. `families` maps exposed family names to their columns."""

    instance: str
    engine: str
    model: str
    start: float
    end: float
    step: float
    interval: float
    families: Mapping[str, Sequence[Labelled]]
    joints: tuple[float, ...] = ()  # where a pod that followed another begins
    seam: float | None = None  # where a baseline's history ends that was put before this one
    _cache: dict[tuple[str, str], object] = field(default_factory=dict, repr=False, compare=False)

    @cached_property
    def names(self) -> Mapping[str, Name]:
        """Canonical signal -> the name it was found under."""
        return resolve(self.families.keys())

    @property
    def from_log(self) -> bool:
        """Whether all that is known of this engine was read from its log."""
        return not any(name.startswith("vllm:") for name in self.families)

    @cached_property
    def size(self) -> int:
        """How many bins the grid has."""
        return max(1, math.floor((self.end - self.start) / self.step) + 1)

    @cached_property
    def times(self) -> FloatArray:
        """The middle of each bin, unix seconds."""
        return self.start + (np.arange(self.size, dtype=np.float64) + 0.5) * self.step

    def has(self, signal: str) -> bool:
        """Whether the signal was exposed at all."""
        return signal in self.names

    def columns(self, signal: str) -> Iterator[Labelled]:
        """The raw columns of a signal, unmerged, in the signal's own unit (unscaled)."""
        name = self.names.get(signal)
        if name is None:
            return
        for labelled in self.families[name.text]:
            if all(labelled.labels.get(k) == v for k, v in name.labels):
                yield labelled

    def _once(self, kind: str, signal: str, make: Callable[[], T]) -> T:
        key = (kind, signal)
        if key not in self._cache:
            self._cache[key] = make()
        return cast("T", self._cache[key])

    def _bins(self, times: FloatArray) -> "np.ndarray[tuple[int, ...], np.dtype[np.intp]]":
        return np.clip(((times - self.start) / self.step).astype(np.intp), 0, self.size - 1)

    def gauge(self, signal: str, how: str = "mean") -> FloatArray:
        """A gauge per bin: the mean, max, min or last of its samples, label sets merged."""
        return self._once(how, signal, lambda: self._gauge(signal, how))

    def _gauge(self, signal: str, how: str) -> FloatArray:
        rows: list[FloatArray] = []
        for _, column in ((x.labels, x.column) for x in self.columns(signal)):
            keep = self._possible(signal, column.values)
            if not keep.any():
                continue
            grouped = pd.Series(column.values[keep]).groupby(self._bins(column.times[keep]))
            binned = getattr(grouped, how)()
            row = np.full(self.size, np.nan)
            row[binned.index.to_numpy()] = binned.to_numpy()
            rows.append(row)
        if not rows:
            return np.full(self.size, np.nan)
        return _merge(rows, SIGNALS[signal].merge) * self.names[signal].scale

    def _possible(self, signal: str, values: FloatArray) -> "np.ndarray[tuple[int, ...], np.dtype[np.bool_]]":
        """Which values can be true: none of these signals is negative, and no share is above 1."""
        highest = MOST_RATIO if SIGNALS[signal].unit == "ratio" else math.inf
        return np.asarray(
            np.isfinite(values) & (values >= 0) & (values * self.names[signal].scale <= highest)
        )

    def impossible(self, signal: str) -> int:
        """How many samples of a signal cannot be true and were left out."""
        return sum(
            int((np.isfinite(x.column.values) & ~self._possible(signal, x.column.values)).sum())
            for x in self.columns(signal)
        )

    def each(self, signal: str, *labels: str, how: str = "mean") -> Mapping[str, FloatArray]:
        """A gauge per bin for each value of a label (of the first of `labels` that a series has)."""
        return self._once(f"each {how} {labels}", signal, lambda: self._each(signal, labels, how))

    def _each(self, signal: str, labels: tuple[str, ...], how: str) -> Mapping[str, FloatArray]:
        apart: dict[str, list[Labelled]] = {}
        for x in self.columns(signal):
            apart.setdefault(next((x.labels[n] for n in labels if x.labels.get(n)), ""), []).append(x)
        if len(apart) < 2:
            return {value: self.gauge(signal, how) for value in apart}
        name = self.names[signal].text
        only = {value: replace(self, families={name: of}, _cache={}) for value, of in apart.items()}
        return {value: frame.gauge(signal, how) for value, frame in only.items()}

    def raw(self, signal: str) -> tuple[FloatArray, FloatArray]:
        """All samples of a gauge or counter at their own times, label sets merged; empty when absent."""
        columns = [x.column for x in self.columns(signal)]
        if not columns:
            return np.empty(0), np.empty(0)
        times, rows = columns[0].times, [c.values for c in columns]
        if any(c.times is not times for c in columns):
            times = np.unique(np.concatenate([c.times for c in columns]))
            rows = [_onto(times, c) for c in columns]
        finite = [np.where(self._possible(signal, r), r, np.nan) for r in rows]
        return times, _merge(finite, SIGNALS[signal].merge) * self.names[signal].scale

    def rate(self, signal: str) -> FloatArray:
        """A counter's increase per second and bin; NaN in gaps. Resets count from zero."""
        return self._once("rate", signal, lambda: self._rate(signal))

    def _rate(self, signal: str) -> FloatArray:
        rows = [self.increase(x.column) for x in self.columns(signal)]
        if not rows:
            return np.full(self.size, np.nan)
        return _merge(rows, "sum") * self.names[signal].scale

    def _increase(self, column: Column) -> tuple[FloatArray, FloatArray]:
        """(increase, observed seconds) per bin of one counter series."""
        keep = np.isfinite(column.values) & (column.values >= 0)
        times, values = column.times[keep], column.values[keep]
        if times.size < 2:
            return np.zeros(self.size), np.zeros(self.size)
        delta, dt = np.diff(values), np.diff(times)
        delta = np.where(delta < 0, values[1:], delta)
        near = dt <= GAP_SCRAPES * self.interval
        bins = self._bins(times[1:][near])
        return (
            np.bincount(bins, delta[near], self.size).astype(np.float64),
            np.bincount(bins, dt[near], self.size).astype(np.float64),
        )

    def increase(self, column: Column) -> FloatArray:
        """The increase per second and bin of one counter series; NaN in gaps."""
        grown, seen = self._increase(column)
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.where(seen > 0, grown / seen, np.nan)

    @cached_property
    def observed(self) -> FloatArray:
        """Seconds of each bin that scrapes cover."""
        for signal in ("generation_tokens", "requests_running", "kv_cache_usage", "prompt_tokens"):
            apart = {id(x.column.times): x.column.times for x in self.columns(signal)}
            if apart:
                seen = [self._increase(Column(t, np.zeros(t.size)))[1] for t in apart.values()]
                return np.asarray(np.minimum(np.sum(seen, axis=0), self.step))
        return np.zeros(self.size)

    def histogram(self, signal: str) -> Histogram | None:
        """A histogram's increments on the grid; None when it was never exposed."""
        return self._once("histogram", signal, lambda: self._histogram(signal))

    def _histogram(self, signal: str) -> Histogram | None:
        name = self.names.get(signal)
        if name is None:
            return None
        by_bound: dict[float, FloatArray] = {}
        totals = {"_sum": np.zeros(self.size), "_count": np.zeros(self.size)}
        for suffix in _SUFFIXES:
            for x in self.families.get(name.text + suffix, ()):
                if not all(x.labels.get(k) == v for k, v in name.labels):
                    continue
                increase, _ = self._increase(x.column)
                if suffix == "_bucket":
                    try:
                        bound = float(x.labels.get("le", "nan"))
                    except ValueError:
                        continue
                    if not math.isnan(bound):
                        by_bound[bound] = by_bound.get(bound, np.zeros(self.size)) + increase
                else:
                    totals[suffix] = totals[suffix] + increase
        if not by_bound:
            return None
        bounds = np.array(sorted(by_bound))
        cumulative = np.column_stack([by_bound[b] for b in bounds])
        counts = np.maximum(np.diff(cumulative, axis=1, prepend=0.0), 0.0)
        return Histogram(bounds, counts * 1.0, totals["_sum"] * name.scale, totals["_count"])

    def labels(self, signal: str) -> Mapping[str, str]:
        """The labels of an info metric's newest series; empty when absent."""
        newest: Labelled | None = None
        for x in self.columns(signal):
            if newest is None or x.column.times[-1] >= newest.column.times[-1]:
                newest = x
        return newest.labels if newest else {}

    @cached_property
    def restarts(self) -> tuple[float, ...]:
        """When the server's counters began anew (unix seconds, the first scrape after)."""
        found = list(self.joints)
        # where the process tells its start, a counter that falls (a clock put back) is no restart
        told = (
            ("process_start_time",)
            if self.has("process_start_time")
            else ("generation_tokens", "prompt_tokens")
        )
        for signal in told:
            for x in self.columns(signal):
                keep = np.isfinite(x.column.values)
                times, values = x.column.times[keep], x.column.values[keep]
                moved = np.diff(values)
                at = times[1:][(moved > 1) if signal == "process_start_time" else (moved < 0)]
                found += [float(t) for t in at]
        found.sort()
        slack = GAP_SCRAPES * self.interval
        return tuple(t for i, t in enumerate(found) if i == 0 or t - found[i - 1] > slack)

    def smooth(self, values: FloatArray, bins: int) -> FloatArray:
        """A centred rolling median over `bins` points that ignores NaN."""
        if bins <= 1:
            return values
        return pd.Series(values).rolling(bins, center=True, min_periods=1).median().to_numpy(np.float64)


def _merge(rows: Sequence[FloatArray], how: str) -> FloatArray:
    if len(rows) == 1:
        return rows[0]
    stack = np.vstack(rows)
    empty = np.isnan(stack).all(axis=0)
    stack = np.where(empty, 0.0, stack)
    if how == "sum":
        merged = np.nansum(stack, axis=0)
    elif how == "mean":
        merged = np.nanmean(stack, axis=0)
    else:
        merged = np.nanmax(stack, axis=0)
    merged_or_nan: FloatArray = np.where(empty, np.nan, merged)
    return merged_or_nan


def _onto(times: FloatArray, column: Column) -> FloatArray:
    """A column's values at other times: each holds for at most two of them."""
    held = pd.Series(column.values, column.times).reindex(times).ffill(limit=2)
    return np.asarray(held.to_numpy(), np.float64)


def after(frame: Frame, baseline: Frame) -> Frame:
    """The frame with a baseline's history put before it, so that both are judged on one grid.

    The baseline's times are moved to end well before this history starts; nothing is read into the hole.
    """
    interval = max(frame.interval, baseline.interval)
    hole = 4 * GAP_SCRAPES * interval
    move = frame.start - hole - baseline.end
    moved: dict[int, FloatArray] = {}

    def earlier(x: Labelled) -> Labelled:
        times = moved.setdefault(id(x.column.times), x.column.times + move)
        return Labelled(x.labels, Column(times, x.column.values))

    families = {
        name: [*frame.families.get(name, ()), *(earlier(x) for x in baseline.families.get(name, ()))]
        for name in {*frame.families, *baseline.families}
    }
    start = baseline.start + move
    step = choose_step(frame.end - start, interval)
    return replace(
        frame,
        start=start,
        step=step,
        interval=interval,
        families=families,
        seam=frame.start - hole / 2,
        _cache={},
    )


def choose_step(span: float, interval: float) -> float:
    """The grid step in seconds: about BINS bins, and at least two scrapes in each."""
    wanted = max(span / BINS, 2 * interval)
    return float(next((s for s in STEPS_S if s >= wanted), math.ceil(wanted / 3600) * 3600))
