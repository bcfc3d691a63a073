"""One engine: continuous batching over a paged KV pool, fast-forwarded between events.

A step is simulated one by one while it carries prefill work. A batch that only decodes is
advanced by as many steps as fit before the next event (first finish, block exhaustion, an
arrival that could be admitted, the moment asked for), in closed form.

While decoding, a request is two numbers relative to the engine's token counter, so a run of
steps touches no request.
"""

from __future__ import annotations

import heapq
import math
from collections import deque
from collections.abc import Callable
from random import Random

from vllmdoctor.simulator.blocks import BlockPool
from vllmdoctor.simulator.conditions import Conditions
from vllmdoctor.simulator.request import Request
from vllmdoctor.simulator.run import Run
from vllmdoctor.simulator.server import Server
from vllmdoctor.simulator.tally import Tally


class Engine:
    """The scheduler, its queues and its pool; ``on_end`` is told of every finished request."""

    def __init__(
        self,
        server: Server,
        tally: Tally,
        rng: Random,
        start_s: float,
        on_end: Callable[[Request, float], None],
        *,
        requery: bool = False,
        recompute_hits: bool = False,
    ) -> None:
        self.server = server
        self.tally = tally
        self.rng = rng
        self.clock_s = start_s
        self.on_end = on_end
        self.requery = requery
        """vLLM < 0.27 counts prefix queries of a blocked queue head in every step."""
        self.recompute_hits = recompute_hits
        """vLLM <= 0.11.0 counts cached tokens of preempted requests as hits."""
        self.conditions = Conditions()
        self.pool = BlockPool(server.num_gpu_blocks - 1)  # one is vLLM's null block
        self.running: list[Request] = []
        self.waiting: deque[Request] = deque()
        self.inbox: deque[Request] = deque()
        self.to_abort: list[Request] = []
        self.prefilling: list[Request] = []
        self.decoding = 0
        self.context = 0
        """KV tokens of the decoding requests."""
        self.token = 0
        """Decode steps so far (tokens per decoding sequence)."""
        self.residues = [0] * server.block_size
        """Decoding requests by the step (modulo block size) in which they need a block."""
        self.finishes: list[tuple[int, int, Request]] = []
        self.sequence = 0
        self.run: Run | None = None
        self.head_blocked: tuple[int, int] | None = None
        self.was_idle = True
        self.hung = False
        self.lost = 0

    # --- outside world -------------------------------------------------------------------

    @property
    def in_flight(self) -> int:
        """Requests this engine holds."""
        return len(self.running) + len(self.waiting) + len(self.inbox)

    def next_end_s(self) -> float:
        """When the present run of steps ends [s]; infinity when idle or hung."""
        return self.run.end_s if self.run and not self.hung else math.inf

    def submit(self, request: Request, now_s: float) -> None:
        """A request reaches the engine at ``now_s`` (call ``advance`` up to it first)."""
        self.inbox.append(request)
        if self.run is None:
            self._take_inbox(now_s)
            self._schedule(now_s)
        elif not self.waiting:
            # Behind a queue head that does not fit, a newcomer changes nothing.
            self.run.cut(now_s)

    def abort(self, request: Request, now_s: float) -> None:
        """The client has gone; the request leaves at the next step boundary."""
        request.aborted = True
        if self.run is None and not self.hung:
            self._remove(request)
            self._gauges()
            self._schedule(now_s)
            return
        self.to_abort.append(request)
        if self.run:
            self.run.cut(now_s)

    def set_conditions(self, conditions: Conditions, now_s: float) -> None:
        """New surroundings from ``now_s`` on."""
        old = self.conditions
        self.conditions = conditions
        if self.run and (
            conditions.gpu_factor != old.gpu_factor
            or conditions.host_step_s != old.host_step_s
            or conditions.pressure_factor != old.pressure_factor
            or conditions.acceptance != old.acceptance
        ):
            self.run.cut(now_s)
        if conditions.hang == "busy" and self.run:
            self.hung = True
        if conditions.lost_fraction:
            want = int(conditions.lost_fraction * self.pool.total) - self.lost
            # The step in progress already owns the blocks it will book at its end.
            spare = self.pool.free - self.decoding
            if want > 0 and spare > 0:
                self.lost += self.pool.leak(min(want, spare))
                if self.run:
                    self.run.cut(now_s)

    def advance(self, until_s: float) -> None:
        """Complete every step that ends at or before ``until_s``."""
        while self.run is not None and not self.hung:
            run = self.run
            steps = run.steps_by(until_s)
            if steps <= run.done:
                return
            self._complete(run, steps)
            if run.done < run.steps:
                return
            self.run = None
            self._after(run)
            self._schedule(run.end_s)

    # --- steps that end ------------------------------------------------------------------

    def _complete(self, run: Run, upto: int) -> None:
        """Book the steps of ``run`` from ``run.done`` to ``upto``."""
        count = upto - run.done
        began_s = run.at(run.done)
        first_s = run.at(run.done + 1)
        ended_s = run.at(upto)
        run.done = upto
        self.clock_s = ended_s
        tally = self.tally
        tally.busy_s += (ended_s - began_s) * run.gpu_share
        batch = self.decoding
        if batch:
            pool, residues, size = self.pool, self.residues, self.server.block_size
            cycles, rest = divmod(count, size)
            blocks = cycles * batch
            for index in range(self.token, self.token + rest):
                blocks += residues[index % size]
            if blocks:
                pool.take(blocks)
            self.token += count
            self.context += batch * count
            tally.generation_tokens += batch * count
            events = count / run.tokens_per_step
            tally.itl.observe((ended_s - began_s) / events, batch * events)
            if not run.prefills:
                tally.iteration.observe(batch * run.tokens_per_step, events)
            speculation = self.server.speculation
            if speculation:
                self._count_drafts(batch * events)
        if self.head_blocked and self.requery:
            queries, hits = self.head_blocked
            tally.prefix_queries += queries * count
            tally.prefix_hits += hits * count
        # Requests that came during the first of these steps reach the scheduler at its end,
        # so that one step's gauges miss them.
        if count > 1:
            self._take_inbox(first_s)
        if run.done < run.steps:
            self._gauges()
            self._take_inbox(ended_s)

    def _count_drafts(self, drafts: float) -> None:
        tally, acceptance = self.tally, self.conditions.acceptance
        speculation = self.server.speculation
        assert speculation is not None
        if not tally.accepted_by_position:
            tally.accepted_by_position = [0.0] * speculation.tokens
        tally.drafts += drafts
        for position in range(speculation.tokens):
            tally.accepted_by_position[position] += drafts * acceptance ** (position + 1)

    def _after(self, run: Run) -> None:
        """The last step of ``run`` has ended: first tokens, finishes, aborts, gauges."""
        now_s = run.end_s
        tally = self.tally
        while self.finishes and self.finishes[0][0] <= self.token:
            request = heapq.heappop(self.finishes)[2]
            if request.decoding and request.finish_step == self.token:
                self._leave_decode(request)
                self._finish(request, now_s)
        fresh = 0
        done = 0
        for request, tokens in run.prefills:
            request.done += tokens
            if request.done < request.target:
                continue
            done += 1
            self.prefilling.remove(request)
            if request.generated == 0:
                request.first_token_s = now_s
                fresh += request.computed
                tally.ttft.observe(now_s - request.arrival_s)
                tally.prompt_tokens += request.prompt
                tally.computed_tokens += request.computed
            else:
                tally.itl.observe(now_s - request.last_token_s)
            tally.preemptions += request.preemptions - request.preemptions_seen
            request.preemptions_seen = request.preemptions
            request.generated += 1
            tally.generation_tokens += 1
            if request.generated >= request.output:
                self._free(request)
                self._finish(request, now_s)
            else:
                self._join_decode(request)
        if run.prefills:
            tally.iteration.observe(fresh + done + run.batch)
        for request in self.to_abort:
            if request.engine is self:
                self._remove(request)
        self.to_abort.clear()
        self._gauges()
        self._take_inbox(now_s)

    def _gauges(self) -> None:
        tally = self.tally
        tally.running = len(self.running)
        tally.waiting = len(self.waiting)
        tally.usage = self.pool.usage

    def _take_inbox(self, now_s: float) -> None:
        while self.inbox:
            request = self.inbox.popleft()
            request.queued_s = now_s
            self.waiting.append(request)

    # --- requests that come and go -------------------------------------------------------

    def _join_decode(self, request: Request) -> None:
        length = request.prompt + request.generated - 1
        request.decoding = True
        request.offset = length - self.token
        request.residue = (self.token - length) % self.server.block_size
        self.residues[request.residue] += 1
        request.finish_step = self.token + request.output - request.generated
        self.sequence += 1
        heapq.heappush(self.finishes, (request.finish_step, self.sequence, request))
        self.decoding += 1
        self.context += length

    def _leave_decode(self, request: Request) -> None:
        """Stop decoding and give the blocks back."""
        length = request.offset + self.token
        request.decoding = False
        request.generated = length - request.prompt + 1
        self.residues[request.residue] -= 1
        self.decoding -= 1
        self.context -= length
        request.blocks = self._private_blocks(request, length)
        self._free(request)

    def _private_blocks(self, request: Request, length: int) -> int:
        size = self.server.block_size
        shared = request.kind.prefix_tokens // size if request.holds_group else 0
        return max(0, -(-length // size) - shared) + self.server.extra_blocks_per_seq

    def _free(self, request: Request) -> None:
        request.freed_mark = self.pool.allocated
        request.freed_room = self.pool.free
        self.pool.release(request.blocks)
        if request.holds_group:
            self.pool.leave(request.group)
            request.holds_group = False

    def _finish(self, request: Request, now_s: float) -> None:
        self.running.remove(request)
        request.engine = None
        self.tally.finish(request, now_s)
        self._maybe_leak(request, "finish")
        self.on_end(request, now_s)

    def _maybe_leak(self, request: Request, how: str) -> None:
        for leak in self.conditions.leaks:
            if leak.on == how and self.rng.random() < leak.probability:
                pinned = min(request.blocks, max(1, round(self.rng.expovariate(1 / leak.blocks))))
                if self.pool.leaked + pinned <= leak.ceiling * self.pool.total:
                    self.pool.leak(pinned)

    def _remove(self, request: Request) -> None:
        """An aborted request leaves, wherever it is; no counter hears of it."""
        request.engine = None
        if request in self.inbox:
            self.inbox.remove(request)
            return
        if request.decoding:
            self._leave_decode(request)
        elif request in self.prefilling:
            self.prefilling.remove(request)
            self._free(request)
        else:
            self.waiting.remove(request)
            return
        self.running.remove(request)
        self._maybe_leak(request, "abort")

    # --- scheduling ----------------------------------------------------------------------

    def _preempt_last(self, now_s: float) -> Request:
        """Take the last running request's blocks; it starts over at the queue's front."""
        victim = self.running.pop()
        if victim.decoding:
            self._leave_decode(victim)
            victim.last_token_s = now_s
        else:
            self.prefilling.remove(victim)
            self._free(victim)
        victim.preemptions += 1
        victim.done = 0
        victim.blocks = 0
        self.waiting.appendleft(victim)
        return victim

    def _schedule(self, now_s: float) -> None:
        """Choose the next step (or run of steps) to begin at ``now_s``."""
        server, pool = self.server, self.pool
        self.head_blocked = None
        preempted = False
        while self.decoding:
            need = self.residues[self.token % server.block_size]
            if need <= pool.free:
                break
            self._preempt_last(now_s)
            preempted = True
        # The decodes book their blocks at the step's end; until then they are spoken for.
        reserved = self.residues[self.token % server.block_size] if self.decoding else 0
        budget = server.max_num_batched_tokens - self.decoding
        plan: list[tuple[Request, int]] = []
        index = 0
        while index < len(self.prefilling) and budget > 0:
            request = self.prefilling[index]
            tokens = self._chunk(request, budget)
            need = self._chunk_blocks(request, tokens)
            while need > pool.free - reserved:
                preempted = True
                victim = self._preempt_last(now_s)
                plan = [item for item in plan if item[0] is not victim]
                if victim is request:
                    break
                reserved = self.residues[self.token % server.block_size]
            if index < len(self.prefilling) and self.prefilling[index] is request:
                pool.take(need)
                request.blocks += need
                plan.append((request, tokens))
                budget -= tokens
                index += 1
        if not preempted:
            self._admit(plan, budget, reserved, now_s)
        if not plan and not self.decoding:
            self.was_idle = True
            if preempted and self.waiting:
                # Everything was preempted: the next step can admit again.
                self._admit(plan, budget, 0, now_s)
            if not plan:
                if self.waiting:  # vLLM keeps stepping, so its gauges show the stuck queue
                    self._gauges()
                return
        self._begin(plan, now_s, admit_again=preempted)

    def _chunk(self, request: Request, budget: int) -> int:
        tokens = min(request.target - request.done, budget)
        threshold = self.server.long_prefill_token_threshold
        return min(tokens, threshold) if threshold else tokens

    def _chunk_blocks(self, request: Request, tokens: int) -> int:
        return max(0, self._private_blocks(request, request.done + tokens) - request.blocks)

    def _admit(
        self, plan: list[tuple[Request, int]], budget: int, reserved: int, now_s: float
    ) -> None:
        """First come, first served: stop at the first request that does not fit."""
        server, pool = self.server, self.pool
        size = server.block_size
        room = pool.free - reserved
        keep = int(server.watermark * pool.total) if self.running else 0
        while self.waiting and budget > 0 and len(self.running) < server.max_num_seqs:
            request = self.waiting[0]
            request.target = request.prompt + request.generated
            shared, found, entry = self._cached(request)
            done = min(found * size, request.target - 1)
            request.done = done
            request.holds_group = shared > 0
            tokens = self._chunk(request, budget)
            whole = request.target if server.reserve_full_isl else done + tokens
            need = self._private_blocks(request, whole)
            if need + entry > room - keep:
                request.holds_group = False
                if server.enable_prefix_caching and not request.preemptions:
                    self.head_blocked = (request.prompt, done)
                return
            self.waiting.popleft()
            if shared:
                pool.join(request.group, shared)
            chunk = self._private_blocks(request, done + tokens)
            pool.take(chunk)
            room = pool.free - reserved
            request.blocks = chunk
            self.running.append(request)
            self.prefilling.append(request)
            plan.append((request, tokens))
            budget -= tokens
            self._count_lookup(request, done)
            if math.isnan(request.scheduled_s):
                request.scheduled_s = now_s
                request.cached = done
                request.computed = request.prompt - done

    def _cached(self, request: Request) -> tuple[int, int, int]:
        """(shared blocks to join, blocks with KV found, blocks to take for the shared ones)."""
        server, pool = self.server, self.pool
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
        if not self.server.enable_prefix_caching:
            return
        if request.preemptions == 0 or self.recompute_hits:
            self.tally.prefix_queries += request.target
            self.tally.prefix_hits += hits

    def _begin(
        self, plan: list[tuple[Request, int]], now_s: float, *, admit_again: bool
    ) -> None:
        """Start a step with prefill work, or a run of decode-only steps."""
        server, conditions = self.server, self.conditions
        model = server.step
        noise = math.exp(model.noise * self.rng.gauss(0.0, 1.0)) if model.noise else 1.0
        gpu = conditions.gpu_factor * noise
        host_s = conditions.host_step_s
        base_s = model.base_s
        tokens_per_step = 1.0
        if server.speculation:
            base_s *= 1.0 + server.speculation.tokens * server.speculation.draft_cost
            tokens_per_step += server.speculation.accepted(conditions.acceptance)
        fixed = (base_s + model.per_decode_seq_s * self.decoding) * gpu + host_s
        fixed = (fixed + model.per_context_token_s * gpu * self.context) * (
            conditions.pressure_factor
        )
        steps = 1
        growth = 0.0
        if plan:
            work = sum(model.prefill_s(tokens, request.done) for request, tokens in plan)
            # A mixed step advances its decodes by one token only, so with speculation it
            # bears only that token's share of the decode time.
            fixed = fixed / (tokens_per_step if self.decoding else 1.0) + work * gpu
        else:
            fixed /= tokens_per_step
            growth = (
                model.per_context_token_s
                * gpu
                * conditions.pressure_factor
                * self.decoding
                / tokens_per_step
            )
            # A step that preempted admits nobody, but the one after it may.
            steps = 1 if admit_again else min(self._first_finish(), self._steps_until_full())
        self.run = Run(
            start_s=now_s,
            steps=steps,
            fixed_s=fixed,
            growth_s=growth,
            prefills=plan,
            batch=self.decoding,
            tokens_per_step=tokens_per_step,
            gpu_share=max(0.0, 1.0 - host_s / tokens_per_step / fixed),
        )
        if conditions.hang == "busy" or (conditions.hang == "idle" and self.was_idle):
            self.hung = True
        self.was_idle = False

    def _first_finish(self) -> int:
        """Steps until the first decoding request is done."""
        while True:
            step, _, request = self.finishes[0]
            if request.decoding and request.finish_step == step:
                return max(1, step - self.token)
            heapq.heappop(self.finishes)

    def _steps_until_full(self) -> int:
        """Steps that can run before one would need a block that is not there."""
        free = self.pool.free
        cycles = free // self.decoding
        free -= cycles * self.decoding
        size = self.server.block_size
        steps = cycles * size
        for index in range(self.token, self.token + size):
            free -= self.residues[index % size]
            if free < 0:
                break
            steps += 1
        return max(1, steps)
