"""What a simulated vLLM server is made of: scheduler limits, KV pool, step-time model."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class StepModel:
    """Time of one engine step, linear in the work it carries.

    ``t = base + per_prefill_token * prefill tokens + per_decode_seq * decoding sequences
    + per_context_token * their KV tokens + per_prefill_pair * (query, key) pairs of prefill``

    All coefficients are seconds; ``noise`` is the sigma of a lognormal factor on each step
    (or on each run of identical steps).
    """

    base_s: float = 0.030
    per_prefill_token_s: float = 0.00020
    per_decode_seq_s: float = 0.00020
    per_context_token_s: float = 2.0e-7
    per_prefill_pair_s: float = 0.0
    noise: float = 0.04

    def decode_s(self, sequences: int, context_tokens: float) -> float:
        """Mean time [s] of a step that only decodes."""
        return self.base_s + self.per_decode_seq_s * sequences + self.per_context_token_s * context_tokens

    def prefill_s(self, tokens: int, done_before: int) -> float:
        """Time [s] that a prefill chunk of ``tokens`` adds to a step."""
        pairs = tokens * (done_before + 0.5 * tokens)
        return self.per_prefill_token_s * tokens + self.per_prefill_pair_s * pairs


@dataclass(frozen=True, slots=True)
class Speculation:
    """Speculative decoding: ``tokens`` drafted a step, each accepted with ``acceptance``."""

    tokens: int = 3
    acceptance: float = 0.75
    draft_cost: float = 0.08
    """Extra step time per drafted token, as a fraction of the base time."""

    def accepted(self, acceptance: float) -> float:
        """Mean accepted draft tokens per step (a draft stops at its first rejection)."""
        return sum(acceptance**i for i in range(1, self.tokens + 1))


@dataclass(frozen=True, slots=True)
class Server:
    """Parameters of one engine, named as vLLM's flags where a flag exists."""

    num_gpu_blocks: int = 2000
    block_size: int = 16
    max_num_seqs: int = 256
    max_num_batched_tokens: int = 8192
    long_prefill_token_threshold: int = 0
    """0 = off, as in vLLM."""
    threshold_spares_lone_request: bool = False
    """A request alone in the scheduler is prefilled without that threshold (vLLM >= 0.32)."""
    max_model_len: int = 32768
    enable_prefix_caching: bool = True
    reserve_full_isl: bool = True
    """Admit a request only when its whole prompt fits (vLLM >= 0.19)."""
    watermark: float = 0.0
    """Fraction of the pool that admission keeps free (vLLM >= 0.24)."""
    extra_blocks_per_seq: int = 0
    """Pages each request pins whatever its length (hybrid models' padding)."""
    speculation: Speculation | None = None
    gpu_memory_utilization: float = 0.90
    gpu_memory_bytes: float = 80 * 2**30
    step: StepModel = field(default_factory=StepModel)
    frontend_s: float = 0.004
    """API-server time [s] before the engine sees a request (HTTP, tokenisation)."""

    def __post_init__(self) -> None:
        if self.max_num_batched_tokens < self.max_num_seqs:
            raise ValueError("max_num_batched_tokens must be >= max_num_seqs")

    @property
    def kv_tokens(self) -> int:
        """Tokens the KV pool can hold."""
        return self.num_gpu_blocks * self.block_size
