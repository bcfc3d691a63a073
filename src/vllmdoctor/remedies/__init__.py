"""The medicine cabinet: every remedy once, a pure function of figures, release and finding."""

from collections.abc import Mapping
from types import MappingProxyType

from vllmdoctor.errors import UnknownName
from vllmdoctor.flags import Release
from vllmdoctor.model import Outcome, Step
from vllmdoctor.remedies import (
    batch,
    cache,
    care,
    fleet,
    memory,
    neighbour,
    newer,
    pool,
    settings,
    special,
)
from vllmdoctor.remedies.ask import Ask, Remedy
from vllmdoctor.remedies.figures import FIGURES, Figure, Figures, figures

__all__ = ["FIGURES", "REMEDIES", "Figure", "Figures", "figures", "prescribe", "summary"]


def summary(slug: str) -> str:
    """What a remedy does, in one sentence. Raises UnknownName."""
    if slug not in REMEDIES:
        raise UnknownName("remedy", slug, REMEDIES)
    return (REMEDIES[slug].__doc__ or "").split("\n", 1)[0]


REMEDIES: Mapping[str, Remedy] = MappingProxyType(
    {
        "raise-gpu-memory-utilization": memory.raise_gpu_memory_utilization,
        "lower-gpu-memory-utilization": memory.lower_gpu_memory_utilization,
        "more-kv-blocks": pool.more_kv_blocks,
        "fp8-kv-cache": pool.fp8_kv_cache,
        "kv-watermark": pool.kv_watermark,
        "lower-max-model-len": pool.lower_max_model_len,
        "lower-max-num-seqs": batch.lower_max_num_seqs,
        "raise-max-num-seqs": batch.raise_max_num_seqs,
        "set-long-prefill-token-threshold": batch.set_long_prefill_token_threshold,
        "lower-max-num-batched-tokens": batch.lower_max_num_batched_tokens,
        "raise-max-num-batched-tokens": batch.raise_max_num_batched_tokens,
        "priority-scheduling": batch.priority_scheduling,
        "enable-prefix-caching": cache.enable_prefix_caching,
        "prefix-cache-retention": cache.prefix_cache_retention,
        "prefix-aware-routing": cache.prefix_aware_routing,
        "disable-or-retune-spec-decode": cache.disable_or_retune_spec_decode,
        "split-traffic-by-length": fleet.split_traffic_by_length,
        "add-replica": fleet.add_replica,
        "tensor-parallel": fleet.tensor_parallel,
        "limit-admission": fleet.limit_admission,
        "rolling-restart": care.rolling_restart,
        "upgrade": newer.upgrade,
        "collect-evidence-then-restart": care.collect_evidence_then_restart,
        "read-why-it-happened": care.read_why_it_happened,
        "raise-memory-limit": care.raise_memory_limit,
        "check-client": care.check_client,
        "check-gpu-cooling-and-power": care.check_gpu_cooling_and_power,
        "give-more-cpu": care.give_more_cpu,
        "move-the-neighbour": neighbour.move_the_neighbour,
        "disable-async-scheduling": special.disable_async_scheduling,
        "disable-kv-connector": special.disable_kv_connector,
        "reserve-full-prompt": settings.reserve_full_prompt,
        "spread-over-ranks": special.spread_over_ranks,
        "cap-output-length": special.cap_output_length,
        "quantized-weights": settings.quantized_weights,
        "drop-enforce-eager": settings.drop_enforce_eager,
        "kv-offload": settings.kv_offload,
        "mamba-cache-mode": settings.mamba_cache_mode,
        "shrink-mm-cache": special.shrink_mm_cache,
        "expandable-segments": special.expandable_segments,
        "more-api-servers": special.more_api_servers,
        "tune-structured-output": special.tune_structured_output,
        "probe-progress": special.probe_progress,
        "no-action": care.no_action,
    }
)


def prescribe(slug: str, known: Figures, release: Release, finding: Outcome) -> Step | None:
    """One remedy for one finding; None when it does not apply to this release. Raises UnknownName."""
    if slug not in REMEDIES:
        raise UnknownName("remedy", slug, REMEDIES)
    return REMEDIES[slug](Ask(known, release, finding))
