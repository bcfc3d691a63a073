"""Memory of a pod: what its processes and its GPU use, and when the limit kills it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vllmdoctor.simulator.faults import Fault, GpuMemoryGrowth, HostMemoryLeak

if TYPE_CHECKING:
    from collections.abc import Sequence
    from random import Random

    from vllmdoctor.simulator.setup import Host

PRESSURE_FROM = 0.7
"""Share of the memory limit from which reclaim slows the host."""


class Memory:
    """Host and GPU memory of one pod since its boot [bytes]."""

    def __init__(self, host: Host, gpu_bytes: float, gpu_pool_bytes: float, rng: Random) -> None:
        self.host = host
        self.rng = rng
        self.gpu_bytes = gpu_bytes
        self.gpu_base = gpu_pool_bytes + host.gpu_outside_pool_bytes
        self.api_leak = 0.0
        self.engine_leak = 0.0
        self.gpu_growth = 0.0
        self.peak_inflight = 0
        self.pressure = 1.0

    def grow(self, faults: Sequence[Fault], t_s: float, dt_s: float, ended: int, in_flight: int) -> None:
        """Let ``dt_s`` seconds pass in which ``ended`` requests ended."""
        self.peak_inflight = max(self.peak_inflight, in_flight)
        self.pressure = 1.0
        for fault in faults:
            match fault:
                case HostMemoryLeak():
                    if fault.onset_s <= t_s < fault.end_s:
                        more = fault.bytes_per_s * dt_s + fault.bytes_per_request * ended
                        if fault.component == "api":
                            self.api_leak += more
                        else:
                            self.engine_leak += more
                    # Reclaim hurts as long as memory is short, also after the leak has stopped.
                    over = self.resident / self.host.memory_limit_bytes - PRESSURE_FROM
                    if over > 0:
                        self.pressure += fault.slowdown * over / (1.0 - PRESSURE_FROM)
                case GpuMemoryGrowth() if fault.onset_s <= t_s < fault.end_s:
                    self.gpu_growth += fault.bytes_per_s * dt_s
                case _:
                    pass

    @property
    def api(self) -> float:
        """Resident memory of the API server process."""
        return self.host.api_bytes + self.api_leak + 0.2 * self._arena

    @property
    def _arena(self) -> float:
        return self.peak_inflight * self.host.per_inflight_bytes

    @property
    def resident(self) -> float:
        """Resident memory of all processes of the pod."""
        return self.api + self.host.engine_bytes + self.engine_leak + 0.8 * self._arena

    @property
    def gpu_used(self) -> float:
        """Device memory in use."""
        return self.gpu_base + self.gpu_growth

    @property
    def killed(self) -> bool:
        """Whether the host or the GPU has run out of memory."""
        return self.resident >= self.host.memory_limit_bytes or self.gpu_used >= self.gpu_bytes
