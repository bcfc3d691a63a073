"""The GPU runs below its clock under load: heat, a power cap, or another limit."""

from collections.abc import Iterator

import numpy as np

from vllmdoctor.case import Case, Kind, Limit, Onset, mean
from vllmdoctor.model import Severity
from vllmdoctor.rules import Yielded, rule
from vllmdoctor.statistics import change


@rule(
    summary="the GPU's clock is down under load",
    severity=Severity.CRITICAL,
    signals=("gpu_sm_clock",),
    helpful=("gpu_temperature", "gpu_throttle_reasons", "gpu_power", "gpu_utilization", "itl"),
    limits={
        "clock": Limit(0.88, "ratio", "an eighth of the clock is more than boost wanders", "vllmdoctor"),
        "hot": Limit(83.0, "celsius", "most data-centre GPUs begin to slow between 83 and 90 °C", "vendor"),
        "itl": Limit(1.1, "ratio", "decoding follows the clock", "vllmdoctor"),
    },
    remedies={"": ("check-gpu-cooling-and-power",)},
    explains=("overload", "host-cpu-bound", "prefill-bound", "head-of-line-blocking"),
)
def gpu_throttle(case: Case) -> Iterator[Yielded]:
    v, lim = case.vitals, case.limits
    frame = v.frame
    # an idle GPU lowers its clock by itself: only busy bins count
    busy = v.active & (np.nan_to_num(v.running) >= 0.5)
    clock = frame.smooth(np.where(busy, frame.gauge("gpu_sm_clock"), np.nan), max(3, frame.size // 40))
    moved = change(clock)
    best = frame.gauge("gpu_sm_clock_max")
    now = mean(clock, case.windows.now) if moved is None else moved.after
    reference = (
        moved.before
        if moved is not None
        else float(np.nanmax(clock))
        if np.isfinite(clock).any()
        else float("nan")
    )
    if np.isfinite(best).any():
        reference = max(reference, 0.9 * float(np.nanmax(best)))
    yield case.require(
        "SM clock under load, now / before",
        now / reference if reference else float("nan"),
        "<=",
        lim["clock"],
    )
    heat = mean(frame.gauge("gpu_temperature"), case.windows.now)
    yield case.support("GPU temperature", heat, ">=", lim["hot"])
    reasons = frame.gauge("gpu_throttle_reasons", "max")
    active = (
        float(np.nanmax(reasons[case.windows.now]))
        if np.isfinite(reasons[case.windows.now]).any()
        else float("nan")
    )
    # bit 0 is "idle": the others name a limit
    yield case.support(
        "throttle reasons besides idle", float(int(active) & ~1) if active == active else active, ">", 0.0
    )
    slower = case.symptom("itl")
    if slower is not None:
        yield case.support(
            "time per output token at equal load, now / before", slower.ratio, ">=", lim["itl"]
        )
    if moved is not None:
        yield Onset(float(frame.start + moved.index * frame.step))
    yield Kind(
        "thermal" if heat >= lim["hot"].value else "",
        f"the SM clock under load fell from {reference / 1e6:.0f} to {now / 1e6:.0f} MHz",
    )
