"""Remedies that turn the share of the GPU that vLLM takes: which way is computed, never a reflex."""

import math

from vllmdoctor.model import Step
from vllmdoctor.remedies import predict
from vllmdoctor.remedies.ask import GIB, Ask, dismissed, floor, gain_bound, plain, step

UTILIZATION = "--gpu-memory-utilization"
LOWEST = 0.3  # below it hardly a model fits
HIGHEST = 0.95  # above it start-up or a peak may run out of device memory
RUNBOOK_LOW, RUNBOOK_HIGH = 0.85, 0.88
POOL_CHECK = "KV cache size in the start-up log, preemptions per minute, requests waiting"


def raise_gpu_memory_utilization(ask: Ask) -> Step | None:
    """More of the device for the KV pool, as far as free memory goes."""
    slug, title = "raise-gpu-memory-utilization", "Give the KV pool more of the GPU"
    fixed = _pool_fixed_by(ask)
    if fixed:
        return dismissed(
            slug, title, ask, "moot", f"{fixed} sets the pool, so the fraction has no effect on it"
        )
    if ask.cause == "gpu-memory-growth":
        return dismissed(slug, title, ask, "harmful", "memory outside the pool grows and needs the room")
    before = _utilization(ask)
    if math.isnan(before):
        before_text, target = "not known", HIGHEST
    else:
        before_text, target = f"{before:g}", _highest(ask, before)
    if target <= before + 0.005:
        why = "the device has no memory left for it" if before < HIGHEST else f"{before:g} is near the top"
        return dismissed(slug, title, ask, "moot", why, formula=_room(ask, before))
    ratio = target / before
    missing = ask.missing("gpu_memory_free", "gpu_memory_total", "gpu_memory_utilization")
    return step(
        slug,
        title,
        ask,
        action=f"Set {UTILIZATION} {target:g}" + (", in steps of 0.01" if missing else "") + "; restart.",
        why="a larger pool lasts longer while capacity is lost, and mends nothing"
        if ask.cause == "kv-fragmentation"
        else "the pool is full: requests are preempted and wait for KV blocks",
        flag_name=UTILIZATION,
        before=before_text,
        after=f"{target:g}",
        formula=_grown(ask, before, target),
        effect=gain_bound(ask, _pool_ratio(ask, before, target, ratio)),
        tradeoff="less room for peaks outside the pool: out of memory where images or graphs need it",
        verify=POOL_CHECK,
        missing=missing,
        predictions=predict.larger_pool(ask, _pool_ratio(ask, before, target, ratio)),
    )


def lower_gpu_memory_utilization(ask: Ask) -> Step | None:
    """Less of the device for the pool: right only where memory outside the pool is the trouble."""
    slug, title = (
        "lower-gpu-memory-utilization",
        f"Lower gpu_memory_utilization to {RUNBOOK_LOW}-{RUNBOOK_HIGH}",
    )
    before = _utilization(ask)
    if ask.cause == "gpu-memory-growth":
        if math.isnan(before):
            before_text, target = "not known", RUNBOOK_HIGH
        else:
            before_text = f"{before:g}"
            target = RUNBOOK_HIGH if before > RUNBOOK_HIGH + 0.015 else round(before - 0.03, 2)
        if before < LOWEST:
            return dismissed(slug, title, ask, "moot", f"{before:g} is low already")
        return step(
            slug,
            title,
            ask,
            action=f"Set {UTILIZATION} {target:g}; restart.",
            why="memory outside the KV pool grows, and the device has too little room for it",
            flag_name=UTILIZATION,
            before=before_text,
            after=f"{target:g}",
            formula=_lost(ask, before, target),
            effect=_time_bought(ask, before - target),
            tradeoff="a smaller KV pool: preemptions where it is near full",
            verify="GPU memory free over hours; preemptions per minute",
            missing=ask.missing("gpu_memory_total", "memory_slope_bytes_per_s", "gpu_memory_utilization"),
        )
    if ask.pool_is_full:
        return dismissed(
            slug,
            title,
            ask,
            "harmful",
            "it takes blocks from a pool that is full, so preemptions rise; KV blocks need not be contiguous",
            formula=_lost(ask, before, 0.87) if before > 0.87 else "",
        )
    return dismissed(slug, title, ask, "moot", "memory outside the pool is not the trouble here")


