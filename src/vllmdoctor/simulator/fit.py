"""Fitting the step-time model to what a server's own counters say."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from vllmdoctor.simulator.server import StepModel

if TYPE_CHECKING:
    from collections.abc import Sequence

_NEEDED = 8


@dataclass(frozen=True, slots=True)
class BusyInterval:
    """Work done between two scrapes during which the engine never idled."""

    seconds: float
    steps: float
    """Increase of ``iteration_tokens_total_count``."""
    prefill_tokens: float
    """Increase of the prompt tokens computed (cached ones left out)."""
    decode_tokens: float
    """Increase of the generation tokens."""
    context_token_steps: float
    """Mean KV tokens of the running requests, times the steps."""
    prefill_pairs: float = 0.0
    """(query, key) pairs of the prefills: half the squared prompt length, summed; 0 = unknown."""

    def seconds_by(self, model: StepModel) -> float:
        """Time [s] that ``model`` gives to this work."""
        return (
            model.base_s * self.steps
            + model.per_prefill_token_s * self.prefill_tokens
            + model.per_decode_seq_s * self.decode_tokens
            + model.per_context_token_s * self.context_token_steps
            + model.per_prefill_pair_s * self.prefill_pairs
        )


def fit_step_model(intervals: Sequence[BusyInterval], *, noise: float = 0.05) -> StepModel:
    """Least squares for ``seconds = base*steps + a*prefill + b*decode + c*context + d*pairs``.

    A coefficient that comes out negative is fixed at zero and the others are fitted again:
    work never takes negative time. Raises ``ValueError`` with fewer than 8 intervals.
    """
    if len(intervals) < _NEEDED:
        raise ValueError(f"need at least {_NEEDED} busy intervals, got {len(intervals)}")
    seconds = np.array([each.seconds for each in intervals])
    work = np.array(
        [
            (
                each.steps,
                each.prefill_tokens,
                each.decode_tokens,
                each.context_token_steps,
                each.prefill_pairs,
            )
            for each in intervals
        ]
    )
    # Columns differ by orders of magnitude; scaling keeps the solution stable.
    scale = np.maximum(work.max(axis=0), 1e-12)
    active = [column for column in range(work.shape[1]) if work[:, column].any()]
    solution = np.zeros(work.shape[1])
    while active:
        found, *_ = np.linalg.lstsq(work[:, active] / scale[active], seconds, rcond=None)
        if (found >= 0).all():
            solution[active] = found / scale[active]
            break
        active.pop(int(found.argmin()))
    return StepModel(
        base_s=float(solution[0]),
        per_prefill_token_s=float(solution[1]),
        per_decode_seq_s=float(solution[2]),
        per_context_token_s=float(solution[3]),
        per_prefill_pair_s=float(solution[4]),
        noise=noise,
    )
