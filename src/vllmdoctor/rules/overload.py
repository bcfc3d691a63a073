"""More work arrives than can be done; the kind says which resource runs out first."""

import math
from collections.abc import Iterator

from vllmdoctor.case import Case, Felt, Kind, Limit, number, percent, ratio
from vllmdoctor.model import Severity
from vllmdoctor.rules import Yielded, rule


@rule(
    summary="more work arrives than the server can do: requests wait",
    severity=Severity.CRITICAL,
    signals=("requests_running", "requests_waiting"),
    helpful=("kv_cache_usage", "preemptions", "queue_time", "requests_finished", "generation_tokens"),
    limits={
        "waiting": Limit(1.0, "requests", "less than one waiting on average is no queue", "guidance"),
        "waiting-share": Limit(0.6, "ratio", "bursts drain; an overload's queue stands", "vllmdoctor"),
        "queue-time": Limit(1.0, "s", "a second in the queue is felt by users", "guidance"),
        "given-up": Limit(0.8, "ratio", "a fifth of the requests are given up by their clients", "vllmdoctor"),
        "served": Limit(0.97, "ratio", "completions below arrivals make the queue grow", "tuning guide"),
        "usage": Limit(0.90, "ratio", "the pool has no room for the next prompt", "tuning guide"),
        "thrash": Limit(0.5, "per request", "half of all requests are computed twice", "measured cases"),
        "pegged": Limit(0.7, "ratio", "the batch stands at its ceiling while requests wait", "tuning guide"),
        "plateau": Limit(0.85, "ratio", "a smaller batch made as many tokens: compute is full", "real traces"),
        "slower": Limit(1.5, "ratio", "and each of its steps took longer", "real traces"),
        "mix": Limit(15.0, "x", "decoding is the smaller part of the work", "vllmdoctor"),
        "prefill": Limit(0.35, "ratio", "a third of a request's time in the batch is prefill", "tuning guide"),
    },
    remedies={
        "kv-bound": ("raise-gpu-memory-utilization", "more-kv-blocks", "fp8-kv-cache", "add-replica",
                     "lower-max-num-seqs", "kv-watermark", "lower-max-model-len", "lower-gpu-memory-utilization"),
        "slot-bound": ("raise-max-num-seqs", "add-replica", "limit-admission"),
        "prefill-bound": ("enable-prefix-caching", "raise-max-num-batched-tokens", "add-replica", "limit-admission"),
        "compute-bound": ("add-replica", "tensor-parallel", "limit-admission"),
    },
)  # fmt: skip
def overload(case: Case) -> Iterator[Yielded]:
    v, now, lim = case.vitals, case.windows.now, case.limits
    waiting = case.now(v.waiting)
    served = ratio(case.now(v.finished), case.now(v.arrivals))
    little = waiting / case.now(v.finished) if case.now(v.finished) > 0 else math.nan
    queue = max((x for x in (v.mean("queue_time", now), little) if not math.isnan(x)), default=math.nan)
    felt = ratio(v.mean("itl", now), v.mean("itl", case.windows.before))
    given_up = ratio(case.now(v.finished), case.now(v.started))
    if waiting < lim["waiting"].value and given_up <= lim["given-up"].value:
        # nobody waits, since whoever came is in the batch: too large a batch, until clients give up
        yield case.require("requests finished / started", given_up, "<=", lim["given-up"])
        yield case.require("time per output token, now / before", felt, ">=", lim["slower"])
    else:
        yield case.require("requests waiting (mean)", waiting, ">=", lim["waiting"])
        yield case.require("time with requests waiting", v.waiting_share(now), ">=", lim["waiting-share"])
        if not math.isnan(queue):
            yield case.require("time in the queue", queue, ">=", lim["queue-time"])
    yield case.support("completions / arrivals", min(served, given_up), "<", lim["served"])
    yield case.support("waiting, now / before", ratio(waiting, case.before(v.waiting)), ">", 1.5, "x")
    yield case.support(
        "arrivals, now / before", ratio(case.now(v.arrivals), case.before(v.arrivals)), ">", 1.1, "x"
    )
    throughput = case.symptom("throughput")
    if throughput is not None:
        yield case.against("generation rate at equal load, now / before", throughput.ratio, "<", 0.8, "x")
    usage = v.usage_while_waiting(now, 0.75)
    preempted = v.preempted_per_finished(now)
    pegged, ceiling = v.pegged_share(now)
    flat, slower = v.plateau(now)
    prefill = v.prefill_share(now)
    mix = v.prompt_mix(now)
    yield case.note("KV usage while requests wait (p75)", usage, "ratio")
    yield case.note("preemptions per finished request", preempted, "per request")
    yield case.note(
        "time at the highest batch size while requests wait", pegged, "ratio", detail=f"{ceiling:g} running"
    )
    yield case.note("rate of a batch at most 0.6 as big / rate now", flat, "x")
    yield case.note("prefill share of time in the batch", prefill, "ratio")
    yield case.note("prompt tokens computed per generated token", mix, "x")
    if waiting >= lim["waiting"].value or given_up <= lim["given-up"].value:
        yield Felt()
        kind = _kind(case, usage, preempted, pegged, flat, slower, prefill, mix)
        running = case.now(v.running)
        if waiting >= lim["waiting"].value:
            seen = f"{number(waiting)} requests wait while {number(running)} run; "
        else:
            seen = f"only {percent(given_up)} of the started requests finish, {number(running)} run at once; "
        yield Kind(
            kind,
            seen
            + {
                "kv-bound": f"the KV pool is {'full' if usage >= 0.9 else 'too full for the next one'} ({percent(usage)})",
                "slot-bound": f"all {number(ceiling)} slots are taken while the KV pool has room",
                "prefill-bound": "prompt processing takes the time",
                "compute-bound": "a bigger batch brings no more tokens",
            }[kind],
        )


def _kind(
    case: Case,
    usage: float,
    preempted: float,
    pegged: float,
    flat: float,
    slower: float,
    prefill: float,
    mix: float,
) -> str:
    lim = case.limits
    slots = case.number("max_num_seqs")
    # requests that finish flatter the share; the mix of tokens also knows those that do not
    heavy = prefill >= lim["prefill"].value or mix >= lim["mix"].value
    # thrash keeps its steps short; only where a smaller batch was as fast in all is compute the limit
    if flat >= lim["plateau"].value and slower >= lim["slower"].value:
        return "prefill-bound" if heavy else "compute-bound"
    if preempted >= lim["thrash"].value:
        return "kv-bound"
    full = usage >= lim["usage"].value
    if pegged >= lim["pegged"].value or case.now(case.vitals.running) >= 0.95 * slots:
        return "slot-bound"
    if full or (preempted > 0.05 and not heavy):
        return "kv-bound"
    if heavy:
        return "prefill-bound"
    return "kv-bound" if usage >= 0.75 else "compute-bound"
