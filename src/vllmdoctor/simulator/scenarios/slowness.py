"""Each step or each prompt costs more: GPU clock, host CPU, prefix cache, draft model."""

from __future__ import annotations

from dataclasses import replace

from vllmdoctor.simulator.draw import HOUR, Draw
from vllmdoctor.simulator.faults import AcceptanceDecay, HostCpuBound, PrefixLoss, Restart, Throttle
from vllmdoctor.simulator.load import LogNormal, OpenLoop, RequestClass
from vllmdoctor.simulator.profiles import step
from vllmdoctor.simulator.scenario import Scenario
from vllmdoctor.simulator.scenarios.healthy import usual
from vllmdoctor.simulator.server import Speculation
from vllmdoctor.simulator.setup import Companions, Setup
from vllmdoctor.simulator.sizing import blocks_for, capacity


def _throttled(draw: Draw, companions: Companions) -> Setup:
    era = draw.era()
    server, kind = usual(draw, era)
    kind = replace(kind, timeout_s=draw.between(150, 300))
    onset_s = draw.hours(4, 8)
    slowdown = draw.between(1.8, 2.4)
    rate = draw.between(0.6, 0.7) * capacity(server, kind)
    fault = Throttle(onset_s, slowdown, draw.between(60, 900))
    return draw.setup(
        era,
        server,
        (OpenLoop(kind, rate, draw.profile(sigma=0.03)),),
        faults=(fault,),
        onset_s=onset_s,
        companions=companions,
    )


def _throttle(draw: Draw) -> Setup:
    return _throttled(draw, Companions(cadvisor=True, dcgm=True))


def _throttle_blind(draw: Draw) -> Setup:
    return _throttled(draw, Companions(cadvisor=True))


def _throttle_quiet(draw: Draw) -> Setup:
    """The clock drops, but there is room: tokens come slower, no queue."""
    era = draw.era()
    server, kind = usual(draw, era)
    onset_s = draw.hours(4, 8)
    rate = draw.between(0.3, 0.36) * capacity(server, kind)
    fault = Throttle(onset_s, draw.between(1.5, 1.8), 300)
    return draw.setup(
        era,
        server,
        (OpenLoop(kind, rate, draw.profile(sigma=0.03)),),
        faults=(fault,),
        onset_s=onset_s,
        companions=Companions(dcgm=True),
    )


def _host_cpu(draw: Draw) -> Setup:
    era = draw.era()
    server, kind = usual(draw, era)
    kind = replace(kind, timeout_s=draw.between(150, 300))
    onset_s = draw.hours(4, 8)
    fault = HostCpuBound(onset_s, draw.between(0.045, 0.07), draw.between(0.1, 0.4), draw.between(0.45, 0.8))
    rate = draw.between(0.55, 0.65) * capacity(server, kind)
    return draw.setup(
        era,
        server,
        (OpenLoop(kind, rate, draw.profile(sigma=0.03)),),
        faults=(fault,),
        onset_s=onset_s,
        companions=Companions(cadvisor=True, cfs=True, dcgm=True),
    )


def _rag(draw: Draw, groups: int) -> RequestClass:
    return RequestClass(
        "rag",
        LogNormal(180, 0.4, 20, 1000),
        LogNormal(130, 0.4, 8, 800),
        prefix_tokens=draw.whole(160, 220) * 16,
        prefix_groups=groups,
        timeout_s=draw.between(90, 180),
        patience_sigma=0.6,
        max_tokens=1024,
    )


