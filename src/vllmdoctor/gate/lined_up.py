"""Both sides' histories on one grid, one run after the other, measured by the same yardstick."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from vllmdoctor.engines import frames
from vllmdoctor.frame import Frame, Labelled, after, choose_step
from vllmdoctor.gate.blocks import blocks_for
from vllmdoctor.gate.requests import RUNS_AS_BLOCKS
from vllmdoctor.recording import Recording
from vllmdoctor.statistics import FloatArray, Mask
from vllmdoctor.vitals import Vitals


@dataclass(frozen=True, slots=True)
class Half:
    """One side on the grid: `mask` marks the bins with work, `block` says to which block each belongs."""

    mask: Mask
    block: NDArray[np.intp]
    blocks: int
    requests: float

    def sums(self, values: FloatArray, known: Mask | None = None) -> FloatArray:
        """The sum of a per-bin series in each block; what is not known counts as nothing."""
        use = self.mask if known is None else self.mask & known
        return np.bincount(self.block[use], np.nan_to_num(values[use]), self.blocks).astype(np.float64)


def fleet(recording: Recording) -> Frame | None:
    """All engines of a recording as one; None where it has no server's metrics."""
    each = frames(recording)
    if not each:
        return None
    families: dict[str, list[Labelled]] = {}
    for frame in each:
        for name, columns in frame.families.items():
            families.setdefault(name, []).extend(c for c in columns if c not in families.get(name, ()))
    start, end = min(f.start for f in each), max(f.end for f in each)
    interval = max(f.interval for f in each)
    first = each[0]
    return (
        first
        if len(each) == 1
        else replace(
            first,
            start=start,
            end=end,
            interval=interval,
            step=choose_step(end - start, interval),
            families=families,
            _cache={},
        )
    )


def line_up(baseline: Sequence[Frame], candidate: Sequence[Frame]) -> tuple[Vitals, Half, Half]:
    """The vitals of all runs on one grid, and the two halves of it."""
    runs = [*baseline, *candidate]
    whole, seams = runs[-1], [np.inf]
    for run in reversed(runs[:-1]):
        whole = after(whole, run)
        seams.insert(0, whole.seam or 0.0)
    vitals = Vitals(whole)
    regions = []
    begin = -np.inf
    for seam in seams:
        regions.append((whole.times >= begin) & (whole.times < seam))
        begin = seam
    cut = len(baseline)
    return vitals, _half(vitals, regions[:cut]), _half(vitals, regions[cut:])


def _half(vitals: Vitals, regions: Sequence[Mask]) -> Half:
    mask, block = np.zeros(vitals.frame.size, np.bool_), np.zeros(vitals.frame.size, np.intp)
    count, done = 0, 0.0
    for region in regions:
        work = np.flatnonzero(region & vitals.active & vitals.seen)
        if not work.size:
            continue
        inside = region & vitals.seen
        inside[: work[0]] = inside[work[-1] + 1 :] = False
        bins = np.flatnonzero(inside)
        requests = float(np.nansum(vitals.finished[bins])) * vitals.frame.step
        cuts = 1 if len(regions) >= RUNS_AS_BLOCKS else max(1, _cuts(bins.size, vitals, requests))
        block[bins] = count + (np.arange(bins.size) * cuts) // bins.size
        mask |= inside
        count += cuts
        done += requests
    return Half(mask, block, max(count, 1), done)


def _cuts(bins: int, vitals: Vitals, requests: float) -> int:
    known = requests if requests > 0 else float("inf")
    return min(blocks_for(bins * vitals.frame.step, known), bins)
