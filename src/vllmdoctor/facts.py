"""What is known of the server itself: its version and its settings, each with where it came from."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from vllmdoctor.frame import Frame
from vllmdoctor.model import Fact
from vllmdoctor.recording import Recording
from vllmdoctor.release import Version, VersionRange
from vllmdoctor.versions import infer
from vllmdoctor.vitals import Vitals

# labels of vllm:cache_config_info that are settings or sizes worth knowing, under vLLM's argument names
CACHE_LABELS = (
    "block_size",
    "num_gpu_blocks",
    "num_gpu_blocks_override",
    "kv_cache_size_tokens",
    "kv_cache_max_concurrency",
    "kv_cache_memory_bytes",
    "gpu_memory_utilization",
    "enable_prefix_caching",
    "cache_dtype",
    "sliding_window",
    "swap_space",
    "cpu_offload_gb",
)
EMPTY = ("", "None", "null")


@dataclass(frozen=True, slots=True)
class VersionFound:
    """The server's release, exact or a range, with its words and where they come from."""

    release: Version | VersionRange
    words: str
    origin: str


def server_version(recording: Recording, frame: Frame, given: str) -> VersionFound:
    """From --vllm-version, else what the server said, else what its metric names allow."""
    if given:
        parsed = Version.parse(given)
        if parsed is not None:
            return VersionFound(parsed, given, "given")
    for fact in recording.facts:
        if fact.key == "vllm_version" and fact.instance in ("", frame.instance):
            parsed = Version.parse(str(fact.value))
            if parsed is not None and parsed.meaningful:
                return VersionFound(parsed, str(fact.value), fact.origin)
    found = infer(frame.families.keys())
    return VersionFound(found, found.words.removesuffix(f" ({found.origin})"), found.origin)


def engine_facts(recording: Recording, vitals: Vitals, version: VersionFound) -> Mapping[str, Fact]:
    """Settings by vLLM's argument name; what the server was started with wins over its metrics."""
    frame = vitals.frame
    facts: dict[str, Fact] = {
        "vllm_version": Fact("vllm_version", version.words, version.origin, frame.instance)
    }
    labels = frame.labels("cache_config")
    for key in CACHE_LABELS:
        text = labels.get(key, "")
        if text not in EMPTY:
            facts[key] = Fact(key, _value(text), "vllm:cache_config_info", frame.instance)
    for fact in recording.facts:
        if fact.key != "vllm_version" and fact.instance in ("", frame.instance):
            facts[fact.key] = fact
    tokens = _pool_tokens(facts)
    if tokens is not None:
        facts["pool_tokens"] = tokens
    return facts


def _pool_tokens(facts: Mapping[str, Fact]) -> Fact | None:
    """The KV pool in tokens. Blocks x block size overstates it for hybrid models, so it comes last."""
    said = facts.get("kv_cache_size_tokens")
    if said is not None:
        return Fact("pool_tokens", said.value, said.origin, said.instance)
    blocks, size = _number(facts, "num_gpu_blocks"), _number(facts, "block_size")
    if math.isnan(blocks * size):
        return None
    origin = "num_gpu_blocks x block_size (too high for hybrid models)"
    # the label is the sum over data-parallel engines, repeated on each engine's series
    engines = _number(facts, "data_parallel_size")
    size = size / engines if engines > 1 else size
    return Fact("pool_tokens", blocks * size, origin, facts["num_gpu_blocks"].instance)


def _number(facts: Mapping[str, Fact], key: str) -> float:
    fact = facts.get(key)
    try:
        return float(fact.value) if fact is not None else math.nan
    except ValueError:
        return math.nan


def _value(text: str) -> str | float | bool:
    if text in ("True", "False"):
        return text == "True"
    try:
        return float(text)
    except ValueError:
        return text
