"""The figures that remedies compute with: measured or read, each with its origin, any may be missing."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from vllmdoctor.errors import UnknownName
from vllmdoctor.model import Fact

Value = str | float | int | bool

_START_LINE = "the server's start-up log"
_INFO = "vllm:cache_config_info, or the server's arguments"
_ARGS = "the server's arguments (start-up log: non-default args)"
_LENGTHS = "vllm:request_prompt_tokens and vllm:request_generation_tokens under load"
_GAUGES = "a recording under load"
_GPU = "nvidia-smi, or dcgm-exporter"
_CGROUP = "cAdvisor, or kubectl top pod"


@dataclass(frozen=True, slots=True)
class Figure:
    """One figure: its unit, what it is in words, and where to get it when it is missing."""

    unit: str
    what: str
    how: str


FIGURES: Mapping[str, Figure] = MappingProxyType(
    {
        # the server's settings
        "pool_tokens": Figure("tokens", "KV pool", f"{_START_LINE}: KV cache size"),
        "num_blocks": Figure("blocks", "KV blocks", _INFO),
        "block_size": Figure("tokens", "tokens per KV block", _INFO),
        "kv_bytes_per_token": Figure(
            "bytes", "KV bytes per token", f"{_START_LINE}: available KV cache memory / KV cache size"
        ),
        "gpu_memory_utilization": Figure("ratio", "gpu_memory_utilization", _INFO),
        "num_gpu_blocks_override": Figure("blocks", "num_gpu_blocks_override", _INFO),
        "kv_cache_memory_bytes": Figure("bytes", "kv_cache_memory_bytes", _INFO),
        "kv_cache_dtype": Figure("", "kv_cache_dtype", _INFO),
        "enable_prefix_caching": Figure("", "enable_prefix_caching", _INFO),
        "enable_chunked_prefill": Figure("", "enable_chunked_prefill", _ARGS),
        "max_num_seqs": Figure("requests", "max_num_seqs", _ARGS),
        "max_num_batched_tokens": Figure("tokens", "max_num_batched_tokens", _ARGS),
        "max_model_len": Figure("tokens", "max_model_len", "/v1/models, or the server's arguments"),
        "long_prefill_token_threshold": Figure("tokens", "long_prefill_token_threshold", _ARGS),
        "max_num_queued_reqs": Figure("requests", "max_num_queued_reqs", _ARGS),
        "watermark": Figure("ratio", "watermark", _ARGS),
        "scheduling_policy": Figure("", "scheduling_policy", _ARGS),
        "tensor_parallel_size": Figure("GPUs", "tensor_parallel_size", _ARGS),
        "data_parallel_size": Figure("engines", "data_parallel_size", _ARGS),
        "async_scheduling": Figure("", "async_scheduling", _ARGS),
        "kv_transfer_config": Figure("", "kv_transfer_config", _ARGS),
        "kv_offloading_size": Figure("GiB", "kv_offloading_size", _ARGS),
        "mm_processor_cache_gb": Figure("GiB", "mm_processor_cache_gb", _ARGS),
        "mamba_cache_mode": Figure("", "mamba_cache_mode", _ARGS),
        "prefix_cache_retention_interval": Figure("tokens", "prefix_cache_retention_interval", _ARGS),
        "scheduler_reserve_full_isl": Figure("", "scheduler_reserve_full_isl", _ARGS),
        "enforce_eager": Figure("", "enforce_eager", _ARGS),
        "quantization": Figure("", "quantization", _ARGS),
        "api_server_count": Figure("processes", "api_server_count", _ARGS),
        "num_speculative_tokens": Figure("tokens", "num_speculative_tokens", _ARGS),
        "replicas": Figure("replicas", "replicas that serve", "kube-state-metrics, or kubectl get deploy"),
        "vllm_version": Figure("", "vLLM version", "GET /version"),
        # the requests
        "prompt_p50": Figure("tokens", "prompt length p50", _LENGTHS),
        "prompt_p95": Figure("tokens", "prompt length p95", _LENGTHS),
        "prompt_p99": Figure("tokens", "prompt length p99", _LENGTHS),
        "output_p50": Figure("tokens", "output length p50", _LENGTHS),
        "output_p95": Figure("tokens", "output length p95", _LENGTHS),
        "output_p99": Figure("tokens", "output length p99", _LENGTHS),
        "mean_prompt": Figure("tokens", "mean prompt length", _LENGTHS),
        "mean_output": Figure("tokens", "mean output length", _LENGTHS),
        "prefix_hit_ratio": Figure("ratio", "prefix cache hits / queries", _GAUGES),
        "repeated_prompt_share": Figure(
            "ratio", "share of prompt tokens that repeat", "the application: length of the shared prompt"
        ),
        "spec_acceptance": Figure("ratio", "accepted / drafted tokens", _GAUGES),
        # load
        "running_mean": Figure("requests", "requests running (mean)", _GAUGES),
        "running_max": Figure("requests", "requests running (max)", _GAUGES),
        "waiting_mean": Figure("requests", "requests waiting (mean)", _GAUGES),
        "waiting_max": Figure("requests", "requests waiting (max)", _GAUGES),
        "arrival_rate": Figure("per s", "arrivals", _GAUGES),
        "completion_rate": Figure("per s", "completions", _GAUGES),
        "ttft_mean": Figure("s", "time to first token (mean)", _GAUGES),
        "ttft_p50": Figure("s", "time to first token p50", _GAUGES),
        "ttft_p95": Figure("s", "time to first token p95", _GAUGES),
        "preemptions_per_minute": Figure("per minute", "preemptions", _GAUGES),
        "preemptions_per_request": Figure("per request", "preemptions per finished request", _GAUGES),
        "kv_usage_p95": Figure("ratio", "KV usage p95", _GAUGES),
        # the machine
        "gpu_memory_total": Figure("bytes", "GPU memory", _GPU),
        "gpu_memory_used": Figure("bytes", "GPU memory used", _GPU),
        "gpu_memory_free": Figure("bytes", "GPU memory free", _GPU),
        "memory_slope_bytes_per_s": Figure("bytes per s", "growth of memory", "a recording of 2 h or more"),
        "memory_limit": Figure("bytes", "memory limit", _CGROUP),
        "memory_used": Figure("bytes", "memory used", _CGROUP),
        "cpu_throttled_ratio": Figure("ratio", "CPU periods throttled", "cAdvisor"),
        "gpu_temperature": Figure("°C", "GPU temperature", _GPU),
    }
)

# vllm:cache_config_info and the log call some settings by other names.
_ALIASES: Mapping[str, str] = MappingProxyType(
    {
        "num_gpu_blocks": "num_blocks",
        "kv_cache_size_tokens": "pool_tokens",
        "cache_dtype": "kv_cache_dtype",
    }
)


# unit -> the least and the most that can be true; what lies outside counts as missing
_RANGES: Mapping[str, tuple[float, float]] = MappingProxyType(
    {
        "tokens": (1.0, 1e12),
        "blocks": (1.0, 1e12),
        "bytes": (1.0, 1e16),
        "ratio": (0.0, 1.0),
        "requests": (0.0, 1e9),
        "per s": (0.0, 1e6),
        "per minute": (0.0, 1e8),
        "per request": (0.0, 1e6),
        "bytes per s": (-1e13, 1e13),
        "s": (0.0, 1e8),
        "GPUs": (1.0, 1e5),
        "engines": (1.0, 1e5),
        "replicas": (1.0, 1e5),
        "processes": (1.0, 1e5),
        "GiB": (0.0, 1e7),
        "°C": (-100.0, 300.0),
    }
)
_NOTHING = 1e-6  # closer to 0 is 0
_NEVER_ZERO = frozenset({"gpu_memory_utilization", "max_num_seqs"})
_MAY_BE_ZERO = frozenset(
    {
        "long_prefill_token_threshold", "prefix_cache_retention_interval", "gpu_memory_free", "memory_limit",
        "memory_used",
    }
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Figures:
    """What is known, by the names of `FIGURES`."""

    facts: Mapping[str, Fact]

    def fact(self, name: str) -> Fact | None:
        """The figure with its origin, or None. Raises UnknownName for one that is not declared."""
        if name not in FIGURES:
            raise UnknownName("figure", name, FIGURES)
        return self.facts.get(name)

    def number(self, name: str) -> float:
        """The figure in SI units; NaN when it is missing or no number."""
        fact = self.fact(name)
        if fact is None or isinstance(fact.value, bool):
            return math.nan
        try:
            return float(fact.value)
        except ValueError:
            return math.nan

    def switch(self, name: str) -> bool | None:
        """The figure as on or off; None when it is missing."""
        fact = self.fact(name)
        return fact.value if fact is not None and isinstance(fact.value, bool) else None

    def text(self, name: str) -> str:
        """The figure as text; "" when it is missing."""
        fact = self.fact(name)
        return "" if fact is None else str(fact.value)

    def missing(self, *names: str) -> tuple[str, ...]:
        """Which of these are missing, each with how to get it."""
        lacking = [name for name in names if self.fact(name) is None]
        return tuple(f"{FIGURES[name].what}: {FIGURES[name].how}" for name in lacking)


def figures(
    facts: Iterable[Fact] = (),
    measured: Mapping[str, Value] = MappingProxyType({}),
    *,
    origin: str = "measured",
) -> Figures:
    """The figures from the server's facts and from what was measured (NaN counts as missing).

    Facts go by vLLM's own names; texts such as "None", "True" and "0.92" are read as what they
    mean; facts that no remedy uses are left out. Raises UnknownName for an undeclared measure.
    """
    known: dict[str, Fact] = {}
    for fact in facts:
        name = _ALIASES.get(fact.key, fact.key)
        value = _plausible(name, _read(fact.value)) if name in FIGURES else None
        if value is not None:
            known[name] = Fact(name, value, fact.origin, fact.instance)
    for name, given in measured.items():
        if name not in FIGURES:
            raise UnknownName("figure", name, FIGURES)
        value = _plausible(name, _read(given))
        if value is not None:
            known[name] = Fact(name, value, origin)
    _derive(known)
    return Figures(MappingProxyType(known))


def _read(value: Value) -> Value | None:
    """A label's text as the value it stands for; None for nothing."""
    if isinstance(value, str):
        text = value.strip()
        if text.lower() in ("", "none", "null", "nan", "unknown"):
            return None
        if text.lower() in ("true", "false"):
            return text.lower() == "true"
        try:
            return float(text)
        except ValueError:
            return text
    return value


