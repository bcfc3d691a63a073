"""KV blocks that no live request uses: the effective pool shrinks."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from vllmdoctor.simulator.draw import HOUR, Draw
from vllmdoctor.simulator.faults import BlockLeak, BlockLoss, Restart
from vllmdoctor.simulator.load import ClosedLoop, OpenLoop, RequestClass
from vllmdoctor.simulator.profiles import Bursts
from vllmdoctor.simulator.scenario import Scenario
from vllmdoctor.simulator.scenarios.overload import kv_server
from vllmdoctor.simulator.setup import Era, Setup
from vllmdoctor.simulator.sizing import capacity

if TYPE_CHECKING:
    from vllmdoctor.simulator.server import Server


def leak_over(server: Server, rate: float, onset_s: float, hours: float, share: float) -> BlockLeak:
    """A leak that pins ``share`` of the pool within ``hours`` at ``rate`` requests/s."""
    probability = 0.1
    blocks = share * server.num_gpu_blocks / (rate * hours * HOUR * probability)
    return BlockLeak(onset_s, blocks, probability, ceiling=share)


def effect_of(leak: BlockLeak, server: Server, kind: RequestClass, rate: float, ends: float = 1.0) -> float:
    """About when [s] the leak leaves too few blocks for ``rate`` requests/s.

    ``ends`` is the share of requests that end in the way that leaks.
    """
    lost_per_s = rate * ends * leak.probability * leak.blocks / server.num_gpu_blocks
    # Queues begin before the last bit of capacity is used.
    spare = 1.0 - rate / (0.85 * capacity(server, kind))
    return leak.onset_s + min(leak.ceiling, max(0.0, spare)) / lost_per_s


def _leaking(draw: Draw, era: Era) -> Setup:
    server, kind = kv_server(draw, era)
    onset_s = draw.hours(1.5, 4)
    rate = draw.between(0.56, 0.64) * capacity(server, kind)
    leak = leak_over(server, rate, onset_s, draw.between(3.5, 5.5), draw.between(0.62, 0.75))
    return draw.setup(
        era,
        server,
        (OpenLoop(kind, rate, draw.profile(sigma=0.03)),),
        faults=(leak,),
        onset_s=onset_s,
        effect_s=effect_of(leak, server, kind, rate),
    )


def _ramp(draw: Draw) -> Setup:
    return _leaking(draw, draw.era(old=False))


def _early_names(draw: Draw) -> Setup:
    return _leaking(draw, Era((0, 8, 5)))


def _sudden(draw: Draw) -> Setup:
    era = draw.era()
    server, kind = kv_server(draw, era)
    onset_s = draw.hours(4, 8)
    rate = draw.between(0.56, 0.64) * capacity(server, kind)
    loss = BlockLoss(onset_s, draw.between(0.55, 0.7))
    return draw.setup(
        era, server, (OpenLoop(kind, rate, draw.profile(sigma=0.03)),), faults=(loss,), onset_s=onset_s
    )


def _sawtooth(draw: Draw) -> Setup:
    """A leak that a restart resets and that begins again."""
    era = draw.era()
    server, kind = kv_server(draw, era)
    rate = draw.between(0.56, 0.64) * capacity(server, kind)
    first_s, period_s = draw.hours(4, 5), draw.hours(4.5, 5.5)
    leak = leak_over(server, rate, 0.0, 3.8, draw.between(0.7, 0.8))
    restarts = tuple(Restart(first_s + period_s * index, 0, 150) for index in range(3))
    return draw.setup(
        era,
        server,
        (OpenLoop(kind, rate, draw.profile(sigma=0.03)),),
        faults=(leak, *restarts),
        onset_s=0.0,
        effect_s=effect_of(leak, server, kind, rate),
        hours=15,
        uptime_s=0.0,
    )


def _closed_loop(draw: Draw) -> Setup:
    """Clients that wait for answers: no endless queue, the rate itself falls."""
    era = draw.era()
    server, kind = kv_server(draw, era)
    kind = replace(kind, timeout_s=900.0)
    onset_s = draw.hours(1.5, 4)
    clients = draw.whole(11, 13)
    rate = 0.8 * capacity(server, kind)
    leak = leak_over(server, rate, onset_s, draw.between(3.5, 5), draw.between(0.65, 0.78))
    return draw.setup(
        era,
        server,
        (ClosedLoop(kind, clients, draw.between(1, 3)),),
        faults=(leak,),
        onset_s=onset_s,
        effect_s=effect_of(leak, server, kind, rate),
    )


def _aborts(draw: Draw) -> Setup:
    """Blocks leak when clients hang up: impatient clients wear the pool down."""
    era = draw.era(old=False)
    server, kind = kv_server(draw, era)
    impatient = RequestClass("impatient", kind.prompt, kind.output, timeout_s=6.0, max_tokens=2048)
    onset_s = draw.hours(1.5, 4)
    rate = draw.between(0.54, 0.62) * capacity(server, kind)
    share = 0.12
    leak = BlockLeak(
        onset_s,
        0.65 * server.num_gpu_blocks / (rate * share * 4.5 * HOUR * 0.5),
        0.5,
        on="abort",
        ceiling=draw.between(0.62, 0.72),
    )
    load = (
        OpenLoop(kind, rate * (1 - share), draw.profile(sigma=0.03)),
        OpenLoop(impatient, rate * share),
    )
    return draw.setup(
        era,
        server,
        load,
        faults=(leak,),
        onset_s=onset_s,
        effect_s=effect_of(leak, server, kind, rate, 0.7 * share),
    )


def _idle_floor(draw: Draw) -> Setup:
    """Traffic pauses now and then, and the pool does not empty: a floor that rises."""
    era = draw.era()
    server, kind = kv_server(draw, era)
    onset_s = draw.hours(1.5, 3)
    rate = draw.between(0.56, 0.64) * capacity(server, kind)
    leak = leak_over(server, rate, onset_s, draw.between(4, 6), draw.between(0.6, 0.7))
    pauses = Bursts(draw.between(5400, 7200), 900, 0.0, draw.whole(1, 99999))
    return draw.setup(
        era,
        server,
        (OpenLoop(kind, rate, draw.profile(pauses, sigma=0.03)),),
        faults=(leak,),
        onset_s=onset_s,
        effect_s=effect_of(leak, server, kind, rate),
    )


ALL = (
    Scenario(
        "fragmentation-leak-ramp",
        "fragmentation",
        "blocks stay pinned after requests end",
        _ramp,
        "leaked-blocks",
        ("overload",),
    ),
    Scenario(
        "fragmentation-early-names",
        "fragmentation",
        "the same under vLLM 0.8.5's names",
        _early_names,
        "leaked-blocks",
        ("overload",),
    ),
    Scenario(
        "fragmentation-sudden-loss",
        "fragmentation",
        "half of the pool is lost at once",
        _sudden,
        "leaked-blocks",
        ("overload",),
    ),
    Scenario(
        "fragmentation-sawtooth",
        "fragmentation",
        "a restart resets it, it rises again",
        _sawtooth,
        "leaked-blocks",
        ("overload", "restart"),
    ),
    Scenario(
        "fragmentation-closed-loop",
        "fragmentation",
        "leaked blocks under a closed loop",
        _closed_loop,
        "leaked-blocks",
        ("overload",),
    ),
    Scenario(
        "fragmentation-abort-leak",
        "fragmentation",
        "blocks leak when clients hang up",
        _aborts,
        "leaked-blocks",
        ("overload",),
    ),
    Scenario(
        "fragmentation-idle-floor",
        "fragmentation",
        "leaked blocks seen as a floor while traffic pauses",
        _idle_floor,
        "leaked-blocks",
        ("overload",),
    ),
)
