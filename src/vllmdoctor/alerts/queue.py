"""More work than can be done, and what looks like it: queues, preemption, prefill, slow tails."""

from collections.abc import Iterator

from vllmdoctor.alerts.basis import WHO, Basis
from vllmdoctor.alerts.nouns import Alert
from vllmdoctor.alerts.records import (
    ACCEPTED,
    FINISHED,
    HITS,
    ITL,
    PREEMPTED,
    PREFILL,
    PROMPT_LENGTH,
    RATE,
    TAIL,
    TTFT,
    TTFT_P50,
    TTFT_P95,
)
from vllmdoctor.alerts.speed import COMPARABLE, FEWEST


def queue(on: Basis) -> Iterator[Alert]:
    """Alerts on requests that wait, or whose first token does."""
    yield from _overload(on)
    yield from _given_up(on)
    yield from _prefill(on)
    yield from _tail(on)


def _overload(on: Basis) -> Iterator[Alert]:
    m = on.metrics
    # the share of scrapes with a queue is told by a quantile: no subquery is needed
    share = 1 - on.limit("overload.waiting-share")
    often = f"{m.gauge('requests_waiting', f'quantile {share:.3g}', '10m')} >= {on.text('overload.waiting')}"
    mean = m.gauge("requests_waiting", "avg", "10m")
    finished = m.rate("requests_finished", "10m")
    yield Alert(
        "VLLMRequestsQueue",
        "overload",
        "critical",
        f"{mean} / ({finished} > 0) >= {on.text('overload.queue-time')}\nand {often}",
        "10m",
        f"{WHO}: requests wait; more arrives than it can do",
        "A request that arrives now waits about {{ $value | humanizeDuration }} for its turn (limit: "
        f"{on.text('overload.queue-time')} s); there was a queue in {on.percent('overload.waiting-share')} "
        "of the time or more.",
        "a queue that stands: seconds until a request gets its turn",
        ("overload.queue-time", "overload.waiting", "overload.waiting-share"),
        "10m",
    )
    full = m.gauge("kv_cache_usage", "quantile 0.25", "10m")
    yield Alert(
        "VLLMKVPoolFull",
        "overload",
        "warning",
        f"{full} >= {on.text('overload.usage')}\nand {often}\n"
        f"and {mean} / ({finished} > 0) >= {on.text('overload.queue-time')}",
        "10m",
        f"{WHO}: the KV pool is full and requests wait for it",
        "{{ $value | humanizePercentage }} of the KV blocks were held in three quarters of the time (limit: "
        f"{on.percent('overload.usage')}), and requests waited. A full pool alone is no fault.",
        "KV pressure: a full pool that requests wait for",
        ("overload.usage", "overload.waiting", "overload.waiting-share", "overload.queue-time"),
        "10m",
    )
    yield Alert(
        "VLLMPreemptionThrash",
        "overload",
        "critical",
        f"{PREEMPTED} >= {on.text('overload.thrash')}\n"
        f"and {m.rate('preemptions', '10m')} * 60 >= {on.text('kv-fragmentation.preemptions')}",
        "10m",
        f"{WHO} throws requests out of the batch and computes them again",
        "{{ $value | humanize }} preemptions for each finished request (limit: "
        f"{on.text('overload.thrash')}).",
        "preemptions per finished request, and more than one a minute",
        ("overload.thrash", "kv-fragmentation.preemptions"),
        "10m",
    )


def _given_up(on: Basis) -> Iterator[Alert]:
    """Nobody waits, since whoever came is in the batch: too large a batch, until clients give up."""
    started = f"{on.metrics.rate('prompt_tokens', '30m')} / ({PROMPT_LENGTH} > 0)"
    yield Alert(
        "VLLMRequestsGivenUp",
        "overload",
        "critical",
        f"{FINISHED} / ({started}) <= {on.text('overload.given-up')}\n"
        f"and {ITL} / ({ITL} offset 6h > 0) >= {on.text('overload.slower')}\n"
        f"and {started} >= {FEWEST:.3g}\nand {COMPARABLE}",
        "15m",
        f"{WHO}: clients give up before their requests finish; too many run at once",
        "{{ $value | humanizePercentage }} of the started requests finish (limit: "
        f"{on.percent('overload.given-up')}), and tokens take {on.text('overload.slower')} times as long or more.",
        "requests finished per started one, while tokens take longer",
        ("overload.given-up", "overload.slower"),
        "10m",
    )


