"""A named situation with a known truth, whose details are drawn anew for each seed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from vllmdoctor.simulator.draw import Draw
from vllmdoctor.simulator.world import Page, World

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from vllmdoctor.simulator.setup import Setup

LABELS = (
    "healthy",
    "demand_drop",
    "overload",
    "fragmentation",
    "memory_leak",
    "head_of_line",
    "prefill_bound",
    "prefix_cache_collapse",
    "spec_decode_decay",
    "gpu_throttle",
    "gpu_memory_growth",
    "host_cpu_bound",
    "context_exceeds_pool",
    "stall",
    "replica_loss",
    "client_side",
    "low_load",
    "restart",
)
HARMFUL = (
    "overload",
    "fragmentation",
    "memory_leak",
    "head_of_line",
    "prefill_bound",
    "prefix_cache_collapse",
    "spec_decode_decay",
    "gpu_throttle",
    "gpu_memory_growth",
    "host_cpu_bound",
    "stall",
    "replica_loss",
)
"""Labels that would send an operator the wrong way when they are not true."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """``recipe`` turns draws into a setup; the rest is what a diagnosis should say of it."""

    name: str
    label: str
    about: str
    recipe: Callable[[Draw], Setup]
    kind: str = ""
    acceptable: tuple[str, ...] = ()
    """Labels that are right too (a consequence, or the other half of a mixture)."""
    also: tuple[str, ...] = ()
    """Causes that are present beside the main one (and therefore acceptable)."""

    def __post_init__(self) -> None:
        for label in (self.label, *self.acceptable, *self.also):
            if label not in LABELS:
                raise ValueError(f"unknown label {label!r} in scenario {self.name}")

    def setup(self, seed: int) -> Setup:
        """The arrangement for ``seed``."""
        return self.recipe(Draw(f"{self.name}-{seed}"))

    @property
    def must_not(self) -> tuple[str, ...]:
        """Harmful labels that are false here."""
        true = {self.label, *self.acceptable, *self.also}
        return tuple(label for label in HARMFUL if label not in true)


def simulate(scenario: Scenario | Setup, *, seed: int) -> Iterator[Page]:
    """Pages of the whole history in time order; equal seeds give equal pages."""
    setup = scenario.setup(seed) if isinstance(scenario, Scenario) else scenario
    return iter(World(setup, seed))


def truth(scenario: Scenario, *, seed: int) -> dict[str, object]:
    """What is true of the scenario at ``seed``.

    ``onset_s`` is when the cause begins, ``effect_s`` about when work begins to suffer from it;
    both from the start of the history, None where there is nothing.
    """
    setup = scenario.setup(seed)
    effect_s = setup.onset_s if setup.effect_s is None else setup.effect_s
    return {
        "scenario": scenario.name,
        "about": scenario.about,
        "seed": seed,
        "label": scenario.label,
        "kind": scenario.kind,
        "acceptable": sorted({*scenario.acceptable, *scenario.also}),
        "also": list(scenario.also),
        "must_not": list(scenario.must_not),
        "fix_of": "",
        "onset_s": None if setup.onset_s is None else round(setup.onset_s, 3),
        "effect_s": None if effect_s is None else round(effect_s, 3),
        "start_unix_s": setup.start_unix_s,
        "duration_s": setup.duration_s,
        "interval_s": setup.scrape.interval_s,
        "era": setup.era.name,
        "version": setup.era.text,
        "pods": setup.pods,
        "engines": setup.engines,
        "companions": {
            "up": setup.companions.up,
            "cadvisor": setup.companions.cadvisor,
            "cfs": setup.companions.cfs,
            "dcgm": setup.companions.dcgm,
        },
    }
