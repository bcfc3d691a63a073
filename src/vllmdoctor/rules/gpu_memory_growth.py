"""GPU memory outside the KV pool grows after warm-up, until an allocation fails."""

import math
from collections.abc import Iterator

import numpy as np

from vllmdoctor.case import CannotTell, Case, Kind, Limit, Onset
from vllmdoctor.model import Severity
from vllmdoctor.rules import Yielded, rule
from vllmdoctor.statistics import change, mann_kendall, theil_sen


@rule(
    summary="GPU memory grows after warm-up, outside the preallocated KV pool",
    severity=Severity.WARNING,
    signals=("gpu_memory_used",),
    helpful=("gpu_memory_free", "gpu_memory_total"),
    limits={
        "span": Limit(2.0, "h", "a shorter history cannot tell growth from warm-up", "degradation guide"),
        "growth": Limit(256 * 2**20, "bytes", "less is workspaces and captured graphs", "vllmdoctor"),
        "p": Limit(0.01, "p-value", "a trend that chance does not make (Mann-Kendall)", "statistics"),
        "free": Limit(500 * 2**20, "bytes", "large prompts fail for lack of it", "measured cases"),
    },
    remedies={"": ("lower-gpu-memory-utilization", "upgrade", "rolling-restart")},
)
def gpu_memory_growth(case: Case) -> Iterator[Yielded]:
    lim, frame = case.limits, case.frame
    used = frame.gauge("gpu_memory_used")
    hours = (frame.times - frame.start) / 3600
    known = np.flatnonzero(np.isfinite(used))
    span = float(hours[known[-1]] - hours[known[0]]) if known.size else 0.0
    yield case.require("history of GPU memory", span, ">=", lim["span"])
    if span < lim["span"].value:
        yield CannotTell(f"growth needs {lim['span'].value:g} h of history, this one has {span:.2g} h")
        return
    # warm-up (graphs, workspaces) fills the first tenth
    warm = known[known.size // 10 :]
    slope, low, high = theil_sen(hours[warm], used[warm])
    _, p = mann_kendall(used[warm])
    half = warm.size // 2
    late, _, _ = theil_sen(hours[warm[half:]], used[warm[half:]])
    yield case.require("growth after warm-up", slope * span, ">=", lim["growth"])
    yield case.require("chance of such a trend (Mann-Kendall p)", p, "<=", lim["p"])
    yield case.require("slope of the second half", late, ">", 0.0, "bytes")
    free = frame.gauge("gpu_memory_free")
    left = float(free[np.isfinite(free)][-1]) if np.isfinite(free).any() else math.nan
    yield case.support("GPU memory free", left, "<=", lim["free"])
    yield case.note(
        "growth per hour", slope, "bytes", detail=f"90 % interval {low / 2**20:.3g} to {high / 2**20:.3g} MiB"
    )
    moved = change(frame.smooth(used, max(3, used.size // 40)))
    yield Onset(
        float(frame.start + (moved.index if moved is not None and moved.gain > 0.8 else 0) * frame.step)
    )
    yield Kind("", f"GPU memory grows {slope / 2**20:.3g} MiB/h beyond the preallocated pool")
