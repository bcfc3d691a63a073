"""Memory: the KV pool's, the host's and the GPU's."""

from vllmdoctor.alerts.basis import GPU, POD, WHO, Basis
from vllmdoctor.alerts.nouns import Told, alert
from vllmdoctor.alerts.records import (
    CAPACITY,
    DEVICE_MEMORY,
    HELD_IDLE,
    LEAK,
    MEMORY,
    OUTPUT_LENGTH,
    PROMPT_LENGTH,
)
from vllmdoctor.alerts.speed import ENOUGH
from vllmdoctor.promql import PER_ENGINE

_KV, _POOL, _HOST, _GPU = "kv-fragmentation", "context-exceeds-pool", "memory-leak", "gpu-memory-growth"
NEAR_LIMIT = 0.8  # of the memory limit
HOURS = 3  # a leak grows in each of them; what follows the load's peaks rests between
_OF_IT = "on (namespace, pod, container)"


@alert(
    "VLLMBlocksHeldWhileIdle",
    _KV,
    "critical",
    wait="15m",
    linger="30m",
    means="KV blocks that are held while no request runs or waits",
    limits=(f"{_KV}.floor",),
)
def held_idle(on: Basis) -> Told:
    """Blocks that serve nobody."""
    return Told(
        f"{HELD_IDLE} >= {on.text(f'{_KV}.floor')}",
        f"{WHO} holds KV blocks while nothing runs: capacity is lost",
        "{{ $value | humanizePercentage }} of the KV pool is held although no request runs or waits (limit: "
        f"{on.percent(f'{_KV}.floor')}; an idle engine holds none).",
    )


@alert(
    "VLLMKVCapacityLost",
    _KV,
    "warning",
    wait="30m",
    linger="10m",
    means="effective KV capacity (live tokens per used part of the pool) against 6 h earlier",
    limits=(f"{_KV}.lost", f"{_KV}.mix"),
)
def capacity_lost(on: Basis) -> Told:
    """The same requests need more of the pool."""
    kept = 1 - on.limit(f"{_KV}.lost")
    mix = "\n".join(
        f"and {x} <= {on.text(f'{_KV}.mix')} * ({x} offset 6h)" for x in (PROMPT_LENGTH, OUTPUT_LENGTH)
    )
    return Told(
        f"{CAPACITY} / ({CAPACITY} offset 6h > 0) <= {kept:.3g}\n{mix}\nand {ENOUGH}",
        f"{WHO}: the same requests need more of the KV pool than before",
        "At the same usage the pool serves {{ $value | humanizePercentage }} of the tokens of 6 h ago "
        f"(limit: {100 * kept:.3g} %).",
    )


@alert(
    "VLLMContextExceedsPool",
    _POOL,
    "info",
    wait="5m",
    means="the allowed context is longer than the KV pool, as vLLM 0.24 and newer say",
)
def context(on: Basis) -> Told:
    """One request of the allowed length does not fit."""
    below = 'kv_cache_max_concurrency=~"0([.].*)?"'  # a label is no number: what begins with 0 is below 1
    found = [
        f"{s[:-1]},{below}}}" if s.endswith("}") else f"{s}{{{below}}}"
        for s in on.metrics.selectors("cache_config")
    ]
    return Told(
        " or ".join(found),
        f"{WHO}: a request of the allowed length does not fit the KV pool",
        "The pool holds {{ $labels.kv_cache_max_concurrency }} requests of the allowed length (limit: "
        f"{on.text(f'{_POOL}.fits')}); a longer one can never be admitted.",
    )


@alert(
    "VLLMQueueBeforeEmptyPool",
    _POOL,
    "critical",
    wait="2m",
    means="requests wait, none runs, and the pool is empty",
    limits=(f"{_POOL}.empty",),
)
def empty_pool(on: Basis) -> Told:
    """How it looks when the first in the queue is longer than the pool."""
    m = on.metrics
    return Told(
        f"{m.gauge('requests_waiting', 'min', '3m')} > 0\n"
        f"and {m.gauge('requests_running', 'max', '3m')} == 0\n"
        f"and {m.gauge('kv_cache_usage', 'max', '3m')} < {on.text(f'{_POOL}.empty')}\n"
        f"and {m.increase('generation_tokens', '3m')} == 0",
        f"{WHO}: requests wait, none runs, and the KV pool is empty",
        "{{ $value | humanize }} requests wait before a pool that is used less than "
        f"{on.percent(f'{_POOL}.empty')} (limit): the first of them may be longer than the pool.",
    )


@alert(
    "VLLMMemoryLeak",
    _HOST,
    "warning",
    wait="30m",
    linger="30m",
    means="the container's memory grows steadily and reaches its limit within a day",
    limits=tuple(f"{_HOST}.{n}" for n in ("hours-left", "growth", "amount", "steady")),
)
def leak(on: Basis) -> Told:
    """A line through two hours, drawn to the limit."""
    limit = f"({on.metrics.gauge('container_memory_limit')} > 0)"
    seconds = 3600 * on.limit(f"{_HOST}.hours-left")
    # the same as predict_linear, with the time left as its value
    left = f"({limit} - {_OF_IT} {MEMORY}) / {_OF_IT} ({LEAK} > 0)"
    lasts = f"{LEAK} >= {on.text(f'{_HOST}.steady')} * deriv({MEMORY}[2h] offset 1h)"
    return Told(
        f"{left} <= {seconds:.6g}\nand {_OF_IT} ({_steady(MEMORY)})\n"
        f"and {_OF_IT} ({_grown(on)})\nand {_OF_IT} ({lasts})",
        f"{POD}: memory grows steadily and reaches its limit within a day",
        "At this slope the memory limit is reached in {{ $value | humanizeDuration }} (limit: "
        f"{on.text(f'{_HOST}.hours-left')} h).",
    )


