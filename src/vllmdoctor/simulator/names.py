"""Which names each version of vLLM shows for what the simulator counts."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vllmdoctor.simulator.histogram import Histogram
    from vllmdoctor.simulator.setup import Era
    from vllmdoctor.simulator.tally import Tally


def histograms(era: Era, tally: Tally) -> Iterator[tuple[str, Histogram]]:
    """(base name, histogram) of one engine in page order."""
    version = era.version
    yield "vllm:request_prompt_tokens", tally.prompt
    yield "vllm:request_generation_tokens", tally.generation
    yield "vllm:iteration_tokens_total", tally.iteration
    yield "vllm:request_max_num_generation_tokens", tally.generation
    yield "vllm:request_params_n", tally.params_n
    yield "vllm:request_params_max_tokens", tally.max_tokens
    yield "vllm:time_to_first_token_seconds", tally.ttft
    if version < (0, 12, 0):
        yield "vllm:time_per_output_token_seconds", tally.itl
    if version >= (0, 10, 2):
        yield "vllm:inter_token_latency_seconds", tally.itl
    if version >= (0, 11, 0):
        yield "vllm:request_time_per_output_token_seconds", tally.tpot
    yield "vllm:e2e_request_latency_seconds", tally.e2e
    yield "vllm:request_queue_time_seconds", tally.queue
    yield "vllm:request_inference_time_seconds", tally.inference
    yield "vllm:request_prefill_time_seconds", tally.prefill
    yield "vllm:request_decode_time_seconds", tally.decode
    if era.name == "v0":
        yield "vllm:time_in_queue_requests", tally.queue
    if version >= (0, 30, 0):
        yield "vllm:request_num_preemptions", tally.preempted
    if version >= (0, 13, 0):
        yield "vllm:request_prefill_kv_computed_tokens", tally.computed


def usage_names(era: Era) -> tuple[str, ...]:
    """Names of the KV occupancy gauge."""
    if era.version < (0, 9, 2):
        return ("vllm:gpu_cache_usage_perc",)
    if era.version < (0, 11, 0):
        return ("vllm:gpu_cache_usage_perc", "vllm:kv_cache_usage_perc")
    return ("vllm:kv_cache_usage_perc",)


def shown_usage(era: Era, usage: float, num_gpu_blocks: int) -> float:
    """KV occupancy as a version shows it: some count the unusable null block as used."""
    if (0, 8, 3) <= era.version < (0, 10, 2):
        return (usage * (num_gpu_blocks - 1) + 1) / num_gpu_blocks
    return usage


def prefix_names(era: Era) -> tuple[tuple[str, str], ...]:
    """(queries, hits) names of the prefix cache counters; none in V0, which has a rate gauge."""
    old = ("vllm:gpu_prefix_cache_queries_total", "vllm:gpu_prefix_cache_hits_total")
    new = ("vllm:prefix_cache_queries_total", "vllm:prefix_cache_hits_total")
    if era.name == "v0":
        return ()
    if era.version < (0, 9, 2):
        return (old,)
    return (old, new) if era.version < (0, 11, 0) else (new,)


def counters(era: Era, tally: Tally, block_size: int) -> Iterator[tuple[str, dict[str, str], float]]:
    """(name, extra labels, value) of the counters of one engine."""
    version = era.version
    yield "vllm:num_preemptions_total", {}, tally.preemptions
    yield "vllm:prompt_tokens_total", {}, tally.prompt_tokens
    yield "vllm:generation_tokens_total", {}, tally.generation_tokens
    for reason, value in tally.success.items():
        if reason == "repetition" and version < (0, 18, 0):
            continue
        if reason == "error" and version < (0, 12, 0):
            continue
        yield "vllm:request_success_total", {"finished_reason": reason}, value
    # Blocks up to 0.8.5, tokens since.
    unit = block_size if version <= (0, 8, 5) else 1
    for queries, hits in prefix_names(era):
        yield queries, {}, tally.prefix_queries // unit
        yield hits, {}, tally.prefix_hits // unit
    if version >= (0, 16, 0):
        cached = tally.prompt_tokens - tally.computed_tokens
        name = "vllm:prompt_tokens_by_source_total"
        yield name, {"source": "local_compute"}, tally.computed_tokens
        yield name, {"source": "local_cache_hit"}, cached
        yield name, {"source": "external_kv_transfer"}, 0.0
        yield "vllm:prompt_tokens_cached_total", {}, cached
    if tally.accepted_by_position:
        yield from _speculation(era, tally)


def _speculation(era: Era, tally: Tally) -> Iterator[tuple[str, dict[str, str], float]]:
    per_position = [float(int(value)) for value in tally.accepted_by_position]
    drafts = float(int(tally.drafts))
    yield "vllm:spec_decode_num_draft_tokens_total", {}, drafts * len(per_position)
    yield "vllm:spec_decode_num_accepted_tokens_total", {}, sum(per_position)
    if era.name == "v0":
        yield "vllm:spec_decode_num_emitted_tokens_total", {}, drafts + sum(per_position)
        return
    yield "vllm:spec_decode_num_drafts_total", {}, drafts
    for position, value in enumerate(per_position):
        name = "vllm:spec_decode_num_accepted_tokens_per_pos_total"
        yield name, {"position": str(position)}, value
