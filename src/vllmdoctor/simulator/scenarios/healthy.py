"""Servers with nothing wrong, some of which look as if there were."""

from __future__ import annotations

from dataclasses import replace

from vllmdoctor.simulator.draw import GIB, HOUR, Draw
from vllmdoctor.simulator.faults import HostMemoryLeak, Restart, Throttle
from vllmdoctor.simulator.load import ClosedLoop, LogNormal, OpenLoop, RequestClass, Uniform
from vllmdoctor.simulator.profiles import Bursts, Diurnal, Ramp, step
from vllmdoctor.simulator.scenario import Scenario
from vllmdoctor.simulator.server import Server, Speculation
from vllmdoctor.simulator.setup import Companions, Era, Host, Setup
from vllmdoctor.simulator.sizing import blocks_for, capacity, live_tokens


def usual(draw: Draw, era: Era, *, running: float = 18.0) -> tuple[Server, RequestClass]:
    """An ordinary server and chat traffic; the pool holds about ``running`` requests."""
    kind = draw.chat()
    return draw.server(era, blocks=blocks_for(kind, running * draw.between(0.9, 1.2))), kind


def _steady(draw: Draw) -> Setup:
    era = draw.era()
    server, kind = usual(draw, era)
    rate = draw.between(0.42, 0.58) * capacity(server, kind)
    return draw.setup(era, server, (OpenLoop(kind, rate, draw.profile()),))


def _busy(draw: Draw) -> Setup:
    """A closed loop whose requests just fit: KV at 95-98 %, nobody waits."""
    era = draw.era()
    length = draw.whole(800, 1200)
    kind = RequestClass("batch", Uniform(length - 60, length + 60), Uniform(180, 220))
    clients = draw.whole(30, 38)
    tokens = clients * (live_tokens(kind) + 8)
    server = draw.server(era, blocks=round(tokens / draw.between(0.980, 0.988) / 16), step=draw.step(1.6))
    return draw.setup(era, server, (ClosedLoop(kind, clients, 0.05),))


def _diurnal(draw: Draw) -> Setup:
    era = draw.era()
    server, kind = usual(draw, era)
    wave = Diurnal(draw.between(0.25, 0.4), draw.hours(6, 18))
    rate = 0.42 * capacity(server, kind)
    return draw.setup(era, server, (OpenLoop(kind, rate, draw.profile(wave)),), hours=24)


def _bursts(draw: Draw) -> Setup:
    era = draw.era()
    server, kind = usual(draw, era)
    wave = Bursts(
        draw.between(1200, 2400), draw.between(30, 60), draw.between(2.3, 2.9), draw.whole(1, 99999)
    )
    rate = draw.between(0.33, 0.42) * capacity(server, kind)
    return draw.setup(era, server, (OpenLoop(kind, rate, draw.profile(wave)),))


def _rolling_restart(draw: Draw) -> Setup:
    era = draw.era()
    server, kind = usual(draw, era, running=12)
    first_s = draw.hours(5, 8)
    faults = tuple(Restart(first_s + 420 * pod, pod, draw.between(80, 150)) for pod in range(3))
    rate = 3 * draw.between(0.35, 0.45) * capacity(server, kind)
    return draw.setup(
        era, server, (OpenLoop(kind, rate, draw.profile()),), faults=faults, pods=3, onset_s=first_s
    )


def _some_preemptions(draw: Draw) -> Setup:
    """About one request in twenty is preempted, none of them waits long."""
    era = draw.era()
    kind = draw.chat(prompt=500, output=420)
    server = draw.server(era, blocks=blocks_for(kind, 18))
    rate = draw.between(0.57, 0.62) * capacity(server, kind)
    return draw.setup(era, server, (OpenLoop(kind, rate, draw.profile(sigma=0.03)),))


def _long_contexts(draw: Draw) -> Setup:
    """Few, long prompts: KV use swings between a tenth and the whole pool."""
    era = draw.era()
    kind = RequestClass(
        "documents", LogNormal(5000, 0.6, 500, 20000), LogNormal(250, 0.5, 10, 1500), timeout_s=900
    )
    server = draw.server(era, blocks=blocks_for(kind, draw.between(8, 10)))
    rate = draw.between(0.40, 0.48) * capacity(server, kind)
    return draw.setup(era, server, (OpenLoop(kind, rate, draw.profile()),))


