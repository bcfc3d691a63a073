"""Host or GPU memory that grows."""

from __future__ import annotations

from vllmdoctor.simulator.draw import GIB, HOUR, Draw
from vllmdoctor.simulator.faults import GpuMemoryGrowth, HostMemoryLeak
from vllmdoctor.simulator.load import OpenLoop
from vllmdoctor.simulator.scenario import Scenario
from vllmdoctor.simulator.scenarios.healthy import usual
from vllmdoctor.simulator.setup import Companions, Host, Setup
from vllmdoctor.simulator.sizing import capacity


def _linear(draw: Draw) -> Setup:
    """15-30 % an hour, seen by cAdvisor."""
    era = draw.era()
    server, kind = usual(draw, era)
    onset_s = draw.hours(1, 3)
    per_hour = draw.between(0.15, 0.28) * 6 * GIB
    leak = HostMemoryLeak(onset_s, bytes_per_s=per_hour / HOUR)
    rate = draw.between(0.42, 0.55) * capacity(server, kind)
    return draw.setup(
        era,
        server,
        (OpenLoop(kind, rate, draw.profile()),),
        faults=(leak,),
        host=Host(32 * GIB),
        onset_s=onset_s,
        companions=Companions(cadvisor=True),
    )


def _per_request(draw: Draw) -> Setup:
    """Every request leaves something behind."""
    era = draw.era()
    server, kind = usual(draw, era)
    onset_s = draw.hours(0, 2)
    rate = draw.between(0.42, 0.55) * capacity(server, kind)
    each = draw.between(0.18, 0.3) * 6 * GIB / HOUR / rate
    leak = HostMemoryLeak(onset_s, bytes_per_request=each)
    return draw.setup(
        era,
        server,
        (OpenLoop(kind, rate, draw.profile(sigma=0.15)),),
        faults=(leak,),
        host=Host(40 * GIB),
        onset_s=onset_s,
        companions=Companions(cadvisor=True),
    )


def _api_process(draw: Draw) -> Setup:
    """Only the API server leaks, and only its own resident memory is known."""
    era = draw.era(old=False)
    server, kind = usual(draw, era)
    onset_s = draw.hours(1, 3)
    leak = HostMemoryLeak(onset_s, bytes_per_s=draw.between(0.2, 0.4) * 0.9 * GIB / HOUR, component="api")
    rate = draw.between(0.42, 0.55) * capacity(server, kind)
    return draw.setup(
        era,
        server,
        (OpenLoop(kind, rate, draw.profile()),),
        faults=(leak,),
        onset_s=onset_s,
        companions=Companions(),
    )


def _oom_sawtooth(draw: Draw) -> Setup:
    """The leak reaches the limit, the pod is killed, and it begins again."""
    era = draw.era()
    server, kind = usual(draw, era)
    limit = 16 * GIB
    leak = HostMemoryLeak(0.0, bytes_per_s=10 * GIB / (draw.hours(3, 4)))
    rate = draw.between(0.42, 0.55) * capacity(server, kind)
    return draw.setup(
        era,
        server,
        (OpenLoop(kind, rate, draw.profile()),),
        faults=(leak,),
        host=Host(limit),
        onset_s=0.0,
        companions=Companions(cadvisor=True),
    )


def _with_slowdown(draw: Draw) -> Setup:
    """Near the limit the host spends its time on reclaim: steps take longer."""
    era = draw.era()
    server, kind = usual(draw, era)
    onset_s = draw.hours(1, 2)
    limit = 24 * GIB
    hours = draw.between(8.5, 9.5)
    leak = HostMemoryLeak(
        onset_s,
        bytes_per_s=(0.96 * limit - 5.5 * GIB) / hours / HOUR,
        slowdown=draw.between(1.4, 2.0),
        end_s=onset_s + hours * HOUR,
    )
    rate = draw.between(0.55, 0.65) * capacity(server, kind)
    return draw.setup(
        era,
        server,
        (OpenLoop(kind, rate, draw.profile()),),
        faults=(leak,),
        host=Host(limit, api_bytes=0.7 * GIB, engine_bytes=4.4 * GIB),
        hours=13,
        onset_s=onset_s,
        companions=Companions(cadvisor=True),
    )


def _gpu_growth(draw: Draw) -> Setup:
    """Device memory outside the KV pool grows after the warm-up."""
    era = draw.era()
    server, kind = usual(draw, era)
    onset_s = draw.hours(2, 4)
    growth = GpuMemoryGrowth(onset_s, draw.between(0.3, 0.55) * GIB / HOUR)
    rate = draw.between(0.42, 0.55) * capacity(server, kind)
    return draw.setup(
        era,
        server,
        (OpenLoop(kind, rate, draw.profile()),),
        faults=(growth,),
        onset_s=onset_s,
        companions=Companions(dcgm=True),
    )


ALL = (
    Scenario("leak-host-linear", "memory_leak", "host memory grows, cAdvisor sees it", _linear, "host"),
    Scenario(
        "leak-host-per-request", "memory_leak", "host memory grows with every request", _per_request, "host"
    ),
    Scenario(
        "leak-api-process", "memory_leak", "the API server's resident memory grows", _api_process, "host"
    ),
    Scenario(
        "leak-oom-sawtooth",
        "memory_leak",
        "OOM kills cut a saw out of the growth",
        _oom_sawtooth,
        "host",
        ("restart",),
    ),
    Scenario(
        "leak-with-slowdown",
        "memory_leak",
        "near the limit steps take longer",
        _with_slowdown,
        "host",
        ("overload", "host_cpu_bound"),
    ),
    Scenario(
        "gpu-memory-growth",
        "gpu_memory_growth",
        "device memory outside the pool grows",
        _gpu_growth,
        "gpu",
        ("memory_leak",),
    ),
)
