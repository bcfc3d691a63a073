"""All named scenarios, by name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vllmdoctor.simulator.scenarios import (
    blocking,
    demand,
    fragmentation,
    healthy,
    liveness,
    memory,
    mixed,
    overload,
    slowness,
)

if TYPE_CHECKING:
    from vllmdoctor.simulator.scenario import Scenario

SCENARIOS: dict[str, Scenario] = {
    scenario.name: scenario
    for module in (
        healthy,
        demand,
        overload,
        fragmentation,
        memory,
        blocking,
        slowness,
        liveness,
        mixed,
    )
    for scenario in module.ALL
}