def _scrape_gaps(draw: Draw) -> Setup:
    era = draw.era()
    server, kind = usual(draw, era)
    gaps = tuple((draw.hours(1, 9.5), draw.between(300, 2400)) for _ in range(4))
    rate = draw.between(0.45, 0.55) * capacity(server, kind)
    return draw.setup(era, server, (OpenLoop(kind, rate, draw.profile()),), gaps=gaps, missed=0.05)


def _demand_up_a_little(draw: Draw) -> Setup:
    """A near miss: demand rises by a fifth and there is room for it."""
    era = draw.era()
    server, kind = usual(draw, era)
    onset_s = draw.hours(5, 8)
    rate = 0.45 * capacity(server, kind)
    profile = draw.profile(step(onset_s, 1.0, draw.between(1.15, 1.25)))
    return draw.setup(era, server, (OpenLoop(kind, rate, profile),), onset_s=onset_s)


def _memory_steps(draw: Draw) -> Setup:
    """Memory rises with the highest load so far and stays: steps, not a leak."""
    era = draw.era()
    server, kind = usual(draw, era)
    peaks = Bursts(draw.hours(2.2, 3.0), 240, draw.between(2.1, 2.5), draw.whole(1, 99999))
    grow = Ramp(0, 10 * HOUR, 0.8, 1.15)
    host = Host(24 * GIB, per_inflight_bytes=draw.between(0.18, 0.28) * GIB)
    rate = 0.32 * capacity(server, kind)
    return draw.setup(
        era,
        server,
        (OpenLoop(kind, rate, draw.profile(peaks, grow)),),
        host=host,
        companions=Companions(cadvisor=True),
    )


def _memory_flat_high(draw: Draw) -> Setup:
    """Memory is at 86-92 % of its limit and does not move."""
    era = draw.era()
    server, kind = usual(draw, era)
    limit = 8 * GIB
    host = Host(limit, api_bytes=0.12 * limit, engine_bytes=draw.between(0.66, 0.70) * limit)
    rate = draw.between(0.42, 0.55) * capacity(server, kind)
    return draw.setup(
        era,
        server,
        (OpenLoop(kind, rate, draw.profile()),),
        host=host,
        companions=Companions(cadvisor=True, dcgm=True),
    )


def _memory_slow_growth(draw: Draw) -> Setup:
    """A near miss: well under 1 %/h, days away from any limit."""
    era = draw.era()
    server, kind = usual(draw, era)
    creep = HostMemoryLeak(0.0, bytes_per_s=draw.between(0.15, 0.4) * 0.01 * 6 * GIB / HOUR)
    rate = draw.between(0.42, 0.55) * capacity(server, kind)
    return draw.setup(
        era,
        server,
        (OpenLoop(kind, rate, draw.profile()),),
        faults=(creep,),
        companions=Companions(cadvisor=True),
    )


def _gpu_full_but_flat(draw: Draw) -> Setup:
    era = draw.era()
    server, kind = usual(draw, era)
    server = replace(server, gpu_memory_utilization=0.95)
    rate = draw.between(0.42, 0.55) * capacity(server, kind)
    return draw.setup(era, server, (OpenLoop(kind, rate, draw.profile()),), companions=Companions(dcgm=True))


def _traffic_without_repeats(draw: Draw) -> Setup:
    """The hit ratio falls because prompts no longer repeat; the work stays the same."""
    era = draw.era(least=(0, 8, 0))
    repeated = RequestClass(
        "faq",
        LogNormal(350, 0.4, 50, 2000),
        LogNormal(220, 0.5, 10, 1500),
        prefix_tokens=512,
        prefix_groups=3,
        timeout_s=600,
    )
    unique = replace(repeated, name="free", prompt=LogNormal(500, 0.4, 50, 2500), prefix_tokens=0)
    server = draw.server(era, blocks=blocks_for(repeated, 18), prefix=True)
    onset_s = draw.hours(5, 8)
    rate = draw.between(0.40, 0.48) * min(capacity(server, repeated), capacity(server, unique))
    load = (
        OpenLoop(repeated, rate, draw.profile(step(onset_s, 1.0, 0.08))),
        OpenLoop(unique, rate, draw.profile(step(onset_s, 0.05, 0.92))),
    )
    return draw.setup(era, server, load, onset_s=onset_s)