def _prefill(on: Basis) -> Iterator[Alert]:
    m = on.metrics
    computed = m.rate("prompt_tokens", "30m")
    before = m.rate("prompt_tokens", "30m", offset="6h")
    if m.has("prefix_cache_hits"):
        computed = f"{computed} * (1 - ({HITS} or 0 * {RATE}))"
        before = f"{before} * (1 - ({HITS} offset 6h or 0 * {RATE} offset 6h))"
    share = f"{m.mean('prefill_time', '30m')} / ({m.mean('inference_time', '30m')} > 0)"
    yield Alert(
        "VLLMPrefillBound",
        "prefill-bound",
        "warning",
        f"{TTFT} / ({TTFT} offset 6h > 0) >= {on.text('prefill-bound.ttft')}\n"
        f"and {TTFT} >= {on.text('prefill-bound.late')}\n"
        f"and ({computed}) / ({before} > 0) >= {on.text('prefill-bound.prompt')}\n"
        f"and (({share}) >= {on.text('prefill-bound.prefill')} "
        f"or ({computed}) / ({RATE} > 0) >= {on.text('prefill-bound.mix')})\n"
        f"and {m.gauge('kv_cache_usage', 'quantile 0.9', '30m')} < {on.text('prefill-bound.usage')}\n"
        f"and {FINISHED} >= {FEWEST:.3g}\nand {COMPARABLE}",
        "15m",
        f"{WHO}: prompt processing takes the time, first tokens come late",
        "First tokens take {{ $value | humanize }} times as long as 6 h ago (limit: "
        f"{on.text('prefill-bound.ttft')} times) while more prompt tokens are computed and the KV pool has room.",
        "first tokens late, more prompt work, room in the pool",
        tuple(f"prefill-bound.{n}" for n in ("ttft", "late", "prompt", "prefill", "mix", "usage")),
        "10m",
    )


def _tail(on: Basis) -> Iterator[Alert]:
    m = on.metrics
    slug = "head-of-line-blocking"
    share = 1 - on.limit(f"{slug}.standing")
    seldom = f"{m.gauge('requests_waiting', f'quantile {share:.3g}', '30m')} < 1"
    few = f"{PREEMPTED} <= {on.text(f'{slug}.preempted')}"
    yield Alert(
        "VLLMTailRunsAway",
        slug,
        "warning",
        f"{TAIL} >= {on.text(f'{slug}.tail')}\n"
        f"and {TAIL} / ({TAIL} offset 6h > 0) >= {on.text(f'{slug}.rise')}\n"
        f"and {TTFT_P95} - {TTFT_P50} >= {on.text(f'{slug}.excess')}\n"
        f"and {TTFT_P50} / ({TTFT_P50} offset 6h > 0) <= {on.text(f'{slug}.median')}\n"
        f"and {few}\nand {seldom}\nand {FINISHED} >= {FEWEST:.3g}\nand {COMPARABLE}",
        "30m",
        f"{WHO}: a few heavy requests hold up the many",
        "The slowest 5 % wait {{ $value | humanize }} times as long for their first token as the median (limit: "
        f"{on.text(f'{slug}.tail')} times, and {on.text(f'{slug}.rise')} times its own 6 h ago); the median stayed.",
        "time to first token: p95 runs away from a steady median",
        tuple(f"{slug}.{n}" for n in ("tail", "rise", "excess", "median", "preempted", "standing")),
        "10m",
    )


def caches(on: Basis) -> Iterator[Alert]:
    """Alerts on what saves work: the prefix cache and speculative decoding."""
    yield from _prefix(on)
    yield from _speculation(on)


def _prefix(on: Basis) -> Iterator[Alert]:
    slug = "prefix-cache-collapse"
    slower = " or ".join(
        f"{x} / ({x} offset 6h > 0) >= {on.text(f'{slug}.prefill')}" for x in (PREFILL, TTFT)
    )
    yield Alert(
        "VLLMPrefixCacheCollapse",
        slug,
        "warning",
        f"{HITS} / ({HITS} offset 6h >= {on.text(f'{slug}.before')}) <= {on.text(f'{slug}.fall')}\n"
        f"and {TTFT} - {TTFT} offset 6h >= {on.text(f'{slug}.later')}\nand ({slower})\n"
        f"and {FINISHED} >= {FEWEST:.3g}\nand {COMPARABLE}",
        "15m",
        f"{WHO}: the prefix cache hits far less, prompts are computed anew",
        "{{ $value | humanizePercentage }} of the hit ratio 6 h ago (limit: "
        f"{on.percent(f'{slug}.fall')}), and first tokens come later.",
        "prefix cache hits per lookup against 6 h earlier",
        tuple(f"{slug}.{n}" for n in ("fall", "before", "later", "prefill")),
        "10m",
    )


def _speculation(on: Basis) -> Iterator[Alert]:
    m, slug = on.metrics, "spec-decode-decay"
    yield Alert(
        "VLLMSpecDecodeDecay",
        slug,
        "warning",
        f"{ACCEPTED} / (max_over_time({ACCEPTED}[6h] offset 30m) > 0) <= {on.text(f'{slug}.fall')}\n"
        f"and max_over_time({ACCEPTED}[6h] offset 30m) - {ACCEPTED} >= {on.text(f'{slug}.drop')}\n"
        f"and {m.increase('spec_draft_tokens', '30m')} >= 1000",
        "30m",
        f"{WHO}: speculative decoding accepts fewer draft tokens",
        "{{ $value | humanizePercentage }} of the acceptance in the 6 h before (limit: "
        f"{on.percent(f'{slug}.fall')}).",
        "accepted per drafted tokens against the 6 h before",
        (f"{slug}.fall", f"{slug}.drop"),
        "10m",
    )
