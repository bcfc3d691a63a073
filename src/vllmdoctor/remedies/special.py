"""Remedies for one feature or one kind of traffic: connectors, images, grammars, ranks, long answers.

Most are asked for many findings and answer only where the figures or the release speak for them.
"""

import math

from vllmdoctor.defects import matching
from vllmdoctor.flags import flag
from vllmdoctor.model import Effort, Step
from vllmdoctor.release import Version
from vllmdoctor.remedies import predict
from vllmdoctor.remedies.ask import Ask, plain, step

ASYNC, CONNECTOR, IMAGES = "--async-scheduling", "--kv-transfer-config", "--mm-processor-cache-gb"
SERVERS = "--api-server-count"
DEFERRED = ("B27", "B28", "B55")  # defects that asynchronous scheduling brings about
LONG_ANSWERS = 4.0  # p99 / p50 of the output length from which a few answers run away
COMPARE = "cannot be predicted because it depends on the traffic: compare before and after"


def disable_async_scheduling(ask: Ask) -> Step | None:
    """Schedule step by step where a connector's frees come late."""
    given, default = ask.figures.switch("async_scheduling"), flag(ASYNC).default_in(ask.release)
    if given is False or (given is None and default == "False"):
        return None
    connector = ask.figures.fact("kv_transfer_config") is not None
    known = [d for d in matching(ask.cause, ask.release) if d.id in DEFERRED]
    if not connector and not (given and known):
        return None
    return step(
        "disable-async-scheduling",
        "Switch asynchronous scheduling off",
        ask,
        verdict="helps" if known else "unknown",
        action="Set --no-async-scheduling; restart.",
        why="blocks that are freed while a step is in flight come back late, so a preemption frees nothing"
        + (f" ({known[0].ref or known[0].id})" if known else ""),
        flag_name=ASYNC,
        before="True" if given else "auto",
        after="False",
        effect="preemptions no longer cascade; how far the rate recovers cannot be predicted",
        tradeoff="a few per cent of the generation rate",
        verify="preemptions per minute, generation rate",
        predictions=predict.larger_pool(ask, 1.0),
    )


def disable_kv_connector(ask: Ask) -> Step | None:
    """Serve without the KV connector or offload that holds the blocks, where one is in use."""
    given = ask.figures.text("kv_transfer_config")
    if not given:
        return None
    return step(
        "disable-kv-connector",
        "Serve without the KV connector for a while",
        ask,
        verdict="unknown",
        action=f"Leave {CONNECTOR} out on one replica; restart it; compare.",
        why="blocks that wait for a transfer or an acknowledgement count as used and serve nobody",
        flag_name=CONNECTOR,
        before=given if len(given) <= 60 else given[:57] + "...",
        after="none",
        effect=COMPARE,
        tradeoff="no reuse across servers; no prefill/decode split: not for a server that is one half of it",
        verify="KV usage at idle near 0",
    )


def shrink_mm_cache(ask: Ask) -> Step | None:
    """Less host memory for images, or none."""
    now = ask.number("mm_processor_cache_gb")
    before = now if now >= 0 else float(ask.in_force(IMAGES) or 4)
    if before == 0:
        return None
    return step(
        "shrink-mm-cache",
        "Keep fewer preprocessed images",
        ask,
        verdict="unknown",
        action=f"Where images are served: set {IMAGES} 0, and limit how many come at once; restart.",
        why="each API process and each engine keeps that much of preprocessed images, and queued ones "
        "come on top",
        flag_name=IMAGES,
        before=f"{before:g}",
        after="0",
        formula=f"{before:g} GiB x (API processes + engines)",
        effect=COMPARE,
        tradeoff="an image that repeats is processed again",
        verify="memory of the API server and of the engine core",
        missing=("whether images are served: the application",),
    )


def expandable_segments(ask: Ask) -> Step | None:
    """Let PyTorch's allocator grow its segments, so that it leaves fewer holes outside the pool."""
    return step(
        "expandable-segments",
        "Let PyTorch's allocator grow its segments",
        ask,
        verdict="unknown",
        action="Set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True in the environment; restart.",
        why="mixed batches leave holes in the allocator's memory outside the KV pool",
        effect="less reserved and unused memory; how much cannot be predicted",
        tradeoff="not with KV connectors that register memory",
        verify="reserved but unallocated memory in an out-of-memory message; device memory over hours",
    )


