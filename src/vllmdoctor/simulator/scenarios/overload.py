"""More work than the server can do, by the limit that it meets."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from vllmdoctor.simulator.load import LogNormal, OpenLoop, RequestClass
from vllmdoctor.simulator.profiles import Ramp, step
from vllmdoctor.simulator.scenario import Scenario
from vllmdoctor.simulator.sizing import blocks_for, capacity

if TYPE_CHECKING:
    from vllmdoctor.simulator.draw import Draw
    from vllmdoctor.simulator.server import Server
    from vllmdoctor.simulator.setup import Era, Setup


def kv_server(draw: Draw, era: Era) -> tuple[Server, RequestClass]:
    """A server that runs out of KV blocks first."""
    kind = draw.chat(prompt=700, output=380, timeout_s=draw.between(120, 300))
    return draw.server(era, blocks=blocks_for(kind, draw.between(12, 17))), kind


def _kv_step(draw: Draw) -> Setup:
    era = draw.era()
    server, kind = kv_server(draw, era)
    onset_s = draw.hours(4, 8)
    top = capacity(server, kind)
    profile = draw.profile(step(onset_s, 0.55, draw.between(1.3, 1.6)), sigma=0.03)
    return draw.setup(era, server, (OpenLoop(kind, top, profile),), onset_s=onset_s)


def _kv_ramp(draw: Draw) -> Setup:
    era = draw.era()
    server, kind = kv_server(draw, era)
    start_s, end_s, goal = draw.hours(2, 4), draw.hours(7, 9), draw.between(1.4, 1.7)
    # The trouble begins a little before the ramp crosses the capacity of a perfectly even load.
    onset_s = start_s + (0.75 - 0.5) / (goal - 0.5) * (end_s - start_s)
    profile = draw.profile(Ramp(start_s, end_s, 0.5, goal), sigma=0.03)
    load = (OpenLoop(kind, capacity(server, kind), profile),)
    return draw.setup(era, server, load, onset_s=onset_s)


def _longer_outputs(draw: Draw) -> Setup:
    """As many requests as before, but their answers are two or three times as long."""
    era = draw.era()
    server, kind = kv_server(draw, era)
    kind = replace(kind, timeout_s=draw.between(400, 600))
    factor = draw.between(2.2, 3.0)
    longer = replace(kind, name="longer", output=LogNormal(380 * factor, 0.4, 8, 3000))
    onset_s = draw.hours(4, 8)
    rate = draw.between(0.55, 0.62) * capacity(server, kind)
    load = (
        OpenLoop(kind, rate, draw.profile(step(onset_s, 1.0, 0.0), sigma=0.03)),
        OpenLoop(longer, rate, draw.profile(step(onset_s, 0.0, 1.0), sigma=0.03)),
    )
    return draw.setup(era, server, load, onset_s=onset_s)


def _slots(draw: Draw) -> Setup:
    era = draw.era()
    kind = draw.chat(timeout_s=draw.between(120, 300))
    seqs = draw.whole(6, 10)
    server = draw.server(era, blocks=blocks_for(kind, seqs * draw.between(3, 5)), seqs=seqs)
    onset_s = draw.hours(4, 8)
    profile = draw.profile(step(onset_s, 0.55, draw.between(1.3, 1.7)), sigma=0.03)
    load = (OpenLoop(kind, capacity(server, kind), profile),)
    return draw.setup(era, server, load, onset_s=onset_s)


def _compute(draw: Draw) -> Setup:
    """Decoding itself is at its limit: every running request slows all the others."""
    era = draw.era()
    kind = draw.chat(prompt=300, output=420, timeout_s=draw.between(100, 140))
    model = draw.step(per_seq=10.0)
    server = draw.server(era, blocks=blocks_for(kind, 300), step=model)
    roomy = replace(server, max_num_seqs=120)
    onset_s = draw.hours(4, 8)
    profile = draw.profile(step(onset_s, 0.55, draw.between(1.35, 1.6)), sigma=0.03)
    load = (OpenLoop(kind, capacity(roomy, kind), profile),)
    return draw.setup(era, server, load, onset_s=onset_s)


def _prefill_rate(draw: Draw) -> Setup:
    """Many long prompts with short answers: prompt processing is at its limit, KV is not."""
    era = draw.era()
    kind = RequestClass(
        "classify",
        LogNormal(2600, 0.4, 300, 8000),
        LogNormal(24, 0.4, 2, 80),
        timeout_s=draw.between(60, 120),
        patience_sigma=0.6,
        max_tokens=128,
    )
    server = draw.server(era, blocks=blocks_for(kind, 120), budget=4096)
    onset_s = draw.hours(4, 8)
    profile = draw.profile(step(onset_s, 0.5, draw.between(1.15, 1.35)), sigma=0.03)
    load = (OpenLoop(kind, capacity(server, kind), profile),)
    return draw.setup(era, server, load, onset_s=onset_s)


def _prefill_longer_prompts(draw: Draw) -> Setup:
    """The same requests with prompts several times as long."""
    era = draw.era()
    kind = draw.chat(prompt=700, output=120, timeout_s=draw.between(90, 180))
    longer = replace(kind, name="longer", prompt=LogNormal(5200, 0.4, 500, 16000))
    server = draw.server(era, blocks=blocks_for(longer, 110), budget=4096)
    onset_s = draw.hours(4, 8)
    rate = draw.between(1.1, 1.25) * capacity(server, longer)
    load = (
        OpenLoop(kind, rate, draw.profile(step(onset_s, 1.0, 0.1), sigma=0.03)),
        OpenLoop(longer, rate, draw.profile(step(onset_s, 0.0, 0.9), sigma=0.03)),
    )
    return draw.setup(era, server, load, onset_s=onset_s)


ALL = (
    Scenario(
        "overload-kv-step", "overload", "demand steps over what the pool can hold", _kv_step, "kv-bound"
    ),
    Scenario(
        "overload-kv-ramp", "overload", "demand climbs over what the pool can hold", _kv_ramp, "kv-bound"
    ),
    Scenario("overload-longer-outputs", "overload", "answers become longer", _longer_outputs, "kv-bound"),
    Scenario("overload-slots", "overload", "all sequence slots taken, KV free", _slots, "slot-bound"),
    Scenario("overload-compute", "overload", "decode compute at its limit", _compute, "compute-bound"),
    Scenario(
        "overload-prefill-rate",
        "overload",
        "long prompts, short answers, KV low",
        _prefill_rate,
        "prefill-bound",
        ("prefill_bound",),
    ),
    Scenario(
        "prefill-bound-longer-prompts",
        "prefill_bound",
        "prompts become longer",
        _prefill_longer_prompts,
        "prefill-bound",
        ("overload",),
    ),
)
