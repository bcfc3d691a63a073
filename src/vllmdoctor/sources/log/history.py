"""Statistics lines on time: rates become counters, silence at idle is filled, holes stay holes."""

import math
from array import array
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from vllmdoctor.exposition import canonical_series
from vllmdoctor.model import Samples
from vllmdoctor.sources.log.statistics import Statistics

FloatArray = NDArray[np.float64]

INTERVAL_S, OLD_INTERVAL_S = 10.0, 5.0  # how often V1 and V0 write a statistics line
GAP_LINES = 4.0  # a hole longer than so many intervals is a gap, as it is in a frame
LATE = 1.5  # beyond so many intervals a line is missing

_GAUGES = {
    "running": "log:num_requests_running",
    "waiting": "log:num_requests_waiting",
    "deferred": "log:num_requests_deferred",
    "swapped": "log:num_requests_swapped",
    "usage": "log:kv_cache_usage_ratio",
    "hit_rate": "log:prefix_cache_hit_ratio",
    "external_hit_rate": "log:external_prefix_cache_hit_ratio",
}
_RATES = {"prompt": "log:prompt_tokens_total", "generation": "log:generation_tokens_total"}
_AMOUNTS = {
    "preemptions": "log:num_preemptions_total",
    "drafted": "log:spec_decode_num_draft_tokens_total",
    "accepted": "log:spec_decode_num_accepted_tokens_total",
    "served": "log:requests_served_total",
    "corrupted": "log:corrupted_requests_total",
}
_COLUMNS = (*_GAUGES, *_RATES, *_AMOUNTS)
_SERVED = _COLUMNS.index("served")
SERIES = frozenset({*_GAUGES.values(), *_RATES.values(), *_AMOUNTS.values()})


class Track:
    """The statistics of one engine, line by line."""

    def __init__(self) -> None:
        self.times = array("d")
        self._lives = array("l")
        self._rows = array("d")  # row by row
        self._old = False
        self._rust = False

    def add(self, time: float, life: int, line: Statistics, served: int) -> None:
        """Take one line, written at `time` (unix s) in the server's `life`-th life."""
        self.times.append(time)
        self._lives.append(life)
        self._old, self._rust = line.old, self._rust or line.rust
        told = line.values.get
        self._rows.extend([told(name, math.nan) for name in _COLUMNS])
        self._rows[_SERVED - len(_COLUMNS)] = served

    def amend(self, **values: float) -> None:
        """Add what another line of the same moment tells to the last row."""
        for name, value in values.items():
            self._rows[_COLUMNS.index(name) - len(_COLUMNS)] = value

    @property
    def interval(self) -> float:
        """How often lines are written (s): as they are, where they are regular, else as vLLM does."""
        usual = OLD_INTERVAL_S if self._old else INTERVAL_S
        gaps = np.diff(np.frombuffer(self.times)) if len(self.times) > 3 else np.empty(0)
        gaps = gaps[gaps > 0]
        if gaps.size >= 3:
            middle = float(np.median(gaps))
            if float(np.mean(np.abs(gaps - middle) <= 0.25 * middle + 1.0)) >= 0.5:
                return max(1.0, middle)
        return usual

    def samples(
        self, instance: str, labels: Mapping[str, str], ends: Sequence[float], alone: bool
    ) -> Iterator[Samples]:
        """All series of this engine on one time axis.

        `ends` say when each life was last heard of (unix s); `alone`: no other engine shares the
        server, so that its access lines are this engine's.
        """
        table = np.frombuffer(self._rows).reshape(-1, len(_COLUMNS))
        rows = {name: table[:, i] for i, name in enumerate(_COLUMNS)}
        if not alone or not np.nansum(rows["served"]):
            rows["served"] = np.full(rows["served"].size, np.nan)
        for name in ("deferred", "preemptions", "corrupted"):
            told = np.isfinite(rows[name])
            if told.any() or (name == "preemptions" and self._rust):  # left out of a line when there are none
                rows[name] = np.where(told, rows[name], 0.0)
        plan = _Plan(
            np.frombuffer(self.times), np.frombuffer(self._lives, np.int_), rows, ends, self.interval
        )
        moments = array("d", plan.times.tobytes())
        for name, series in (*_GAUGES.items(), *_RATES.items(), *_AMOUNTS.items()):
            if np.isfinite(rows[name]).any():
                values = (
                    plan.gauge(rows[name]) if name in _GAUGES else plan.counter(rows[name], name in _RATES)
                )
                yield Samples(
                    instance, canonical_series(series, labels), moments, array("d", values.tobytes())
                )


class _Plan:
    """Which moments the series have: lines, the start of each run of lines, and silence that tells something.

    A statistics line averages over the interval before it, so a run of lines starts one interval
    earlier, with counters and without gauges. vLLM leaves lines out while nothing moves: after a line
    of zeros, silence means more of the same, until the next line or the last sign of life.
    """

    def __init__(
        self,
        times: FloatArray,
        lives: NDArray[np.int_],
        rows: Mapping[str, FloatArray],
        ends: Sequence[float],
        interval: float,
    ) -> None:
        order = np.lexsort((times, lives))
        self._order = order
        still = ((rows["prompt"] == 0) & (rows["generation"] == 0))[order]
        moments: list[float] = []
        source: list[int] = []  # the row whose gauges count; -1: none
        spans: list[float] = []  # seconds that the moment's rates cover
        counts: list[bool] = []  # whether the moment is a line
        begins: list[bool] = []  # whether counters begin anew
        last, life = -math.inf, -1

        def put(time: float, row: int, span: float, line: bool, begin: bool = False) -> None:
            moments.append(time)
            source.append(row)
            spans.append(span)
            counts.append(line)
            begins.append(begin)

        def silence(row: int, until: float, room: float = LATE) -> float:
            """Repeat a line of zeros until `room` intervals before `until`; gives the last moment."""
            now = last
            while now + room * interval <= until:
                now += interval
                put(now, row, 0.0, False)
            return now

        for n, at in enumerate(order.tolist()):
            time = float(times[at])
            anew = int(lives[at]) != life
            if n and still[n - 1]:
                end = ends[life] if anew and life < len(ends) else time
                last = silence(int(order[n - 1]), min(end, time), 1.0 if anew else LATE)
            begin = anew and n > 0
            life = int(lives[at])
            span = time - last
            if anew or span > GAP_LINES * interval:
                put(max(time - interval, last + 1e-3) if n else time - interval, -1, 0.0, False, begin)
                span = interval
            put(time, at, max(0.0, span), True)
            last = max(last, time)
        if len(order) and still[-1] and life < len(ends):
            silence(int(order[-1]), ends[life], 1.0)
        self.times = np.array(moments)
        self._source, self._spans = np.array(source), np.array(spans)
        self._lines, self._begins = np.array(counts), np.array(begins)

    def gauge(self, row: FloatArray) -> FloatArray:
        """The row at each moment; NaN where a run starts."""
        shown: FloatArray = np.where(self._source >= 0, row[np.maximum(self._source, 0)], np.nan)
        return shown

    def counter(self, row: FloatArray, rate: bool) -> FloatArray:
        """The row summed up, from 0 in each life: amounts, or rates times the seconds they cover."""
        amount = np.where(self._lines, np.nan_to_num(row[np.maximum(self._source, 0)]), 0.0)
        total: FloatArray = np.cumsum(amount * self._spans if rate else amount)
        if self._begins.any():
            lost = np.where(self._begins, total, 0.0)
            total = total - np.maximum.accumulate(lost)
        return total