def spread_over_ranks(ask: Ask) -> Step | None:
    """A balancer that knows queues and KV use, where one server's own counts requests."""
    ranks = ask.number("data_parallel_size")
    if not ranks > 1:
        return None
    return step(
        "spread-over-ranks",
        "Balance the ranks from outside",
        ask,
        verdict="unknown",
        action="Expose each data-parallel rank by itself (--data-parallel-external-lb or one server a "
        "rank) and "
        "let the gateway choose by queue and KV use."
        if flag("--data-parallel-size").known_in(ask.release) and _external(ask)
        else "Run one server a rank and let the gateway choose by queue and KV use.",
        why=f"the balancer inside spreads over {plain(ranks)} ranks by requests, not by their length",
        effect=COMPARE,
        tradeoff="a gateway that reads each rank's metrics",
        verify="requests waiting and KV usage per engine: alike",
    )


def _external(ask: Ask) -> bool:
    release = ask.release
    return isinstance(release, Version) and release.release >= (0, 11, 1, 0)


def probe_progress(ask: Ask) -> Step | None:
    """A health check that notices an engine which stands still."""
    return step(
        "probe-progress",
        "Watch progress, not only health",
        ask,
        action="Alert when requests run or wait and no token counter moves for 2 min; send a small "
        "request every "
        "minute. Don't restart on a slow /health alone.",
        why="/health and /v1/models answer while the engine stands still",
        effort=Effort.LIVE,
        effect="the next stall is seen in 2 min instead of by users; this one stays",
        tradeoff="one small request a minute",
        verify="the alert fires on a paused test server",
    )


def more_api_servers(ask: Ask) -> Step | None:
    """More processes for tokenising, images and streaming."""
    now = ask.number("api_server_count")
    have = now if now > 0 else float(_whole(ask.in_force(SERVERS)) or 1)
    return step(
        "more-api-servers",
        "Run more API server processes",
        ask,
        verdict="unknown",
        action=f"Set {SERVERS} {2 * have:.0f}; restart; give them cores.",
        why="one process tokenises, prepares images and streams for all requests",
        flag_name=SERVERS,
        before=f"{have:.0f}",
        after=f"{2 * have:.0f}",
        effect="cannot be predicted because the share of the API server in a request is not measured",
        tradeoff="the log's statistics line goes; process_* metrics become those of several processes",
        verify="GPU utilisation up, HTTP time against engine time",
    )


def _whole(text: str | None) -> int | None:
    return int(text) if text and text.isdigit() else None


def tune_structured_output(ask: Ask) -> Step | None:
    """Grammar work on the CPU in each step."""
    return step(
        "tune-structured-output",
        "Make structured output cheaper",
        ask,
        verdict="unknown",
        action="Where structured output is used: take the xgrammar backend, set OMP_NUM_THREADS to the "
        "cores that "
        "the container has, and reuse schemas; restart.",
        why="grammars are compiled and applied on the CPU in every step, while the GPU waits",
        effect="cannot be predicted because the share of structured requests is not known",
        tradeoff="backends differ in the schemas they take",
        verify="GPU utilisation, inter-token latency with and without structured output",
        missing=("whether structured output is used: the application",),
    )


def cap_output_length(ask: Ask) -> Step | None:
    """A few endless answers hold blocks and slots."""
    median, longest = ask.number("output_p50"), ask.number("output_p99")
    ratio = longest / median if median > 0 else math.nan
    if ratio < LONG_ANSWERS:
        return None
    target = 2 * ask.number("output_p95")
    return step(
        "cap-output-length",
        "Have clients bound their answers",
        ask,
        verdict="helps" if ratio >= LONG_ANSWERS else "unknown",
        action="Send max_tokens (and stop words) with each request"
        + (f", about {plain(target)}" if target > 0 else "")
        + "; check that the model ends its answers (chat template, EOS).",
        why="an answer that does not end keeps its KV blocks and its slot until the context is full",
        effort=Effort.LIVE,
        formula=f"output p99 {plain(longest)} / p50 {plain(median)} = {ratio:.0f}" if ratio > 0 else "",
        effect="cannot be predicted because it depends on how many answers run on",
        tradeoff="answers that would be longer are cut",
        verify="output length p99, requests finished by length",
        missing=ask.missing("output_p50", "output_p99"),
    )
