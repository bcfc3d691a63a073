"""How much a server can do, in closed form: used to size loads to a wanted share of capacity."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from vllmdoctor.simulator.load import RequestClass
    from vllmdoctor.simulator.server import Server


def live_tokens(kind: RequestClass) -> float:
    """Mean KV tokens a running request holds for itself (its shared prefix left out)."""
    return kind.prompt.mean + 0.5 * kind.output.mean


def concurrency_limit(server: Server, kind: RequestClass, kv_share: float = 0.93) -> float:
    """Running requests that slots and KV pool allow on average."""
    pool = kv_share * server.kv_tokens - kind.prefix_tokens * min(kind.prefix_groups, 4)
    per_request = live_tokens(kind) + 0.5 * server.block_size
    return max(1.0, min(float(server.max_num_seqs), pool / per_request))


def rate_at(
    server: Server, kind: RequestClass, running: float, *, hit: float = 1.0, slow: float = 1.0
) -> float:
    """Requests/s completed with ``running`` requests in the batch.

    ``hit`` is the share of shared prefix tokens found in the cache, ``slow`` a step-time factor.
    """
    context = running * (live_tokens(kind) + kind.prefix_tokens)
    decode_s = server.step.decode_s(round(running), context)
    tokens_per_step = 1.0
    speculation = server.speculation
    if speculation:
        tokens_per_step += speculation.accepted(speculation.acceptance)
        decode_s += speculation.tokens * speculation.draft_cost * server.step.base_s
    computed = kind.prompt.mean + kind.prefix_tokens * (1.0 - hit)
    prefill_s = server.step.prefill_s(round(computed), 0)
    return 1.0 / (slow * (prefill_s + kind.output.mean * decode_s / tokens_per_step / running))


def capacity(server: Server, kind: RequestClass, *, hit: float = 1.0, slow: float = 1.0) -> float:
    """Requests/s the server can sustain."""
    return rate_at(server, kind, concurrency_limit(server, kind), hit=hit, slow=slow)


def blocks_for(kind: RequestClass, running: float, block_size: int = 16) -> int:
    """KV blocks that hold ``running`` requests of this kind, nearly full."""
    tokens = running * (live_tokens(kind) + 0.5 * block_size)
    return math.ceil((tokens + kind.prefix_tokens * min(kind.prefix_groups, 4)) / 0.93 / block_size)
