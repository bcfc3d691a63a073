"""More work than can be done, and what looks like it: queues, preemption, prefill, slow tails."""

from vllmdoctor.alerts.basis import WHO, Basis
from vllmdoctor.alerts.nouns import Told, alert
from vllmdoctor.alerts.records import (
    FINISHED,
    HITS,
    ITL,
    PREEMPTED,
    PROMPT_LENGTH,
    RATE,
    TAIL,
    TTFT,
    TTFT_P50,
    TTFT_P95,
)
from vllmdoctor.alerts.speed import COMPARABLE, FEWEST

_STANDS = ("overload.waiting", "overload.waiting-share", "overload.queue-time")
_PREFILL = tuple(f"prefill-bound.{n}" for n in ("ttft", "late", "prompt", "prefill", "mix", "usage"))
_HOL = "head-of-line-blocking"
_TAIL = tuple(f"{_HOL}.{n}" for n in ("tail", "rise", "excess", "median", "preempted", "standing"))


def _turn(on: Basis) -> str:
    """Seconds until a request that arrives now gets its turn, by Little's law."""
    m = on.metrics
    served = f"clamp_min({m.rate('requests_finished', '10m')}, 0.001)"  # where none finished: hardly one
    return f"{m.gauge('requests_waiting', 'avg', '10m')} / {served}"


def _often(on: Basis) -> str:
    """Requests waited in most scrapes: a quantile tells the share without a subquery."""
    share = f"quantile {1 - on.limit('overload.waiting-share'):.3g}"
    return f"{on.metrics.gauge('requests_waiting', share, '10m')} >= {on.text('overload.waiting')}"


@alert(
    "VLLMRequestsQueue",
    "overload",
    "critical",
    linger="10m",
    means="a queue that stands: how long until a request gets its turn",
    limits=_STANDS,
)
def requests_queue(on: Basis) -> Told:
    """More arrives than can be done."""
    return Told(
        f"{_turn(on)} >= {on.text('overload.queue-time')}\nand {_often(on)}",
        f"{WHO}: requests wait, more arrives than it can do",
        "A request that arrives now waits about {{ $value | humanizeDuration }} for its turn (limit: "
        f"{on.text('overload.queue-time')} s), and requests waited in {on.percent('overload.waiting-share')} "
        "of the scrapes or more.",
    )


@alert(
    "VLLMKVPoolFull",
    "overload",
    "warning",
    linger="10m",
    means="KV pressure: a full pool, and requests that wait for it",
    limits=("overload.usage", *_STANDS),
)
def pool_full(on: Basis) -> Told:
    """A full pool alone is no fault; one that requests wait for is."""
    full = on.metrics.gauge("kv_cache_usage", "quantile 0.25", "10m")
    return Told(
        f"{full} >= {on.text('overload.usage')}\nand {_often(on)}\n"
        f"and {_turn(on)} >= {on.text('overload.queue-time')}",
        f"{WHO}: the KV pool is full and requests wait for it",
        "{{ $value | humanizePercentage }} of the KV blocks or more are held in three of four scrapes "
        f"(limit: {on.percent('overload.usage')}), while requests waited.",
    )


@alert(
    "VLLMPreemptionThrash",
    "overload",
    "critical",
    linger="10m",
    means="preemptions per finished request, where there is more than one a minute",
    limits=("overload.thrash", "kv-fragmentation.preemptions"),
)
def thrash(on: Basis) -> Told:
    """Work is thrown away and done again."""
    a_minute = f"60 * {on.metrics.rate('preemptions', '10m')} >= {on.text('kv-fragmentation.preemptions')}"
    return Told(
        f"{PREEMPTED} >= {on.text('overload.thrash')}\nand {a_minute}",
        f"{WHO} throws requests out of the batch and computes them again",
        "{{ $value | humanize }} preemptions for each finished request (limit: "
        f"{on.text('overload.thrash')}).",
    )