def _plausible(name: str, value: Value | None) -> Value | None:
    """The value where it can be true of a server, else None: arithmetic with nonsense is nonsense."""
    unit = FIGURES[name].unit
    if isinstance(value, bool | str):
        return None if unit and name != "enable_prefix_caching" else value
    if value is None or not math.isfinite(value):
        return None
    if not unit:
        return value
    low, high = _RANGES[unit]
    if abs(value) < _NOTHING:
        return 0.0 if (low <= 0 and name not in _NEVER_ZERO) or name in _MAY_BE_ZERO else None
    return value if low <= value <= high else None


def _derive(known: dict[str, Fact]) -> None:
    """The pool's tokens from its blocks, where the server does not say them itself."""
    blocks, size = known.get("num_blocks"), known.get("block_size")
    if "pool_tokens" in known or blocks is None or size is None:
        return
    engines = known.get("data_parallel_size")
    # The label is the sum over data-parallel engines, repeated on each engine's series.
    share = float(engines.value) if engines is not None and float(engines.value) > 1 else 1.0
    tokens = float(blocks.value) * float(size.value) / share
    if not 1 <= tokens <= _RANGES["tokens"][1]:
        return
    known["pool_tokens"] = Fact("pool_tokens", tokens, f"num_gpu_blocks x block_size ({blocks.origin})")
