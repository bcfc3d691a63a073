"""Two things at once."""

from __future__ import annotations

from dataclasses import replace

from vllmdoctor.simulator.draw import GIB, HOUR, Draw
from vllmdoctor.simulator.faults import HostMemoryLeak, Throttle
from vllmdoctor.simulator.load import LogNormal, OpenLoop
from vllmdoctor.simulator.profiles import Ramp, step
from vllmdoctor.simulator.scenario import Scenario
from vllmdoctor.simulator.scenarios.fragmentation import leak_over
from vllmdoctor.simulator.scenarios.healthy import usual
from vllmdoctor.simulator.scenarios.overload import kv_server
from vllmdoctor.simulator.setup import Companions, Host, Setup
from vllmdoctor.simulator.sizing import capacity


def _demand_and_fragmentation(draw: Draw) -> Setup:
    era = draw.era()
    server, kind = kv_server(draw, era)
    onset_s = draw.hours(2, 4)
    rate = 0.55 * capacity(server, kind)
    leak = leak_over(server, rate, onset_s, draw.between(4, 6), draw.between(0.5, 0.6))
    profile = draw.profile(Ramp(onset_s, onset_s + draw.hours(3, 5), 1.0, draw.between(1.3, 1.5)), sigma=0.03)
    return draw.setup(era, server, (OpenLoop(kind, rate, profile),), faults=(leak,), onset_s=onset_s)


def _leak_and_demand_drop(draw: Draw) -> Setup:
    era = draw.era()
    server, kind = usual(draw, era)
    onset_s = draw.hours(1, 2)
    leak = HostMemoryLeak(onset_s, bytes_per_s=draw.between(0.18, 0.28) * 6 * GIB / HOUR)
    profile = draw.profile(step(draw.hours(6, 8), 1.0, draw.between(0.3, 0.45)))
    rate = draw.between(0.5, 0.58) * capacity(server, kind)
    return draw.setup(
        era,
        server,
        (OpenLoop(kind, rate, profile),),
        faults=(leak,),
        onset_s=onset_s,
        host=Host(40 * GIB),
        companions=Companions(cadvisor=True),
    )


def _leak_beside_overload(draw: Draw) -> Setup:
    era = draw.era()
    server, kind = kv_server(draw, era)
    onset_s = draw.hours(5, 8)
    leak = HostMemoryLeak(0.0, bytes_per_s=draw.between(0.15, 0.25) * 6 * GIB / HOUR)
    profile = draw.profile(step(onset_s, 0.55, draw.between(1.3, 1.5)), sigma=0.03)
    load = (OpenLoop(kind, capacity(server, kind), profile),)
    return draw.setup(
        era,
        server,
        load,
        faults=(leak,),
        onset_s=onset_s,
        host=Host(40 * GIB),
        companions=Companions(cadvisor=True),
    )


def _long_prompts_and_throttle(draw: Draw) -> Setup:
    era = draw.era()
    server, kind = usual(draw, era, running=30)
    kind = replace(kind, timeout_s=200)
    longer = replace(kind, name="longer", prompt=LogNormal(2600, 0.5, 300, 12000))
    onset_s = draw.hours(4, 7)
    rate = 0.5 * capacity(server, kind)
    load = (
        OpenLoop(kind, rate, draw.profile(step(onset_s, 1.0, 0.5), sigma=0.03)),
        OpenLoop(longer, rate, draw.profile(step(onset_s, 0.0, 0.5), sigma=0.03)),
    )
    fault = Throttle(onset_s + draw.hours(0.3, 1.0), draw.between(1.5, 1.8), 300)
    return draw.setup(era, server, load, faults=(fault,), onset_s=onset_s, companions=Companions(dcgm=True))


ALL = (
    Scenario(
        "mixed-demand-and-fragmentation",
        "fragmentation",
        "demand rises while blocks leak",
        _demand_and_fragmentation,
        "leaked-blocks",
        also=("overload",),
    ),
    Scenario(
        "mixed-leak-and-demand-drop",
        "memory_leak",
        "a leak; demand falls for its own reasons",
        _leak_and_demand_drop,
        "host",
        also=("demand_drop",),
    ),
    Scenario(
        "mixed-leak-beside-overload",
        "overload",
        "a leak beside an unrelated overload",
        _leak_beside_overload,
        "kv-bound",
        also=("memory_leak",),
    ),
    Scenario(
        "mixed-long-prompts-and-throttle",
        "gpu_throttle",
        "longer prompts and a slower clock",
        _long_prompts_and_throttle,
        "",
        ("overload",),
        ("prefill_bound",),
    ),
)
