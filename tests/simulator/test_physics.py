"""Faults are seen for what they are: short histories, before against after."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest

from vllmdoctor.simulator import (
    Companions,
    Host,
    Page,
    Scrape,
    Server,
    Setup,
    Speculation,
    StepModel,
    simulate,
)
from vllmdoctor.simulator.faults import (
    AcceptanceDecay,
    BlockLoss,
    Fault,
    GpuMemoryGrowth,
    HostCpuBound,
    HostMemoryLeak,
    ReplicaLoss,
    Throttle,
)
from vllmdoctor.simulator.fit import BusyInterval, fit_step_model
from vllmdoctor.simulator.load import ClosedLoop, OpenLoop, RequestClass, Uniform
from vllmdoctor.simulator.profiles import Diurnal, Product, Ramp, Wander, step
from vllmdoctor.simulator.replay import replay
from vllmdoctor.simulator.setup import GIB
from vllmdoctor.simulator.sizing import blocks_for, capacity

KIND = RequestClass("chat", Uniform(400, 1200), Uniform(100, 400), timeout_s=200.0, patience_sigma=0.5)
STEP = StepModel()
HALF_S = 1800.0


@dataclass
class Half:
    """Sums over half of a history."""

    first: Page
    last: Page
    pages: list[Page]

    def rate(self, name: str) -> float:
        return self._gain(name) / (self.last.time_s - self.first.time_s)

    def ratio(self, name: str) -> float:
        return self._gain(name + "_sum") / max(1.0, self._gain(name + "_count"))

    def mean(self, name: str) -> float:
        return sum(_total(page, name) for page in self.pages) / len(self.pages)

    def _gain(self, name: str) -> float:
        return _total(self.last, name) - _total(self.first, name)


def _total(page: Page, name: str) -> float:
    return sum(v for k, v in page.values.items() if k.partition("{")[0] == name)


def halves(
    *faults: Fault,
    load: float = 0.55,
    running: float = 14.0,
    after: float = 1.0,
    server: Server | None = None,
    closed: int = 0,
) -> tuple[Half, Half]:
    """Before and after ``HALF_S``, where faults begin and demand becomes ``after`` times as high."""
    server = server or Server(num_gpu_blocks=blocks_for(KIND, running), step=STEP)
    rate = load * capacity(server, KIND)
    stream = ClosedLoop(KIND, closed, 1.0) if closed else OpenLoop(KIND, rate, step(HALF_S, 1.0, after))
    setup = Setup(
        server=server,
        load=(stream,),
        faults=faults,
        duration_s=2 * HALF_S,
        scrape=Scrape(30.0, 0.0, 0.0),
        host=Host(16 * GIB),
        companions=Companions(cadvisor=True, cfs=True, dcgm=True),
        start_unix_s=0.0,
    )
    pages = list(simulate(setup, seed=5))
    before = [page for page in pages if page.time_s < HALF_S]
    then = [page for page in pages if page.time_s >= HALF_S + 300]
    return Half(before[0], before[-1], before), Half(then[0], then[-1], then)


GEN = "vllm:generation_tokens_total"
WAITING = "vllm:num_requests_waiting"
ITL = "vllm:inter_token_latency_seconds"
USAGE = "vllm:kv_cache_usage_perc"


def test_a_steady_load_within_capacity_stays_healthy() -> None:
    before, after = halves()
    assert after.rate(GEN) == pytest.approx(before.rate(GEN), rel=0.15)
    assert after.mean(WAITING) < 0.5
    assert after.ratio("vllm:time_to_first_token_seconds") < 1.0


def test_less_demand_is_less_work_at_the_same_speed() -> None:
    before, after = halves(after=0.4)
    assert after.rate(GEN) < 0.55 * before.rate(GEN)
    assert after.ratio(ITL) <= 1.02 * before.ratio(ITL)
    assert after.mean(WAITING) == 0


def test_more_demand_than_the_pool_holds_queues_and_preempts() -> None:
    before, after = halves(after=2.6)
    assert after.mean(WAITING) > 20 > before.mean(WAITING)
    assert after.mean(USAGE) > 0.9
    assert after.rate("vllm:num_preemptions_total") > 0.03
    assert after.ratio("vllm:request_queue_time_seconds") > 10


def test_lost_blocks_cut_the_rate_at_equal_demand() -> None:
    before, after = halves(BlockLoss(HALF_S, 0.65), load=0.62)
    assert after.rate(GEN) < 0.75 * before.rate(GEN)
    assert after.mean(USAGE) > 0.9
    assert after.mean("vllm:num_requests_running") < before.mean("vllm:num_requests_running")


def test_lost_blocks_slow_a_closed_loop() -> None:
    before, after = halves(BlockLoss(HALF_S, 0.7), closed=10)
    assert after.rate(GEN) < 0.7 * before.rate(GEN)


def test_throttling_shows_in_latency_and_clock() -> None:
    before, after = halves(Throttle(HALF_S, 1.7), load=0.4)
    assert after.ratio(ITL) > 1.6 * before.ratio(ITL)
    assert after.mean("DCGM_FI_DEV_SM_CLOCK") < 0.65 * before.mean("DCGM_FI_DEV_SM_CLOCK")
    assert after.mean("DCGM_FI_DEV_CLOCK_THROTTLE_REASONS") > 0


def test_a_starved_host_shows_in_gpu_use_and_cfs() -> None:
    before, after = halves(HostCpuBound(HALF_S, 0.06), load=0.4)
    assert after.ratio(ITL) > 1.5 * before.ratio(ITL)
    assert after.mean("DCGM_FI_DEV_GPU_UTIL") < 0.65 * before.mean("DCGM_FI_DEV_GPU_UTIL")
    assert after.rate("container_cpu_cfs_throttled_periods_total") > 4.0
    assert before.rate("container_cpu_cfs_throttled_periods_total") < 0.2


def test_decaying_acceptance_slows_each_request() -> None:
    server = Server(num_gpu_blocks=blocks_for(KIND, 14), step=STEP, speculation=Speculation(3, 0.8))
    # The process has been up for the warm-up, too.
    decay = AcceptanceDecay(HALF_S + 900.0, 0.15, 200.0)
    before, after = halves(decay, server=server, load=0.35)
    drafts = "vllm:spec_decode_num_draft_tokens_total"
    accepted = "vllm:spec_decode_num_accepted_tokens_total"
    assert before.rate(accepted) / before.rate(drafts) > 0.6
    assert after.rate(accepted) / after.rate(drafts) < 0.3
    assert after.ratio("vllm:request_decode_time_seconds") > 1.4 * before.ratio(
        "vllm:request_decode_time_seconds"
    )


def test_a_leak_ends_in_an_oom_kill() -> None:
    leak = HostMemoryLeak(HALF_S, bytes_per_s=12 * GIB / 900.0)
    before, after = halves(leak)
    memory = "container_memory_working_set_bytes"
    assert before.mean(memory) < 7 * GIB
    levels = [_total(page, memory) for page in after.pages if _total(page, memory)]
    assert max(levels) > 14 * GIB
    starts = {_total(page, "process_start_time_seconds") for page in after.pages} - {0.0}
    assert len(starts) >= 2


def test_gpu_memory_grows_outside_the_pool_only() -> None:
    before, after = halves(GpuMemoryGrowth(HALF_S, 3 * GIB / HALF_S))
    used = "DCGM_FI_DEV_FB_USED"
    assert _total(after.last, used) > _total(before.last, used) + 2500
    assert after.mean(USAGE) == pytest.approx(before.mean(USAGE), abs=0.1)


def test_a_lost_replica_hands_its_load_to_the_rest() -> None:
    server = Server(num_gpu_blocks=blocks_for(KIND, 10), step=STEP)
    setup = Setup(
        server=server,
        load=(OpenLoop(KIND, 1.2 * capacity(server, KIND)),),
        faults=(ReplicaLoss(HALF_S, 2),),
        duration_s=2 * HALF_S,
        pods=3,
        start_unix_s=0.0,
    )
    pages = list(simulate(setup, seed=2))
    gone = [page for page in pages if page.instance == "10.0.0.12:8000"]
    assert gone
    assert gone[-1].time_s < HALF_S + 1
    kept = [page for page in pages if page.instance == "10.0.0.10:8000" and page.values]
    running = "vllm:num_requests_running"
    early = [_total(page, running) for page in kept if page.time_s < HALF_S]
    late = [_total(page, running) for page in kept if page.time_s > HALF_S + 300]
    assert sum(late) / len(late) > 1.3 * sum(early) / len(early)


def test_profiles_never_exceed_their_peak() -> None:
    profile = Product((Diurnal(0.5, 3600.0), Ramp(0.0, 7200.0, 0.5, 1.5), Wander(0.2, 600.0, 7)))
    assert all(0 <= profile.factor(60.0 * minute) <= profile.peak for minute in range(1440))


def test_the_fit_finds_the_step_times_of_a_replay() -> None:
    true = replace(STEP, noise=0.0, per_prefill_pair_s=0.0)
    work = [
        BusyInterval(
            0.0, 40.0 + index % 7, 300.0 * (index % 5), 200.0 + 37 * (index % 11), 1e4 * (1 + index % 13)
        )
        for index in range(60)
    ]
    timed = [replace(each, seconds=each.seconds_by(true)) for each in work]
    found = fit_step_model(timed)
    assert found.base_s == pytest.approx(true.base_s, rel=1e-3)
    assert found.per_prefill_token_s == pytest.approx(true.per_prefill_token_s, rel=1e-3)
    assert found.per_context_token_s == pytest.approx(true.per_context_token_s, rel=1e-3)
    with pytest.raises(ValueError, match="at least 8"):
        fit_step_model(timed[:3])


def test_a_replay_keeps_the_arrivals_it_was_given() -> None:
    sent = [(2.0 * index, 200, 50) for index in range(50)]
    last = list(replay(sent, Server(num_gpu_blocks=500), STEP, duration_s=160.0))[-1]
    assert _total(last, "vllm:request_success_total") == 50
    assert _total(last, "vllm:prompt_tokens_total") == 10_000
