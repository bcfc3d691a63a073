"""Remedies that add machines or share the traffic otherwise."""

import math

from vllmdoctor.flags import flag
from vllmdoctor.model import Effort, Step
from vllmdoctor.remedies import predict
from vllmdoctor.remedies.ask import Ask, ceil, dismissed, plain, power_of_two, step

TARGET_LOAD = 0.8  # a replica planned to be this busy still takes a burst
SPLIT_AT = 4096
TWO_KINDS = 8.0  # p99 / p50 of the prompt length above which traffic is of two kinds
PATIENCE_S = 30.0
QUEUE = "--max-num-queued-reqs"


def add_replica(ask: Ask) -> Step | None:
    """More servers, as many as the load needs."""
    offered, done, now = ask.number("arrival_rate"), ask.number("completion_rate"), ask.number("replicas")
    ratio = offered / done if done > 0 else math.nan
    share = f"{offered:.2f} / {done:.2f} per s / {TARGET_LOAD}" if ratio > 0 else ""
    have = now if now > 0 else 1.0
    wanted = max(have + 1, ceil(have * ratio / TARGET_LOAD)) if ratio > 0 else math.nan
    return step(
        "add-replica",
        "Add replicas",
        ask,
        action=f"Run {plain(wanted)} replicas behind the gateway." if wanted > 0 else "Run one replica more.",
        why="more work arrives than one server can do",
        effort=Effort.CAPACITY,
        before=plain(have) if now > 0 else "1 (assumed)",
        after=plain(wanted) if wanted > 0 else "",
        formula=f"{plain(have)} x {share} = {have * ratio / TARGET_LOAD:.1f}"
        if share
        else f"replicas x arrivals / completions / {TARGET_LOAD}",
        effect=f"capacity x {wanted / have:.1f}; the queue drains once arrivals are below completions"
        if wanted > 0
        else "cannot be predicted because arrivals and completions are not known",
        tradeoff="GPUs; prefix caches are spread unless the routing minds prefixes",
        verify="requests waiting per replica near 0 at the peak",
        restart=False,
        missing=ask.missing("arrival_rate", "completion_rate", "replicas"),
        predictions=predict.more_servers(ask, wanted / have),
    )


def tensor_parallel(ask: Ask) -> Step | None:
    """One server over more GPUs: a larger pool and faster steps."""
    name, now = "--tensor-parallel-size", ask.number("tensor_parallel_size")
    have = now if now > 0 else float(ask.in_force("--tensor-parallel-size") or 1)
    target = power_of_two(2 * have)
    pool = ask.number("pool_tokens")
    more = f"more than {target / have:.0f} x {plain(pool)} = {plain(pool * target / have)} tokens"
    return step(
        "tensor-parallel",
        "Spread the model over more GPUs",
        ask,
        action=f"Set {name} {target}; restart on a node with {target} GPUs.",
        why="each GPU then holds a part of the weights, which leaves more for KV, and steps are shorter",
        effort=Effort.CAPACITY,
        flag_name=name,
        before=f"{have:.0f}",
        after=str(target),
        formula=more if pool > 0 else f"pool more than {target / have:.0f} x",
        effect="step time falls by less than the GPUs added (links between them cost); not predicted further",
        tradeoff="GPUs of one node with fast links; two replicas often do more work in all",
        verify="KV cache size in the start-up log, inter-token latency p50",
        restart=True,
        missing=ask.missing("tensor_parallel_size"),
        predictions=predict.larger_pool(ask, target / have) if pool > 0 else (),
    )


def split_traffic_by_length(ask: Ask) -> Step | None:
    """Long prompts to a deployment of their own."""
    slug, title = "split-traffic-by-length", "Send long prompts to a deployment of their own"
    median, longest = ask.number("prompt_p50"), ask.number("prompt_p99")
    if ask.cause == "kv-fragmentation" and not longest / median >= TWO_KINDS:
        return dismissed(
            slug,
            title,
            ask,
            "moot",
            "KV blocks need not be contiguous: mixed lengths do not break up the pool",
        )
    if longest / median < TWO_KINDS:
        why = f"prompts are of one kind (p99/p50 = {longest / median:.1f})"
        return dismissed(slug, title, ask, "moot", why)
    cut = (
        min(SPLIT_AT, power_of_two(max(4 * median, longest / 4))) if longest > 0 and median > 0 else SPLIT_AT
    )
    return step(
        slug,
        title,
        ask,
        action=f"Run two deployments; route prompts above {plain(cut)} tokens by a length header.",
        why="prompts of two kinds share one queue, and the long ones hold up the short ones",
        effort=Effort.CAPACITY,
        after=f"{cut:.0f} tokens",
        formula=f"p99 {plain(longest)} / p50 {plain(median)} = {longest / median:.0f}"
        if longest > 0 and median > 0
        else f"cut at about {plain(SPLIT_AT)} tokens",
        effect="short requests no longer wait for long prompts; how far TTFT falls cannot be predicted",
        tradeoff="a second deployment, and a gateway that counts tokens",
        verify="TTFT p95/p50 of the short deployment",
        restart=False,
        missing=ask.missing("prompt_p50", "prompt_p99"),
    )


def limit_admission(ask: Ask) -> Step | None:
    """Refuse what cannot be served in time, rather than let the queue grow."""
    slug, title = "limit-admission", "Refuse requests that would wait too long"
    if ask.number("max_num_queued_reqs") > 0:
        why = f"max_num_queued_reqs is {plain(ask.number('max_num_queued_reqs'))} already"
        return dismissed(slug, title, ask, "moot", why)
    done = ask.number("completion_rate")
    bound = ceil(done * PATIENCE_S) if done > 0 else math.nan
    known = flag(QUEUE).works_in(ask.release)
    where = f"Set {QUEUE} {{}}; restart." if known else "Let the gateway answer 503 when {} requests wait."
    return step(
        slug,
        title,
        ask,
        action=where.format(f"{bound:.0f}" if bound > 0 else "N"),
        why="without a bound the queue grows for as long as more arrives than is done",
        flag_name=QUEUE if known else "",
        before=(ask.in_force(QUEUE) or "None") if known else "",
        after=f"{bound:.0f}" if bound > 0 and known else "",
        formula=f"{done:.2f} per s x {PATIENCE_S:.0f} s = {bound:.0f} requests"
        if bound > 0
        else f"completions per s x {PATIENCE_S:.0f} s",
        effect=f"none waits longer than about {PATIENCE_S:.0f} s; the rest get 503; capacity is the same",
        tradeoff="clients must take a 503 and come back later",
        verify="queue time p95, HTTP 503 count",
        restart=known,
        effort=Effort.RESTART if known else Effort.LIVE,
        missing=ask.missing("completion_rate"),
        predictions=predict.bounded_queue(ask, bound, PATIENCE_S),
    )
