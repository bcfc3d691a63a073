"""Replaying a known list of arrivals through the model: calibration and what-if."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from vllmdoctor.simulator.faults import Throttle
from vllmdoctor.simulator.load import Recorded, RequestClass, Uniform
from vllmdoctor.simulator.scenario import simulate
from vllmdoctor.simulator.setup import Companions, Era, Scrape, Setup

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from vllmdoctor.simulator.server import Server, StepModel
    from vllmdoctor.simulator.world import Page


def replay(
    arrivals: Iterable[tuple[float, int, int]],
    server: Server,
    step: StepModel,
    *,
    duration_s: float,
    interval_s: float = 1.0,
    prefix_tokens: int = 0,
    era: Era | None = None,
    model_name: str = "replay",
    seed: int = 0,
    slowdown: Iterable[tuple[float, float]] = (),
) -> Iterator[Page]:
    """Pages of ``server`` with ``step`` times under ``arrivals`` (time [s], prompt, output).

    ``prefix_tokens`` of each prompt are shared by all requests. Nobody gives up; requests still
    unfinished at ``duration_s`` stay in the gauges. ``slowdown`` is the speed of the host over
    time: from each time [s] on, a step takes the factor times as long as ``step`` says.
    """
    kind = RequestClass(
        "replay",
        Uniform(1, 1),
        Uniform(1, 1),
        prefix_tokens=prefix_tokens,
        timeout_s=math.inf,
        handler="/v1/completions",
    )
    setup = Setup(
        server=replace(server, step=step),
        load=(Recorded(kind, tuple(sorted(arrivals))),),
        faults=_throttles(slowdown),
        duration_s=duration_s,
        era=era or Era(),
        model_name=model_name,
        scrape=Scrape(interval_s, 0.0, 0.0),
        companions=Companions(up=False),
        start_unix_s=0.0,
        warm_s=0.0,
    )
    return simulate(setup, seed=seed)


def _throttles(slowdown: Iterable[tuple[float, float]]) -> tuple[Throttle, ...]:
    """One fault for each stretch between two changes of the host's speed."""
    steps = sorted(slowdown)
    return tuple(
        Throttle(onset_s=start, slowdown=factor, ramp_s=0.0, end_s=end)
        for (start, factor), (end, _) in zip(steps, [*steps[1:], (math.inf, 1.0)], strict=False)
    )
