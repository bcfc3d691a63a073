"""The CPU holds the GPU up: scheduling, sampling, grammars or the API server take the time."""

import math
from collections.abc import Iterator

import numpy as np

from vllmdoctor.case import Case, Kind, Limit, number, percent, ratio
from vllmdoctor.model import Severity
from vllmdoctor.rules import Yielded, rule
from vllmdoctor.statistics import mean


@rule(
    summary="the host CPU holds the GPU up",
    severity=Severity.WARNING,
    signals=(("gpu_utilization", "container_cpu_throttled_periods"),),
    helpful=("container_cpu_periods", "host_cpu", "process_cpu", "itl", "gpu_sm_clock"),
    limits={
        "gpu": Limit(0.6, "ratio", "a GPU that waits between steps", "tuning guide"),
        "throttled": Limit(0.25, "ratio", "a quarter of the CPU periods cut short", "measured cases"),
        "running": Limit(2.0, "requests", "with less work an idle GPU is normal", "tuning guide"),
        "itl": Limit(1.25, "ratio", "steps must have become longer", "vllmdoctor"),
        "core": Limit(0.9, "cores", "a process of one busy thread gets no further", "vllmdoctor"),
    },
    remedies={"": ("give-more-cpu", "add-replica")},
    explains=("overload",),
)
def host_cpu_bound(case: Case) -> Iterator[Yielded]:
    v, now, before, lim = case.vitals, case.windows.now, case.windows.before, case.limits
    frame = v.frame
    busy = mean(frame.gauge("gpu_utilization"), now)
    busy_before = mean(frame.gauge("gpu_utilization"), before)
    periods = frame.rate("container_cpu_periods")
    cut = frame.rate("container_cpu_throttled_periods")
    with np.errstate(invalid="ignore", divide="ignore"):
        part = np.where(periods > 0, cut / periods, np.nan)
    throttled, throttled_before = mean(part, now), mean(part, before)
    slower = case.symptom("itl")
    felt = ratio(v.mean("itl", now), v.mean("itl", before))
    yield case.require("requests running (mean)", case.now(v.running), ">=", lim["running"])
    yield case.require("time per output token, now / before", felt, ">=", lim["itl"])
    if slower is not None:
        yield case.support(
            "time per output token at equal load, now / before", slower.ratio, ">=", lim["itl"]
        )
    starved = throttled >= lim["throttled"].value and not throttled_before >= 0.8 * throttled
    if starved or math.isnan(busy):
        yield case.require("CPU periods throttled", throttled, ">=", lim["throttled"])
        yield case.support("GPU utilisation", busy, "<", lim["gpu"])
    else:
        yield case.require("GPU utilisation", busy, "<", lim["gpu"])
        yield case.require("GPU utilisation, now / before", ratio(busy, busy_before), "<=", 0.85, "x")
        yield case.support("CPU periods throttled", throttled, ">=", lim["throttled"])
    role, cores = _busiest(case)
    if role:
        yield case.support("CPU of the busiest process", cores, ">=", lim["core"], detail=role)
    yield Kind(
        "cpu quota" if starved else "step loop",
        (
            f"{percent(throttled)} of the CPU periods are throttled"
            if starved
            else f"the GPU is busy {percent(busy)} of the time"
        )
        + (f"; {role} uses {number(cores)} cores" if role and cores >= lim["core"].value else "")
        + f"; a token takes {number(felt)} times as long",
    )


def _busiest(case: Case) -> tuple[str, float]:
    """The busiest of the processes that decide what the GPU gets; "" where none was read.

    Workers are left out: they wait for each other in a busy loop, whether there is work or not.
    """
    cores: dict[str, float] = {}
    for x in case.frame.columns("host_cpu"):
        role = x.labels.get("role", "")
        if role.startswith(("APIServer", "EngineCore")):
            used = mean(case.frame.increase(x.column), case.windows.now)
            if not math.isnan(used):
                cores[role] = max(cores.get(role, 0.0), used)
    role = max(cores, key=lambda r: cores[r], default="")
    return role, cores.get(role, math.nan)