@alert(
    "VLLMMemoryNearLimit",
    _HOST,
    "critical",
    wait="15m",
    linger="15m",
    means=f"OOM outlook: over {100 * NEAR_LIMIT:g} % of the memory limit, and it grows steadily",
    limits=(f"{_HOST}.growth", f"{_HOST}.amount"),
)
def near_limit(on: Basis) -> Told:
    """High and flat is no fault; high and growing is."""
    limit = f"({on.metrics.gauge('container_memory_limit')} > 0)"
    return Told(
        f"{MEMORY} / {_OF_IT} {limit} > {NEAR_LIMIT:g}\nand {_OF_IT} ({_steady(MEMORY)})\n"
        f"and {_OF_IT} ({_grown(on)})",
        f"{POD} is close to its memory limit and still grows",
        "{{ $value | humanizePercentage }} of the memory limit is used (limit: "
        f"{100 * NEAR_LIMIT:g} %), and it grew in each of the last {HOURS} h.",
    )


@alert(
    "VLLMProcessMemoryGrows",
    _HOST,
    "warning",
    wait="30m",
    linger="30m",
    means="the API server's process grows steadily (where no container metrics are there)",
    limits=(f"{_HOST}.growth", f"{_HOST}.amount"),
)
def process_grows(on: Basis) -> Told:
    """All that vLLM's own page tells of host memory: one of its processes."""
    m, least = on.metrics, on.limit(f"{_HOST}.growth")
    now, then = m.gauge("process_memory"), m.gauge("process_memory", offset=f"{HOURS}h")
    steady = _steady(now)
    return Told(
        f"({now} - {then}) / {then} >= {least:.3g}\n"
        f"and {now} - {then} >= {on.text(f'{_HOST}.amount')}\nand {steady}\n"
        f"and ignoring ({', '.join(PER_ENGINE)}) {m.gauge('requests_running')}",
        f"{WHO}: memory of the API server's process grows steadily",
        f"{{{{ $value | humanizePercentage }}}} more than {HOURS} h ago (limit: {100 * least:.3g} %). Engine "
        "core and workers are not in this number.",
    )


@alert(
    "VLLMOutOfMemoryKilled",
    _HOST,
    "critical",
    wait="0m",
    linger="30m",
    means="the kernel killed the container for want of memory",
)
def killed(on: Basis) -> Told:
    """A restart whose last end was an OOM kill."""
    m = on.metrics
    return Told(
        f"{m.increase('container_restarts', '30m')} > 0\n"
        f"and {_OF_IT} {m.gauge('container_oom_killed')} == 1\n"
        f"and on (namespace, pod) {m.gauge('requests_running', 'last', '1h')}",
        f"{POD} was killed for want of memory",
        "{{ $value | humanize }} restarts in 30 min (limit: 0), the last end was an OOM kill.",
    )


@alert(
    "VLLMDeviceMemoryGrows",
    _GPU,
    "warning",
    wait="30m",
    linger="30m",
    means="GPU memory grows after warm-up, outside the KV pool",
    limits=(f"{_GPU}.growth", f"{_GPU}.span"),
)
def device_grows(on: Basis) -> Told:
    """The pool is allocated at the start: what grows lies outside of it."""
    hours = f"{on.limit(f'{_GPU}.span'):g}h"
    twice = f"{2 * on.limit(f'{_GPU}.span'):g} h"
    grown = f"{DEVICE_MEMORY} - min_over_time({DEVICE_MEMORY}[{hours}] offset {hours})"
    rises = " and ".join(f"deriv({DEVICE_MEMORY}[{hours}]{then}) > 0" for then in ("", f" offset {hours}"))
    return Told(
        f"{grown} >= {on.text(f'{_GPU}.growth')}\nand {rises}",
        f"{GPU}: memory grows outside the KV pool",
        f"{{{{ $value | humanize1024 }}}}B more than in the {twice} before (limit: "
        f"{on.limit(f'{_GPU}.growth') / 2**20:g} MiB).",
    )


def _steady(memory: str) -> str:
    """It grew in each of the last hours."""
    spans = [f"deriv({_window(memory)}{then}) > 0" for then in _hours()]
    return " and ".join(spans)


def _hours() -> list[str]:
    return ["" if not n else f" offset {n}h" for n in range(HOURS)]


def _window(series: str) -> str:
    return f"{series}[1h]"


def _grown(on: Basis) -> str:
    """By how much, as a ratio and as an amount."""
    gain = f"{MEMORY} - {MEMORY} offset {HOURS}h"
    ratio = f"{on.text(f'{_HOST}.growth')} * ({MEMORY} offset {HOURS}h)"
    return f"{gain} >= {ratio} and {gain} >= {on.text(f'{_HOST}.amount')}"


MEMORIES = (
    held_idle,
    capacity_lost,
    context,
    empty_pool,
    leak,
    near_limit,
    process_grows,
    killed,
    device_grows,
)
