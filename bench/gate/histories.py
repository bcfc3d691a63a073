"""Histories of simulated servers for the gate: the same server and traffic, another day; sound or made worse.

The product's own simulator, whose step times were fitted to recordings of a real server, with noise that
comes in runs: demand that wanders over minutes (and follows the day, or bursts), a host whose speed wanders
over minutes by a few percent, and the scatter of single steps. What a client would have seen is of that run.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import inf

import numpy as np

from vllmdoctor import probe_series as series
from vllmdoctor.model import Fact, Samples, Snapshot
from vllmdoctor.recording import Recording, gather
from vllmdoctor.simulator import Companions, Era, Scrape, Setup
from vllmdoctor.simulator.draw import Draw
from vllmdoctor.simulator.faults import Throttle
from vllmdoctor.simulator.histogram import Histogram
from vllmdoctor.simulator.load import ClosedLoop, OpenLoop, Stream
from vllmdoctor.simulator.profiles import Bursts, Diurnal, Product, Wander
from vllmdoctor.simulator.request import Request
from vllmdoctor.simulator.scenarios.healthy import usual
from vllmdoctor.simulator.sizing import capacity
from vllmdoctor.simulator.world import World

HOST_SIGMA, HOST_KNOT_S = 0.03, 120.0
DEMAND_SIGMA, DEMAND_KNOT_S = 0.08, 300.0
EVERY_S, WARM_S = 15.0, 300.0
SITUATIONS = ("closed loop", "steady", "by day", "bursts", "overload")
CRAMPED = ("bursts", "overload")  # servers whose KV pool fills now and then, and requests queue


@dataclass(frozen=True, slots=True)
class HostSpeed(Throttle):
    """A host whose speed wanders; `slowdown` on top of it."""

    seed: int = 0

    def factor(self, t_s: float) -> float:
        """Step-time factor."""
        return self.slowdown * Wander(HOST_SIGMA, HOST_KNOT_S, self.seed).factor(t_s)


@dataclass(frozen=True, slots=True)
class Worse:
    """What is wrong with a candidate: `speed` 0.9 loses a tenth, `first_token` 1.25 is a quarter later."""

    speed: float = 1.0
    first_token: float = 1.0


SOUND = Worse()


class Later(Histogram):
    """A histogram whose observations are all later by a factor."""

    __slots__ = ("by",)

    def __init__(self, bounds: tuple[float, ...], by: float) -> None:
        super().__init__(bounds)
        self.by = by

    def observe(self, value: float, weight: float = 1.0) -> None:
        super().observe(value * self.by, weight)


class Watched(World):
    """A world whose finished requests are kept."""

    def __init__(self, setup: Setup, seed: int, worse: Worse) -> None:
        self.done: list[tuple[float, Request]] = []
        super().__init__(setup, seed)
        for pod in self.pods:
            for engine in pod.engines:
                engine.tally.ttft = Later(engine.tally.ttft.bounds, worse.first_token)

    def _ended(self, request: Request, now_s: float) -> None:
        if now_s >= 0 and not request.aborted:
            self.done.append((now_s, request))
        super()._ended(request, now_s)


def history(
    situation: str, server: int, day: int, minutes: float, worse: Worse = SOUND
) -> tuple[Recording, Recording]:
    """(what its metrics show, what its client saw) of one day of one server."""
    setup = _setup(situation, server, day, minutes, worse)
    world = Watched(setup, day + 1000 * server, worse)
    metrics = gather(Snapshot(p.time_s, p.instance, _own(p.values)) for p in world)
    return metrics, gather(_requests(world, setup.start_unix_s, worse))


def _setup(situation: str, server: int, day: int, minutes: float, worse: Worse) -> Setup:
    draw = Draw(f"gate-{situation}-{server}")
    engine, kind = usual(draw, Era(), running=18.0 if situation in CRAMPED else 80.0)
    kind = replace(kind, timeout_s=inf)
    rate, clients = draw.between(0.35, 0.55) * capacity(engine, kind), draw.whole(8, 16)
    burst = (draw.between(300, 600), draw.between(20, 40), draw.between(1.8, 2.4))
    peak = draw.between(0, 86400)
    wander = Wander(DEMAND_SIGMA, DEMAND_KNOT_S, 7919 * server + day)
    load: Stream
    match situation:
        case "closed loop":
            load = ClosedLoop(kind, clients, 0.0)
        case "bursts":
            load = OpenLoop(kind, 0.8 * rate, Product((wander, Bursts(*burst, day))))
        case "by day":
            load = OpenLoop(kind, 0.8 * rate, Product((wander, Diurnal(0.3, peak))))
        case "overload":
            load = OpenLoop(kind, 2.2 * rate, wander)
        case _:
            load = OpenLoop(kind, rate, wander)
    faults = (HostSpeed(-WARM_S, 1 / worse.speed, seed=104729 * server + day),)
    setup = draw.setup(
        Era(), engine, (load,), faults=faults, hours=minutes / 60, companions=Companions(up=False)
    )
    return replace(setup, scrape=Scrape(EVERY_S), warm_s=WARM_S)


def _own(values: dict[str, float]) -> dict[str, float]:
    return {name: value for name, value in values.items() if name.startswith("vllm:")}


def _requests(world: Watched, start: float, worse: Worse) -> Iterator[Samples | Fact]:
    rows = []
    for end, r in world.done:
        late = (worse.first_token - 1) * (r.first_token_s - r.arrival_s)
        ttft, e2e = r.first_token_s - r.arrival_s + late, end - r.arrival_s + late
        gap = (end - r.first_token_s) / (r.output - 1) if r.output > 1 else np.nan
        rows.append((start + end + late, ttft, e2e, r.output, r.prompt, 0.0, gap))
    table = np.array(sorted(rows)).T
    # requests that end in one step end together, and a moment holds one sample
    times = np.maximum.accumulate(table[0] - 1e-5 * np.arange(table.shape[1])) + 1e-5 * np.arange(
        table.shape[1]
    )
    names = (series.TTFT, series.E2E, series.OUTPUT_TOKENS, series.PROMPT_TOKENS, series.ERROR, series.ITL)
    for name, values in zip(names, table[1:], strict=True):
        yield Samples(series.PROBE_INSTANCE, name, times, values)
    yield Fact("probe_itl", "mean of each request", "bench")
