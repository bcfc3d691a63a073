"""Remedies that change how many requests and tokens one step takes, and in which order."""

import math

from vllmdoctor.flags import flag
from vllmdoctor.model import Step
from vllmdoctor.remedies import predict
from vllmdoctor.remedies.ask import (
    Ask,
    ceil,
    dismissed,
    floor,
    peak,
    plain,
    power_of_two,
    running_needed,
    sequences_that_fit,
    step,
)

SEQS, TOKENS, THRESHOLD = "--max-num-seqs", "--max-num-batched-tokens", "--long-prefill-token-threshold"
SMOOTH_BUDGET = 2048  # the budget that vLLM's own guide names for smooth decoding
LARGE_BUDGET = 8192  # above it prefill throughput hardly grows
LEAST_CHUNK, MOST_CHUNK = 256, 2048


def lower_max_num_seqs(ask: Ask) -> Step | None:
    """No more requests in the batch than the pool holds at their full length."""
    slug, title = "lower-max-num-seqs", "Admit no more requests than the pool holds"
    fit, now = sequences_that_fit(ask), ask.number("max_num_seqs")
    formula = _fit_formula(ask)
    if ask.number("preemptions_per_minute") < 1 and ask.pool_is_full is not True:
        return dismissed(slug, title, ask, "moot", "requests are not preempted: a cap has nothing to stop")
    if fit >= now:
        return dismissed(
            slug, title, ask, "moot", f"{SEQS} {plain(now)} is within what the pool holds", formula=formula
        )
    target = max(1.0, fit)
    cap = flag("--max-num-active-seqs")
    other = f"; {cap.name} caps the batch without shrinking CUDA graphs" if cap.known_in(ask.release) else ""
    return step(
        slug,
        title,
        ask,
        action=f"Set {SEQS} {plain(target) if fit > 0 else 'to what the pool holds'}; restart.",
        why="more requests are admitted than the pool can let grow, so some are preempted and computed again",
        flag_name=SEQS,
        before=f"{now:.0f}" if now > 0 else ask.in_force(SEQS) or "default (256 or 1024, by the GPU)",
        after=f"{target:.0f}" if fit > 0 else "",
        formula=formula or "pool tokens / (mean prompt + mean output)",
        effect="preemptions nearly stop; the rate stays about the same and the queue stays: "
        "it stops the waste and adds no capacity",
        tradeoff=f"requests wait in the queue instead of being preempted{other}",
        verify="preemptions per minute < 1, generation rate not lower",
        missing=ask.missing("pool_tokens", "mean_prompt", "mean_output", "max_num_seqs"),
        predictions=predict.capped_batch(ask),
    )


def raise_max_num_seqs(ask: Ask) -> Step | None:
    """More slots, as many as the pool can hold and the load needs."""
    slug, title = "raise-max-num-seqs", "Allow more requests in the batch"
    now, fit, needed = ask.number("max_num_seqs"), sequences_that_fit(ask), running_needed(ask)
    formula = _fit_formula(ask)
    wanted = ceil(peak(needed)) if needed >= 0 else math.nan
    if wanted > 0 and formula:
        formula += f"; to keep up a peak of {wanted} must run"
    if fit <= now:
        why = f"the pool holds {plain(fit)} requests at full length: more slots only bring preemptions"
        return dismissed(slug, title, ask, "harmful", why, formula=formula)
    if ask.finding.kind == "kv-bound":
        return dismissed(slug, title, ask, "harmful", "the pool is full: more slots only bring preemptions")
    bounds = [b for b in (fit, wanted) if b > 0]
    target = max(min(bounds), 1.25 * now if now > 0 else 0.0) if bounds else math.nan
    target = min(target, fit) if fit > 0 else target
    target = floor(target) if not math.isnan(target) else target
    if target <= now:
        return dismissed(
            slug, title, ask, "moot", f"{SEQS} {plain(now)} is enough for this load", formula=formula
        )
    return step(
        slug,
        title,
        ask,
        action=f"Set {SEQS} {f'{target:.0f}' if target > 0 else 'to what the pool holds'}; restart.",
        why="every slot is taken and requests wait while KV blocks are free",
        flag_name=SEQS,
        before=f"{now:.0f}" if now > 0 else ask.in_force(SEQS) or "default (256 or 1024, by the GPU)",
        after=f"{target:.0f}" if target > 0 else "",
        formula=formula or "pool tokens / (mean prompt + mean output)",
        effect=f"up to {target / now:.1f} x the requests at once, less where compute is the next limit"
        if target > 0 and now > 0
        else "cannot be predicted because the slots in force or the pool are not known",
        tradeoff="slower tokens for each request (a larger batch); a little memory for CUDA graphs",
        verify="requests waiting, inter-token latency p95, preemptions per minute",
        missing=ask.missing("max_num_seqs", "pool_tokens", "mean_prompt", "mean_output"),
        predictions=predict.more_slots(ask, target),
    )


