"""Random choices that scenarios share: versions, servers, traffic, scraping."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING

from vllmdoctor.simulator.load import LogNormal, RequestClass, Stream
from vllmdoctor.simulator.profiles import Product, Profile, Wander
from vllmdoctor.simulator.server import Server, Speculation, StepModel
from vllmdoctor.simulator.setup import GIB, Companions, Era, Host, Scrape, Setup

if TYPE_CHECKING:
    from vllmdoctor.simulator.faults import Fault

HOUR = 3600.0
V1 = ((0, 12, 0), (0, 14, 0), (0, 16, 0), (0, 19, 1), (0, 22, 1), (0, 26, 0), (0, 28, 0), (0, 32, 0))
V1_EARLY = ((0, 8, 5), (0, 9, 1), (0, 10, 0))
V0 = ((0, 6, 6),)
MODELS = ("llama-3-70b", "qwen2.5-72b-instruct", "mistral-large", "meta-llama/Llama-3.1-70B")


class Draw:
    """A seeded source of scenario details."""

    def __init__(self, seed: str) -> None:
        self.rng = Random(seed)

    def between(self, low: float, high: float) -> float:
        """A uniform number."""
        return self.rng.uniform(low, high)

    def whole(self, low: int, high: int) -> int:
        """A whole number, both ends included."""
        return self.rng.randint(low, high)

    def hours(self, low: float, high: float) -> float:
        """A time [s] between two numbers of hours."""
        return round(self.rng.uniform(low, high) * HOUR, 1)

    def era(self, *, old: bool = True, least: tuple[int, int, int] = (0, 0, 0)) -> Era:
        """A version: mostly recent; with ``old`` sometimes early V1 or V0."""
        mark = self.rng.random()
        pool: tuple[tuple[int, int, int], ...] = V1
        if old and mark < 0.10:
            pool = V0
        elif old and mark < 0.28:
            pool = V1_EARLY
        known = [version for version in pool if version >= least] or list(V1)
        return Era(self.rng.choice(known))

    def step(self, factor: float = 1.0, *, per_seq: float = 1.0) -> StepModel:
        """Step times of a large model on a few GPUs, give or take a quarter."""
        scale = factor * self.between(0.8, 1.25)
        return StepModel(
            base_s=0.030 * scale,
            per_prefill_token_s=0.00020 * scale,
            per_decode_seq_s=0.00020 * scale * per_seq,
            per_context_token_s=2.0e-7 * scale,
            per_prefill_pair_s=4.0e-9 * scale,
            noise=self.between(0.02, 0.08),
        )

    def server(
        self,
        era: Era,
        *,
        blocks: int,
        step: StepModel | None = None,
        seqs: int = 256,
        budget: int = 8192,
        prefix: bool | None = None,
        speculation: Speculation | None = None,
        max_model_len: int = 32768,
    ) -> Server:
        """A server as that version would run it."""
        version = era.version
        recent = version >= (0, 20, 0)
        return Server(
            num_gpu_blocks=blocks,
            max_num_seqs=seqs,
            max_num_batched_tokens=max(budget, seqs),
            max_model_len=max_model_len,
            enable_prefix_caching=version >= (0, 8, 0) if prefix is None else prefix,
            # V0 allocated whole prompts; V1 checks only the first chunk before 0.19.
            reserve_full_isl=version >= (0, 19, 0) or version < (0, 8, 0),
            threshold_spares_lone_request=version >= (0, 32, 0),
            speculation=speculation,
            gpu_memory_utilization=0.92 if recent else 0.90,
            step=step or self.step(),
            frontend_s=self.between(0.003, 0.012),
        )

    def chat(
        self,
        name: str = "chat",
        *,
        timeout_s: float = 600.0,
        prompt: float = 900.0,
        output: float = 260.0,
        spread: float = 0.55,
    ) -> RequestClass:
        """Chat traffic: lognormal prompts and outputs [tokens], medians give or take a fifth."""
        return RequestClass(
            name,
            LogNormal(prompt * self.between(0.8, 1.2), spread, 30, 8000),
            LogNormal(output * self.between(0.8, 1.2), 0.5, 8, 2000),
            timeout_s=timeout_s,
            patience_sigma=0.6,
            max_tokens=2048 if self.rng.random() < 0.7 else 0,
        )

    def wander(self, sigma: float = 0.05) -> Wander:
        """Slow random demand of this seed."""
        return Wander(sigma, self.between(600, 2400), self.whole(1, 1_000_000))

    def profile(self, *parts: Profile, sigma: float = 0.05) -> Profile:
        """The given changes over a slowly wandering demand."""
        return Product((*parts, self.wander(sigma)))

    def setup(
        self,
        era: Era,
        server: Server,
        load: tuple[Stream, ...],
        *,
        faults: tuple[Fault, ...] = (),
        onset_s: float | None = None,
        effect_s: float | None = None,
        hours: float | None = None,
        pods: int = 1,
        engines: int = 1,
        companions: Companions | None = None,
        host: Host | None = None,
        gaps: tuple[tuple[float, float], ...] = (),
        missed: float = 0.002,
        uptime_s: float | None = None,
    ) -> Setup:
        """Fill in what the scenario leaves open; cAdvisor and DCGM come and go by seed."""
        if companions is None:
            companions = Companions(
                up=self.rng.random() < 0.8,
                cadvisor=self.rng.random() < 0.5,
                cfs=self.rng.random() < 0.4,
                dcgm=self.rng.random() < 0.5,
            )
        interval_s = self.rng.choice((15.0, 30.0, 30.0, 30.0, 60.0)) if pods == 1 else 30.0
        base = host or Host()
        scale = self.between(0.9, 1.15)
        host = replace(
            base,
            api_bytes=base.api_bytes * scale,
            engine_bytes=base.engine_bytes * scale,
            idle_temperature_c=base.idle_temperature_c + self.between(-4, 6),
        )
        return Setup(
            server=server,
            load=load,
            faults=faults,
            duration_s=(hours or self.between(10.0, 14.0)) * HOUR,
            pods=pods,
            engines=engines,
            era=era,
            model_name=self.rng.choice(MODELS),
            host=host,
            scrape=Scrape(interval_s, 0.02, missed, gaps),
            companions=companions,
            start_unix_s=float(1_790_000_000 + self.whole(0, 60) * 86_400 + self.whole(0, 86_399)),
            uptime_s=self.hours(0.5, 40) if uptime_s is None else uptime_s,
            onset_s=onset_s,
            effect_s=effect_s,
        )


__all__ = ["GIB", "HOUR", "Draw"]
