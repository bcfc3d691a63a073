"""Remedies that change the KV pool itself, or what one request may take of it."""

import math

from vllmdoctor.flags import flag
from vllmdoctor.model import Step
from vllmdoctor.remedies import predict
from vllmdoctor.remedies.ask import (
    HEADROOM,
    Ask,
    ceil,
    dismissed,
    floor,
    gain_bound,
    plain,
    pool_formula,
    pool_needed,
    sequences_that_fit,
    step,
)
from vllmdoctor.remedies.memory import POOL_CHECK

LEAST_GROWTH = 1.25  # a pool that is seen to be full is made larger by this at least


def more_kv_blocks(ask: Ask) -> Step | None:
    """A pool that an argument fixed too small is made as large as the load needs."""
    slug, title = "more-kv-blocks", "Make the KV pool larger"
    needed, pool = pool_needed(ask), ask.number("pool_tokens")
    growth = needed / pool
    if (
        ask.finding.kind not in ("kv-bound", "")
        and ask.cause == "overload"
        and not (ask.finding.kind == "slot-bound" and sequences_that_fit(ask) <= ask.number("max_num_seqs"))
    ):
        return dismissed(slug, title, ask, "moot", "the pool is not what runs out first here")
    if growth <= 1:
        if ask.finding.kind != "kv-bound":
            why = "the pool is large enough for this load: something else holds it"
            return dismissed(slug, title, ask, "moot", why, formula=pool_formula(ask))
        growth = LEAST_GROWTH
    else:
        growth *= HEADROOM
    lacking = ask.missing(
        "pool_tokens", "mean_prompt", "mean_output", "running_mean", "arrival_rate", "completion_rate"
    )
    override, room = ask.number("num_gpu_blocks_override"), ask.number("kv_cache_memory_bytes")
    if override > 0:
        after = "" if math.isnan(growth) else str(ceil(override * growth))
        name, before = "--num-gpu-blocks-override", f"{override:.0f}"
        action = f"Remove {name} (it is for tests), or raise it to {after or 'twice its value'}; restart."
        why = f"{name} {before} holds the pool at {plain(pool) if pool > 0 else 'so many'} tokens"
    elif room > 0:
        after = "" if math.isnan(growth) else f"{room * growth:.0f}"
        name, before = "--kv-cache-memory-bytes", f"{room:.0f}"
        action = f"Set {name} {after or 'to what the start-up log suggests'}; restart."
        why = f"{name} {before} holds the pool at {plain(pool) if pool > 0 else 'so many'} tokens"
    else:
        return None
    return step(
        slug,
        title,
        ask,
        action=action,
        why=why,
        flag_name=name,
        before=before,
        after=after or "removed",
        formula=f"{pool_formula(ask)}; x {HEADROOM}: a larger batch has longer steps"
        if pool_formula(ask)
        else "blocks now x (tokens needed / pool tokens)",
        effect=gain_bound(ask, growth),
        tradeoff="memory the device must have: the start-up log says what fits"
        + (_with_slots(ask, growth) if ask.finding.kind == "slot-bound" else ""),
        verify=POOL_CHECK,
        missing=lacking,
        predictions=predict.larger_pool(ask, growth),
    )


def _with_slots(ask: Ask, growth: float) -> str:
    """A cap that was set for the small pool must go up with it."""
    fits = floor(growth * sequences_that_fit(ask))
    return (
        f"; raise --max-num-seqs with it, to {plain(fits)}" if fits > 0 else "; raise --max-num-seqs with it"
    )


def fp8_kv_cache(ask: Ask) -> Step | None:
    """Half the bytes per token: about twice the tokens in the same memory."""
    slug, title, name = "fp8-kv-cache", "Store the KV cache in 8 bits", "--kv-cache-dtype"
    now = ask.figures.text("kv_cache_dtype") or flag(name).default_in(ask.release) or "auto"
    if now.startswith(("fp8", "int8", "nvfp4")):
        return dismissed(slug, title, ask, "moot", f"kv_cache_dtype is {now} already")
    pool, needed = ask.number("pool_tokens"), pool_needed(ask)
    enough = (
        ""
        if math.isnan(needed)
        else f"; needed {plain(needed)}: {'enough' if 2 * pool >= needed else 'not enough'}"
    )
    return step(
        slug,
        title,
        ask,
        action=f"Set {name} fp8; restart; compare answers on your own test set.",
        why="the pool is full, and half the bytes per token hold twice the tokens",
        flag_name=name,
        before=now,
        after="fp8",
        formula=f"2 x {plain(pool)} = {plain(2 * pool)} tokens{enough}"
        if pool > 0
        else "2 x pool tokens (16-bit model)",
        effect=gain_bound(ask, 2.0),
        tradeoff="answers may change; needs a GPU and attention backend with FP8; 0.8 may fall back to V0",
        verify="KV cache size in the start-up log; answers on a fixed request set",
        missing=ask.missing("pool_tokens"),
        predictions=predict.larger_pool(ask, 2.0),
    )