def set_long_prefill_token_threshold(ask: Ask) -> Step | None:
    """Long prompts take a slice of each step, so that short ones get into it as well."""
    slug, title = "set-long-prefill-token-threshold", "Let long prompts take only a slice of each step"
    now, median = ask.number("long_prefill_token_threshold"), ask.number("prompt_p50")
    target = min(MOST_CHUNK, max(LEAST_CHUNK, power_of_two(2 * median))) if median > 0 else LEAST_CHUNK
    longest, budget = ask.number("prompt_p99"), ask.number("max_num_batched_tokens")
    if 0 < now <= target:
        return dismissed(slug, title, ask, "moot", f"{THRESHOLD} is {now:.0f} already")
    if target >= ask.number("max_model_len"):
        return dismissed(slug, title, ask, "moot", "no prompt can be longer than the threshold")
    steps = f"p99 prompt {plain(longest)} / {target} = {ceil(longest / target)} steps" if longest > 0 else ""
    if steps and budget > 0:
        steps += f" instead of {ceil(longest / budget)} of up to {plain(budget)} tokens"
    base = f"2 x p50 prompt {plain(median)}, to a power of two in {LEAST_CHUNK}-{MOST_CHUNK} = {target}"
    return step(
        slug,
        title,
        ask,
        action=f"Set {THRESHOLD} {target}; keep {TOKENS} as it is; restart.",
        why="one long prompt takes whole steps, and every other request waits for them",
        flag_name=THRESHOLD,
        before=f"{now:.0f}" if now > 0 else ask.in_force(THRESHOLD) or "0",
        after=str(target),
        formula="; ".join(
            part for part in (base if median > 0 else f"least useful slice {target}", steps) if part
        ),
        effect="the tail of TTFT and the longest gaps of short requests fall; how far cannot be predicted "
        "(one measured pair: TTFT p95 2.4 -> 0.7 s, longest gap 4.1 -> 0.8 s)",
        tradeoff="the long prompts themselves start later",
        verify="TTFT p95/p50, share of gaps between tokens above 1 s",
        missing=ask.missing("prompt_p50"),
        predictions=predict.sliced_prompts(ask),
    )


def lower_max_num_batched_tokens(ask: Ask) -> Step | None:
    """Shorter steps: streams stall less, first tokens come no sooner."""
    slug, title = "lower-max-num-batched-tokens", "Make each step shorter"
    now, slots = ask.number("max_num_batched_tokens"), ask.number("max_num_seqs")
    target = SMOOTH_BUDGET if math.isnan(now) or now > SMOOTH_BUDGET else max(LEAST_CHUNK, now / 4)
    target = max(target, slots) if slots > 0 else target  # the budget may not be below the slots
    if target >= now:
        return dismissed(slug, title, ask, "moot", f"{TOKENS} {plain(now)} is small already")
    if ask.figures.switch("enable_chunked_prefill") is False and target < ask.number("max_model_len"):
        return dismissed(
            slug, title, ask, "harmful", "without chunked prefill the budget must hold a whole prompt"
        )
    if ask.cause in ("overload", "prefix-cache-collapse"):
        return _give_budget_to_the_pool(ask, slug, now, target)
    ratio = f"longest step {plain(now)} -> {plain(target)} tokens: about {target / now:.0%} of its time"
    return step(
        slug,
        title,
        ask,
        action=f"Set {TOKENS} {target:.0f}; restart.",
        why="a step that takes a whole long prompt stalls every running stream",
        flag_name=TOKENS,
        before=f"{now:.0f}" if now > 0 else "default (2048, 8192 or 16384, by the GPU)",
        after=f"{target:.0f}",
        formula=ratio if now > 0 else "longest step: tokens in the budget / prefill tokens per s",
        effect="the longest gap between tokens shrinks with the budget; TTFT does not: under first come, "
        "first served the long prompt takes the small budget first",
        tradeoff="prefill is slower in all",
        verify="share of gaps between tokens above 1 s",
        missing=ask.missing("max_num_batched_tokens"),
        predictions=predict.shorter_steps(ask),
    )


