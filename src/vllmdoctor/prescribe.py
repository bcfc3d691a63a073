"""From a case to the figures that remedies compute with, and so to the plan."""

import math
from collections.abc import Callable, Iterable, Sequence

from vllmdoctor.case import Case
from vllmdoctor.facts import VersionFound
from vllmdoctor.frame import Frame
from vllmdoctor.model import Outcome, Severity, Step
from vllmdoctor.plan import make_plan
from vllmdoctor.release import Version, VersionRange
from vllmdoctor.remedies.figures import Value, figures
from vllmdoctor.statistics import FloatArray, Mask, finite, last, quantile

V0_ENDS = Version.parse("0.10.2")


def plan_for(
    findings: Sequence[Outcome],
    case: Case,
    version: VersionFound,
    remedies_of: Callable[[Outcome], tuple[str, ...]],
) -> tuple[Step, ...]:
    """The plan for the findings of one engine, computed with what its case shows."""
    known = figures(case.facts.values(), measured(case), origin="this recording")
    treated = [o for o in findings if not o.explained_by]
    plan = make_plan(treated, known, _release(case, version), remedies_of)
    if all(o.severity is Severity.INFO for o in treated):
        # nothing is wrong: nothing is worth a restart
        return tuple(s for s in plan if not (s.restart and s.verdict in ("helps", "unknown")))
    return plan


def measured(case: Case) -> dict[str, Value]:
    """The figures that the window now shows, by the remedies' names; NaN where it does not."""
    v, frame, now = case.vitals, case.frame, case.windows.now
    values: dict[str, Value] = {
        "mean_prompt": v.mean("prompt_length", now),
        "mean_output": v.mean("output_length", now),
        "running_mean": case.now(v.running),
        "running_max": _max(frame.gauge("requests_running", "max"), now),
        "waiting_mean": case.now(v.waiting),
        "waiting_max": _max(frame.gauge("requests_waiting", "max"), now),
        "arrival_rate": case.now(v.arrivals),
        "completion_rate": case.now(v.finished),
        "preemptions_per_minute": 60 * case.now(v.preemptions),
        "preemptions_per_request": v.preempted_per_finished(now),
        "kv_usage_p95": quantile(v.usage, 0.95, now),
        "prefix_hit_ratio": case.now(v.hit_ratio),
        "spec_acceptance": case.now(v.acceptance),
        "gpu_memory_total": of_one_gpu(frame, "gpu_memory_total", max),
        "gpu_memory_used": of_one_gpu(frame, "gpu_memory_used", max),
        "gpu_memory_free": of_one_gpu(frame, "gpu_memory_free", min),
        "memory_limit": last(frame.gauge("container_memory_limit")),
        "memory_used": last(frame.gauge("container_memory")),
        "gpu_temperature": case.now(frame.gauge("gpu_temperature")),
        "replicas": float(len({f.instance for f in case.fleet.frames}))
        if len(case.fleet.frames) > 1
        else math.nan,
    }
    values["ttft_mean"] = v.mean("ttft", now)
    for q in (50, 95):
        values[f"ttft_p{q}"] = v.quantile("ttft", q / 100, now)[0]
    for name, signal in (("prompt", "prompt_length"), ("output", "output_length")):
        for q in (50, 95, 99):
            values[f"{name}_p{q}"] = v.quantile(signal, q / 100, now)[0]
    periods = case.now(frame.rate("container_cpu_periods"))
    if periods > 0:
        values["cpu_throttled_ratio"] = case.now(frame.rate("container_cpu_throttled_periods")) / periods
    pegged, ceiling = v.pegged_share(now)
    if "max_num_seqs" not in case.facts and pegged >= 0.9:
        values["max_num_seqs"] = ceiling
    return values


def _release(case: Case, version: VersionFound) -> Version | VersionRange:
    """Between 0.8 and 0.10.2 both engines exist; the metric names tell which one this is."""
    release = version.release
    v0 = case.frame.has("requests_swapped")
    if v0 and isinstance(release, Version) and V0_ENDS is not None and release <= V0_ENDS:
        return VersionRange(release, release, "V0", version.origin)
    return release


def _max(values: FloatArray, mask: Mask) -> float:
    picked = finite(values[mask])
    return float(picked.max()) if picked.size else math.nan


def of_one_gpu(frame: Frame, signal: str, pick: Callable[[Iterable[float]], float]) -> float:
    """The last value of the GPU that decides: gpu_memory_utilization holds for each GPU alone."""
    told = [last(values) for values in frame.each(signal, "gpu", "UUID", "uuid").values()]
    known = [value for value in told if not math.isnan(value)]
    return pick(known) if known else math.nan
