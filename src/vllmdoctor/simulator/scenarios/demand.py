"""Less work, not less speed."""

from __future__ import annotations

from vllmdoctor.simulator.draw import HOUR, Draw
from vllmdoctor.simulator.load import ClosedLoop, OpenLoop
from vllmdoctor.simulator.profiles import Diurnal, Ramp, step
from vllmdoctor.simulator.scenario import Scenario
from vllmdoctor.simulator.scenarios.healthy import usual
from vllmdoctor.simulator.setup import Companions, Setup
from vllmdoctor.simulator.sizing import capacity


def _sudden(draw: Draw) -> Setup:
    era = draw.era()
    server, kind = usual(draw, era)
    onset_s = draw.hours(5, 9)
    rate = draw.between(0.5, 0.6) * capacity(server, kind)
    profile = draw.profile(step(onset_s, 1.0, draw.between(0.2, 0.45)))
    return draw.setup(era, server, (OpenLoop(kind, rate, profile),), onset_s=onset_s)


def _night(draw: Draw) -> Setup:
    era = draw.era()
    server, kind = usual(draw, era)
    peak_s = draw.hours(2, 4)
    rate = 0.36 * capacity(server, kind)
    profile = draw.profile(Diurnal(draw.between(0.6, 0.75), peak_s))
    return draw.setup(
        era, server, (OpenLoop(kind, rate, profile),), onset_s=peak_s + 4 * HOUR, hours=peak_s / HOUR + 11
    )


def _ramp(draw: Draw) -> Setup:
    era = draw.era()
    server, kind = usual(draw, era)
    onset_s = draw.hours(4, 6)
    rate = draw.between(0.5, 0.6) * capacity(server, kind)
    profile = draw.profile(Ramp(onset_s, onset_s + draw.hours(2, 4), 1.0, draw.between(0.25, 0.45)))
    return draw.setup(era, server, (OpenLoop(kind, rate, profile),), onset_s=onset_s)


def _idle(draw: Draw) -> Setup:
    """All traffic ends: counters stand still because there is nothing to do."""
    era = draw.era()
    server, kind = usual(draw, era)
    onset_s = draw.hours(6, 9)
    rate = draw.between(0.4, 0.5) * capacity(server, kind)
    profile = draw.profile(step(onset_s, 1.0, 0.0))
    return draw.setup(era, server, (OpenLoop(kind, rate, profile),), onset_s=onset_s)


def _low_load(draw: Draw) -> Setup:
    era = draw.era()
    server, kind = usual(draw, era)
    rate = draw.between(0.01, 0.03)
    return draw.setup(
        era, server, (OpenLoop(kind, rate, draw.profile(sigma=0.2)),), companions=Companions(dcgm=True)
    )


def _client_side(draw: Draw) -> Setup:
    """The clients' own path slows down: each pauses longer, the server is as fast as ever."""
    era = draw.era()
    server, kind = usual(draw, era)
    onset_s = draw.hours(5, 8)
    think_s = draw.between(12, 18)
    profile = step(onset_s, 1.0, draw.between(1.5, 1.9))
    clients = round(0.55 * capacity(server, kind) * (think_s + 14))
    return draw.setup(era, server, (ClosedLoop(kind, clients, think_s, profile),), onset_s=onset_s)


ALL = (
    Scenario(
        "demand-drop-sudden",
        "demand_drop",
        "arrivals fall at once",
        _sudden,
        acceptable=("client_side", "low_load"),
    ),
    Scenario(
        "demand-drop-night",
        "demand_drop",
        "the night of a day's wave",
        _night,
        acceptable=("healthy", "low_load"),
    ),
    Scenario("demand-drop-ramp", "demand_drop", "arrivals fall over hours", _ramp, acceptable=("low_load",)),
    Scenario(
        "demand-drop-to-idle",
        "demand_drop",
        "traffic ends; true idle, not a stall",
        _idle,
        acceptable=("low_load", "healthy"),
    ),
    Scenario("low-load", "low_load", "a request a minute", _low_load, acceptable=("healthy",)),
    Scenario(
        "client-side-slow",
        "client_side",
        "clients slow down, server fine",
        _client_side,
        acceptable=("demand_drop", "healthy"),
    ),
)
