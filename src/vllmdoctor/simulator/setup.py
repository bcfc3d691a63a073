"""A complete arrangement to simulate: fleet, server, load, faults, and how it is scraped."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from vllmdoctor.simulator.faults import Fault
    from vllmdoctor.simulator.load import Stream
    from vllmdoctor.simulator.server import Server

GIB = 2**30


@dataclass(frozen=True, slots=True)
class Era:
    """A vLLM version as far as its metrics page is concerned."""

    version: tuple[int, int, int] = (0, 32, 0)

    @property
    def name(self) -> Literal["v0", "v1-early", "v1"]:
        """Which family of names the version uses."""
        if self.version < (0, 8, 0):
            return "v0"
        return "v1-early" if self.version < (0, 12, 0) else "v1"

    @property
    def text(self) -> str:
        """The version as vLLM prints it."""
        return ".".join(str(part) for part in self.version)


@dataclass(frozen=True, slots=True)
class Scrape:
    """How Prometheus sees it: times in seconds from the start of the history."""

    interval_s: float = 30.0
    jitter_s: float = 0.02
    missed: float = 0.001
    """Share of single scrapes that fail."""
    gaps: tuple[tuple[float, float], ...] = ()
    """(start, length) of periods without any sample."""


@dataclass(frozen=True, slots=True)
class Host:
    """Memory and GPU of a pod."""

    memory_limit_bytes: float = 32 * GIB
    api_bytes: float = 0.9 * GIB
    engine_bytes: float = 5.0 * GIB
    per_inflight_bytes: float = 0.0
    """Arena memory per request at the highest number in flight so far (never given back)."""
    clock_mhz: float = 1980.0
    idle_temperature_c: float = 36.0
    idle_power_w: float = 95.0
    full_power_w: float = 620.0
    gpu_outside_pool_bytes: float = 1.5 * GIB


@dataclass(frozen=True, slots=True)
class Companions:
    """Which series beside vLLM's own exist."""

    up: bool = True
    cadvisor: bool = False
    cfs: bool = False
    dcgm: bool = False


@dataclass(frozen=True, slots=True)
class Setup:
    """Everything a simulation needs but its seed."""

    server: Server
    load: tuple[Stream, ...]
    faults: tuple[Fault, ...] = ()
    duration_s: float = 12 * 3600.0
    pods: int = 1
    engines: int = 1
    """Engines in one server process (data parallel), label ``engine``."""
    era: Era = field(default_factory=Era)
    model_name: str = "llama-3-70b"
    host: Host = field(default_factory=Host)
    scrape: Scrape = field(default_factory=Scrape)
    companions: Companions = field(default_factory=Companions)
    start_unix_s: float = 1_790_000_000.0
    uptime_s: float = 0.0
    """How long the processes had been up before the simulation."""
    warm_s: float = 900.0
    """Simulated time before 0 s (the start of the history), so that it need not start empty."""
    onset_s: float | None = None
    """When the trouble begins (known truth); None = never."""
    effect_s: float | None = None
    """About when work begins to suffer, where that is later than the onset (slow leaks)."""
