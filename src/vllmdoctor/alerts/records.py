"""Recording rules: the measures that several alerts, and dashboards, read."""

from collections.abc import Iterator

from vllmdoctor.alerts.basis import Basis
from vllmdoctor.alerts.nouns import Record
from vllmdoctor.promql import bare

SEEN = "engine:vllm_scrapes:count30m"
RATE = "engine:vllm_generation_tokens:rate30m"
INSIDE = "engine:vllm_requests_inside:avg30m"
FINISHED = "engine:vllm_requests_finished:rate30m"
ARRIVALS = "engine:vllm_requests_arriving:rate30m"
ADJUSTED = "engine:vllm_generation_tokens_adjusted:ratio6h"
PREEMPTED = "engine:vllm_preemptions_per_finished_request:ratio30m"
TTFT = "engine:vllm_time_to_first_token_seconds:mean30m"
TTFT_P50 = "engine:vllm_time_to_first_token_seconds:p50_30m"
TTFT_P95 = "engine:vllm_time_to_first_token_seconds:p95_30m"
TAIL = "engine:vllm_time_to_first_token_tail:ratio30m"
ITL = "engine:vllm_inter_token_latency_seconds:mean30m"
PREFILL = "engine:vllm_prefill_time_seconds:mean30m"
PROMPT_LENGTH = "engine:vllm_prompt_length_tokens:mean30m"
OUTPUT_LENGTH = "engine:vllm_output_length_tokens:mean30m"
HITS = "engine:vllm_prefix_cache_hits:ratio30m"
ACCEPTED = "engine:vllm_spec_decode_accepted:ratio30m"
CAPACITY = "engine:vllm_kv_capacity_tokens:effective30m"
HELD_IDLE = "engine:vllm_kv_cache_usage_while_idle:min1h"
MEMORY = "container:memory_of_vllm_bytes:max"
LEAK = "container:memory_of_vllm_bytes:deriv2h"
ENGINES = "job:vllm_engines:count"
DEMAND = "job:vllm_requests_arriving:sum30m"
CLOCK = "gpu:sm_clock_under_load_hertz:avg10m"
DEVICE_MEMORY = "gpu:memory_used_of_vllm_bytes:max"

BUSY_USAGE = 0.10  # below this KV use, capacity per use is mostly noise
LOADED = 0.3  # a GPU that works less may lower its clock by itself


def records(on: Basis) -> Iterator[Record]:
    """Every recording for which the servers have the names."""
    m = on.metrics
    if m.has("requests_running"):
        expr = m.gauge("requests_running", "count", "30m")
        yield Record(SEEN, expr, "samples in 30 min: what is compared must have been seen alike")
    if m.has("generation_tokens"):
        yield Record(RATE, m.rate("generation_tokens", "30m"), "tokens generated per second")
    if m.has("requests_running", "requests_waiting"):
        inside = " + ".join(m.gauge(s, "avg", "30m") for s in ("requests_running", "requests_waiting"))
        yield Record(INSIDE, inside, "requests in the server: running and waiting")
    if m.has("requests_finished"):
        yield Record(FINISHED, m.rate("requests_finished", "30m"), "requests finished per second")
        if m.has("requests_running", "requests_waiting"):
            yield Record(ARRIVALS, _arrivals(on), "demand: requests that finished, and those that stayed")
        if m.has("preemptions"):
            expr = f"{m.rate('preemptions', '30m')} / ({m.rate('requests_finished', '30m')} > 0)"
            yield Record(PREEMPTED, expr, "preemptions per finished request")
    if m.has("generation_tokens", "requests_running", "requests_waiting"):
        expr = f"{RATE} / ({RATE} offset 6h > 0) / clamp_max({INSIDE} / ({INSIDE} offset 6h > 0), 1)"
        yield Record(ADJUSTED, expr, "generation rate against 6 h earlier, for what it has to do now")
    yield from _latencies(on)
    yield from _caches(on)
    yield from _around(on)


def _arrivals(on: Basis) -> str:
    m = on.metrics
    now = " + ".join(m.gauge(s) for s in ("requests_running", "requests_waiting"))
    then = " + ".join(m.gauge(s, offset="30m") for s in ("requests_running", "requests_waiting"))
    return f"clamp_min({m.rate('requests_finished', '30m')} + (({now}) - ({then})) / 1800, 0)"


