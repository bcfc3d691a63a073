"""Remedies that are one setting of the engine or of the model, for what was measured or given of it."""

import math

from vllmdoctor.model import Step
from vllmdoctor.remedies import predict
from vllmdoctor.remedies.ask import Ask, step

MAMBA, EAGER, OFFLOAD = "--mamba-cache-mode", "--enforce-eager", "--kv-offloading-size"


def mamba_cache_mode(ask: Ask) -> Step | None:
    """Keep the states of a hybrid model at every block, not only at chunk ends."""
    mode = ask.figures.text("mamba_cache_mode")
    if mode != "align":
        return None
    return step(
        "mamba-cache-mode",
        "Keep the hybrid model's states at every block",
        ask,
        verdict="unknown",
        action=f"Set {MAMBA} all where the model supports it, else lower --max-num-batched-tokens; restart.",
        why="in mode align a state can be reused only where a chunk ended, so most prefixes miss",
        flag_name=MAMBA,
        before=mode,
        after="all",
        effect="cannot be predicted because it depends on the model",
        tradeoff="more memory for states",
        verify="prefix cache hits / queries with a repeated prompt",
    )


def reserve_full_prompt(ask: Ask) -> Step | None:
    """Admit a prompt only when all of it fits, where that was switched off."""
    name = "--scheduler-reserve-full-isl"
    if ask.figures.switch("scheduler_reserve_full_isl") is not False:
        return None
    return step(
        "reserve-full-prompt",
        "Admit a prompt only when all of it fits",
        ask,
        action=f"Leave out --no-{name[2:]}; restart.",
        why="only the first chunk is checked at admission, so long prompts are admitted and then preempted",
        flag_name=name,
        before="False",
        after="True",
        effect="preemptions after bursts of long prompts fall; capacity is the same",
        tradeoff="a long prompt waits until the pool has room for all of it",
        verify="preemptions per minute",
        predictions=predict.larger_pool(ask, 1.0),
    )


def drop_enforce_eager(ask: Ask) -> Step | None:
    """CUDA graphs, where they were switched off."""
    if ask.figures.switch("enforce_eager") is not True:
        return None
    return step(
        "drop-enforce-eager",
        "Let CUDA graphs run",
        ask,
        verdict="unknown",
        action=f"On a GPU: leave {EAGER} out; restart.",
        why="without CUDA graphs each step pays for launching every kernel",
        flag_name=EAGER,
        before="True",
        after="removed",
        effect="cannot be predicted because it depends on the model: most at small batches",
        tradeoff="some device memory and a longer start",
        verify="inter-token latency p50, KV cache size in the start-up log",
    )


def kv_offload(ask: Ask) -> Step | None:
    """Host memory as a second tier of the prefix cache."""
    if ask.number("kv_offloading_size") > 0 or ask.figures.fact("kv_transfer_config") is not None:
        return None
    size = ask.number("pool_tokens") * ask.number("kv_bytes_per_token") / 1024**3
    target = max(1, math.ceil(2 * size)) if math.isfinite(size) and 0 < size < 1e6 else 0
    return step(
        "kv-offload",
        "Keep evicted prefixes in host memory",
        ask,
        verdict="unknown",
        action=f"Set {OFFLOAD} {target or 'to the host memory that is free, in GiB'}; restart.",
        why="prefixes that the pool gives up can be read back instead of being computed again",
        flag_name=OFFLOAD,
        before=ask.in_force(OFFLOAD) or "None",
        after=str(target) if target else "",
        formula=f"2 x the pool's {size:.0f} GiB"
        if target
        else "twice the pool's bytes, if the host has them",
        effect="cannot be predicted because reuse after eviction is not measured",
        tradeoff="host memory and traffic over the bus",
        verify="external prefix cache hits / queries, TTFT p50",
        missing=ask.missing("pool_tokens", "kv_bytes_per_token"),
    )


def quantized_weights(ask: Ask) -> Step | None:
    """Weights of fewer bits leave more of the device to the pool, and shorten memory-bound steps."""
    now = ask.figures.text("quantization").lower()
    if now and now != "gguf":
        return None
    return step(
        "quantized-weights",
        "Serve a quantised checkpoint" if not now else "Serve another quantisation than GGUF",
        ask,
        verdict="helps" if now else "unknown",
        action="Serve an FP8, AWQ or GPTQ checkpoint of the model; compare answers on your own test set.",
        why="GGUF takes a slow path for more than one request"
        if now
        else "smaller weights leave more memory to the KV pool",
        effect="cannot be predicted because the size of the weights is not known",
        tradeoff="answers may change",
        verify="KV cache size in the start-up log; answers on a fixed request set",
    )
