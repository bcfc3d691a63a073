"""Servers that stop, vanish or keep restarting."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from vllmdoctor.simulator.faults import ReplicaLoss, Restart, Stall
from vllmdoctor.simulator.load import OpenLoop
from vllmdoctor.simulator.scenario import Scenario
from vllmdoctor.simulator.scenarios.healthy import usual
from vllmdoctor.simulator.setup import Companions, Setup
from vllmdoctor.simulator.sizing import capacity

if TYPE_CHECKING:
    from vllmdoctor.simulator.draw import Draw


def _stalled(draw: Draw, *, when: str = "busy", recover: bool = False) -> Setup:
    # Only the HTTP counters know of requests that a hung engine never answers.
    era = draw.era(least=(0, 8, 3), old=False)
    server, kind = usual(draw, era)
    kind = replace(kind, timeout_s=draw.between(60, 240))
    hours = draw.between(10, 12)
    rate = draw.between(0.4, 0.5) * capacity(server, kind)
    if when == "idle":
        rate = draw.between(0.02, 0.04)
    onset_s = (hours - draw.between(0.6, 2.0)) * 3600
    stall = Stall(onset_s, "idle" if when == "idle" else "busy")
    again = (Restart(onset_s + draw.between(900, 2400), 0, 150),) if recover else ()
    return draw.setup(
        era,
        server,
        (OpenLoop(kind, rate, draw.profile()),),
        faults=(stall, *again),
        onset_s=onset_s,
        hours=hours,
        companions=Companions(dcgm=True),
    )


def _stall(draw: Draw) -> Setup:
    return _stalled(draw)


def _stall_gauges_zero(draw: Draw) -> Setup:
    return _stalled(draw, when="idle")


def _stall_recovers(draw: Draw) -> Setup:
    return _stalled(draw, recover=True)


def _restarts(draw: Draw) -> Setup:
    """A crash loop: the process dies every half hour and comes back."""
    era = draw.era(old=False)
    server, kind = usual(draw, era)
    onset_s = draw.hours(4, 6)
    times = [onset_s]
    while times[-1] < 14 * 3600:
        times.append(times[-1] + draw.between(1000, 2600))
    faults = tuple(Restart(time_s, 0, draw.between(150, 300)) for time_s in times)
    rate = draw.between(0.42, 0.52) * capacity(server, kind)
    return draw.setup(era, server, (OpenLoop(kind, rate, draw.profile()),), faults=faults, onset_s=onset_s)


def _replica_lost(draw: Draw, load: float) -> Setup:
    era = draw.era()
    server, kind = usual(draw, era, running=10)
    kind = replace(kind, timeout_s=180)
    onset_s = draw.hours(4, 7)
    rate = 4 * load * capacity(server, kind)
    lost = ReplicaLoss(onset_s, draw.whole(0, 3))
    return draw.setup(
        era,
        server,
        (OpenLoop(kind, rate, draw.profile(sigma=0.03)),),
        faults=(lost,),
        onset_s=onset_s,
        pods=4,
        hours=10,
    )


def _replica_absorbed(draw: Draw) -> Setup:
    return _replica_lost(draw, draw.between(0.35, 0.42))


def _replica_overload(draw: Draw) -> Setup:
    return _replica_lost(draw, draw.between(0.70, 0.76))


ALL = (
    Scenario("stall-busy", "stall", "the engine hangs with requests running", _stall),
    Scenario(
        "stall-gauges-zero", "stall", "hangs in its first step after an idle moment", _stall_gauges_zero
    ),
    Scenario("stall-recovers", "stall", "a restart ends the hang", _stall_recovers, "", ("restart",)),
    Scenario("restart-loop", "restart", "the process dies again and again", _restarts),
    Scenario(
        "replica-loss-absorbed",
        "replica_loss",
        "one of four pods vanishes, the rest cope",
        _replica_absorbed,
        "",
        ("healthy",),
    ),
    Scenario(
        "replica-loss-overload",
        "replica_loss",
        "one of four pods vanishes, the rest drown",
        _replica_overload,
        "",
        ("overload",),
    ),
)
