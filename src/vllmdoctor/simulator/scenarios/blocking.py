"""A few requests hold up the many, or the queue itself is stuck."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from vllmdoctor.simulator.load import LogNormal, OpenLoop, RequestClass, Uniform
from vllmdoctor.simulator.profiles import step
from vllmdoctor.simulator.scenario import Scenario
from vllmdoctor.simulator.scenarios.healthy import usual
from vllmdoctor.simulator.sizing import blocks_for, capacity

if TYPE_CHECKING:
    from vllmdoctor.simulator.draw import Draw
    from vllmdoctor.simulator.setup import Setup


def _long_steps(draw: Draw) -> Setup:
    """Rare, very long prompts under a big token budget: whole-prompt steps of many seconds."""
    era = draw.era(least=(0, 8, 4))
    kind = draw.chat(prompt=250, output=200)
    low = draw.whole(16000, 20000)
    giant = RequestClass(
        "giant",
        Uniform(low, low + 6000),
        LogNormal(60, 0.4, 8, 300),
        timeout_s=900,
        patience_sigma=0.6,
        max_tokens=512,
    )
    server = draw.server(era, blocks=blocks_for(kind, 18) + 4 * 1700, budget=32768)
    onset_s = draw.hours(4, 8)
    rate = draw.between(0.35, 0.45) * capacity(replace(server, max_num_seqs=20), kind)
    load = (
        OpenLoop(kind, rate, draw.profile()),
        OpenLoop(giant, 1 / draw.between(60, 90), step(onset_s, 0.02, 1.0)),
    )
    return draw.setup(era, server, load, onset_s=onset_s)


def _head_does_not_fit(draw: Draw) -> Setup:
    """First come, first served: a head that needs most of the pool stops all behind it."""
    era = draw.era(old=False, least=(0, 19, 0))
    kind = draw.chat(prompt=400, output=350)
    server = draw.server(era, blocks=max(1300, blocks_for(kind, 26)))
    need = round(server.kv_tokens * draw.between(0.72, 0.82))
    giant = RequestClass(
        "giant",
        Uniform(need - 500, need),
        LogNormal(60, 0.4, 8, 300),
        timeout_s=900,
        patience_sigma=0.6,
        max_tokens=512,
    )
    onset_s = draw.hours(4, 8)
    rate = draw.between(0.42, 0.5) * capacity(server, kind)
    load = (
        OpenLoop(kind, rate, draw.profile()),
        OpenLoop(giant, 1 / draw.between(110, 170), step(onset_s, 0.02, 1.0)),
    )
    return draw.setup(era, server, load, onset_s=onset_s)


def _context_exceeds_pool(draw: Draw) -> Setup:
    """Requests longer than the pool can ever hold sit at the queue's head until given up."""
    era = draw.era(old=False, least=(0, 19, 0))
    kind = draw.chat(prompt=400, output=260, timeout_s=240)
    server = draw.server(era, blocks=blocks_for(kind, 20), max_model_len=65536)
    huge = RequestClass(
        "huge",
        Uniform(server.kv_tokens + 500, server.kv_tokens + 6000),
        Uniform(50, 200),
        timeout_s=draw.between(300, 600),
        patience_sigma=0.6,
        max_tokens=512,
    )
    onset_s = draw.hours(4, 8)
    rate = draw.between(0.42, 0.5) * capacity(server, kind)
    load = (
        OpenLoop(kind, rate, draw.profile()),
        OpenLoop(huge, 1 / draw.between(1100, 1600), step(onset_s, 0.0, 1.0)),
    )
    return draw.setup(era, server, load, onset_s=onset_s)


def _harmless_long_prompts(draw: Draw) -> Setup:
    """The same long prompts under a small budget and a partial-prefill limit: nobody notices."""
    era = draw.era(least=(0, 8, 4))
    server, kind = usual(draw, era)
    giant = RequestClass(
        "giant",
        Uniform(9000, 12000),
        LogNormal(60, 0.4, 8, 300),
        timeout_s=900,
        patience_sigma=0.6,
        max_tokens=512,
    )
    server = replace(
        server,
        num_gpu_blocks=server.num_gpu_blocks + 3000,
        max_num_batched_tokens=2048,
        long_prefill_token_threshold=512,
    )
    onset_s = draw.hours(4, 8)
    rate = 0.4 * capacity(replace(server, max_num_seqs=18), kind)
    load = (
        OpenLoop(kind, rate, draw.profile()),
        OpenLoop(giant, 1 / draw.between(200, 300), step(onset_s, 0.1, 1.0)),
    )
    return draw.setup(era, server, load, onset_s=onset_s)


ALL = (
    Scenario(
        "hol-long-steps",
        "head_of_line",
        "rare giant prompts make steps of seconds",
        _long_steps,
        "long-prefill",
        ("prefill_bound",),
    ),
    Scenario(
        "hol-head-does-not-fit",
        "head_of_line",
        "the queue's head does not fit",
        _head_does_not_fit,
        "fcfs-head",
        ("overload",),
    ),
    Scenario(
        "context-exceeds-pool",
        "context_exceeds_pool",
        "a request larger than the pool blocks the queue",
        _context_exceeds_pool,
        "",
        ("head_of_line", "stall"),
    ),
    Scenario(
        "healthy-long-prompts-limited", "healthy", "long prompts in small chunks", _harmless_long_prompts
    ),
)