@alert(
    "VLLMRequestsGivenUp",
    "overload",
    "critical",
    wait="15m",
    linger="10m",
    means="requests finished per started one, while tokens take longer: too large a batch",
    limits=("overload.given-up", "overload.slower"),
)
def given_up(on: Basis) -> Told:
    """Nobody waits, since whoever came is in the batch: until clients give up."""
    started = f"{on.metrics.rate('prompt_tokens', '30m')} / ({PROMPT_LENGTH} > 0)"
    return Told(
        f"{FINISHED} / ({started}) <= {on.text('overload.given-up')}\n"
        f"and {ITL} / ({ITL} offset 6h > 0) >= {on.text('overload.slower')}\n"
        f"and {started} >= {FEWEST}\nand {COMPARABLE}",
        f"{WHO}: clients give up before their requests finish, too many run at once",
        "{{ $value | humanizePercentage }} of the started requests finish (limit: "
        f"{on.percent('overload.given-up')}), and a token takes {on.text('overload.slower')} times as long "
        "as 6 h ago or more.",
    )


@alert(
    "VLLMPrefillBound",
    "prefill-bound",
    "warning",
    wait="15m",
    linger="10m",
    means="first tokens late and more prompt work than 6 h earlier, with room in the pool",
    limits=_PREFILL,
)
def prefill(on: Basis) -> Told:
    """Prompt processing takes the engine's time."""
    m = on.metrics
    now, then = m.rate("prompt_tokens", "30m"), m.rate("prompt_tokens", "30m", offset="6h")
    if m.has("prefix_cache_hits", "prefix_cache_queries"):
        now = f"{now} * (1 - ({HITS} or 0 * {RATE}))"
        then = f"{then} * (1 - ({HITS} offset 6h or 0 * {RATE} offset 6h))"
    share = f"{m.mean('prefill_time', '30m')} / {m.mean('inference_time', '30m')}"
    return Told(
        f"{TTFT} / ({TTFT} offset 6h > 0) >= {on.text('prefill-bound.ttft')}\n"
        f"and {TTFT} >= {on.text('prefill-bound.late')}\n"
        f"and ({now}) / ({then} > 0) >= {on.text('prefill-bound.prompt')}\n"
        f"and ({share} >= {on.text('prefill-bound.prefill')} "
        f"or ({now}) / ({RATE} > 0) >= {on.text('prefill-bound.mix')})\n"
        f"and {m.gauge('kv_cache_usage', 'quantile 0.9', '30m')} < {on.text('prefill-bound.usage')}\n"
        f"and {FINISHED} >= {FEWEST}\nand {COMPARABLE}",
        f"{WHO}: prompt processing takes the time, first tokens come late",
        "First tokens take {{ $value | humanize }} times as long as 6 h ago (limit: "
        f"{on.text('prefill-bound.ttft')} times), more prompt tokens are computed, and the KV pool has room.",
    )


@alert(
    "VLLMTailRunsAway",
    _HOL,
    "warning",
    wait="45m",  # one burst of ten minutes stands in a window of 30 for 40
    linger="10m",
    means="time to first token: p95 runs away from a median that stays",
    limits=_TAIL,
)
def tail(on: Basis) -> Told:
    """A few heavy requests hold up the many."""
    share = f"quantile {1 - on.limit(f'{_HOL}.standing'):.3g}"
    seldom = f"{on.metrics.gauge('requests_waiting', share, '30m')} < 1"
    return Told(
        f"{TAIL} >= {on.text(f'{_HOL}.tail')}\n"
        f"and {TAIL} / ({TAIL} offset 6h > 0) >= {on.text(f'{_HOL}.rise')}\n"
        f"and {TTFT_P95} - {TTFT_P50} >= {on.text(f'{_HOL}.excess')}\n"
        f"and {TTFT_P50} / ({TTFT_P50} offset 6h > 0) <= {on.text(f'{_HOL}.median')}\n"
        f"and {PREEMPTED} <= {on.text(f'{_HOL}.preempted')}\nand {seldom}\n"
        f"and {FINISHED} >= {FEWEST}\nand {COMPARABLE}",
        f"{WHO}: a few heavy requests hold up the many",
        "The slowest 5 % wait {{ $value | humanize }} times as long for their first token as the median "
        f"(limit: {on.text(f'{_HOL}.tail')} times, and {on.text(f'{_HOL}.rise')} times what it was 6 h ago).",
    )


QUEUE = (requests_queue, pool_full, thrash, given_up, prefill, tail)
