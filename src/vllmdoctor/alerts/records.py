"""Recording rules: the measures that several alerts, and dashboards, read."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from vllmdoctor.alerts.basis import Basis
from vllmdoctor.alerts.nouns import Record
from vllmdoctor.promql import Metrics, bare, either
from vllmdoctor.vitals import BUSY_USAGE

LOADED = 0.3  # a GPU that works less may lower its clock by itself

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
ENGINES = "job:vllm_engines:count"
DEMAND = "job:vllm_requests_arriving_per_engine:rate10m"
MEMORY = "container:memory_of_vllm_bytes:max"
LEAK = "container:memory_of_vllm_bytes:deriv2h"
CLOCK = "gpu:sm_clock_under_load_hertz:avg10m"
DEVICE_MEMORY = "gpu:memory_used_of_vllm_bytes:max"

_GAUGES = ("requests_running", "requests_waiting")
_LOAD = ("requests_finished", *_GAUGES)


@dataclass(frozen=True, slots=True)
class _Recipe:
    name: str
    needs: tuple[str | tuple[str, ...], ...]  # any one of a tuple inside suffices
    what: str
    write: Callable[[Metrics], str]


def lacking(m: Metrics, name: str) -> tuple[str, ...]:
    """The signals for want of which a recording cannot be written."""
    each = [(need,) if isinstance(need, str) else need for need in _NEEDS[name]]
    return tuple(need[0] for need in each if not any(m.has(signal) for signal in need))


def records(on: Basis) -> Iterator[Record]:
    """Every recording for which the servers show the signals."""
    for recipe in _RECIPES:
        if not lacking(on.metrics, recipe.name):
            yield Record(recipe.name, recipe.write(on.metrics), recipe.what)


def _both(m: Metrics, over: str = "", window: str = "", offset: str = "") -> str:
    return " + ".join(m.gauge(s, over, window, offset) for s in _GAUGES)


def _adjusted(_: Metrics) -> str:
    """The rate against 6 h earlier; where less is inside now, only that much less is excused.

    A server's rate grows at most as its load does, so in health this is never far below 1.
    """
    return f"{RATE} / ({RATE} offset 6h > 0) / clamp_max({INSIDE} / ({INSIDE} offset 6h > 0), 1)"


def _arriving(m: Metrics, minutes: int = 30) -> str:
    """Requests that finished, and by how many those inside have become more."""
    window = f"{minutes}m"
    grown = f"(({_both(m)}) - ({_both(m, offset=window)})) / {60 * minutes}"
    return f"clamp_min({m.rate('requests_finished', window)} + {grown}, 0)"


def _preempted(m: Metrics) -> str:
    return f"{m.rate('preemptions', '30m')} / ({m.rate('requests_finished', '30m')} > 0)"


def _hits(m: Metrics) -> str:
    asked = f"({m.rate('prefix_cache_queries', '30m')} > 0)"
    return f"clamp_max({m.rate('prefix_cache_hits', '30m')} / {asked}, 1)"


def _accepted(m: Metrics) -> str:
    return f"{m.rate('spec_accepted_tokens', '30m')} / ({m.rate('spec_draft_tokens', '30m')} > 0)"


def _capacity(m: Metrics) -> str:
    """Live tokens over used share; a shared prefix is held once, so its hits are taken off the prompts.

    Where the cache is on and its hits are not told, as in V0, the capacity is not known.
    """
    hits = []
    if m.has("prefix_cache_hits", "prefix_cache_queries"):
        hits += [HITS, f"0 * {m.rate('prefix_cache_queries', '30m')}"]
    if m.has("prefix_cache_hit_rate"):
        hits.append(f"0 * ({m.gauge('prefix_cache_hit_rate')} < 0)")  # -1: the cache is off
    own = f"{PROMPT_LENGTH} * (1 - {either(hits)})"
    live = f"{m.gauge('requests_running', 'avg', '30m')} * ({own} + {OUTPUT_LENGTH} / 2)"
    return f"{live} / ({m.gauge('kv_cache_usage', 'avg', '30m')} > {BUSY_USAGE:g})"


def _held_idle(m: Metrics) -> str:
    """The last step's usage may stand for a moment: idle is what was idle for three minutes."""
    idle = " and ".join(f"{m.gauge(s, 'max', '3m')} == 0" for s in _GAUGES)
    return f"min_over_time(({m.gauge('kv_cache_usage')} and {idle})[1h:1m])"


def _memory(m: Metrics) -> str:
    return f"{m.gauge('container_memory')} and on (namespace, pod) {m.gauge('requests_running')}"


def _clock(m: Metrics) -> str:
    busy = f"{m.gauge('gpu_utilization', 'avg', '10m')} >= {LOADED:g}"
    return _of_vllm(m, f"({m.gauge('gpu_sm_clock', 'avg', '10m')} and ({busy}))")


