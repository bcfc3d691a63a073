"""The machine under the server: the GPU's clock and the host's CPU."""

from vllmdoctor.alerts.basis import GPU, POD, Basis
from vllmdoctor.alerts.nouns import Told, alert
from vllmdoctor.alerts.records import CLOCK, ITL
from vllmdoctor.alerts.speed import NO_MORE

_CLOCK, _CPU = "gpu-throttle", "host-cpu-bound"
_LESS = 0.85  # of what it was: a GPU that always waited explains no decline


def _slower(on: Basis) -> str:
    """Tokens take longer, with a batch to speak of and no more demand."""
    running = on.metrics.gauge("requests_running", "avg", "30m")
    return (
        f"{ITL} / ({ITL} offset 6h > 0) >= {on.text(f'{_CPU}.itl')} and {NO_MORE} "
        f"and {running} >= {on.text(f'{_CPU}.running')}"
    )


@alert(
    "VLLMGpuThrottled",
    _CLOCK,
    "critical",
    linger="10m",
    means="the GPU's clock under load against the last 12 h",
    limits=(f"{_CLOCK}.clock",),
)
def throttled(on: Basis) -> Told:
    """Heat, a power cap, or another limit."""
    return Told(
        f"{CLOCK} / quantile_over_time(0.9, {CLOCK}[12h]) <= {on.text(f'{_CLOCK}.clock')}",
        f"{GPU}: its clock is down under load",
        "{{ $value | humanizePercentage }} of the clock that it had under load in the last 12 h (limit: "
        f"{on.percent(f'{_CLOCK}.clock')}). Look at its temperature, power cap and throttle reasons.",
    )


@alert(
    "VLLMCpuThrottled",
    _CPU,
    "warning",
    wait="15m",
    linger="10m",
    means="CPU periods cut short by the quota, while tokens take longer",
    limits=tuple(f"{_CPU}.{n}" for n in ("throttled", "itl", "running")),
)
def cpu_throttled(on: Basis) -> Told:
    """The CPU quota holds the GPU up."""
    m = on.metrics
    now, then = (
        f"{m.rate('container_cpu_throttled_periods', '30m', offset=o)} / "
        f"({m.rate('container_cpu_periods', '30m', offset=o)} > 0)"
        for o in ("", "6h")
    )
    return Told(
        f"{now} >= {on.text(f'{_CPU}.throttled')}\nand {then} < 0.8 * ({now})\n"
        f"and on (namespace, pod) ({_slower(on)})",
        f"{POD}: the CPU quota holds the GPU up",
        "{{ $value | humanizePercentage }} of the CPU periods are cut short (limit: "
        f"{on.percent(f'{_CPU}.throttled')}), and tokens take longer.",
    )


@alert(
    "VLLMGpuWaitsForHost",
    _CPU,
    "warning",
    wait="15m",
    linger="10m",
    means="the GPU is less busy than 6 h earlier, while tokens take longer",
    limits=tuple(f"{_CPU}.{n}" for n in ("gpu", "itl", "running")),
)
def gpu_waits(on: Basis) -> Told:
    """Scheduling, sampling, grammars or the API server take the time."""
    m = on.metrics
    busy, before = m.gauge("gpu_utilization", "avg", "30m"), m.gauge("gpu_utilization", "avg", "30m", "6h")
    return Told(
        f"{busy} < {on.text(f'{_CPU}.gpu')}\nand {busy} <= {_LESS:g} * {before}\n"
        f"and on (namespace, pod) ({_slower(on)})",
        f"{GPU} waits while tokens take longer: the host holds it up",
        "The GPU is busy {{ $value | humanizePercentage }} of the time (limit: "
        f"{on.percent(f'{_CPU}.gpu')}), less than 6 h ago, and tokens take longer.",
    )


MACHINE = (throttled, cpu_throttled, gpu_waits)
