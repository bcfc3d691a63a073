"""Is it slow? What is done, what is asked for, and how long requests take."""

from collections.abc import Iterator

from vllmdoctor.dashboard.nouns import Limit, Panel, Query, Row
from vllmdoctor.dashboard.scope import Scope, limit

EARLIER = "8h"


def now(on: Scope) -> Row:
    """The state at a glance."""
    return Row("Now", tuple(_tiles(on)), across=8, height=4)


def _tiles(on: Scope) -> Iterator[Panel]:
    m = on.metrics
    made = on.total(on.rate("generation_tokens"))
    yield _tile("Generation", "Tokens generated a second, all chosen servers.", "suffix: tok/s", made)
    yield _tile("Running", "Requests in the batches.", "none", on.total(m.gauge("requests_running")))
    yield _tile(
        "Waiting", "Requests in the queues. A queue that stands is an overload.", "none",
        on.total(m.gauge("requests_waiting")), ("overload",), (Limit(limit("overload.waiting")),),
    )  # fmt: skip
    yield _tile(
        "KV use, highest", "The fullest KV pool. Full is good use unless requests wait.", "percentunit",
        f"max({m.gauge('kv_cache_usage')})", ("overload",), (Limit(limit("overload.usage")),),
    )  # fmt: skip
    yield _tile(
        "Preemptions", "Requests thrown out of the batches in a minute.", "suffix:/min",
        f"{on.total(on.rate('preemptions'))} * 60", ("overload", "kv-fragmentation"),
        (Limit(limit("kv-fragmentation.preemptions")),), decimals=1,
    )  # fmt: skip
    yield _tile("TTFT p95", "Time to the first token of the slowest 5 %.", "s", on.quantile(0.95, "ttft"))
    yield _tile("ITL p95", "Time between two tokens, slowest 5 %.", "s", on.quantile(0.95, "itl"))
    yield _tile(
        "Servers", "Servers that show metrics.", "none",
        f"count(sum by ({on.server}) ({m.gauge('requests_running')}))", ("replica-loss",),
    )  # fmt: skip


def _tile(
    title: str, answers: str, unit: str, expr: str, causes: tuple[str, ...] = (),
    limits: tuple[Limit, ...] = (), decimals: int | None = None,
) -> Panel:  # fmt: skip
    return Panel(
        title, answers, unit, (Query(expr, title.lower()),), causes, limits, "stat", decimals=decimals
    )


def slow(on: Scope) -> Row:
    """Throughput against demand, and latency."""
    return Row("Is it slow?", tuple(_panels(on)))


def _panels(on: Scope) -> Iterator[Panel]:
    m = on.metrics
    made = on.total(on.rate("generation_tokens"))
    yield Panel(
        "Throughput",
        "Does it make fewer tokens than at the same time 8 hours ago? A fall is a fault only if demand did "
        "not fall with it: look to the right.",
        "suffix: tok/s",
        (
            Query(made, "generation"),
            Query(on.total(on.rate("generation_tokens", offset=EARLIER)), "8 h earlier", faint=True),
        ),
        ("demand-drop", "unexplained"),
    )
    running, waiting = (m.gauge(s) for s in ("requests_running", "requests_waiting"))
    finished = on.total(on.rate("requests_finished"))
    inside = f"deriv(sum({running} + {waiting})[10m:1m])"
    yield Panel(
        "Demand against throughput",
        "Do more requests come than are finished? Where arrivals stay above, the queue grows; where both "
        "fall, less is asked for and nothing is wrong.",
        "reqps",
        (Query(f"clamp_min({finished} + {inside}, 0)", "arrive"), Query(finished, "finish")),
        ("overload", "demand-drop", "client-side"),
    )
    yield Panel(
        "Speed of one request",
        "How fast is a running request served? It falls when the server itself is slower, whatever the "
        "demand.",
        "suffix: tok/s",
        (Query(f"{made} / ({on.total(m.gauge('requests_running', 'avg', '5m'))} > 0)", "per request"),),
        ("host-cpu-bound", "gpu-throttle"),
    )
    yield Panel(
        "Time to first token",
        "How long do users wait for the first token? p95 far above p50 is a tail, both up is a queue or long "
        "prompts.",
        "s",
        _latency(on, "ttft"),
        ("prefill-bound", "head-of-line-blocking", "overload"),
    )
    yield Panel(
        "Time between tokens",
        "How smooth is the stream? Stalls by preemption are in it; what is below 10 ms cannot be told apart.",
        "s",
        _latency(on, "itl"),
        ("host-cpu-bound", "gpu-throttle", "spec-decode-decay"),
    )
    tails = [
        Query(f"{on.quantile(0.95, s, '10m')} / ({on.quantile(0.5, s, '10m')} > 0)", legend)
        for s, legend in (("ttft", "TTFT"), ("itl", "ITL"))
    ]
    yield Panel(
        "Tails: p95 / p50",
        "Do a few heavy requests hold up the many? 2 to 3 is usual; a rise while the median stays is a sign.",
        "suffix: x",
        tuple(tails),
        ("head-of-line-blocking",),
        (Limit(limit("head-of-line-blocking.tail")),),
    )


def _latency(on: Scope, signal: str) -> tuple[Query, ...]:
    quantiles = ((0.95, "p95"), (0.5, "p50"))
    found = tuple(Query(on.quantile(q, signal), legend) for q, legend in quantiles)
    return (*found, Query(on.mean(signal), "mean", faint=True))
