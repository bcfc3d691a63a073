"""Why? One panel for each measure that a cause is told by."""

from collections.abc import Iterator

from vllmdoctor.dashboard.nouns import Limit, Panel, Query, Row
from vllmdoctor.dashboard.scope import Scope, limit
from vllmdoctor.promql import bare, either


def why(on: Scope) -> Row:
    """Queue, pool, caches."""
    return Row("Why?", tuple(panel for panel in _panels(on) if panel.queries))


def _panels(on: Scope) -> Iterator[Panel]:
    yield from _queue(on)
    yield from _pool(on)
    yield from _caches(on)


def _queue(on: Scope) -> Iterator[Panel]:
    m = on.metrics
    lines = [Query(on.by_server(m.gauge("requests_waiting")), on.per_server)]
    if on.has("requests_waiting_deferred"):
        lines.append(Query(on.total(m.gauge("requests_waiting_deferred")), "deferred", faint=True))
    yield Panel(
        "Queue",
        "Do requests wait, and on which server? Deferred ones wait for something else than room: a remote "
        "cache, a grammar, an adapter.",
        "none",
        tuple(lines),
        ("overload", "stall"),
        (Limit(limit("overload.waiting")),),
    )
    yield Panel(
        "Time in the queue",
        "How long did finished requests wait? Those that still wait are not in it, so it comes late. "
        "The mean, since the first bucket ends at 0.3 s.",
        "s",
        (Query(on.mean("queue_time"), "mean"),) if on.has("queue_time") else (),
        ("overload",),
        (Limit(limit("overload.queue-time")),),
    )
    yield Panel(
        "Batch",
        "How many requests run at once? A ceiling while requests wait and the pool has room: --max-num-seqs.",
        "none",
        (Query(on.by_server(m.gauge("requests_running")), on.per_server),),
        ("overload", "low-load"),
    )
    timed = on.has("prefill_time", "inference_time")
    prefill = f"{on.mean('prefill_time', '10m')} / ({on.mean('inference_time', '10m')} > 0)" if timed else ""
    yield Panel(
        "Prefill's share of the time",
        "Does prompt processing take the engine's time? High with a free pool: prefill-bound.",
        "percentunit",
        (Query(prefill, "prefill"),) if timed else (),
        ("prefill-bound",),
        (Limit(limit("prefill-bound.prefill")),),
        most=1.0,
    )


def _pool(on: Scope) -> Iterator[Panel]:
    m = on.metrics
    usage, running, waiting = (m.gauge(s) for s in ("kv_cache_usage", "requests_running", "requests_waiting"))
    yield Panel(
        "KV use",
        "How full is each pool? Full is good use unless requests wait. What is held while nothing runs is "
        "lost: an idle engine reads 0.",
        "percentunit",
        (
            Query(usage, on.per_engine),
            Query(f"max({usage} and {running} == 0 and {waiting} == 0)", "held while idle", faint=True),
        ),
        ("overload", "kv-fragmentation"),
        (Limit(limit("overload.usage")), Limit(limit("kv-fragmentation.usage"), "critical")),
        most=1.0,
    )
    yield Panel(
        "Preemptions a minute",
        "Are requests thrown out of the batch and computed again? Above 1 a minute and rising, the pool is "
        "short.",
        "suffix:/min",
        (Query(f"{on.by_server(on.rate('preemptions'))} * 60", on.per_server),),
        ("overload", "kv-fragmentation"),
        (Limit(limit("kv-fragmentation.preemptions")),),
    )
    thrown = (
        f"{on.total(on.rate('preemptions', '10m'))} / ({on.total(on.rate('requests_finished', '10m'))} > 0)"
    )
    yield Panel(
        "Preemptions per finished request",
        "How much work is done twice? At 0.5, half of all requests: thrash.",
        "none",
        (Query(thrown, "per request"),),
        ("overload",),
        (Limit(limit("overload.thrash"), "critical"),),
        decimals=2,
    )
    lengths = (on.mean("prompt_length", "30m"), on.mean("output_length", "30m"))
    batch = on.total(m.gauge("requests_running", "avg", "10m"))
    live = f"{batch} * ({lengths[0]} + 0.5 * {lengths[1]})"
    held = f"avg({m.gauge('kv_cache_usage', 'avg', '10m')})"
    yield Panel(
        "Effective capacity",
        "How many live tokens would fill the pool at the present density? An estimate: running requests "
        "times their mean length so far, by the share of the pool they hold. A fall at equal load is lost "
        "capacity.",
        "suffix: tokens",
        (Query(f"{live} / ({held} > 0.05)", "tokens"),),
        ("kv-fragmentation",),
    )


def _caches(on: Scope) -> Iterator[Panel]:
    found: list[str] = []
    if on.has("prefix_cache_hits", "prefix_cache_queries"):
        found.append(on.share("prefix_cache_hits", "prefix_cache_queries"))
    if on.has("prefix_cache_hit_rate"):  # V0: a gauge, since start; -1 where the cache is off
        found.append(f"avg({on.metrics.gauge('prefix_cache_hit_rate')} >= 0)")
    yield Panel(
        "Prefix cache hits",
        "Are prompts found in the cache? Judge a fall against its own past; 60 % is usual where they repeat.",
        "percentunit",
        (Query(bare(either(found)), "hits"),) if found else (),
        ("prefix-cache-collapse",),
        (Limit(limit("prefix-cache-collapse.goal"), above=False),),
        most=1.0,
    )
    speculates = on.has("spec_accepted_tokens", "spec_draft_tokens")
    accepted = on.share("spec_accepted_tokens", "spec_draft_tokens") if speculates else ""
    yield Panel(
        "Draft tokens accepted",
        "Does speculative decoding pay? Empty where there is none.",
        "percentunit",
        (Query(accepted, "accepted"),) if accepted else (),
        ("spec-decode-decay",),
        most=1.0,
    )