def _low_acceptance_from_start(draw: Draw) -> Setup:
    era = draw.era(old=False)
    kind = draw.chat()
    server = draw.server(
        era, blocks=blocks_for(kind, 18), speculation=Speculation(draw.whole(2, 4), draw.between(0.35, 0.5))
    )
    rate = draw.between(0.4, 0.5) * capacity(server, kind)
    return draw.setup(era, server, (OpenLoop(kind, rate, draw.profile()),))


def _short_clock_dip(draw: Draw) -> Setup:
    """A near miss: the clock drops by a tenth for some minutes."""
    era = draw.era()
    server, kind = usual(draw, era)
    onset_s = draw.hours(4, 8)
    dip = Throttle(onset_s, draw.between(1.06, 1.12), 60, onset_s + draw.between(600, 1500))
    rate = draw.between(0.42, 0.52) * capacity(server, kind)
    return draw.setup(
        era, server, (OpenLoop(kind, rate, draw.profile()),), faults=(dip,), companions=Companions(dcgm=True)
    )


def _two_engines(draw: Draw) -> Setup:
    era = draw.era(old=False)
    server, kind = usual(draw, era, running=12)
    rate = 2 * draw.between(0.42, 0.52) * capacity(server, kind)
    return draw.setup(era, server, (OpenLoop(kind, rate, draw.profile()),), engines=2)


def _pauses(draw: Draw) -> Setup:
    """Traffic pauses for some minutes every hour or two; the pool empties each time."""
    era = draw.era()
    server, kind = usual(draw, era)
    pauses = Bursts(draw.between(4200, 7200), draw.between(300, 900), 0.0, draw.whole(1, 99999))
    rate = draw.between(0.45, 0.55) * capacity(server, kind)
    return draw.setup(era, server, (OpenLoop(kind, rate, draw.profile(pauses)),))


ALL = (
    Scenario("healthy-steady", "healthy", "steady load at half of capacity", _steady),
    Scenario("healthy-busy-kv-97", "healthy", "KV at 95-98 %, no queue", _busy),
    Scenario(
        "healthy-diurnal", "healthy", "a day's wave within capacity", _diurnal, acceptable=("demand_drop",)
    ),
    Scenario("healthy-bursts", "healthy", "short queues that drain", _bursts),
    Scenario(
        "healthy-rolling-restart",
        "healthy",
        "three pods restarted in turn",
        _rolling_restart,
        acceptable=("restart",),
    ),
    Scenario("healthy-some-preemptions", "healthy", "one request in twenty is preempted", _some_preemptions),
    Scenario("healthy-long-contexts", "healthy", "few long prompts, KV swings", _long_contexts),
    Scenario("healthy-scrape-gaps", "healthy", "missed scrapes and gaps", _scrape_gaps),
    Scenario("healthy-demand-up-20", "healthy", "demand up by a fifth with room for it", _demand_up_a_little),
    Scenario("healthy-memory-steps", "healthy", "memory steps up with load peaks", _memory_steps),
    Scenario("healthy-memory-flat-high", "healthy", "memory near its limit but flat", _memory_flat_high),
    Scenario("healthy-memory-slow-growth", "healthy", "memory grows by under 1 %/h", _memory_slow_growth),
    Scenario("healthy-gpu-full-flat", "healthy", "GPU memory full by pre-allocation", _gpu_full_but_flat),
    Scenario(
        "healthy-no-repeats", "healthy", "hit ratio falls as prompts stop repeating", _traffic_without_repeats
    ),
    Scenario(
        "healthy-low-acceptance", "healthy", "draft acceptance low from the start", _low_acceptance_from_start
    ),
    Scenario("healthy-clock-dip", "healthy", "a small, short clock drop", _short_clock_dip),
    Scenario("healthy-two-engines", "healthy", "two engines in one process", _two_engines),
    Scenario("healthy-pauses", "healthy", "traffic pauses now and then", _pauses),
)