def _pool_fixed_by(ask: Ask) -> str:
    if ask.number("num_gpu_blocks_override") > 0:
        return f"--num-gpu-blocks-override {ask.number('num_gpu_blocks_override'):.0f}"
    if ask.number("kv_cache_memory_bytes") > 0:
        return f"--kv-cache-memory-bytes {ask.number('kv_cache_memory_bytes'):.0f}"
    return ""


def _utilization(ask: Ask) -> float:
    now = ask.in_force(UTILIZATION)
    return float(now) if now is not None else math.nan


def _reserve(ask: Ask) -> float:
    """Device memory to leave alone: 1 GiB, or 2 % of a large device."""
    return max(GIB, 0.02 * ask.number("gpu_memory_total"))


def _highest(ask: Ask, before: float) -> float:
    free, total = ask.number("gpu_memory_free"), ask.number("gpu_memory_total")
    if math.isnan(free) or math.isnan(total):
        return HIGHEST
    room = before + (free - _reserve(ask)) / total
    return floor(min(HIGHEST, room) * 100) / 100


def _room(ask: Ask, before: float) -> str:
    free, total = ask.number("gpu_memory_free"), ask.number("gpu_memory_total")
    if math.isnan(free) or math.isnan(total):
        return ""
    return f"{before:g} + ({free / GIB:.1f} - {_reserve(ask) / GIB:.1f}) / {total / GIB:.0f} GiB"


def _pool_ratio(ask: Ask, before: float, after: float, least: float) -> float:
    """New pool / old pool where the bytes of a token are known, else the least it can be."""
    added = (after - before) * ask.number("gpu_memory_total") * _gpus(ask) / ask.number("kv_bytes_per_token")
    pool = ask.number("pool_tokens")
    return (pool + added) / pool if added > 0 and pool > 0 else (math.nan if math.isnan(least) else math.inf)


def _gpus(ask: Ask) -> float:
    size = ask.number("tensor_parallel_size")
    return size if size > 0 else 1.0


def _grown(ask: Ask, before: float, after: float) -> str:
    total, per_token = ask.number("gpu_memory_total"), ask.number("kv_bytes_per_token")
    room = f"{_room(ask, before)}; " if _room(ask, before) else ""
    if total > 0 and per_token > 0 and before > 0:
        added = (after - before) * total * _gpus(ask) / per_token
        return (
            f"{room}({after:g} - {before:g}) x {total / GIB:.0f} GiB x {_gpus(ask):.0f} GPU / "
            f"{per_token:.0f} bytes = {plain(added)} tokens more"
        )
    if before > 0:
        least = after / before - 1
        return f"{room}pool + at least {after:g}/{before:g} - 1 = {least:.1%} (weights stay the same)"
    return "tokens more = (new - old) x device bytes x GPUs / KV bytes per token"


def _lost(ask: Ask, before: float, after: float) -> str:
    if math.isnan(before):
        return "tokens lost = (old - new) x device bytes x GPUs / KV bytes per token"
    pool, total = ask.number("pool_tokens"), ask.number("gpu_memory_total")
    per_token = ask.number("kv_bytes_per_token")
    if total > 0 and per_token > 0:
        lost = (before - after) * total * _gpus(ask) / per_token
        share = f"({before:g} - {after:g}) x {total / GIB:.0f} GiB x {_gpus(ask):.0f} GPU"
        return f"{share} / {per_token:.0f} bytes = {plain(lost)} tokens fewer"
    least = 1 - after / before
    tokens = f" = {plain(pool * least)} of {plain(pool)} tokens" if pool > 0 else ""
    return f"pool - at least 1 - {after:g}/{before:g} = {least:.1%}{tokens} (weights stay the same)"


def _time_bought(ask: Ask, freed_ratio: float) -> str:
    slope, total = ask.number("memory_slope_bytes_per_s"), ask.number("gpu_memory_total")
    if not (slope > 0 and total > 0 and freed_ratio > 0):
        return "cannot be predicted because the growth or the device memory is not known"
    hours = freed_ratio * total / slope / 3600
    return f"{freed_ratio * total / GIB:.1f} GiB of room: {hours:.0f} h at {slope * 3600 / GIB:.2f} GiB/h"
