"""Public cases as recordings: the numbers a report states, laid out over the times it states.

A case file (tests/cases/*.json) holds only stated numbers; what was assumed to lay them out over time
stands in its `laid_out`. A signal that the report does not state is not there, and a stretch for which it
states no value (null) is absent from the scrapes.
"""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from bench.accuracy.truth import Truth, truth_of

from vllmdoctor.model import Fact, Snapshot
from vllmdoctor.recording import FloatArray, Recording, gather
from vllmdoctor.sources import Window, gather_targets

FOLDER = Path(__file__).parents[2] / "tests" / "cases"
START = 1_750_000_000.0  # unix time of a case's second 0: the reports' own dates do not matter
FINE_S = 0.25  # rates are integrated in steps this long
Points = Sequence[tuple[float, float | None]]


@dataclass(frozen=True, slots=True)
class Case:
    """One public case. `told` is its file's content."""

    name: str
    told: Mapping[str, Any]

    @property
    def truth(self) -> Truth:
        """Its label."""
        return truth_of(self.told, START)

    @property
    def recording(self) -> Recording:
        """Its numbers, or its log where it has one, as the doctor gets them."""
        if "file" in self.told:
            return gather_targets([str(FOLDER / self.told["file"])], Window())
        return gather([*_facts(self.told), *_snapshots(self.told)])


def names() -> tuple[str, ...]:
    """All cases, by number."""
    return tuple(sorted(p.stem for p in FOLDER.glob("*.json")))


def read(name: str) -> Case:
    """One case by its name."""
    return Case(name, json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8")))


def _facts(told: Mapping[str, Any]) -> Iterator[Fact]:
    for key, value in told.get("facts", {}).items():
        yield Fact(key, value, "the report")


def _snapshots(told: Mapping[str, Any]) -> Iterator[Snapshot]:
    times = np.arange(0.0, float(told["length_s"]) + 1e-9, float(told["interval_s"]))
    columns: dict[str, FloatArray] = {}
    for series, value in told.get("constant", {}).items():
        columns[series] = np.full(times.size, float(value))
    for series, points in told.get("gauge", {}).items():
        columns[series] = _between(times, points)
    for series, points in told.get("held", {}).items():
        columns[series] = _held(times, points)
    for series, points in told.get("rate", {}).items():
        columns[series] = _integrated(times, points)
    for family, seen in told.get("observed", {}).items():
        columns |= _histogram(times, family, seen)
    for row, time in enumerate(times):
        values = {s: float(c[row]) for s, c in columns.items() if not math.isnan(c[row])}
        yield Snapshot(START + float(time), "case:8000", values)


def _between(times: FloatArray, points: Points) -> FloatArray:
    """Straight lines between stated values; nothing before the first, after the last or beside a null."""
    at = np.array([t for t, _ in points])
    values = np.array([math.nan if v is None else v for _, v in points])
    out = np.interp(times, at, values, left=math.nan, right=math.nan)
    return np.asarray(out, np.float64)


def _held(times: FloatArray, points: Points) -> FloatArray:
    """Each stated value until the next one."""
    at = np.array([t for t, _ in points])
    values = np.array([math.nan if v is None else v for _, v in points])
    index = np.searchsorted(at, times, "right") - 1
    return np.where(index >= 0, values[np.maximum(index, 0)], np.nan)


def _integrated(times: FloatArray, points: Points) -> FloatArray:
    """A counter whose rate runs in straight lines between stated ones; absent where no rate is stated."""
    fine = np.arange(0.0, times[-1] + FINE_S / 2, FINE_S)
    rate = _between(fine, points)
    total = np.concatenate([[0.0], np.cumsum(np.nan_to_num((rate[1:] + rate[:-1]) / 2) * FINE_S)])
    counter = np.interp(times, fine, total)
    known = np.isfinite(rate)[np.clip(np.rint(times / FINE_S).astype(int), 0, fine.size - 1)]
    return np.where(known, np.round(counter), np.nan)


def _histogram(times: FloatArray, family: str, seen: Mapping[str, Any]) -> dict[str, FloatArray]:
    """Single stated observations, each with its time, in a histogram with the given bounds."""
    at, values = (np.array(x, np.float64) for x in zip(*seen["at"], strict=True))
    bounds = [*(float(b) for b in seen["bounds"]), math.inf]
    done = times[:, None] >= at[None, :]
    columns = {
        f'{family}_bucket{{le="{"+Inf" if math.isinf(b) else b}"}}': (done & (values <= b)).sum(1) * 1.0
        for b in bounds
    }
    columns[f"{family}_sum"] = (done * values).sum(1)
    columns[f"{family}_count"] = done.sum(1) * 1.0
    return columns
