"""Remedies for work done twice or in vain: prefix caching, routing to it, speculative decoding."""

import math

from vllmdoctor.flags import bounds, flag
from vllmdoctor.model import Effort, Step
from vllmdoctor.release import version
from vllmdoctor.remedies import predict
from vllmdoctor.remedies.ask import Ask, ceil, dismissed, plain, step

ENV_SINCE, ENV_UNTIL = version("0.23.0"), version("0.29.0")
WORTH = 0.2  # below this share of repeated prompt tokens a cache saves little
CACHING, RETENTION, SPEC = (
    "--enable-prefix-caching",
    "--prefix-cache-retention-interval",
    "--speculative-config",
)


def enable_prefix_caching(ask: Ask) -> Step | None:
    """Reuse the KV of prompts that repeat, where it was switched off."""
    slug, title = "enable-prefix-caching", "Switch prefix caching on"
    given, share = ask.figures.switch("enable_prefix_caching"), ask.number("repeated_prompt_share")
    if given is True:
        return dismissed(slug, title, ask, "moot", "prefix caching is in force")
    if given is None and ask.number("prefix_hit_ratio") > 0:
        return dismissed(
            slug, title, ask, "moot", f"prefix caching is in force: {ask.number('prefix_hit_ratio'):.0%} hits"
        )
    if given is None and ask.in_force(CACHING) == "True":
        return dismissed(
            slug, title, ask, "moot", "it is on by default in this release: adding the flag changes nothing"
        )
    if share < WORTH:
        return dismissed(slug, title, ask, "moot", f"only {share:.0%} of the prompt tokens repeat")
    prompt = ask.number("mean_prompt")
    saved = f"{share:.0%} of {plain(prompt)} prompt tokens = {plain(share * prompt)} tokens saved per request"
    return step(
        slug,
        title,
        ask,
        verdict="helps" if share >= WORTH else "unknown",
        action=f"Set {CACHING} (drop --no-enable-prefix-caching); restart.",
        why="prefix caching is off, so a prompt that repeats is computed each time",
        flag_name=CACHING,
        before="False",
        after="True",
        formula=saved
        if share >= WORTH and prompt > 0
        else "prompt tokens saved = repeated share x mean prompt",
        effect=f"hit ratio up to {share:.0%} and prefill work down by as much (0-{share:.0%})"
        if share >= WORTH
        else "cannot be predicted because the share of prompt tokens that repeat is not known",
        tradeoff="a little hashing on the CPU; cached blocks are given up as soon as requests need them",
        verify="prefix cache hits / queries > 0.6 where a system prompt repeats; TTFT p50",
        missing=ask.missing("repeated_prompt_share"),
        predictions=predict.cached_prefixes(ask, share),
    )


def prefix_cache_retention(ask: Ask) -> Step | None:
    """Keep the states of sliding-window and hybrid layers so that prefixes still hit."""
    slug, title = "prefix-cache-retention", "Keep reusable blocks of sliding-window and hybrid layers"
    if not flag(RETENTION).known_in(ask.release):
        return _retention_by_environment(ask, slug, title)
    if ask.number("prefix_cache_retention_interval") > 0:
        return dismissed(slug, title, ask, "moot", f"{RETENTION} is set already")
    block = ask.number("block_size")
    interval = plain(block * ceil(1024 / block)).replace(",", "") if block > 0 else ""
    return step(
        slug,
        title,
        ask,
        verdict="unknown",
        action=f"For a sliding-window or hybrid model: set {RETENTION} "
        f"{interval or 'to a multiple of the block size'}; restart.",
        why="such models give up the blocks that a repeated prefix needs, though the pool is not full",
        flag_name=RETENTION,
        before=ask.in_force(RETENTION) or "not set",
        after=interval,
        formula=f"about 1,024 tokens, a multiple of the block size {plain(block)}" if block > 0 else "",
        effect="cannot be predicted because it depends on the model; none for full-attention models",
        tradeoff="fewer blocks for running requests",
        verify="prefix cache hits / queries with a repeated prompt",
        missing=ask.missing("block_size"),
    )


def _retention_by_environment(ask: Ask, slug: str, title: str) -> Step | None:
    """Before the argument came, an environment variable did the same."""
    low, high = bounds(ask.release)
    if low < ENV_SINCE or high >= ENV_UNTIL:
        return None
    return step(
        slug,
        title,
        ask,
        verdict="unknown",
        action="For a sliding-window or hybrid model: set VLLM_PREFIX_CACHE_RETENTION_INTERVAL=0 in the "
        "environment; restart.",
        why="such models give up the blocks that a repeated prefix needs, though the pool is not full",
        effect="cannot be predicted because it depends on the model; none for full-attention models",
        tradeoff="fewer blocks for running requests",
        verify="prefix cache hits / queries with a repeated prompt",
    )


def prefix_aware_routing(ask: Ask) -> Step | None:
    """Requests with the same prefix go to the replica that has it."""
    slug, title = "prefix-aware-routing", "Route requests with the same prefix to the same replica"
    replicas = ask.number("replicas")
    if replicas == 1:
        return dismissed(slug, title, ask, "moot", "there is one replica")
    hit = ask.number("prefix_hit_ratio")
    return step(
        slug,
        title,
        ask,
        verdict="unknown" if math.isnan(replicas) else "helps",
        action="Let the gateway hash the first tokens (or the session) to choose the replica.",
        why="replicas that share the traffic at random each compute and keep the same prefixes",
        effort=Effort.LIVE,
        formula=f"by chance a prefix is found on 1 of {plain(replicas)} replicas" if replicas > 1 else "",
        effect=f"hit ratio from {hit:.0%} towards that of one replica; not predicted further"
        if hit >= 0
        else "cannot be predicted because the hit ratio is not known",
        tradeoff="uneven load: bound it by the queue of each replica",
        verify="prefix cache hits / queries and requests waiting, per replica",
        missing=ask.missing("replicas"),
    )


def disable_or_retune_spec_decode(ask: Ask) -> Step | None:
    """Draft fewer tokens, or none, where most drafts are thrown away."""
    slug, title = "disable-or-retune-spec-decode", "Draft fewer tokens, or none"
    rate, drafted = ask.number("spec_acceptance"), ask.number("num_speculative_tokens")
    fewer = max(1.0, ceil(drafted * rate)) if rate >= 0 and drafted > 0 else math.nan
    tokens = (
        f"1 + {rate:.2f} x {plain(drafted)} = {1 + rate * drafted:.2f} tokens per step"
        if drafted > 0 and rate >= 0
        else ""
    )
    if fewer >= drafted:
        action = f"Leave {SPEC} out; restart; compare the rate with and without."
        after = "none"
    else:
        count = f"{fewer:.0f}" if fewer > 0 else "fewer"
        action = f"Set num_speculative_tokens in {SPEC} to {count}, or leave it out; restart; compare both."
        after = f"{fewer:.0f}" if fewer > 0 else ""
    return step(
        slug,
        title,
        ask,
        action=action,
        why="drafted tokens are checked and thrown away, which costs compute and KV slots",
        flag_name=SPEC,
        before=f"num_speculative_tokens {drafted:.0f}" if drafted > 0 else "as configured",
        after=f"num_speculative_tokens {after}" if after and after != "none" else after,
        formula=tokens or "tokens per step = 1 + acceptance x drafted tokens",
        effect="cannot be predicted because the cost of a draft is not measured: compare both",
        tradeoff="slower at low load, where drafts cost nothing",
        verify="accepted / drafted tokens, generation rate, inter-token latency p50",
        missing=ask.missing("spec_acceptance", "num_speculative_tokens"),
    )
