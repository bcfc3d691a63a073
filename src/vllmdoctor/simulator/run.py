"""A run of engine steps in closed form."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from vllmdoctor.simulator.request import Request


class Run:
    """``steps`` steps from ``start_s``; the i-th (from 0) takes ``fixed_s + i * growth_s``.

    ``done`` of them are booked. The growth is the context that each decode step adds.
    """

    __slots__ = (
        "batch",
        "done",
        "end_s",
        "fixed_s",
        "gpu_share",
        "growth_s",
        "prefills",
        "start_s",
        "steps",
        "tokens_per_step",
    )

    def __init__(
        self,
        *,
        start_s: float,
        steps: int,
        fixed_s: float,
        growth_s: float,
        prefills: list[tuple[Request, int]],
        batch: int,
        tokens_per_step: float,
        gpu_share: float,
    ) -> None:
        self.start_s = start_s
        self.steps = steps
        self.fixed_s = fixed_s
        self.growth_s = growth_s
        self.prefills = prefills
        self.batch = batch
        self.tokens_per_step = tokens_per_step
        self.gpu_share = gpu_share
        self.done = 0
        self.end_s = self.at(steps)

    def at(self, step: int) -> float:
        """When ``step`` steps have ended [s]."""
        return self.start_s + step * (self.fixed_s + 0.5 * self.growth_s * (step - 1))

    def steps_by(self, t_s: float) -> int:
        """How many steps have ended by ``t_s``, counting those already booked."""
        if t_s >= self.end_s:
            return self.steps
        elapsed = t_s - self.start_s
        if elapsed <= 0:
            return self.done
        if self.growth_s <= 0:
            steps = int(elapsed / self.fixed_s)
        else:
            b = self.fixed_s - 0.5 * self.growth_s
            steps = int((math.sqrt(b * b + 2 * self.growth_s * elapsed) - b) / self.growth_s)
        # Guard the closed form against rounding.
        while steps > 0 and self.at(steps) > t_s:
            steps -= 1
        while steps < self.steps and self.at(steps + 1) <= t_s:
            steps += 1
        return max(self.done, min(steps, self.steps))

    def cut(self, t_s: float) -> None:
        """End the run with the step in progress at ``t_s``."""
        steps = min(self.steps, max(self.done, self.steps_by(t_s)) + 1)
        if steps < self.steps:
            self.steps = steps
            self.end_s = self.at(steps)
