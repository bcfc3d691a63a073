"""What can go wrong, each as physics: a fault changes the server, never a metric.

Times are seconds from the start of the history. ``pods`` limits a fault to some pods of the
fleet; empty = all.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, TypeAlias


@dataclass(frozen=True, slots=True)
class Throttle:
    """The GPU clocks down: every GPU part of a step takes ``slowdown`` times as long."""

    onset_s: float
    slowdown: float = 1.8
    ramp_s: float = 120.0
    end_s: float = math.inf
    pods: tuple[int, ...] = ()

    def factor(self, t_s: float) -> float:
        """Step-time factor at ``t_s``."""
        if t_s < self.onset_s or t_s >= self.end_s:
            return 1.0
        share = min(1.0, (t_s - self.onset_s) / max(self.ramp_s, 1e-9))
        return 1.0 + (self.slowdown - 1.0) * share


@dataclass(frozen=True, slots=True)
class HostCpuBound:
    """The host is short of CPU: each step waits ``step_s`` more, each request ``frontend_s``."""

    onset_s: float
    step_s: float = 0.040
    frontend_s: float = 0.2
    throttled_share: float = 0.6
    """Share of CFS periods in which the container is throttled."""
    end_s: float = math.inf
    pods: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class BlockLeak:
    """KV blocks stay pinned after requests end; only a restart gives them back."""

    onset_s: float
    blocks: float = 4.0
    """Mean blocks pinned by a request that leaks."""
    probability: float = 0.05
    """Share of ended requests that leak."""
    on: Literal["finish", "abort"] = "finish"
    end_s: float = math.inf
    ceiling: float = 0.9
    """The leak stops at this fraction of the pool."""
    pods: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class BlockLoss:
    """A fraction of the pool is pinned at once (as soon as blocks come free)."""

    onset_s: float
    fraction: float = 0.4
    pods: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class HostMemoryLeak:
    """Host memory grows; at the container's limit the pod is OOM-killed and restarts."""

    onset_s: float
    bytes_per_s: float = 0.0
    bytes_per_request: float = 0.0
    component: Literal["engine", "api"] = "engine"
    slowdown: float = 0.0
    """Step-time growth at the limit from reclaim pressure; starts at 70 % of the limit."""
    end_s: float = math.inf
    pods: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class GpuMemoryGrowth:
    """GPU memory outside the KV pool grows; at the device's size the server dies."""

    onset_s: float
    bytes_per_s: float
    end_s: float = math.inf
    pods: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class PrefixLoss:
    """Cached prefixes are lost before reuse: a lookup finds its prefix only with ``survival``."""

    onset_s: float
    survival: float = 0.1
    end_s: float = math.inf
    pods: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class AcceptanceDecay:
    """Draft acceptance falls with the uptime of the process; a restart restores it."""

    onset_s: float
    """Uptime [s] at which the decay begins."""
    floor: float = 0.25
    tau_s: float = 7200.0
    pods: tuple[int, ...] = ()

    def acceptance(self, start: float, uptime_s: float) -> float:
        """Per-token acceptance after ``uptime_s``."""
        if uptime_s <= self.onset_s:
            return start
        return self.floor + (start - self.floor) * math.exp(-(uptime_s - self.onset_s) / self.tau_s)


@dataclass(frozen=True, slots=True)
class Stall:
    """The engine hangs in a step. ``when="idle"``: in the first step after an idle moment,
    so that the gauges still say 0. A restart ends it."""

    onset_s: float
    when: Literal["busy", "idle"] = "busy"
    pods: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class ReplicaLoss:
    """Pod ``pod`` vanishes and does not come back before ``end_s``."""

    onset_s: float
    pod: int = 0
    end_s: float = math.inf


@dataclass(frozen=True, slots=True)
class Restart:
    """Pod ``pod`` is restarted at ``onset_s`` and serves again ``downtime_s`` later."""

    onset_s: float
    pod: int = 0
    downtime_s: float = 120.0


Fault: TypeAlias = (
    Throttle
    | HostCpuBound
    | BlockLeak
    | BlockLoss
    | HostMemoryLeak
    | GpuMemoryGrowth
    | PrefixLoss
    | AcceptanceDecay
    | Stall
    | ReplicaLoss
    | Restart
)
