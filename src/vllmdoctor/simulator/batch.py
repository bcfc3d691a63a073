"""The running batch and its KV blocks.

While decoding, a request is two numbers relative to the batch's token counter, so a run of many
steps touches no request: its KV length is ``offset + token``, and it needs a new block in the
steps whose number modulo the block size is its ``residue``.
"""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING

from vllmdoctor.simulator.blocks import BlockPool

if TYPE_CHECKING:
    from vllmdoctor.simulator.request import Request
    from vllmdoctor.simulator.server import Server


class Batch:
    """Requests with a sequence slot, in order of admission."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.pool = BlockPool(server.num_gpu_blocks - 1)  # one is vLLM's null block
        self.running: list[Request] = []
        self.prefilling: list[Request] = []
        self.decoding = 0
        self.context = 0
        """KV tokens of the decoding requests."""
        self.token = 0
        """Decode steps so far (tokens per decoding sequence)."""
        self.residues = [0] * server.block_size
        self.finishes: list[tuple[int, int, Request]] = []
        self.sequence = 0

    @property
    def due(self) -> int:
        """Blocks the next decode step needs."""
        return self.residues[self.token % self.server.block_size]

    def decode(self, steps: int) -> None:
        """Book ``steps`` decode steps: tokens, context and blocks."""
        size, residues = self.server.block_size, self.residues
        cycles, rest = divmod(steps, size)
        blocks = cycles * self.decoding
        for index in range(self.token, self.token + rest):
            blocks += residues[index % size]
        if blocks:
            self.pool.take(blocks)
        self.token += steps
        self.context += self.decoding * steps

    def join_decode(self, request: Request) -> None:
        """A request whose prefill is done starts decoding."""
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

    def leave_decode(self, request: Request) -> None:
        """Stop decoding and give the blocks back."""
        length = request.offset + self.token
        request.decoding = False
        request.generated = length - request.prompt + 1
        self.residues[request.residue] -= 1
        self.decoding -= 1
        self.context -= length
        request.blocks = self.private_blocks(request, length)
        self.free(request)

    def finished(self) -> list[Request]:
        """Take out the requests that have sampled their last token."""
        done: list[Request] = []
        while self.finishes and self.finishes[0][0] <= self.token:
            request = heapq.heappop(self.finishes)[2]
            # An entry from before a preemption is stale.
            if request.decoding and request.finish_step == self.token:
                self.leave_decode(request)
                done.append(request)
        return done

    def private_blocks(self, request: Request, length: int) -> int:
        """Blocks of its own that a request with ``length`` KV tokens holds."""
        size = self.server.block_size
        shared = request.kind.prefix_tokens // size if request.holds_group else 0
        return max(0, -(-length // size) - shared) + self.server.extra_blocks_per_seq

    def free(self, request: Request) -> None:
        """Give a request's blocks back; where in the free list they lie is remembered."""
        request.freed_mark = self.pool.allocated
        request.freed_room = self.pool.free
        self.pool.release(request.blocks)
        if request.holds_group:
            self.pool.leave(request.group)
            request.holds_group = False

    def preempt_last(self, now_s: float) -> Request:
        """Take the last running request out; it has to start over."""
        victim = self.running.pop()
        if victim.decoding:
            self.leave_decode(victim)
            victim.last_token_s = now_s
        else:
            self.prefilling.remove(victim)
            self.free(victim)
        victim.preemptions += 1
        victim.done = 0
        victim.blocks = 0
        return victim

    def first_finish(self) -> int:
        """Steps until the first decoding request is done."""
        while True:
            step, _, request = self.finishes[0]
            if request.decoding and request.finish_step == step:
                return max(1, step - self.token)
            heapq.heappop(self.finishes)

    def steps_until_full(self) -> int:
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
