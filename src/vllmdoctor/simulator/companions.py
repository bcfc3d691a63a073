"""Series that other exporters would add: ``up``, cAdvisor and DCGM."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vllmdoctor.simulator.labels import series

if TYPE_CHECKING:
    from vllmdoctor.simulator.pod import Pod
    from vllmdoctor.simulator.setup import Setup

MIB = 2**20
THERMAL_SLOWDOWN = 64.0
"""DCGM's bit for a hardware thermal slowdown."""
CONTAINER = "vllm"
NAMESPACE = "inference"


class CompanionView:
    """Reads a pod's surroundings; keeps what it needs to turn totals into rates."""

    def __init__(self, setup: Setup, pod: Pod, instance: str, pod_name: str) -> None:
        self.setup = setup
        self.pod = pod
        self.seen_s: float | None = None
        self.busy_s = 0.0
        self.temperature = setup.host.idle_temperature_c
        where = {"container": CONTAINER, "namespace": NAMESPACE, "pod": pod_name}
        gpu = {"gpu": "0", "modelName": "NVIDIA H100 80GB HBM3", "pod": pod_name}
        self.up = series("up", {"instance": instance, "job": "vllm"})
        self.container = {
            name: series(name, where)
            for name in (
                "container_memory_working_set_bytes",
                "container_spec_memory_limit_bytes",
                "container_cpu_cfs_periods_total",
                "container_cpu_cfs_throttled_periods_total",
            )
        }
        self.gpu = {
            name: series(f"DCGM_FI_DEV_{name}", gpu)
            for name in (
                "SM_CLOCK",
                "GPU_TEMP",
                "FB_USED",
                "FB_FREE",
                "GPU_UTIL",
                "POWER_USAGE",
                "CLOCK_THROTTLE_REASONS",
            )
        }

    def add(self, out: dict[str, float], now_s: float, *, answered: bool) -> None:
        """Add the companions of this moment to a page."""
        which = self.setup.companions
        if self.pod.gone:
            return
        if which.up:
            out[self.up] = 1.0 if answered else 0.0
        if not self.pod.up:
            self.seen_s = None
            return
        if which.cadvisor:
            self._memory(out)
        if which.cfs:
            out[self.container["container_cpu_cfs_periods_total"]] = float(int(self.pod.cfs_periods))
            out[self.container["container_cpu_cfs_throttled_periods_total"]] = float(
                int(self.pod.cfs_throttled)
            )
        if which.dcgm:
            self._device(out, now_s)

    def _memory(self, out: dict[str, float]) -> None:
        memory, rng = self.pod.memory, self.pod.rng
        used = memory.resident * (1.0 + 0.002 * rng.gauss(0.0, 1.0))
        out[self.container["container_memory_working_set_bytes"]] = float(4096 * int(used / 4096))
        out[self.container["container_spec_memory_limit_bytes"]] = float(self.setup.host.memory_limit_bytes)

    def _utilisation(self, now_s: float) -> float:
        """Share of the time since the last look in which the GPU worked."""
        busy_s = sum(engine.tally.busy_s for engine in self.pod.engines)
        hung = any(engine.hung for engine in self.pod.engines)
        share = 0.0
        if self.seen_s is not None and now_s > self.seen_s and busy_s >= self.busy_s:
            share = (busy_s - self.busy_s) / (now_s - self.seen_s) / len(self.pod.engines)
        self.seen_s, self.busy_s = now_s, busy_s
        return 1.0 if hung else min(1.0, share)

    def _device(self, out: dict[str, float], now_s: float) -> None:
        host, rng = self.setup.host, self.pod.rng
        share = self._utilisation(now_s)
        factor = self.pod.conditions.gpu_factor
        throttled = factor > 1.02
        goal = host.idle_temperature_c + 32.0 * share + (14.0 if throttled else 0.0)
        self.temperature += 0.3 * (goal - self.temperature)
        clock = host.clock_mhz / factor if share > 0.01 else host.clock_mhz
        power = host.idle_power_w + (host.full_power_w - host.idle_power_w) * share / factor**1.5
        used = self.pod.memory.gpu_used / MIB
        total = self.setup.server.gpu_memory_bytes / MIB
        gpu = self.gpu
        out[gpu["SM_CLOCK"]] = float(15 * round(clock * (1 + 0.002 * rng.gauss(0, 1)) / 15))
        out[gpu["GPU_TEMP"]] = float(round(self.temperature + rng.gauss(0, 0.5)))
        out[gpu["FB_USED"]] = float(round(used))
        out[gpu["FB_FREE"]] = float(round(total - used))
        out[gpu["GPU_UTIL"]] = float(max(0, min(100, round(100 * share + rng.gauss(0, 1.5)))))
        out[gpu["POWER_USAGE"]] = round(max(0.0, power + rng.gauss(0, 6)), 3)
        out[gpu["CLOCK_THROTTLE_REASONS"]] = THERMAL_SLOWDOWN if throttled else 0.0
