"""Memory: the KV pool's, the host's and the GPU's."""

from collections.abc import Iterator

from vllmdoctor.alerts.basis import WHO, Basis
from vllmdoctor.alerts.nouns import Alert
from vllmdoctor.alerts.records import (
    CAPACITY,
    DEVICE_MEMORY,
    FINISHED,
    HELD_IDLE,
    LEAK,
    MEMORY,
    OUTPUT_LENGTH,
    PROMPT_LENGTH,
)
from vllmdoctor.alerts.speed import COMPARABLE, FEWEST
from vllmdoctor.promql import PER_ENGINE

NEAR_LIMIT = 0.8  # of the memory limit
POD = "{{ $labels.namespace }}/{{ $labels.pod }} ({{ $labels.container }})"
GPU = (
    "GPU {{ $labels.gpu }}{{ with $labels.Hostname }} of {{ . }}{{ end }}"
    "{{ with $labels.pod }}, {{ . }}{{ end }}"
)


def memory(on: Basis) -> Iterator[Alert]:
    """Alerts on memory of every kind."""
    yield from _pool(on)
    yield from _host(on)
    yield from _device(on)


def _pool(on: Basis) -> Iterator[Alert]:
    m, slug = on.metrics, "kv-fragmentation"
    yield Alert(
        "VLLMBlocksHeldWhileIdle",
        slug,
        "critical",
        f"{HELD_IDLE} >= {on.text(f'{slug}.floor')}",
        "15m",
        f"{WHO} holds KV blocks while nothing runs: capacity is lost",
        "{{ $value | humanizePercentage }} of the KV pool is held although no request runs or waits (limit: "
        f"{on.percent(f'{slug}.floor')}; an idle engine holds none).",
        "KV blocks that are held while the engine is idle",
        (f"{slug}.floor",),
        "30m",
    )
    kept = f"{1 - on.limit(f'{slug}.lost'):.3g}"
    longer = [
        f"{x} <= {on.text(f'{slug}.mix')} * ({x} offset 6h)" for x in (PROMPT_LENGTH, OUTPUT_LENGTH)
    ]
    yield Alert(
        "VLLMKVCapacityLost",
        slug,
        "warning",
        f"{CAPACITY} / ({CAPACITY} offset 6h > 0) <= {kept}\nand {longer[0]}\nand {longer[1]}\n"
        f"and {FINISHED} >= {FEWEST:.3g} and {FINISHED} offset 6h >= {FEWEST:.3g}\nand {COMPARABLE}",
        "30m",
        f"{WHO}: the same requests need more of the KV pool than before",
        "{{ $value | humanizePercentage }} of the tokens that the pool served 6 h ago at the same usage (limit: "
        f"{kept}).",
        "effective KV capacity (live tokens per used block) against 6 h earlier",
        (f"{slug}.lost", f"{slug}.mix"),
        "10m",
    )
    fits = on.metrics.selectors("cache_config")
    tight = [s[:-1] + ',kv_cache_max_concurrency=~"0([.].*)?"}' if s.endswith("}") else
             s + '{kv_cache_max_concurrency=~"0([.].*)?"}' for s in fits]  # fmt: skip
    yield Alert(
        "VLLMContextExceedsPool",
        "context-exceeds-pool",
        "info",
        " or ".join(tight),
        "5m",
        f"{WHO}: a request of the allowed length does not fit the KV pool",
        "The pool holds {{ $labels.kv_cache_max_concurrency }} requests of the allowed length (limit: "
        f"{on.text('context-exceeds-pool.fits')}): one that is longer can never be admitted.",
        "the allowed context is longer than the KV pool (vLLM 0.24 and newer say so)",
        ("context-exceeds-pool.fits",),
    )
    empty = f"{m.gauge('kv_cache_usage', 'max', '3m')} < {on.text('context-exceeds-pool.empty')}"
    yield Alert(
        "VLLMQueueBeforeEmptyPool",
        "context-exceeds-pool",
        "critical",
        f"{m.gauge('requests_waiting', 'min', '3m')} > 0\nand {m.gauge('requests_running', 'max', '3m')} == 0\n"
        f"and {empty}\nand {m.increase('generation_tokens', '3m')} == 0",
        "2m",
        f"{WHO}: requests wait, none runs, and the KV pool is empty",
        "{{ $value | humanize }} requests wait before an empty pool: the first of them may be longer than the pool.",
        "requests wait before an empty pool",
        ("context-exceeds-pool.empty",),
    )