def _of_vllm(m: Metrics, gpus: str) -> str:
    """Those GPUs that are a vLLM pod's; where neither side knows of pods, all of them.

    Exporters carry the pod as `pod`, or as `exported_pod` where the scrape has its own `pod`.
    """
    running = m.gauge("requests_running")
    exported = (
        f'label_replace(label_replace({running}, "exported_pod", "$1", "pod", "(.+)"), '
        '"exported_namespace", "$1", "namespace", "(.+)")'
    )
    return (
        f"({gpus} and on (namespace, pod) {running})\n"
        f"or ({gpus} and on (exported_namespace, exported_pod) {exported})"
    )


_RECIPES = (
    _Recipe(SEEN, ("requests_running",), "samples: what is compared must have been seen alike",
            lambda m: m.gauge("requests_running", "count", "30m")),
    _Recipe(RATE, ("generation_tokens",), "tokens generated per second",
            lambda m: m.rate("generation_tokens", "30m")),
    _Recipe(INSIDE, _GAUGES, "requests in the server, running and waiting",
            lambda m: _both(m, "avg", "30m")),
    _Recipe(FINISHED, ("requests_finished",), "requests finished per second",
            lambda m: m.rate("requests_finished", "30m")),
    _Recipe(ARRIVALS, _LOAD, "demand: requests per second that finished, and that stayed", _arriving),
    _Recipe(ADJUSTED, ("generation_tokens", *_GAUGES),
            "generation rate against 6 h earlier, demand taken off", _adjusted),
    _Recipe(PREEMPTED, ("preemptions", "requests_finished"), "preemptions per finished request", _preempted),
    _Recipe(TTFT, ("ttft",), "mean time to first token (s)", lambda m: m.mean("ttft", "30m")),
    _Recipe(TTFT_P50, ("ttft",), "median time to first token (s)", lambda m: m.quantile(0.5, "ttft", "30m")),
    _Recipe(TTFT_P95, ("ttft",), "time to first token of the slowest 5 % (s)",
            lambda m: m.quantile(0.95, "ttft", "30m")),
    _Recipe(TAIL, ("ttft",), "slow tail: p95 over the median", lambda _: f"{TTFT_P95} / ({TTFT_P50} > 0)"),
    _Recipe(ITL, ("itl",), "mean time between tokens (s)", lambda m: m.mean("itl", "30m")),
    _Recipe(PREFILL, ("prefill_time",), "mean time in prefill (s)", lambda m: m.mean("prefill_time", "30m")),
    _Recipe(PROMPT_LENGTH, ("prompt_length",), "mean prompt tokens of a request",
            lambda m: m.mean("prompt_length", "30m")),
    _Recipe(OUTPUT_LENGTH, ("output_length",), "mean generated tokens of a request",
            lambda m: m.mean("output_length", "30m")),
    _Recipe(HITS, ("prefix_cache_hits", "prefix_cache_queries"), "prefix cache hits per lookup", _hits),
    _Recipe(ACCEPTED, ("spec_accepted_tokens", "spec_draft_tokens"), "accepted per drafted tokens",
            _accepted),
    _Recipe(CAPACITY, ("kv_cache_usage", "requests_running", "prompt_length", "output_length",
                       ("prefix_cache_queries", "prefix_cache_hit_rate")),
            "effective KV capacity: live tokens over the used part of the pool", _capacity),
    _Recipe(HELD_IDLE, ("kv_cache_usage", *_GAUGES), "part of the KV pool that is held while nothing runs",
            _held_idle),
    _Recipe(ENGINES, ("requests_running",), "engines that show metrics",
            lambda m: f"count by (job, namespace) ({bare(m.gauge('requests_running'))})"),
    _Recipe(DEMAND, _LOAD, "demand on each engine of a job",
            lambda m: f"sum by (job, namespace) ({_arriving(m, 10)}) / {ENGINES}"),
    _Recipe(MEMORY, ("container_memory", "requests_running"), "working set of vLLM's containers (bytes)",
            _memory),
    _Recipe(LEAK, ("container_memory", "requests_running"), "leak slope (bytes per second)",
            lambda _: f"deriv({MEMORY}[2h])"),
    _Recipe(CLOCK, ("gpu_sm_clock", "gpu_utilization", "requests_running"),
            "clock of vLLM's GPUs that have work (Hz)", _clock),
    _Recipe(DEVICE_MEMORY, ("gpu_memory_used", "requests_running"), "memory of vLLM's GPUs in use (bytes)",
            lambda m: _of_vllm(m, m.gauge("gpu_memory_used"))),
)  # fmt: skip

_NEEDS = {r.name: r.needs for r in _RECIPES}
WHAT: Mapping[str, str] = MappingProxyType({r.name: r.what for r in _RECIPES})
"""What each recording is, for people."""
