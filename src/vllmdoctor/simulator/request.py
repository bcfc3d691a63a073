"""One request on its way through a simulated server."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from vllmdoctor.simulator.load import RequestClass


class Request:
    """Mutable state of a request; times in seconds of the simulation clock."""

    __slots__ = (
        "aborted",
        "arrival_s",
        "blocks",
        "client",
        "computed",
        "decoding",
        "done",
        "engine",
        "finish_step",
        "first_token_s",
        "freed_mark",
        "freed_room",
        "generated",
        "group",
        "holds_group",
        "kind",
        "last_token_s",
        "offset",
        "output",
        "patience_s",
        "preemptions",
        "preemptions_seen",
        "prompt",
        "queued_s",
        "residue",
        "scheduled_s",
        "target",
    )

    def __init__(
        self,
        kind: RequestClass,
        arrival_s: float,
        prompt: int,
        output: int,
        group: int = -1,
        client: int = -1,
    ) -> None:
        self.kind = kind
        self.arrival_s = arrival_s
        self.prompt = prompt
        self.output = output
        self.group = group
        self.client = client
        self.engine: object | None = None
        self.patience_s = math.inf
        """The client gives up this long after ``arrival_s``."""
        self.queued_s = math.nan
        self.scheduled_s = math.nan
        self.first_token_s = math.nan
        self.last_token_s = math.nan
        self.aborted = False
        self.decoding = False
        self.generated = 0
        """Tokens sampled so far, valid while not decoding."""
        self.done = 0
        """Tokens of the present prefill that have their KV."""
        self.target = prompt
        """Tokens the present prefill must reach (prompt + generated after a preemption)."""
        self.computed = 0
        """Prompt tokens not found in the prefix cache at first admission."""
        self.blocks = 0
        """Private KV blocks, valid while not decoding."""
        self.holds_group = False
        self.offset = 0
        """While decoding: KV length = offset + the engine's token counter."""
        self.residue = 0
        self.finish_step = 0
        self.preemptions = 0
        self.preemptions_seen = 0
        self.freed_mark = 0
        self.freed_room = -1
