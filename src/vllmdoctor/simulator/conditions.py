"""The state of a pod's surroundings at one moment, worked out from its faults."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vllmdoctor.simulator.faults import (
    AcceptanceDecay,
    BlockLeak,
    BlockLoss,
    Fault,
    HostCpuBound,
    PrefixLoss,
    ReplicaLoss,
    Restart,
    Stall,
    Throttle,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vllmdoctor.simulator.server import Server


@dataclass(slots=True)
class Conditions:
    """What the engine feels; times in seconds, factors relative to a sound server."""

    gpu_factor: float = 1.0
    host_step_s: float = 0.0
    frontend_s: float = 0.0
    throttled_share: float = 0.0
    pressure_factor: float = 1.0
    """Slow-down of the host by memory pressure (set by the pod)."""
    prefix_survival: float = 1.0
    acceptance: float = 0.0
    lost_fraction: float = 0.0
    leaks: tuple[BlockLeak, ...] = ()
    hang: str = ""
    """"" = runs, "busy" = hangs now, "idle" = hangs in the first step after an idle moment."""

    @property
    def speed(self) -> tuple[float, float, float, float]:
        """All that sets the time of a step."""
        return self.gpu_factor, self.host_step_s, self.pressure_factor, self.acceptance


def concerns(fault: Fault, pod: int) -> bool:
    """Whether ``fault`` acts on pod number ``pod``."""
    if isinstance(fault, ReplicaLoss | Restart):
        return fault.pod == pod
    return not fault.pods or pod in fault.pods


def change_times(faults: Sequence[Fault]) -> list[float]:
    """Moments [s] at which some fault begins or ends."""
    times: set[float] = set()
    for fault in faults:
        times.add(fault.onset_s)
        end = getattr(fault, "end_s", math.inf)
        if math.isfinite(end):
            times.add(end)
    return sorted(times)


def conditions(server: Server, faults: Sequence[Fault], t_s: float, booted_s: float) -> Conditions:
    """Conditions at ``t_s`` for a process that started at ``booted_s``."""
    now = Conditions()
    speculation = server.speculation
    if speculation:
        now.acceptance = speculation.acceptance
    leaks: list[BlockLeak] = []
    for fault in faults:
        match fault:
            case Throttle():
                now.gpu_factor *= fault.factor(t_s)
            case HostCpuBound() if fault.onset_s <= t_s < fault.end_s:
                now.host_step_s += fault.step_s
                now.frontend_s += fault.frontend_s
                now.throttled_share = max(now.throttled_share, fault.throttled_share)
            case PrefixLoss() if fault.onset_s <= t_s < fault.end_s:
                now.prefix_survival *= fault.survival
            case AcceptanceDecay() if speculation:
                uptime_s = t_s - booted_s
                now.acceptance = fault.acceptance(speculation.acceptance, uptime_s)
            case BlockLeak() if fault.onset_s <= t_s < fault.end_s:
                leaks.append(fault)
            # A restart cures a lost pool and a hang: only a process older than the onset has it.
            case BlockLoss() if fault.onset_s <= t_s and booted_s <= fault.onset_s:
                now.lost_fraction = max(now.lost_fraction, fault.fraction)
            case Stall() if fault.onset_s <= t_s and booted_s <= fault.onset_s:
                now.hang = fault.when
            case _:
                pass
    now.leaks = tuple(leaks)
    return now
