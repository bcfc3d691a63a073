"""One engine: continuous batching over a paged KV pool, fast-forwarded between events.

A step is simulated one by one while it carries prefill work. A batch that only decodes is
advanced by as many steps as fit before the next event (first finish, block exhaustion, an
arrival that could be admitted, the moment asked for), in closed form.
"""

from __future__ import annotations

import math
from collections import deque
from typing import TYPE_CHECKING

from vllmdoctor.simulator.batch import Batch
from vllmdoctor.simulator.conditions import Conditions
from vllmdoctor.simulator.run import Run
from vllmdoctor.simulator.scheduler import Scheduler

if TYPE_CHECKING:
    from collections.abc import Callable
    from random import Random

    from vllmdoctor.simulator.request import Request
    from vllmdoctor.simulator.server import Server
    from vllmdoctor.simulator.tally import Tally


class Engine:
    """Steps, queues and pool of one engine; ``on_end`` is told of every finished request."""

    def __init__(
        self,
        server: Server,
        tally: Tally,
        rng: Random,
        on_end: Callable[[Request, float], None],
        *,
        requery: bool = False,
        recompute_hits: bool = False,
        iteration_with_cached: bool = False,
    ) -> None:
        self.server = server
        self.tally = tally
        self.rng = rng
        self.on_end = on_end
        self.requery = requery
        """vLLM < 0.27 counts prefix queries of a blocked queue head in every step."""
        self.iteration_with_cached = iteration_with_cached
        """vLLM < 0.23 counts cached prompt tokens in a step's tokens."""
        self.conditions = Conditions()
        self.batch = Batch(server)
        self.scheduler = Scheduler(self.batch, tally, rng, recompute_hits=recompute_hits)
        self.inbox: deque[Request] = deque()
        """Requests that came during a step and have not reached the scheduler."""
        self.to_abort: list[Request] = []
        self.run: Run | None = None
        self.was_idle = True
        self.hung = False
        self.lost = 0

    # --- outside world -------------------------------------------------------------------

    @property
    def in_flight(self) -> int:
        """Requests this engine holds."""
        return len(self.batch.running) + len(self.scheduler.waiting) + len(self.inbox)

    def next_end_s(self) -> float:
        """When the present run of steps ends [s]; infinity when idle or hung."""
        return self.run.end_s if self.run and not self.hung else math.inf

    def drop_all(self) -> list[Request]:
        """The process is gone; the requests it held."""
        lost = [*self.batch.running, *self.scheduler.waiting, *self.inbox]
        self.run = None
        return lost

    def submit(self, request: Request, now_s: float) -> None:
        """A request reaches the engine at ``now_s`` (call ``advance`` up to it first)."""
        self.inbox.append(request)
        if self.run is None:
            self._take_inbox(now_s)
            self._schedule(now_s)
        elif not self.scheduler.waiting:
            # Behind a queue head that does not fit, a newcomer changes nothing.
            self.run.cut(now_s)

    def abort(self, request: Request, now_s: float) -> None:
        """The client has gone; the request leaves at the next step boundary."""
        request.aborted = True
        if self.run is None:
            self._remove(request)
            self._gauges()
            self._schedule(now_s)
            return
        self.to_abort.append(request)
        self.run.cut(now_s)

    def set_conditions(self, conditions: Conditions, now_s: float) -> None:
        """New surroundings from ``now_s`` on."""
        old = self.conditions
        self.conditions = self.scheduler.conditions = conditions
        if self.run and conditions.speed != old.speed:
            self.run.cut(now_s)
        if conditions.hang == "busy" and self.run:
            self.hung = True
        if conditions.lost_fraction:
            pool = self.batch.pool
            want = int(conditions.lost_fraction * pool.total) - self.lost
            # The step in progress already owns the blocks it will book at its end.
            spare = pool.free - self.batch.decoding
            if want > 0 and spare > 0:
                self.lost += pool.leak(min(want, spare))
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
        first_s, ended_s = run.at(run.done + 1), run.at(upto)
        spent_s = ended_s - run.at(run.done)
        run.done = upto
        tally, sequences = self.tally, self.batch.decoding
        tally.busy_s += spent_s * run.gpu_share
        if sequences:
            self.batch.decode(count)
            # With speculation one step yields several tokens; counts are then fractions.
            events = count / run.tokens_per_step
            tally.generation_tokens += sequences * count
            tally.itl.observe(spent_s / events, sequences * events)
            if not run.prefills:
                tally.iteration.observe(sequences * run.tokens_per_step, events)
            if self.server.speculation:
                tally.count_drafts(
                    sequences * events, self.server.speculation.tokens, self.conditions.acceptance
                )
        if self.requery and self.scheduler.head_blocked:
            queries, hits = self.scheduler.head_blocked
            tally.prefix_queries += queries * count
            tally.prefix_hits += hits * count
        # Requests that came during the first of these steps reach the scheduler at its end,
        # so that one step's gauges miss them.
        if count > 1:
            self._take_inbox(first_s)
        if run.done < run.steps:
            self._gauges()
            self._take_inbox(ended_s)

    def _after(self, run: Run) -> None:
        """The last step of ``run`` has ended: finishes, first tokens, aborts, gauges."""
        now_s = run.end_s
        for request in self.batch.finished():
            self._finish(request, now_s)
        prompt_tokens = sampled = 0
        for request, tokens in run.prefills:
            request.done += tokens
            if request.done < request.target:
                continue
            sampled += 1
            if not request.generated:
                prompt_tokens += request.prompt if self.iteration_with_cached else request.computed
            self._end_prefill(request, now_s)
        if run.prefills:
            self.tally.iteration.observe(prompt_tokens + sampled + run.batch)
        for request in self.to_abort:
            if request.engine is self:
                self._remove(request)
        self.to_abort.clear()
        self._gauges()
        self._take_inbox(now_s)

    def _end_prefill(self, request: Request, now_s: float) -> None:
        """A prefill (or the recompute after a preemption) has sampled its token."""
        batch = self.batch
        batch.prefilling.remove(request)
        self.tally.sample(request, now_s)
        if request.generated >= request.output:
            batch.free(request)
            self._finish(request, now_s)
        else:
            batch.join_decode(request)

    def _finish(self, request: Request, now_s: float) -> None:
        self.batch.running.remove(request)
        request.engine = None
        self.tally.finish(request, now_s)
        self._maybe_leak(request, "finish")
        self.on_end(request, now_s)

    def _gauges(self) -> None:
        tally = self.tally
        tally.running = len(self.batch.running)
        tally.waiting = len(self.scheduler.waiting)
        tally.usage = self.batch.pool.usage

    def _take_inbox(self, now_s: float) -> None:
        while self.inbox:
            request = self.inbox.popleft()
            request.queued_s = now_s
            self.scheduler.waiting.append(request)

    def _maybe_leak(self, request: Request, how: str) -> None:
        pool = self.batch.pool
        for leak in self.conditions.leaks:
            if leak.on == how and self.rng.random() < leak.probability:
                pinned = min(request.blocks, max(1, round(self.rng.expovariate(1 / leak.blocks))))
                if pool.leaked + pinned <= leak.ceiling * pool.total:
                    pool.leak(pinned)

    def _remove(self, request: Request) -> None:
        """An aborted request leaves, wherever it is; no counter hears of it."""
        request.engine = None
        if request in self.inbox:
            self.inbox.remove(request)
            return
        if request.decoding:
            self.batch.leave_decode(request)
        elif request in self.batch.prefilling:
            self.batch.prefilling.remove(request)
            self.batch.free(request)
        else:
            self.scheduler.waiting.remove(request)
            return
        self.batch.running.remove(request)
        self._maybe_leak(request, "abort")

    # --- steps that begin ----------------------------------------------------------------

    def _schedule(self, now_s: float) -> None:
        """Choose the next step (or run of steps) to begin at ``now_s``."""
        plan = self.scheduler.next_step(now_s)
        if plan or self.batch.decoding:
            self._begin(plan, now_s)
            return
        self.was_idle = True
        if self.scheduler.waiting:  # vLLM keeps stepping, so its gauges show the stuck queue
            self._gauges()

    def _begin(self, plan: list[tuple[Request, int]], now_s: float) -> None:
        """Start a step with prefill work, or a run of decode-only steps."""
        server, conditions, batch = self.server, self.conditions, self.batch
        model, speculation = server.step, server.speculation
        noise = math.exp(model.noise * self.rng.gauss(0.0, 1.0)) if model.noise else 1.0
        gpu = conditions.gpu_factor * conditions.pressure_factor * noise
        decode_s = model.decode_s(batch.decoding, batch.context)
        tokens_per_step = 1.0
        if speculation:
            decode_s += model.base_s * speculation.tokens * speculation.draft_cost
            tokens_per_step += speculation.accepted(conditions.acceptance)
        # A run counts in tokens, so with speculation each bears its share of a step. A mixed
        # step advances its decodes by one token only and bears that share, too.
        share = tokens_per_step if batch.decoding else 1.0
        host_s = conditions.host_step_s / share
        fixed_s = decode_s * gpu / share + host_s
        steps, growth_s = 1, 0.0
        if plan:
            fixed_s += gpu * sum(model.prefill_s(tokens, request.done) for request, tokens in plan)
        else:
            growth_s = model.per_context_token_s * gpu * batch.decoding / share
            # A step that preempted admits nobody, but the one after it may.
            if not self.scheduler.preempted:
                steps = min(batch.first_finish(), batch.steps_until_full())
        self.run = Run(
            start_s=now_s,
            steps=steps,
            fixed_s=fixed_s,
            growth_s=growth_s,
            prefills=plan,
            batch=batch.decoding,
            tokens_per_step=tokens_per_step,
            gpu_share=max(0.0, 1.0 - host_s / fixed_s),
        )
        if conditions.hang == "busy" or (conditions.hang == "idle" and self.was_idle):
            self.hung = True
        self.was_idle = False
