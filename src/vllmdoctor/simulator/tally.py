"""What an engine counts, in the semantics of vLLM's own metrics (names come later)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vllmdoctor.simulator import histogram as h
from vllmdoctor.simulator.histogram import Histogram

if TYPE_CHECKING:
    from vllmdoctor.simulator.request import Request

FINISHED = ("stop", "length", "abort", "error", "repetition")


class Tally:
    """Counters, gauges and histograms of one engine since its process started.

    Histograms of requests know finished requests only; gauges hold the state at the end of the
    last step and freeze when no step ends.
    """

    def __init__(self, max_model_len: int, *, old_bounds: bool) -> None:
        ttft = h.TTFT_OLD if old_bounds else h.TTFT
        itl = h.ITL_OLD if old_bounds else h.ITL
        latency = h.LATENCY_OLD if old_bounds else h.LATENCY
        counts = h.token_counts(max_model_len)
        self.running = 0
        self.waiting = 0
        self.usage = 0.0
        self.prompt_tokens = 0.0
        self.computed_tokens = 0.0
        self.generation_tokens = 0.0
        self.prefix_queries = 0.0
        self.prefix_hits = 0.0
        self.preemptions = 0.0
        self.drafts = 0.0
        self.accepted_by_position: list[float] = []
        self.success = dict.fromkeys(FINISHED, 0.0)
        self.ttft = Histogram(ttft)
        self.itl = Histogram(itl)
        self.tpot = Histogram(itl)
        self.e2e = Histogram(latency)
        self.queue = Histogram(latency)
        self.prefill = Histogram(latency)
        self.decode = Histogram(latency)
        self.inference = Histogram(latency)
        self.iteration = Histogram(h.ITERATION)
        self.prompt = Histogram(counts)
        self.generation = Histogram(counts)
        self.max_tokens = Histogram(counts)
        self.computed = Histogram(counts)
        self.params_n = Histogram(h.PARAMS_N)
        self.preempted = Histogram(h.PREEMPTIONS)
        self.busy_s = 0.0
        """GPU time of the steps so far, the host's part left out [s]."""

    def count_drafts(self, drafts: float, tokens: int, acceptance: float) -> None:
        """``drafts`` sequences-times-steps of ``tokens`` drafted tokens each."""
        if not self.accepted_by_position:
            self.accepted_by_position = [0.0] * tokens
        self.drafts += drafts
        for position in range(tokens):
            self.accepted_by_position[position] += drafts * acceptance ** (position + 1)

    def sample(self, request: Request, now_s: float) -> None:
        """A prefill has ended at ``now_s`` with a token: the first one, or one after a recompute.

        Recomputed prompt tokens are not counted again; preemptions are counted only now, since
        their events travel with the request's next output.
        """
        if not request.generated:
            request.first_token_s = now_s
            self.ttft.observe(now_s - request.arrival_s)
            self.prompt_tokens += request.prompt
            self.computed_tokens += request.computed
        else:
            self.itl.observe(now_s - request.last_token_s)
        self.preemptions += request.preemptions - request.preemptions_seen
        request.preemptions_seen = request.preemptions
        request.generated += 1
        self.generation_tokens += 1

    def finish(self, request: Request, now_s: float) -> None:
        """A request ended by itself at ``now_s``."""
        limit = request.kind.max_tokens or request.output
        self.success["length" if request.output >= limit else "stop"] += 1
        self.e2e.observe(now_s - request.arrival_s)
        self.queue.observe(max(0.0, request.scheduled_s - request.queued_s))
        self.prefill.observe(request.first_token_s - request.scheduled_s)
        decode_s = now_s - request.first_token_s
        self.decode.observe(decode_s)
        self.inference.observe(now_s - request.scheduled_s)
        if request.output > 1:
            self.tpot.observe(decode_s / (request.output - 1))
        self.prompt.observe(request.prompt)
        self.generation.observe(request.output)
        self.max_tokens.observe(limit)
        self.computed.observe(request.computed)
        self.params_n.observe(1)
        self.preempted.observe(request.preemptions)
