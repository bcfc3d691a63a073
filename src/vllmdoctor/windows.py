"""What is compared with what: the signs of a decline, when they changed, and the windows before and now."""

from dataclasses import dataclass

import numpy as np

from vllmdoctor.case import Windows
from vllmdoctor.statistics import Change, FloatArray, change
from vllmdoctor.vitals import Vitals

SHORT_S = 2 * 3600.0  # histories shorter than this have no daily rhythm to compare with
IDLE_S = 1200.0  # so long without work at the end is what the server does now
NOW_S = 3600.0  # the runbook's window


@dataclass(frozen=True, slots=True)
class Signs:
    """The series in which a decline shows, on the frame's grid, and the change found in each."""

    throughput: FloatArray
    itl: FloatArray
    ttft: FloatArray
    waiting: FloatArray
    changes: dict[str, Change]


def at_equal_load(vitals: Vitals, values: FloatArray) -> FloatArray:
    """A latency over what the same number of running requests had at its best; >= 1 or so."""
    load = vitals.running
    keep = np.isfinite(load) & np.isfinite(values) & (values > 0)
    if keep.sum() < 12:
        return np.full(values.size, np.nan)
    order = np.argsort(load[keep], kind="stable")
    x, y = load[keep][order], values[keep][order]
    groups = np.array_split(np.arange(x.size), max(2, min(12, x.size // 6)))
    level_x = np.array([float(np.median(x[g])) for g in groups])
    # never falling with load: seen from above, the best of a higher load bounds that of a lower one
    best = np.array([float(np.quantile(y[g], 0.25)) for g in groups])
    level_y = np.minimum.accumulate(best[::-1])[::-1]
    expected = np.interp(load, level_x, level_y)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(keep, values / expected, np.nan)


def signs(vitals: Vitals) -> Signs:
    """The series of a decline and where each changes, worse-ward only and beyond its noise."""
    frame = vitals.frame
    width = max(3, frame.size // 40)

    def latency(*signals: str) -> FloatArray:
        for signal in signals:
            histogram = frame.histogram(signal)
            if histogram is not None and np.nansum(histogram.count) > 0:
                return histogram.mean
        return np.full(frame.size, np.nan)

    throughput = vitals.adjusted
    itl = at_equal_load(vitals, latency("itl", "tpot"))
    ttft = latency("ttft")
    waiting = vitals.waiting
    changes: dict[str, Change] = {}
    for name, series, worse, least in (
        ("throughput", throughput, -1, 0.15),
        ("itl", itl, 1, 0.2),
        ("ttft", np.log(np.where(ttft > 0, ttft, np.nan)), 1, 0.4),
        ("waiting", np.sqrt(waiting), 1, 0.7),
    ):
        found = change(frame.smooth(np.where(vitals.active, series, np.nan), width))
        if found is None:
            continue
        moved = found.after - found.before
        size = abs(moved) if name in ("ttft", "waiting") else abs(found.ratio - 1)
        if moved * worse > 0 and size >= least and found.gain >= 0.3 and abs(moved) >= 2.5 * found.noise:
            changes[name] = found
    return Signs(throughput, itl, ttft, waiting, changes)


def windows(vitals: Vitals, found: Signs, baseline: str = "") -> Windows:
    """Which bins are "now" and which are "before", and what the comparison is called.

    `baseline` names the recording that was put before this history, where there is one.
    """
    if vitals.frame.seam is not None:
        return _against_baseline(vitals, vitals.frame.seam, baseline)
    frame = vitals.frame
    n = frame.size
    index = np.arange(n)
    work = np.flatnonzero(vitals.active)
    if not work.size:
        everything = vitals.seen.copy()
        idle = np.isfinite(vitals.running).any()
        words = "none: the server had no work" if idle else "none: its work could not be seen"
        return Windows(everything, np.zeros(n, np.bool_), words, None)
    first, last = int(work[0]), int(work[-1])
    worked = (index >= first) & (index <= last) & vitals.seen
    bins_per_hour = max(1, round(NOW_S / frame.step))
    span = (last - first + 1) * frame.step
    onset = _onset(vitals, found)
    recent = bins_per_hour if span >= SHORT_S else max(4, (last - first + 1) // 3)
    none = np.zeros(n, np.bool_)
    silent = vitals.seen & (index > last) & np.isfinite(vitals.running)
    least = max(IDLE_S / frame.step, (last - first) / 20, _longest_pause(vitals, first, last) + 1)
    if silent.sum() >= least:
        since = float(frame.start + (last + 1) * frame.step)
        return Windows(silent, worked & (index > last - recent), "before the work ended", since)
    if onset is not None and onset - first < max(4, (last - first) // 12):
        return Windows(
            worked & (index > last - max(recent, (last - first) // 2)),
            none,
            "none: it was so from the first scrapes on",
            float(frame.start + onset * frame.step),
        )
    if onset is not None:
        now = worked & (index >= max(onset, last - recent + 1))
        if now.sum() < 4:
            now = worked & (index >= max(onset, last - 2 * recent))
        return Windows(
            now, worked & (index < onset), "before the change", float(frame.start + onset * frame.step)
        )
    now = worked & (index > last - recent)
    if span >= 9.5 * 3600:
        back = 8 * bins_per_hour
        before = worked & (index > last - recent - back) & (index <= last - back)
        return Windows(now, before, "the same hour 8 h earlier", None)
    if span >= SHORT_S:
        return Windows(now, worked & (index < first + bins_per_hour), "the first hour", None)
    if last - first + 1 < 2 * recent:
        return Windows(now, none, "none: it was watched too briefly", None)
    return Windows(now, worked & (index < first + recent), "the first third", None)


def _longest_pause(vitals: Vitals, first: int, last: int) -> int:
    """The most bins in a row without work amid the work: pauses as long as this are usual."""
    idle = (vitals.seen & ~vitals.active)[first : last + 1]
    edges = np.flatnonzero(np.diff(np.concatenate(([False], idle, [False])).astype(np.int8)))
    return int(max(edges[1::2] - edges[::2], default=0))


def _against_baseline(vitals: Vitals, seam: float, baseline: str) -> Windows:
    earlier = vitals.frame.times < seam
    work = vitals.active & vitals.seen
    here = np.flatnonzero(work & ~earlier)
    now = work & ~earlier
    if here.size:
        now &= np.arange(work.size) > here[-1] - max(
            4, min(round(NOW_S / vitals.frame.step), here.size * 2 // 3)
        )
    return Windows(now, work & earlier, f"the baseline {baseline}".strip(), None)


def _onset(vitals: Vitals, found: Signs) -> int | None:
    """The bin of the strongest worsening; without one, of a clear change of the plain rate."""
    if found.changes:
        best = max(found.changes.values(), key=lambda c: c.gain)
        return best.index
    width = max(3, vitals.frame.size // 40)
    for series in (vitals.generation, vitals.arrivals):
        plain = change(
            vitals.frame.smooth(np.where(vitals.seen, np.where(vitals.active, series, np.nan), np.nan), width)
        )
        if plain and plain.gain >= 0.5 and abs(plain.ratio - 1) >= 0.25 and plain.shape == "step":
            return plain.index
    return None
