"""GPU memory outside the KV pool grows after warm-up, until an allocation fails."""

import math
from collections.abc import Iterator

import numpy as np

from vllmdoctor.case import CannotTell, Case, Felt, Kind, Limit, Onset, number
from vllmdoctor.model import Severity
from vllmdoctor.rules import Yielded, rule
from vllmdoctor.statistics import change, last, mann_kendall, theil_sen


@rule(
    summary="GPU memory grows after warm-up, outside the preallocated KV pool",
    severity=Severity.WARNING,
    signals=(("gpu_memory_used", "gpu_out_of_memory"),),
    helpful=("gpu_memory_free", "gpu_memory_total", "gpu_other_memory"),
    limits={
        "span": Limit(2.0, "h", "a shorter history cannot tell growth from warm-up", "degradation guide"),
        "growth": Limit(256 * 2**20, "bytes", "less is workspaces and captured graphs", "vllmdoctor"),
        "p": Limit(0.01, "p-value", "a trend that chance does not make (Mann-Kendall)", "statistics"),
        "failed": Limit(
            1.0,
            "failures",
            "the KV pool is allocated at the start: what fails later lies outside of it",
            "vLLM source",
        ),
        "unused": Limit(1.0, "ratio", "memory that would do is reserved and in pieces", "measured cases"),
        "free": Limit(500 * 2**20, "bytes", "large prompts fail for lack of it", "measured cases"),
    },
    remedies={"": ("lower-gpu-memory-utilization", "upgrade", "rolling-restart")},
)
def gpu_memory_growth(case: Case) -> Iterator[Yielded]:
    if case.frame.has("gpu_out_of_memory"):
        yield from _failed(case)
        return
    lim, frame = case.limits, case.frame
    used = frame.gauge("gpu_memory_used")
    others = frame.gauge("gpu_other_memory")
    used = np.where(np.isfinite(others), used - others, used) if np.isfinite(others).any() else used
    hours = (frame.times - frame.start) / 3600
    known = np.flatnonzero(np.isfinite(used))
    span = float(hours[known[-1]] - hours[known[0]]) if known.size else 0.0
    yield case.require("history of GPU memory", span, ">=", lim["span"])
    if span < lim["span"].value:
        yield CannotTell(f"it takes {lim['span'].value:g} h of history to tell, here are {60 * span:.0f} min")
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
    yield case.support("GPU memory free", last(free), "<=", lim["free"])
    yield case.note(
        "growth per hour",
        slope,
        "bytes",
        detail=f"90 % interval {number(low / 2**20)} to {number(high / 2**20)} MiB",
    )
    moved = change(frame.smooth(used, max(3, used.size // 40)))
    yield Onset(
        float(frame.start + (moved.index if moved is not None and moved.gain > 0.8 else 0) * frame.step)
    )
    yield Kind("", f"GPU memory grows {number(slope / 2**20)} MiB/h beyond the preallocated pool")


def _failed(case: Case) -> Iterator[Yielded]:
    """The log says that an allocation failed: growth has reached its end."""
    lim, frame = case.limits, case.frame
    times, counts = frame.raw("gpu_out_of_memory")
    wanted, unused = (last(frame.raw(f"gpu_out_of_memory_{part}")[1]) for part in ("wanted", "unused"))
    failures = float(np.max(counts[np.isfinite(counts)], initial=0.0))
    yield case.require("allocations that failed", failures, ">=", lim["failed"])
    yield case.support(
        "reserved and unused / wanted", unused / wanted if wanted else math.nan, ">=", lim["unused"]
    )
    yield case.note("size of the last one", wanted, "bytes")
    yield case.note("reserved by PyTorch and unused then", unused, "bytes")
    yield Onset(float(times[1] if times.size > 1 else times[0]))
    yield Felt()
    pieces = unused >= lim["unused"].value * wanted
    yield Kind(
        "allocator fragmentation" if pieces else "",
        f"an allocation of {wanted / 2**20:.0f} MiB outside the KV pool failed"
        + (f" while PyTorch held {unused / 2**20:.0f} MiB that it did not use" if unused > 0 else ""),
    )
