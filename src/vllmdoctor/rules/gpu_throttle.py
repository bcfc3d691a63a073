"""The GPU runs below its clock under load: heat, a power cap, or another limit."""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from vllmdoctor.case import Case, Kind, Limit, Onset
from vllmdoctor.model import Severity
from vllmdoctor.rules import Yielded, rule
from vllmdoctor.statistics import Change, FloatArray, Mask, change, finite, mean

GPU_LABELS = ("gpu", "UUID", "uuid")
IDLE_SHARE = 0.05  # a GPU that works less than this is not one of the server's
HEAT, POWER, HARDWARE = 0x20 | 0x40, 0x04 | 0x80, 0x08
REASONS = {
    0x04: "software power cap",
    0x08: "hardware slowdown",
    0x20: "software thermal slowdown",
    0x40: "hardware thermal slowdown",
    0x80: "hardware power brake",
}


@rule(
    summary="the GPU's clock is down under load",
    severity=Severity.CRITICAL,
    signals=("gpu_sm_clock",),
    helpful=(
        "gpu_temperature",
        "gpu_throttle_reasons",
        "gpu_power",
        "gpu_power_limit",
        "gpu_utilization",
        "itl",
    ),
    limits={
        "clock": Limit(0.88, "ratio", "an eighth of the clock is more than boost wanders", "vllmdoctor"),
        "hot": Limit(83.0, "celsius", "most data-centre GPUs begin to slow between 83 and 90 °C", "vendor"),
        "itl": Limit(1.1, "ratio", "decoding follows the clock", "vllmdoctor"),
    },
    remedies={"": ("check-gpu-cooling-and-power",)},
    explains=("overload", "host-cpu-bound", "prefill-bound", "head-of-line-blocking"),
)
def gpu_throttle(case: Case) -> Iterator[Yielded]:
    lim, frame, seen = case.limits, case.frame, case.windows.now
    slowest = _slowest(case)
    now, reference, moved, gpu = slowest.now, slowest.reference, slowest.moved, slowest.gpu
    which = f"of GPU {gpu} " if gpu and slowest.among > 1 else ""
    yield case.require(
        "SM clock under load, now / before",
        now / reference if reference else math.nan,
        "<=",
        lim["clock"],
        detail=f"GPU {gpu} of {slowest.among}" if which else "",
    )
    heat = mean(_of(case, "gpu_temperature", gpu), seen)
    yield case.support("GPU temperature", heat, ">=", lim["hot"])
    reasons = _bits(_of(case, "gpu_throttle_reasons", gpu, "max"), seen)
    # bit 0 is "idle": the others name a limit
    active = math.nan if reasons is None else float(reasons & ~1)
    told = ", ".join(words for bit, words in REASONS.items() if (reasons or 0) & bit)
    yield case.support("throttle reasons besides idle", active, ">", 0.0, detail=told)
    slower = case.symptom("itl")
    if slower is not None:
        yield case.support(
            "time per output token at equal load, now / before", slower.ratio, ">=", lim["itl"]
        )
    if frame.has("gpu_power_limit"):
        drawn = mean(_of(case, "gpu_power", gpu) / _of(case, "gpu_power_limit", gpu), seen)
        yield case.note("power drawn / its limit", drawn, "ratio")
    if moved is not None:
        yield Onset(float(frame.start + moved.index * frame.step))
    yield Kind(
        _kind(heat >= lim["hot"].value, reasons or 0),
        f"the SM clock {which}under load fell from {reference / 1e6:.0f} to {now / 1e6:.0f} MHz"
        + (f" ({told})" if told else ""),
    )


@dataclass(frozen=True, slots=True)
class Clock:
    """A GPU's SM clock under load: now, what it is held against, and where it moved."""

    gpu: str
    among: int
    now: float
    reference: float
    moved: Change | None


def _slowest(case: Case) -> Clock:
    """The GPU whose clock fell most: with tensor parallelism all wait for it."""
    gpus = case.frame.each("gpu_sm_clock", *GPU_LABELS)
    used = case.frame.each("gpu_utilization", *GPU_LABELS)
    working = [g for g in gpus if len(gpus) < 2 or not _largest(used.get(g)) < IDLE_SHARE] or list(gpus)
    clocks = [_clock(case, gpu, gpus[gpu], len(working)) for gpu in working]
    return min(clocks, key=_ratio, default=Clock("", 0, math.nan, math.nan, None))


def _clock(case: Case, gpu: str, measured: FloatArray, among: int) -> Clock:
    frame, v = case.frame, case.vitals
    # an idle GPU lowers its clock by itself: only busy bins count
    busy = v.active & (np.nan_to_num(v.running) >= 0.5)
    clock = frame.smooth(np.where(busy, measured, np.nan), max(3, frame.size // 40))
    moved = change(clock)
    best = frame.each("gpu_sm_clock_max", *GPU_LABELS).get(gpu)
    now = mean(clock, case.windows.now) if moved is None else moved.after
    reference = moved.before if moved is not None else _largest(clock)
    if best is not None and np.isfinite(best).any():
        reference = max(reference, 0.9 * float(np.nanmax(best)))
    return Clock(gpu, among, now, reference, moved)


def _of(case: Case, signal: str, gpu: str, how: str = "mean") -> FloatArray:
    """A signal of one GPU; of all of them where that one does not show it."""
    values = case.frame.each(signal, *GPU_LABELS, how=how).get(gpu)
    return case.frame.gauge(signal, how) if values is None else values


def _ratio(clock: Clock) -> float:
    ratio = clock.now / clock.reference if clock.reference else math.nan
    return math.inf if math.isnan(ratio) else ratio


def _largest(values: FloatArray | None) -> float:
    return float(np.nanmax(values)) if values is not None and np.isfinite(values).any() else math.nan


def _bits(values: FloatArray, mask: Mask) -> int | None:
    """All bits that were set in the window; None where none was read."""
    picked = finite(values[mask])
    return int(np.bitwise_or.reduce(picked.astype(np.int64))) if picked.size else None


def _kind(hot: bool, reasons: int) -> str:
    if hot or reasons & HEAT:
        return "thermal"
    if reasons & POWER:
        return "power"
    return "hardware" if reasons & HARDWARE else ""
