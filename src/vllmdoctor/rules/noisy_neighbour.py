"""Somebody else's process is on the server's GPU: it takes memory, and time of the multiprocessors."""

import math
from collections.abc import Iterator

import numpy as np

from vllmdoctor.case import Case, Kind, Limit, Onset
from vllmdoctor.model import Severity
from vllmdoctor.rules import Yielded, rule
from vllmdoctor.statistics import FloatArray, mean


@rule(
    summary="another process uses the server's GPU",
    severity=Severity.INFO,
    signals=("gpu_other_memory",),
    helpful=("gpu_process_memory", "gpu_other_sm", "gpu_memory_free", "gpu_utilization", "itl"),
    limits={
        "memory": Limit(256 * 2**20, "bytes", "less is a display or a monitor", "vllmdoctor"),
        "more": Limit(1.25, "ratio", "a neighbour that was there before explains no decline", "vllmdoctor"),
        "share": Limit(0.05, "ratio", "less of the GPU's time is not felt", "vllmdoctor"),
        "itl": Limit(1.1, "ratio", "steps wait for the neighbour's kernels", "vllmdoctor"),
        "free": Limit(500 * 2**20, "bytes", "large prompts fail for lack of it", "measured cases"),
    },
    # one that was there from the start explains no decline, so nothing is to be done about it
    remedies={"arrived": ("move-the-neighbour",), "grown": ("move-the-neighbour",)},
    explains=("overload", "prefill-bound", "head-of-line-blocking", "gpu-memory-growth", "host-cpu-bound"),
)
def noisy_neighbour(case: Case) -> Iterator[Yielded]:
    lim, frame, now, before = case.limits, case.frame, case.windows.now, case.windows.before
    gpus = frame.each("gpu_other_memory", "gpu", how="max")
    gpu, held = max(gpus.items(), key=lambda x: _largest(x[1]), default=("", np.full(frame.size, np.nan)))
    takes, took = mean(held, now), mean(held, before)
    yield case.require("GPU memory of others", takes, ">=", lim["memory"])
    arrived = _arrival(held, lim["memory"].value)
    grown = takes >= lim["more"].value * took if took > 0 else arrived is not None
    if not math.isnan(took):
        yield case.against(
            "GPU memory of others, before / now",
            took / takes if takes else math.nan,
            ">",
            1 / lim["more"].value,
        )
    time = frame.each("gpu_other_sm", "gpu").get(gpu, np.full(frame.size, np.nan))
    yield case.support("GPU time that others take", mean(time, now), ">=", lim["share"])
    free = frame.each("gpu_memory_free", "gpu").get(gpu, np.full(frame.size, np.nan))
    yield case.support("GPU memory free", mean(free, now), "<=", lim["free"])
    slower = case.symptom("itl")
    if slower is not None:
        yield case.support(
            "time per output token at equal load, now / before", slower.ratio, ">=", lim["itl"]
        )
    names, largest = _who(case, gpu)
    if names:
        yield case.note("GPU memory of the largest of them", largest, "bytes", detail=names)
    if arrived is not None:
        yield Onset(float(frame.start + arrived * frame.step))
    if grown:
        felt = slower is not None and slower.ratio >= lim["itl"].value
        yield Severity.CRITICAL if felt else Severity.WARNING
    yield Kind(
        ("arrived" if arrived is not None else "grown") if grown else "from the start",
        f"{names or 'another process'} holds {takes / 2**30:.1f} GiB of GPU {gpu or '?'}"
        + ("" if math.isnan(mean(time, now)) else f" and {100 * mean(time, now):.0f} % of its time")
        + ("" if grown else ", as before"),
    )


def _largest(values: FloatArray) -> float:
    return float(np.nanmax(values)) if np.isfinite(values).any() else -1.0


def _arrival(held: FloatArray, least: float) -> int | None:
    """The bin in which others came; None where they were there from the start, or never."""
    known = np.flatnonzero(np.isfinite(held))
    present = np.flatnonzero(np.nan_to_num(held) >= least)
    return int(present[0]) if present.size and known.size and present[0] > known[0] else None


def _who(case: Case, gpu: str) -> tuple[str, float]:
    """The names of the others on a GPU, largest first, and what the largest holds."""
    held: dict[str, float] = {}
    for x in case.frame.columns("gpu_process_memory"):
        seen = x.column.values[np.isfinite(x.column.values)]
        if x.labels.get("gpu") == gpu and x.labels.get("owner") == "other" and seen.size:
            who = f"{x.labels.get('process', '?')} (pid {x.labels.get('pid', '?')})"
            held[who] = float(seen[-1])
    first = sorted(held, key=lambda who: -held[who])
    more = f" and {len(first) - 2} more" if len(first) > 2 else ""
    return " and ".join(first[:2]) + more, held[first[0]] if first else math.nan