def kv_watermark(ask: Ask) -> Step | None:
    """A few blocks kept free at admission, so that running requests can grow."""
    slug, title, name = "kv-watermark", "Keep a few KV blocks free at admission", "--watermark"
    if ask.number("watermark") > 0:
        return dismissed(slug, title, ask, "moot", f"watermark is {ask.number('watermark'):g} already")
    blocks = ask.number("num_blocks")
    return step(
        slug,
        title,
        ask,
        action=f"Set {name} 0.02; restart.",
        why="requests are admitted into the last free blocks and then preempted",
        flag_name=name,
        before=ask.in_force(name) or "0.0",
        after="0.02",
        formula=f"0.02 x {plain(blocks)} = {plain(ceil(0.02 * blocks))} blocks kept free"
        if blocks > 0
        else "",
        effect="fewer preemptions; no capacity is added (one published test: +5 % tokens/s, TTFT +70 %)",
        tradeoff="requests wait longer for admission",
        verify="preemptions per minute, TTFT p95",
        predictions=predict.reserve(ask),
    )


def lower_max_model_len(ask: Ask) -> Step | None:
    """A bound on what one request may take; it adds no blocks."""
    slug, title, name = "lower-max-model-len", "Lower the longest request allowed", "--max-model-len"
    now, pool = ask.number("max_model_len"), ask.number("pool_tokens")
    if ask.cause == "stall" and not now > pool:
        return None
    longest = ask.number("prompt_p99") + ask.number("output_p99")
    fits = ceil(longest * 1.2 / 256) * 256 if longest > 0 else math.nan
    prompt, output = plain(ask.number("prompt_p99")), plain(ask.number("output_p99"))
    formula = f"1.2 x p99 of ({prompt} + {output}) = {plain(fits)} tokens"
    if now > pool:
        target = min(pool, fits) if fits > 0 else pool
        target = floor(target / 16) * 16
        why = f"a request longer than the pool ({plain(pool)} tokens) can never run and blocks the queue"
    elif math.isnan(fits):
        return step(
            slug,
            title,
            ask,
            verdict="unknown",
            action=f"Set {name} to 1.2 x p99 of prompt + output; restart.",
            why="it bounds what one request may take; KV blocks are allocated as used, so it adds none",
            flag_name=name,
            before=ask.figures.text("max_model_len") or "not known",
            formula="1.2 x (p99 prompt + p99 output), up to the next 256",
            effect="cannot be predicted because the lengths of requests are not known",
            tradeoff="longer requests get an error",
            verify="HTTP 400 count",
            missing=ask.missing("prompt_p99", "output_p99", "max_model_len"),
        )
    elif ask.finding.kind == "kv-bound" or fits >= 0.8 * now:
        why = "KV blocks are allocated as used: a lower bound adds none, and no request comes near it"
        return dismissed(slug, title, ask, "moot", why, formula=formula)
    else:
        target, why = fits, "the longest requests hold many blocks and long steps"
    return step(
        slug,
        title,
        ask,
        action=f"Set {name} {target:.0f}; restart.",
        why=why,
        flag_name=name,
        before="model's own" if math.isnan(now) else f"{now:.0f}",
        after=f"{target:.0f}",
        formula=formula if fits > 0 else f"pool {plain(pool)} tokens",
        effect="requests that could never run are refused at once; throughput of the others: not predicted, "
        "since blocks are allocated as used",
        tradeoff=f"requests above {plain(target)} tokens get an error",
        verify="requests waiting with none running; HTTP 400 count",
        missing=ask.missing("max_model_len", "prompt_p99", "output_p99"),
    )
