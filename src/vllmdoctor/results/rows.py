"""Requests as rows, and how they become the series of a probe."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from vllmdoctor import probe_series as series
from vllmdoctor.model import Fact, Gap, Observation, Samples
from vllmdoctor.run_series import RUN_INSTANCE

_APART_S = 1e-6  # a moment holds one sample a series


@dataclass(frozen=True, slots=True)
class Row:
    """One request that ended at `end` (unix seconds). Unknown is NaN; `gaps` are (time, seconds) a token."""

    end: float
    failed: bool
    ttft: float = math.nan
    e2e: float = math.nan
    prompt_tokens: float = math.nan
    output_tokens: float = math.nan
    gaps: Sequence[tuple[float, float]] = ()


def observations(
    rows: Sequence[Row], facts: Mapping[str, str | float | int], origin: str
) -> tuple[Observation, ...]:
    """The rows as a probe's series, with the facts of the run."""
    done = [row for row in rows if not row.failed]
    found: list[Observation] = []
    for name, pairs in (
        (series.TTFT, ((r.end, r.ttft) for r in done)),
        (series.E2E, ((r.end, r.e2e) for r in done)),
        (series.OUTPUT_TOKENS, ((r.end, r.output_tokens) for r in done)),
        (series.PROMPT_TOKENS, ((r.end, r.prompt_tokens) for r in done)),
        (series.ERROR, ((r.end, float(r.failed)) for r in rows)),
        (series.ITL, (gap for r in done for gap in r.gaps)),
    ):
        times, values = _columns(pairs)
        if times.size:
            found.append(Samples(series.PROBE_INSTANCE, name, times.tolist(), values.tolist()))
    return (*found, *_facts(facts, origin))


def summary(
    values: Mapping[str, float], facts: Mapping[str, str | float | int], origin: str, end: float, why: str
) -> tuple[Observation, ...]:
    """A run of which only a summary is known, and why no more is."""
    known = ((n, v) for n, v in values.items() if math.isfinite(v))
    found: list[Observation] = [Samples(RUN_INSTANCE, name, [end], [value]) for name, value in known]
    return (*found, *_facts(facts, origin), Gap(origin, "each request", why))


def number(value: object) -> float:
    """A number of a file; NaN for what is none."""
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else math.nan


def _facts(facts: Mapping[str, str | float | int], origin: str) -> list[Fact]:
    return [Fact(key, value, origin, "") for key, value in facts.items() if value not in ("", None)]


def _columns(pairs: Iterable[tuple[float, float]]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Times, strictly ascending, and values; pairs with a NaN are left out."""
    table = np.array([p for p in pairs if math.isfinite(p[0]) and math.isfinite(p[1])], np.float64).reshape(
        -1, 2
    )
    table = table[np.argsort(table[:, 0], kind="stable")]
    steps = np.arange(table.shape[0]) * _APART_S
    return np.maximum.accumulate(table[:, 0] - steps) + steps, table[:, 1]
