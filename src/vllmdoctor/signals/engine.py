"""The signals vLLM itself exposes: V0, V1 and the Rust front end, 0.6 to 0.33."""

from vllmdoctor.signals.nouns import Kind, Merge, Name, Signal


def _vllm(
    name: str,
    kind: Kind,
    unit: str,
    merge: Merge,
    names: tuple[Name, ...],
    what: str,
    *,
    note: str = "",
    needs: str = "",
) -> Signal:
    return Signal(name, kind, unit, merge, "engine", names, what, note, needs)


_SPEC = "exposed only with speculative decoding"
_FINISHED = "observed when a request finishes, so a growing queue is not in it yet; aborts never are"

# One signal a paragraph, as a person reads a table.
# fmt: off
ENGINE_SIGNALS = (
    # --- the scheduler's gauges: they freeze when the engine sends no step output
    _vllm(
        "requests_running", "gauge", "requests", "sum",
        (Name("vllm:num_requests_running", since="0.6.0"), Name("log:num_requests_running", era="log")),
        "requests in the running batch",
        note="freezes at its last value when the engine hangs: counters decide about progress",
    ),
    _vllm(
        "requests_waiting", "gauge", "requests", "sum",
        (Name("vllm:num_requests_waiting", since="0.6.0"), Name("log:num_requests_waiting", era="log")),
        "requests in the queue",
        note="capacity and deferred together from 0.20; stays 0 during one long prefill step",
    ),
    _vllm(
        "requests_waiting_capacity", "gauge", "requests", "sum",
        (Name("vllm:num_requests_waiting_by_reason", since="0.20.0", labels=(("reason", "capacity"),)),),
        "requests waiting for a slot or for KV blocks",
    ),
    _vllm(
        "requests_waiting_deferred", "gauge", "requests", "sum",
        (
            Name("vllm:num_requests_waiting_by_reason", since="0.20.0", labels=(("reason", "deferred"),)),
            Name("log:num_requests_deferred", era="log"),
        ),
        "requests put off: remote KV, grammar, LoRA or an admission limit",
    ),
    _vllm(
        "requests_swapped", "gauge", "requests", "sum",
        (
            Name("vllm:num_requests_swapped", since="0.6.0", until="0.9.0", era="V0", hidden="0.8.3"),
            Name("log:num_requests_swapped", era="log"),
        ),
        "requests swapped to host memory (V0 only)",
        note="V1 never swaps: it recomputes",
    ),
    _vllm(
        "kv_cache_usage", "gauge", "ratio", "max",
        (
            Name("vllm:kv_cache_usage_perc", since="0.9.2"),
            Name("vllm:gpu_cache_usage_perc", since="0.6.0", until="0.11.2", hidden="0.11.0"),
            Name("log:kv_cache_usage_ratio", era="log"),
        ),
        "share of the KV blocks that requests hold",
        note="named perc, but 1 means full; reusable cached blocks count as free, so idle reads 0 "
        "(1/blocks in 0.8.3-0.10.1)",
    ),
    # --- counters
    _vllm(
        "preemptions", "counter", "preemptions", "sum",
        (Name("vllm:num_preemptions_total", since="0.6.0"), Name("log:num_preemptions_total", era="log")),
        "requests thrown out of the batch to make room",
        note="booked with the request's next output, so it lags; V1 has it from 0.8.0; "
        "priority preemptions count too",
    ),
    _vllm(
        "prompt_tokens", "counter", "tokens", "sum",
        (Name("vllm:prompt_tokens_total", since="0.6.0"), Name("log:prompt_tokens_total", era="log")),
        "prompt tokens prefilled or found in the cache",
        note="booked in one lump when a prefill ends; cached tokens are in it, recomputed ones are not",
    ),
    _vllm(
        "prompt_tokens_cached", "counter", "tokens", "sum",
        (Name("vllm:prompt_tokens_cached_total", since="0.16.0"),),
        "prompt tokens that came from a cache",
    ),
    _vllm(
        "generation_tokens", "counter", "tokens", "sum",
        (
            Name("vllm:generation_tokens_total", since="0.6.0"),
            Name("log:generation_tokens_total", era="log"),
        ),
        "tokens generated",
    ),
    _vllm(
        "prefix_cache_queries", "counter", "tokens", "sum",
        (
            Name("vllm:prefix_cache_queries_total", since="0.9.2"),
            Name("vllm:gpu_prefix_cache_queries_total", since="0.7.3", until="0.11.2", hidden="0.11.0"),
        ),
        "prompt tokens looked up in the prefix cache",
        note="blocks to 0.8.5, tokens from 0.9.0, under the same name: use hits/queries only; to 0.26 a "
        "blocked queue head is counted again at every step",
        needs="not exposed by the V0 engine",
    ),
    _vllm(
        "prefix_cache_hits", "counter", "tokens", "sum",
        (
            Name("vllm:prefix_cache_hits_total", since="0.9.2"),
            Name("vllm:gpu_prefix_cache_hits_total", since="0.7.3", until="0.11.2", hidden="0.11.0"),
        ),
        "prompt tokens found in the prefix cache",
        note="blocks to 0.8.5, tokens from 0.9.0: use hits/queries only; to 0.11.0 the recomputation "
        "after a preemption counts as hits",
        needs="not exposed by the V0 engine",
    ),
    _vllm(
        "prefix_cache_hit_rate", "gauge", "ratio", "mean",
        (
            Name("vllm:gpu_prefix_cache_hit_rate", since="0.6.0", until="0.9.0", era="V0", hidden="0.8.3"),
            Name("log:prefix_cache_hit_ratio", era="log"),
        ),
        "prefix cache hits per lookup since start (V0 only)",
        note="cumulative since start; -1 when prefix caching is off",
    ),
    _vllm(
        "external_prefix_cache_queries", "counter", "tokens", "sum",
        (Name("vllm:external_prefix_cache_queries_total", since="0.11.1"),),
        "prompt tokens looked up in an external KV cache",
        note="moves only with a KV connector",
    ),
    _vllm(
        "external_prefix_cache_hits", "counter", "tokens", "sum",
        (Name("vllm:external_prefix_cache_hits_total", since="0.11.1"),),
        "prompt tokens found in an external KV cache",
        note="moves only with a KV connector",
    ),
    _vllm(
        "requests_finished", "counter", "requests", "sum",
        (Name("vllm:request_success_total", since="0.6.0"), Name("log:requests_served_total", era="log")),
        "requests that ended, by finished_reason",
        note="V1 does not count what the client aborted",
    ),
    _vllm(
        "admission_rejections", "counter", "requests", "sum",
        (Name("vllm:admission_rejections_total", since="0.32.0"),),
        "requests refused with 503 at the queue limit",
        note="carries no engine label",
        needs="not exposed by the Rust front end",
    ),
    _vllm(
        "corrupted_requests", "counter", "requests", "sum",
        (
            Name("vllm:corrupted_requests_total", since="0.11.1"),
            Name("log:corrupted_requests_total", era="log"),
        ),
        "requests with NaN in their logits",
        needs="exposed only with VLLM_COMPUTE_NANS_IN_LOGITS=1",
    ),
    # --- what only the log tells
    _vllm(
        "gpu_out_of_memory", "counter", "failures", "sum",
        (Name("log:gpu_out_of_memory_total", era="log"),),
        "allocations of GPU memory that failed",
        needs="told by the server's log only",
    ),
    _vllm(
        "gpu_out_of_memory_wanted", "gauge", "bytes", "max",
        (Name("log:gpu_out_of_memory_wanted_bytes", era="log"),),
        "size of the allocation that failed",
        needs="told by the server's log only",
    ),
    _vllm(
        "gpu_out_of_memory_unused", "gauge", "bytes", "max",
        (Name("log:gpu_out_of_memory_unused_bytes", era="log"),),
        "memory that PyTorch had reserved and did not use when an allocation failed",
        needs="told by the server's log only",
    ),
    # --- latencies
    _vllm(
        "ttft", "histogram", "s", "sum",
        (Name("vllm:time_to_first_token_seconds", since="0.6.0"),),
        "time from arrival to the first token",
        note="before 0.8.4 the last bucket is 10 s: a higher p99 cannot be told",
    ),
    _vllm(
        "itl", "histogram", "s", "sum",
        (
            Name("vllm:inter_token_latency_seconds", since="0.10.2"),
            Name("vllm:time_per_output_token_seconds", since="0.6.0", until="0.14.1", hidden="0.12.0"),
        ),
        "time between two outputs of a request",
        note="first bucket 10 ms; with speculative decoding one output carries several tokens; "
        "stalls by preemption are in it",
    ),
    _vllm(
        "tpot", "histogram", "s", "sum",
        (Name("vllm:request_time_per_output_token_seconds", since="0.11.0"),),
        "mean time per output token of a finished request",
        note=_FINISHED,
    ),
    _vllm(
        "e2e_latency", "histogram", "s", "sum",
        (Name("vllm:e2e_request_latency_seconds", since="0.6.0"),),
        "time from arrival to the last token",
        note=f"{_FINISHED}; before 0.8.4 the last bucket is 60 s",
    ),
    _vllm(
        "queue_time", "histogram", "s", "sum",
        (
            Name("vllm:request_queue_time_seconds", since="0.6.4"),
            Name("vllm:time_in_queue_requests", since="0.6.4", until="0.9.0", era="V0", hidden="0.8.3"),
        ),
        "time a request waited to be scheduled",
        note=f"first bucket 0.3 s: below it use sum/count, a healthy server reads p95 0.285 s; {_FINISHED}",
    ),
    _vllm(
        "prefill_time", "histogram", "s", "sum",
        (Name("vllm:request_prefill_time_seconds", since="0.6.4"),),
        "time from first scheduling to the first token",
        note=f"first bucket 0.3 s; {_FINISHED}",
    ),
    _vllm(
        "decode_time", "histogram", "s", "sum",
        (Name("vllm:request_decode_time_seconds", since="0.6.4"),),
        "time from the first to the last token",
        note=_FINISHED,
    ),
    _vllm(
        "inference_time", "histogram", "s", "sum",
        (Name("vllm:request_inference_time_seconds", since="0.6.4"),),
        "time a request was in the running batch",
        note=_FINISHED,
    ),
    # --- sizes
    _vllm(
        "prompt_length", "histogram", "tokens", "sum",
        (Name("vllm:request_prompt_tokens", since="0.6.0"),),
        "prompt tokens of a finished request",
        note=_FINISHED,
    ),
    _vllm(
        "output_length", "histogram", "tokens", "sum",
        (Name("vllm:request_generation_tokens", since="0.6.0"),),
        "generated tokens of a finished request",
        note=_FINISHED,
    ),
    _vllm(
        "max_tokens_param", "histogram", "tokens", "sum",
        (Name("vllm:request_params_max_tokens", since="0.6.4"),),
        "the max_tokens that clients asked for",
        note=_FINISHED,
    ),
    _vllm(
        "iteration_tokens", "histogram", "tokens", "sum",
        (Name("vllm:iteration_tokens_total", since="0.6.4"),),
        "tokens in one engine step",
        note="a histogram in spite of its _total; a whole chunked prompt is booked in the step that ends "
        "it; cached tokens are in it to 0.22 and not from 0.23",
    ),
    _vllm(
        "preemptions_per_request", "histogram", "preemptions", "sum",
        (Name("vllm:request_num_preemptions", since="0.30.0"),),
        "preemptions of a finished request",
        note="0 and 1 share the first bucket: use sum/count",
    ),
    _vllm(
        "prefill_computed_tokens", "histogram", "tokens", "sum",
        (Name("vllm:request_prefill_kv_computed_tokens", since="0.13.0"),),
        "prompt tokens a request computed itself (not cached)",
        note=_FINISHED,
    ),
    # --- speculative decoding
    _vllm(
        "spec_drafts", "counter", "drafts", "sum",
        (Name("vllm:spec_decode_num_drafts_total", since="0.8.5"),),
        "drafts proposed",
        needs=_SPEC,
    ),
    _vllm(
        "spec_draft_tokens", "counter", "tokens", "sum",
        (
            Name("vllm:spec_decode_num_draft_tokens_total", since="0.6.0"),
            Name("log:spec_decode_num_draft_tokens_total", era="log"),
        ),
        "tokens drafted",
        needs=_SPEC,
    ),
    _vllm(
        "spec_accepted_tokens", "counter", "tokens", "sum",
        (
            Name("vllm:spec_decode_num_accepted_tokens_total", since="0.6.0"),
            Name("log:spec_decode_num_accepted_tokens_total", era="log"),
        ),
        "drafted tokens that were accepted",
        needs=_SPEC,
    ),
    _vllm(
        "spec_acceptance_rate", "gauge", "ratio", "mean",
        (Name("vllm:spec_decode_draft_acceptance_rate", since="0.6.0", until="0.9.2", era="V0"),),
        "accepted per drafted tokens (V0 only)",
        needs=_SPEC,
    ),
    # --- state
    _vllm(
        "sleep_state", "gauge", "0/1", "max",
        (Name("vllm:engine_sleep_state", since="0.11.1", labels=(("sleep_state", "awake"),)),),
        "1 while the engine is awake",
        needs="not exposed by the Rust front end",
    ),
    _vllm(
        "cache_config", "info", "", "last",
        (Name("vllm:cache_config_info", since="0.6.0"), Name("log:cache_config_info", era="log")),
        "the KV cache's settings, as labels",
        note="no model_name; num_gpu_blocks is None in V1 0.8 and the sum over data-parallel engines from "
        "0.9; hybrid models hold fewer tokens than blocks x block_size",
        needs="not exposed by the Rust front end",
    ),
)
# fmt: on
