"""The machine: memory, GPU, restarts."""

from collections.abc import Iterator

from vllmdoctor.dashboard.nouns import Limit, Panel, Query, Row
from vllmdoctor.dashboard.scope import RATE, Scope, limit

_GPU = "{{Hostname}} GPU {{gpu}}"


def hardware(on: Scope) -> Row:
    """GPUs from dcgm-exporter, containers from cAdvisor, replicas from kube-state-metrics."""
    return Row("Hardware", tuple(_panels(on)))


def _panels(on: Scope) -> Iterator[Panel]:
    yield from _gpu(on)
    yield from _host(on)
    yield from _life(on)


def _gpu(on: Scope) -> Iterator[Panel]:
    yield Panel(
        "GPU memory",
        "Does memory grow outside the pool? The pool is allocated at start: full and flat is normal.",
        "bytes",
        (
            Query(on.gpu("gpu_memory_used"), f"{_GPU} used"),
            Query(on.gpu("gpu_memory_free"), f"{_GPU} free", faint=True),
        ),
        ("gpu-memory-growth",),
    )
    yield Panel(
        "GPU clock",
        "Is the clock held down under load? Compare with the highest; idle GPUs clock down by themselves.",
        "hertz",
        (Query(on.gpu("gpu_sm_clock"), _GPU),),
        ("gpu-throttle",),
    )
    yield Panel(
        "GPU in use",
        "Is the GPU busy? Low with requests running: the host holds it up. 100 % does not mean well used.",
        "percentunit",
        (Query(on.gpu("gpu_utilization"), _GPU),),
        ("host-cpu-bound", "low-load", "stall"),
        most=1.0,
    )
    yield Panel(
        "GPU temperature",
        "Is it too hot to keep its clock?",
        "celsius",
        (Query(on.gpu("gpu_temperature"), _GPU),),
        ("gpu-throttle",),
        (Limit(limit("gpu-throttle.hot")),),
    )


def _host(on: Scope) -> Iterator[Panel]:
    m = on.metrics
    if on.kubernetes:
        used, most = m.gauge("container_memory"), m.gauge("container_memory_limit")
        queries = [
            Query(used, "{{pod}} {{container}}"),
            Query(f"{most} > 0", "{{pod}} {{container}} limit", faint=True),
        ]
        short, periods = (
            m.rate(s, RATE) for s in ("container_cpu_throttled_periods", "container_cpu_periods")
        )
        throttled = f"{short} / ({periods} > 0)"
    else:
        queries, throttled = [Query(m.gauge("process_memory"), on.per_server)], ""
    yield Panel(
        "Host memory",
        "Does memory grow towards its limit? A straight line is a leak, steps at peaks of load are not."
        + ("" if on.kubernetes else " The API server's process only: engine and workers are not in it."),
        "bytes",
        tuple(queries),
        ("memory-leak",),
    )
    if throttled:
        yield Panel(
            "CPU held back",
            "In which share of the time does the container run out of its CPU quota?",
            "percentunit",
            (Query(throttled, "{{pod}} {{container}}"),),
            ("host-cpu-bound",),
            (Limit(limit("host-cpu-bound.throttled")),),
            most=1.0,
        )


def _life(on: Scope) -> Iterator[Panel]:
    m = on.metrics
    begun = f"max by ({on.server}) (resets({m.selectors('generation_tokens', window='1h')[0]}))"
    queries = [Query(begun, f"{on.per_server} counters begin anew")]
    if on.kubernetes:
        again = on.by_server(m.increase("container_restarts", "1h"))
        queries.append(Query(again, f"{on.per_server} container restarts", faint=True))
    yield Panel(
        "Restarts in an hour",
        "Did a server come back, or does it come back again and again?",
        "none",
        tuple(queries),
        ("restart", "memory-leak"),
        (Limit(limit("restart.restarts")),),
        decimals=0,
    )
    if on.kubernetes:
        have, want = (on.around.gauge(s) for s in ("replicas_available", "replicas_desired"))
        yield Panel(
            "Replicas",
            "Are replicas missing that should serve?",
            "none",
            (
                Query(have, "{{deployment}}{{statefulset}}"),
                Query(want, "{{deployment}}{{statefulset}} wanted", faint=True),
            ),
            ("replica-loss",),
            decimals=0,
        )
