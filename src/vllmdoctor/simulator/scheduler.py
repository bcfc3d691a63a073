"""Choosing the work of a step, as vLLM's scheduler does.

Running requests come first; when one needs a block and none is free, the last running request is
preempted and recomputed later. Then the queue is served first come, first served: it stops at the
first request that does not fit.
"""

from __future__ import annotations

import math
from collections import deque
from typing import TYPE_CHECKING

from vllmdoctor.simulator.conditions import Conditions

if TYPE_CHECKING:
    from random import Random

    from vllmdoctor.simulator.batch import Batch
    from vllmdoctor.simulator.request import Request
    from vllmdoctor.simulator.tally import Tally


class Scheduler:
    """The waiting queue and the choice of the next step."""

    def __init__(self, batch: Batch, tally: Tally, rng: Random, *, recompute_hits: bool) -> None:
        self.batch = batch
        self.server = batch.server
        self.tally = tally
        self.rng = rng
        self.recompute_hits = recompute_hits
        """vLLM <= 0.11.0 counts cached tokens of preempted requests as hits."""
        self.conditions = Conditions()
        self.waiting: deque[Request] = deque()
        self.head_blocked: tuple[int, int] | None = None
        """(prompt tokens, cached tokens) of a queue head that does not fit."""
        self.preempted = False
        """Whether the last step preempted somebody."""

    def next_step(self, now_s: float) -> list[tuple[Request, int]]:
        """Prefill work (request, tokens) of the step that begins at ``now_s``."""
        batch = self.batch
        self.head_blocked = None
        self.preempted = False
        while batch.decoding and batch.due > batch.pool.free:
            self._preempt_last(now_s)
        plan = self._continue(now_s)
        budget = self.server.max_num_batched_tokens - batch.decoding - sum(t for _, t in plan)
        # A step that preempted admits nobody, unless nothing else is left to run.
        if not self.preempted or not (plan or batch.decoding):
            self._admit(plan, budget, now_s)
        return plan

    def _preempt_last(self, now_s: float) -> Request:
        self.preempted = True
        victim = self.batch.preempt_last(now_s)
        self.waiting.appendleft(victim)
        return victim

    def _reserved(self) -> int:
        """Blocks of the coming decode step, which are booked at its end."""
        return self.batch.due if self.batch.decoding else 0

    def _continue(self, now_s: float) -> list[tuple[Request, int]]:
        """The next chunks of the prompts in progress."""
        batch, pool = self.batch, self.batch.pool
        budget = self.server.max_num_batched_tokens - batch.decoding
        plan: list[tuple[Request, int]] = []
        index = 0
        while index < len(batch.prefilling) and budget > 0:
            request = batch.prefilling[index]
            tokens = self._chunk(request, budget)
            need = max(0, batch.private_blocks(request, request.done + tokens) - request.blocks)
            while need > pool.free - self._reserved():
                victim = self._preempt_last(now_s)
                plan = [item for item in plan if item[0] is not victim]
                if victim is request:
                    return plan
            pool.take(need)
            request.blocks += need
            plan.append((request, tokens))
            budget -= tokens
            index += 1
        return plan

    def _chunk(self, request: Request, budget: int) -> int:
        tokens = min(request.target - request.done, budget)
        threshold = self.server.long_prefill_token_threshold
        alone = len(self.batch.running) + len(self.waiting) <= 1
        if not threshold or (alone and self.server.threshold_spares_lone_request):
            return tokens
        return min(tokens, threshold)

    def _admit(self, plan: list[tuple[Request, int]], budget: int, now_s: float) -> None:
        """First come, first served: stop at the first request that does not fit."""
        server, batch, pool = self.server, self.batch, self.batch.pool
        reserved = self._reserved()
        while self.waiting and budget > 0 and len(batch.running) < server.max_num_seqs:
            request = self.waiting[0]
            request.target = request.prompt + request.generated
            shared, found, entry = self._cached(request)
            done = min(found * server.block_size, request.target - 1)
            request.done = done
            request.holds_group = shared > 0
            tokens = self._chunk(request, budget)
            whole = request.target if server.reserve_full_isl else done + tokens
            keep = int(server.watermark * pool.total) if batch.running else 0
            if batch.private_blocks(request, whole) + entry > pool.free - reserved - keep:
                request.holds_group = False
                if server.enable_prefix_caching and not request.preemptions:
                    self.head_blocked = (request.prompt, done)
                return
            self.waiting.popleft()
            if shared:
                pool.join(request.group, shared)
            request.blocks = batch.private_blocks(request, done + tokens)
            pool.take(request.blocks)
            batch.running.append(request)
            batch.prefilling.append(request)
            plan.append((request, tokens))
            budget -= tokens
            self._count_lookup(request, done)
            if math.isnan(request.scheduled_s):
                request.scheduled_s = now_s
                request.computed = request.prompt - done

    def _cached(self, request: Request) -> tuple[int, int, int]:
        """(shared blocks to join, blocks with KV found, blocks to take for the shared ones)."""
        server, pool = self.server, self.batch.pool
        if not server.enable_prefix_caching:
            return 0, 0, 0
        own = 0
        if request.freed_room >= 0:
            full = request.target // server.block_size
            own = pool.surviving(request.freed_mark, request.freed_room, full)
        blocks = request.kind.prefix_tokens // server.block_size
        if not blocks or request.group < 0:
            return 0, own, 0
        survival = self.conditions.prefix_survival
        if survival < 1.0 and self.rng.random() >= survival:
            return 0, own, 0
        found, entry = pool.lookup(request.group, blocks)
        return blocks, max(found, own), entry

    def _count_lookup(self, request: Request, hits: int) -> None:
        if self.server.enable_prefix_caching and (not request.preemptions or self.recompute_hits):
            self.tally.prefix_queries += request.target
            self.tally.prefix_hits += hits