def _latencies(on: Basis) -> Iterator[Record]:
    m = on.metrics
    if m.has("ttft"):
        yield Record(TTFT, m.mean("ttft", "30m"), "time to first token")
        yield Record(TTFT_P50, m.quantile(0.5, "ttft", "30m"), "median time to first token")
        yield Record(TTFT_P95, m.quantile(0.95, "ttft", "30m"), "time to first token of the slowest 5 %")
        yield Record(TAIL, f"{TTFT_P95} / ({TTFT_P50} > 0)", "how far the slow tail is from the median")
    for signal, name, what in (
        ("itl", ITL, "time between two outputs of a request"),
        ("prefill_time", PREFILL, "time in prefill of finished requests"),
        ("prompt_length", PROMPT_LENGTH, "prompt tokens of finished requests"),
        ("output_length", OUTPUT_LENGTH, "generated tokens of finished requests"),
    ):
        if m.has(signal):
            yield Record(name, m.mean(signal, "30m"), what)


def _caches(on: Basis) -> Iterator[Record]:
    m = on.metrics
    if m.has("prefix_cache_hits", "prefix_cache_queries"):
        asked = f"({m.rate('prefix_cache_queries', '30m')} > 0)"
        expr = f"clamp_max({m.rate('prefix_cache_hits', '30m')} / {asked}, 1)"
        yield Record(HITS, expr, "prefix cache hits per lookup")
    if m.has("spec_accepted_tokens", "spec_draft_tokens"):
        drafted = f"({m.rate('spec_draft_tokens', '30m')} > 0)"
        expr = f"{m.rate('spec_accepted_tokens', '30m')} / {drafted}"
        yield Record(ACCEPTED, expr, "drafted tokens that were accepted")
    if m.has("kv_cache_usage", "requests_running", "prompt_length", "output_length"):
        own = f"{PROMPT_LENGTH} * (1 - ({HITS} or 0 * {PROMPT_LENGTH}))" if m.has("prefix_cache_hits") else ""
        live = (
            f"{m.gauge('requests_running', 'avg', '30m')} * ({own or PROMPT_LENGTH} + {OUTPUT_LENGTH} / 2)"
        )
        used = f"({m.gauge('kv_cache_usage', 'avg', '30m')} > {BUSY_USAGE:g})"
        yield Record(CAPACITY, f"{live} / {used}", "tokens that the pool serves when it is full")
    if m.has("kv_cache_usage", "requests_running", "requests_waiting"):
        idle = " and ".join(
            f"{m.gauge(s, 'max', '3m')} == 0" for s in ("requests_running", "requests_waiting")
        )
        expr = f"min_over_time(({m.gauge('kv_cache_usage')} and {idle})[1h:1m])"
        yield Record(HELD_IDLE, expr, "share of the KV blocks that is held while nothing runs")


def _around(on: Basis) -> Iterator[Record]:
    m = on.metrics
    if not m.has("requests_running"):
        return
    running = m.gauge("requests_running")
    yield Record(ENGINES, f"count by (job, namespace) ({bare(running)})", "engines that show metrics")
    yield Record(DEMAND, f"sum by (job, namespace) ({ARRIVALS})", "demand on all of them together")
    if m.has("container_memory"):
        expr = f"{m.gauge('container_memory')} and on (namespace, pod) {running}"
        yield Record(MEMORY, expr, "working set of vLLM's containers")
        yield Record(LEAK, f"deriv({MEMORY}[2h])", "leak slope: bytes per second over two hours")
    if m.has("gpu_sm_clock", "gpu_utilization"):
        clock = m.gauge("gpu_sm_clock", "avg", "10m")
        busy = f"{m.gauge('gpu_utilization', 'avg', '10m')} >= {LOADED:g}"
        yield Record(CLOCK, of_vllm(on, f"({clock} and ({busy}))"), "clock of vLLM's GPUs that have work")
    if m.has("gpu_memory_used"):
        yield Record(DEVICE_MEMORY, of_vllm(on, m.gauge("gpu_memory_used")), "memory of vLLM's GPUs")


def of_vllm(on: Basis, gpus: str) -> str:
    """Those GPUs that are a vLLM pod's; where neither side knows of pods, all of them.

    Exporters carry the pod as `pod`, or as `exported_pod` where the scrape has its own `pod`.
    """
    running = on.metrics.gauge("requests_running")
    exported = (
        f'label_replace(label_replace({running}, "exported_pod", "$1", "pod", "(.+)"), '
        '"exported_namespace", "$1", "namespace", "(.+)")'
    )
    return (
        f"({gpus} and on (namespace, pod) {running}) "
        f"or ({gpus} and on (exported_namespace, exported_pod) {exported})"
    )