def _prefix_collapse(draw: Draw) -> Setup:
    """Cached prefixes are lost before they are asked for again: all is computed anew."""
    era = draw.era(least=(0, 8, 0))
    kind = _rag(draw, draw.whole(2, 4))
    server = draw.server(
        era, blocks=blocks_for(replace(kind, prefix_tokens=0), 24) + 8000, prefix=True, step=draw.step(1.5)
    )
    onset_s = draw.hours(4, 8)
    slots = replace(server, max_num_seqs=32)
    rate = draw.between(1.15, 1.4) * capacity(slots, kind, hit=0.0)
    fault = PrefixLoss(onset_s, draw.between(0.02, 0.12))
    return draw.setup(
        era, server, (OpenLoop(kind, rate, draw.profile(sigma=0.03)),), faults=(fault,), onset_s=onset_s
    )


def _prefix_eviction(draw: Draw) -> Setup:
    """More distinct prefixes than the pool can keep: they push each other out."""
    era = draw.era(least=(0, 8, 0))
    few = _rag(draw, draw.whole(3, 5))
    many = replace(few, name="many", prefix_groups=draw.whole(120, 200))
    server = draw.server(era, blocks=12 * few.prefix_tokens // 16 + 900, prefix=True)
    onset_s = draw.hours(4, 8)
    slots = replace(server, max_num_seqs=8)
    rate = draw.between(1.0, 1.15) * capacity(slots, few, hit=0.0)
    load = (
        OpenLoop(few, rate, draw.profile(step(onset_s, 1.0, 0.0), sigma=0.03)),
        OpenLoop(many, rate, draw.profile(step(onset_s, 0.0, 1.0), sigma=0.03)),
    )
    return draw.setup(era, server, load, onset_s=onset_s)


def _speculating(draw: Draw, restarts: bool) -> Setup:
    era = draw.era(old=False)
    kind = draw.chat(timeout_s=draw.between(200, 400), output=380)
    server = draw.server(
        era,
        blocks=blocks_for(kind, 18),
        speculation=Speculation(draw.whole(3, 4), draw.between(0.76, 0.85), 0.05),
    )
    rate = draw.between(0.45, 0.55) * capacity(server, kind)
    onset_s = draw.hours(1.5, 3)
    decay = AcceptanceDecay(onset_s, draw.between(0.12, 0.25), draw.hours(1.2, 2.2))
    again = (Restart(onset_s + 5 * HOUR, 0, 150),) if restarts else ()
    return draw.setup(
        era,
        server,
        (OpenLoop(kind, rate, draw.profile(sigma=0.03)),),
        faults=(decay, *again),
        onset_s=onset_s,
        uptime_s=0.0,
    )


def _spec_decay(draw: Draw) -> Setup:
    return _speculating(draw, restarts=False)


def _spec_decay_restart(draw: Draw) -> Setup:
    return _speculating(draw, restarts=True)


ALL = (
    Scenario("throttle", "gpu_throttle", "GPU clock down, DCGM sees it", _throttle, "", ("overload",)),
    Scenario(
        "throttle-blind",
        "gpu_throttle",
        "GPU clock down, no DCGM series",
        _throttle_blind,
        "",
        ("overload", "host_cpu_bound"),
    ),
    Scenario("throttle-no-queue", "gpu_throttle", "GPU clock down with room to spare", _throttle_quiet),
    Scenario(
        "host-cpu-bound",
        "host_cpu_bound",
        "the host's CPU quota slows every step",
        _host_cpu,
        "",
        ("overload",),
    ),
    Scenario(
        "prefix-collapse",
        "prefix_cache_collapse",
        "cached prefixes are lost",
        _prefix_collapse,
        "",
        ("prefill_bound", "overload"),
    ),
    Scenario(
        "prefix-eviction",
        "prefix_cache_collapse",
        "too many prefixes for the pool",
        _prefix_eviction,
        "",
        ("prefill_bound", "overload"),
    ),
    Scenario(
        "spec-decay",
        "spec_decode_decay",
        "draft acceptance falls with uptime",
        _spec_decay,
        "",
        ("overload",),
    ),
    Scenario(
        "spec-decay-restart",
        "spec_decode_decay",
        "a restart restores the acceptance",
        _spec_decay_restart,
        "",
        ("overload", "restart"),
    ),
)
