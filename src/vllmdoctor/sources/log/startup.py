"""Start-up lines -> settings and sizes, by vLLM's argument names."""

import ast
import re
from collections.abc import Iterator

from vllmdoctor.sources.log.shapes import ARGUMENTS, CONFIG, NUMBERS

GIVEN, LINE = "log: non-default args", "log: start-up line"
Value = str | float | int | bool

# What is kept of a server's arguments. Others may be secrets or paths, and nothing is judged by them.
_KEPT = frozenset(
    {
        "aggregate_engine_logging", "api_server_count", "async_scheduling", "block_size",
        "cpu_offload_gb", "data_parallel_size", "disable_log_stats", "dtype", "enable_chunked_prefill",
        "enable_expert_parallel", "enable_prefix_caching", "enforce_eager", "gpu_memory_utilization",
        "kv_cache_dtype", "kv_cache_memory_bytes", "kv_offloading_size", "long_prefill_token_threshold",
        "max_model_len", "max_num_batched_tokens", "max_num_queued_reqs", "max_num_queued_tokens",
        "max_num_seqs", "mm_processor_cache_gb", "num_gpu_blocks_override", "num_speculative_tokens",
        "pipeline_parallel_size", "prefix_cache_retention_interval", "prefill_schedule_interval",
        "quantization", "scheduler_reserve_full_isl", "scheduling_policy", "stream_interval",
        "swap_space", "tensor_parallel_size", "watermark",
    }
)  # fmt: skip
_OTHERWISE = {"max_seq_len": "max_model_len"}  # how the resolved configuration calls it
_QUOTED = re.compile(r"'(\w+)': ('[^']*'|\[[^\]]*\]|[\w.+-]+)")
_ASSIGNED = re.compile(r"\b(\w+)=('[^']*'|\[[^\]]*\]|[\w.+/-]+)")
_BEHIND = re.compile(
    r"(?:served_model_name|enable_prefix_caching|chunked_prefill_enabled|enable_chunked_prefill)=[\w./-]+"
)
_SPECULATIVE = re.compile(r"num_spec(?:ulative)?_tokens['\"]?\s*[:=]\s*(\d+)")


def read_startup(text: str) -> Iterator[tuple[str, Value, str]]:
    """(argument, value, origin) of a line; nothing where it is no start-up line.

    `served_model_name` is among them. Sizes that the server measured have names of their own.
    """
    for key, pattern, scale, _ in NUMBERS:
        if found := pattern.search(text):
            number = float(found[1].replace(",", "")) * scale
            whole = scale == 1.0 and "." not in found[1]
            yield key, int(number) if whole else number, LINE
    if found := ARGUMENTS.pattern.search(text):
        yield from ((key, value, GIVEN) for key, value in _arguments(dict(_pairs(found)), text))
    elif found := CONFIG.pattern.search(text):
        # what is inside of brackets belongs to other parts of the configuration
        flat = re.split(r"\w+=\w*Config\(|\w+=\{", found[1], maxsplit=1)[0] + _tail(found[1])
        pairs = {_OTHERWISE.get(k, k): v for k, v in _ASSIGNED.findall(flat)}
        yield from ((key, value, LINE) for key, value in _arguments(pairs, text))


def _tail(config: str) -> str:
    """The settings that stand between and behind the bracketed parts."""
    return "".join(" " + found[0] for found in _BEHIND.finditer(config))


def _pairs(found: re.Match[str]) -> Iterator[tuple[str, str]]:
    if found[2] is not None:
        yield from _ASSIGNED.findall(found[2])
        return
    yield from _QUOTED.findall(found[1])


def _arguments(pairs: dict[str, str], text: str) -> Iterator[tuple[str, Value]]:
    pairs = {("enable_chunked_prefill" if k == "chunked_prefill_enabled" else k): v for k, v in pairs.items()}
    name = _first(pairs.get("served_model_name", "")) or _first(pairs.get("model", ""))
    if name:
        yield "served_model_name", name
    for key, raw in pairs.items():
        if key in _KEPT and raw not in ("None", "null"):
            yield key, _value(raw)
    if (tokens := _SPECULATIVE.search(text)) and "num_speculative_tokens" not in pairs:
        yield "num_speculative_tokens", int(tokens[1])


def _first(raw: str) -> str:
    """The first name of a list of served names."""
    return raw.strip("[]").split(",")[0].strip().strip("'\"").replace("None", "")


def _value(raw: str) -> Value:
    try:
        value = ast.literal_eval(raw)
    except (ValueError, SyntaxError):
        return raw
    return value if isinstance(value, str | float | int | bool) else raw
