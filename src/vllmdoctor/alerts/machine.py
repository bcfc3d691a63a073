"""The machine under the server: the GPU's clock and the host's CPU."""

from collections.abc import Iterator

from vllmdoctor.alerts.basis import Basis
from vllmdoctor.alerts.memory import GPU
from vllmdoctor.alerts.nouns import Alert
from vllmdoctor.alerts.records import ARRIVALS, CLOCK, ITL
from vllmdoctor.alerts.speed import SAME_DEMAND


def machine(on: Basis) -> Iterator[Alert]:
    """Alerts on what the server runs on."""
    slug = "gpu-throttle"
    yield Alert(
        "VLLMGpuThrottled",
        slug,
        "critical",
        f"{CLOCK} / quantile_over_time(0.9, {CLOCK}[12h]) <= {on.text(f'{slug}.clock')}",
        "10m",
        f"{GPU}: its clock is down under load",
        "{{ $value | humanizePercentage }} of the clock that it had under load in the last 12 h (limit: "
        f"{on.percent(f'{slug}.clock')}). Look at temperature, power cap and throttle reasons.",
        "SM clock under load against the last 12 h",
        (f"{slug}.clock",),
        "10m",
    )
    m, slug = on.metrics, "host-cpu-bound"
    cut = f"{m.rate('container_cpu_throttled_periods', '30m')} / ({m.rate('container_cpu_periods', '30m')} > 0)"
    then = (
        f"{m.rate('container_cpu_throttled_periods', '30m', offset='6h')} / "
        f"({m.rate('container_cpu_periods', '30m', offset='6h')} > 0)"
    )
    slower = (
        f"{ITL} / ({ITL} offset 6h > 0) >= {on.text(f'{slug}.itl')} "
        f"and {ARRIVALS} <= {SAME_DEMAND:g} * ({ARRIVALS} offset 6h) "
        f"and {m.gauge('requests_running', 'avg', '30m')} >= {on.text(f'{slug}.running')}"
    )
    yield Alert(
        "VLLMCpuThrottled",
        slug,
        "warning",
        f"{cut} >= {on.text(f'{slug}.throttled')}\nand {then} < 0.8 * ({cut})\n"
        f"and on (namespace, pod) ({slower})",
        "15m",
        "{{ $labels.namespace }}/{{ $labels.pod }}: the CPU quota holds the GPU up",
        "{{ $value | humanizePercentage }} of the CPU periods are cut short (limit: "
        f"{on.percent(f'{slug}.throttled')}), and tokens take longer.",
        "CPU periods throttled while tokens take longer",
        tuple(f"{slug}.{n}" for n in ("throttled", "itl", "running")),
        "10m",
    )
    busy, before = m.gauge("gpu_utilization", "avg", "30m"), m.gauge("gpu_utilization", "avg", "30m", "6h")
    yield Alert(
        "VLLMGpuWaitsForHost",
        slug,
        "warning",
        f"{busy} < {on.text(f'{slug}.gpu')}\nand {busy} <= 0.85 * ({before})\nand on (namespace, pod) ({slower})",
        "15m",
        f"{GPU} waits while tokens take longer: the host holds it up",
        "The GPU is busy {{ $value | humanizePercentage }} of the time (limit: "
        f"{on.percent(f'{slug}.gpu')}), less than 6 h ago, and tokens take longer.",
        "GPU less busy while tokens take longer",
        tuple(f"{slug}.{n}" for n in ("gpu", "itl", "running")),
        "10m",
    )