def _host(on: Basis) -> Iterator[Alert]:
    m, slug = on.metrics, "memory-leak"
    limit = f"({m.gauge('container_memory_limit')} > 0)"
    near = f"{MEMORY} / on (namespace, pod, container) {limit}"
    # a leak goes on in each hour; memory that follows the load's peaks rests between them
    steady = f"deriv({MEMORY}[1h]) > 0 and deriv({MEMORY}[1h] offset 1h) > 0 and deriv({MEMORY}[1h] offset 2h) > 0"
    hours = 3600 * on.limit(f"{slug}.hours-left")
    left = f"({limit} - on (namespace, pod, container) {MEMORY}) / on (namespace, pod, container) ({LEAK} > 0)"
    grown = f"{MEMORY} - {MEMORY} offset 3h"
    enough = (
        f"{grown} >= {on.text(f'{slug}.growth')} * ({MEMORY} offset 3h) and {grown} >= {on.text(f'{slug}.amount')}"
    )
    lasting = f"{LEAK} >= {on.text(f'{slug}.steady')} * (deriv({MEMORY}[2h] offset 1h))"
    yield Alert(
        "VLLMMemoryLeak",
        slug,
        "warning",
        f"{left} <= {hours:.6g}\nand on (namespace, pod, container) ({steady})\n"
        f"and on (namespace, pod, container) ({enough})\nand on (namespace, pod, container) ({lasting})",
        "30m",
        f"{POD}: memory grows steadily and reaches its limit within a day",
        "At this slope the memory limit is reached in {{ $value | humanizeDuration }} (limit: "
        f"{on.text(f'{slug}.hours-left')} h).",
        "linear growth of the container's memory, extrapolated to its limit",
        tuple(f"{slug}.{n}" for n in ("hours-left", "growth", "amount", "steady")),
        "30m",
    )
    yield Alert(
        "VLLMMemoryNearLimit",
        slug,
        "critical",
        f"{near} > {NEAR_LIMIT:g}\nand on (namespace, pod, container) ({steady})\n"
        f"and on (namespace, pod, container) ({enough})",
        "15m",
        f"{POD} is close to its memory limit, and still grows",
        "{{ $value | humanizePercentage }} of the memory limit is used (limit: "
        f"{100 * NEAR_LIMIT:g} %), and it grew in each of the last three hours.",
        "OOM outlook: most of the memory limit is used, and it grows",
        (f"{slug}.growth", f"{slug}.amount"),
        "15m",
    )
    api = m.gauge("process_memory")
    before = m.gauge("process_memory", offset="3h")
    windows = [m.selectors("process_memory", window="1h", offset=o)[0] for o in ("", "1h", "2h")]
    rising = " and ".join(f"deriv({w}) > 0" for w in windows)
    slope = f"deriv({m.selectors('process_memory', window='2h')[0]})"
    yield Alert(
        "VLLMProcessMemoryGrows",
        slug,
        "warning",
        f"({slope} * 3600 / {api} >= {on.text(f'{slug}.per-hour')} "
        f"or {slope} * 3600 / {api} >= {on.limit(f'{slug}.growth') / 3:.3g})\nand {rising}\n"
        f"and {api} - {before} >= {on.text(f'{slug}.amount')}\n"
        f"and ignoring ({', '.join(PER_ENGINE)}) {m.gauge('requests_running')}",
        "30m",
        "{{ if $labels.pod }}{{ $labels.pod }}{{ else }}{{ $labels.instance }}{{ end }}: "
        "memory of the API server's process grows steadily",
        "It grows by {{ $value | humanizePercentage }} of its size in an hour, for three hours (limit: "
        f"{100 * on.limit(f'{slug}.growth') / 3:.2g} %). Engine core and workers are not in this number.",
        "linear growth of the API server's process, where no container metrics are there",
        (f"{slug}.growth", f"{slug}.amount"),
        "30m",
    )
    yield Alert(
        "VLLMOutOfMemoryKilled",
        slug,
        "critical",
        f"{m.increase('container_restarts', '30m')} > 0\n"
        f"and on (namespace, pod, container) {m.gauge('container_oom_killed')} == 1\n"
        f"and on (namespace, pod) {m.gauge('requests_running', 'last', '1h')}",
        "0m",
        f"{POD} was killed for want of memory",
        "{{ $value | humanize }} restarts in 30 min, the last end was an OOM kill (limit: 0).",
        "the container was killed by the kernel for want of memory",
        linger="30m",
    )


def _device(on: Basis) -> Iterator[Alert]:
    slug = "gpu-memory-growth"
    hours = f"{on.limit(f'{slug}.span'):g}"
    grown = f"{DEVICE_MEMORY} - min_over_time({DEVICE_MEMORY}[{hours}h] offset {hours}h)"
    rising = f"deriv({DEVICE_MEMORY}[{hours}h]) > 0 and deriv({DEVICE_MEMORY}[{hours}h] offset {hours}h) > 0"
    yield Alert(
        "VLLMDeviceMemoryGrows",
        slug,
        "warning",
        f"{grown} >= {on.text(f'{slug}.growth')}\nand {rising}",
        "30m",
        f"{GPU}: memory grows outside the KV pool",
        "{{ $value | humanize1024 }}B more than 4 h ago (limit: "
        f"{on.limit(f'{slug}.growth') / 2**20:g} MiB). The KV pool is allocated at the start and does not grow.",
        "GPU memory grows after warm-up",
        (f"{slug}.growth", f"{slug}.span"),
        "30m",
    )
