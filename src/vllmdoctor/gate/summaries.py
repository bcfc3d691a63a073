"""Runs of which only a summary was kept: one number a measure, so only several runs tell the spread."""

import math
from collections.abc import Mapping, Sequence

import numpy as np

from vllmdoctor import probe_series, run_series
from vllmdoctor.gate.blocks import Estimate, Ratio, estimate
from vllmdoctor.gate.requests import TAIL, Run
from vllmdoctor.recording import Recording

FEWEST_RUNS = 3
Summary = Mapping[str, float]


def summaries_of(recording: Recording) -> tuple[Summary, ...]:
    """The summaries in a recording: each instance with a run's series is one."""
    found = []
    for columns in recording.columns.values():
        values = {n: float(c.values[-1]) for n, c in columns.items() if n.startswith("run:")}
        if values:
            found.append(values)
    return tuple(found)


def summary_of(run: Run) -> Summary:
    """What a summary of a run with all its requests would say."""
    tokens, ttft, itl = (
        run.of(n).values for n in (probe_series.OUTPUT_TOKENS, probe_series.TTFT, probe_series.ITL)
    )
    length = run.end - run.start
    found = {
        run_series.THROUGHPUT: float(tokens.sum()) / length if tokens.size and length > 0 else math.nan,
        run_series.TTFT_P95: float(np.quantile(ttft, TAIL)) if ttft.size else math.nan,
        run_series.TTFT_MEAN: float(ttft.mean()) if ttft.size else math.nan,
        run_series.ITL_P95: float(np.quantile(itl, TAIL)) if itl.size else math.nan,
        run_series.ITL_MEAN: float(itl.mean()) if itl.size else math.nan,
        run_series.E2E_MEAN: run.mean(probe_series.E2E),
        run_series.COMPLETED: float(run.completed),
        run_series.FAILED: float((run.of(probe_series.ERROR).values == 1).sum()),
    }
    return {name: value for name, value in found.items() if not math.isnan(value)}


def succeeded(summaries: Sequence[Summary]) -> tuple[int, int]:
    """(how many requests succeeded, how many were sent); 0 sent where a run does not count its failures."""
    pairs = [(s.get(run_series.COMPLETED, math.nan), s.get(run_series.FAILED, math.nan)) for s in summaries]
    good, bad = (sum(column) for column in zip(*pairs, strict=True))
    return (int(good), int(good + bad)) if math.isfinite(good + bad) else (0, 0)


def over_runs(summaries: Sequence[Summary], name: str) -> Estimate:
    """A measure's mean over the runs, with the spread between them."""
    values = np.array([s[name] for s in summaries if name in s])
    return estimate(Ratio(values, np.ones(values.size)), FEWEST_RUNS)