def _give_budget_to_the_pool(ask: Ask, slug: str, now: float, target: float) -> Step | None:
    """Start-up profiling with a large budget takes memory that the pool could have."""
    if not now > SMOOTH_BUDGET or (ask.cause == "overload" and ask.finding.kind != "kv-bound"):
        return None
    return step(
        slug,
        "Give the memory of a large token budget to the KV pool",
        ask,
        verdict="unknown",
        action=f"Set {TOKENS} {target:.0f}; restart; compare the KV cache size in the start-up log.",
        why="start-up profiling sets memory aside for the largest step, and the pool is full or loses "
        "prefixes",
        flag_name=TOKENS,
        before=f"{now:.0f}",
        after=f"{target:.0f}",
        effect="cannot be predicted because it depends on the model (one case: 8192 -> 2048 gave 10 % "
        "more pool, "
        "p99 TTFT 41 -> 24 s, the same throughput)",
        tradeoff="prefill may be slower",
        verify="KV cache size in the start-up log, preemptions per minute, TTFT p95",
    )


def raise_max_num_batched_tokens(ask: Ask) -> Step | None:
    """A larger token budget for prefill, at the price of some KV pool."""
    slug, title = "raise-max-num-batched-tokens", "Prefill more tokens per step"
    now = ask.number("max_num_batched_tokens")
    if now >= LARGE_BUDGET:
        return dismissed(
            slug, title, ask, "moot", f"{TOKENS} {plain(now)} is large: a larger one hardly adds"
        )
    if ask.pool_is_full:
        why = "a larger budget makes the KV pool smaller, and the pool is full"
        return dismissed(slug, title, ask, "harmful", why)
    target = min(LARGE_BUDGET, power_of_two(4 * now)) if now > 0 else LARGE_BUDGET
    return step(
        slug,
        title,
        ask,
        verdict="helps" if now > 0 else "unknown",
        action=f"Set {TOKENS} {target:.0f}; restart; read the KV cache size in the start-up log.",
        why="the token budget is spent on prefill in each step and prompts wait",
        flag_name=TOKENS,
        before=f"{now:.0f}" if now > 0 else "default (2048, 8192 or 16384, by the GPU)",
        after=f"{target:.0f}",
        formula=f"min({LARGE_BUDGET}, 4 x {plain(now)}) = {target}" if now > 0 else f"at most {LARGE_BUDGET}",
        effect="cannot be predicted because it depends on how far the GPU is from its compute limit; "
        "none where it is at it",
        tradeoff="longer gaps between tokens and a smaller KV pool (one case: 2048 -> 8192 cost 9 %)",
        verify="prompt tokens per s, TTFT p95, KV cache size",
        missing=ask.missing("max_num_batched_tokens"),
    )


def priority_scheduling(ask: Ask) -> Step | None:
    """Short or urgent requests first, where the clients can say which."""
    slug, title, name = "priority-scheduling", "Serve short requests first", "--scheduling-policy"
    if ask.figures.text("scheduling_policy") == "priority":
        return dismissed(slug, title, ask, "moot", "scheduling_policy is priority already")
    return step(
        slug,
        title,
        ask,
        action=f"Set {name} priority; restart; send a lower `priority` number with short requests.",
        why="first come, first served lets a long prompt hold up the short ones behind it",
        flag_name=name,
        before=ask.in_force(name) or "fcfs",
        after="priority",
        effect="cannot be predicted because it depends on the priorities that clients send",
        tradeoff="clients must send priorities; long requests may starve and be preempted",
        verify="TTFT p95 of short and of long requests",
    )


def _fit_formula(ask: Ask) -> str:
    fit = sequences_that_fit(ask)
    if math.isnan(fit):
        return ""
    pool, prompt, output = ask.number("pool_tokens"), ask.number("mean_prompt"), ask.number("mean_output")
    half = floor(pool / (prompt + output / 2))
    return (
        f"{plain(pool)} tokens / ({plain(prompt)} + {plain(output)}) = {plain(fit)} requests at full length "
        f"({half} half grown)"
    )
