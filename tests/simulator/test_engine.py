"""The engine: exact fast-forwarding, conservation, and vLLM's own semantics."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from vllmdoctor.simulator import Companions, Page, Scrape, Server, Setup, Speculation, StepModel, simulate
from vllmdoctor.simulator.faults import BlockLeak, Fault, PrefixLoss, Restart, Stall, Throttle
from vllmdoctor.simulator.load import OpenLoop, Recorded, RequestClass, Stream, Uniform
from vllmdoctor.simulator.profiles import step

QUIET = StepModel(0.02, 0.0002, 0.0005, 2e-7, noise=0.0)
CHAT = RequestClass("chat", Uniform(200, 600), Uniform(50, 250))


def setup(
    server: Server,
    *load: Stream,
    duration_s: float = 600.0,
    faults: tuple[Fault, ...] = (),
    interval_s: float = 10.0,
) -> Setup:
    return Setup(
        server=server,
        load=load,
        faults=faults,
        duration_s=duration_s,
        scrape=Scrape(interval_s, 0.0, 0.0),
        companions=Companions(up=True),
        model_name="m",
        start_unix_s=0.0,
        warm_s=0.0,
    )


def total(page: Page, name: str) -> float:
    return sum(v for k, v in page.values.items() if k.partition("{")[0] == name)


def arrivals(count: int, gap_s: float, prompt: int, output: int) -> tuple[tuple[float, int, int], ...]:
    return tuple(
        (index * gap_s, prompt + 7 * (index % 13), output + 5 * (index % 11)) for index in range(count)
    )


def test_a_coarse_and_a_fine_look_see_the_same_history() -> None:
    server = Server(num_gpu_blocks=160, step=QUIET)
    known = Recorded(CHAT, arrivals(150, 0.5, 300, 120))
    ends = []
    for interval_s in (0.7, 50.0):
        pages = list(simulate(setup(server, known, duration_s=400.0, interval_s=interval_s), seed=1))
        ends.append(pages[-1])
    fine, coarse = ends
    assert total(coarse, "vllm:num_preemptions_total") > 0
    for name in ("vllm:request_success_total", "vllm:prompt_tokens_total", "vllm:generation_tokens_total"):
        assert total(fine, name) == total(coarse, name)
    for name in ("vllm:e2e_request_latency_seconds_sum", "vllm:inter_token_latency_seconds_sum"):
        assert total(fine, name) == pytest.approx(total(coarse, name), rel=1e-9)


def test_every_token_is_counted_once_even_when_recomputed() -> None:
    sent = arrivals(60, 0.5, 300, 150)
    server = Server(num_gpu_blocks=150, step=QUIET)
    last = list(simulate(setup(server, Recorded(CHAT, sent), duration_s=900.0), seed=1))[-1]
    assert total(last, "vllm:num_preemptions_total") > 0
    assert total(last, "vllm:request_success_total") == len(sent)
    assert total(last, "vllm:prompt_tokens_total") == sum(prompt for _, prompt, _ in sent)
    assert total(last, "vllm:generation_tokens_total") == sum(output for _, _, output in sent)
    assert total(last, "vllm:kv_cache_usage_perc") == 0.0
    assert total(last, "vllm:num_requests_running") == total(last, "vllm:num_requests_waiting") == 0


def test_batch_and_slots_stay_within_the_limits() -> None:
    server = Server(num_gpu_blocks=4000, max_num_seqs=6, step=QUIET)
    pages = list(simulate(setup(server, OpenLoop(CHAT, 3.0)), seed=1))
    running = [total(page, "vllm:num_requests_running") for page in pages]
    assert max(running) <= 6
    assert total(pages[-1], "vllm:num_requests_waiting") > 50
    assert all(0.0 <= total(page, "vllm:kv_cache_usage_perc") <= 1.0 for page in pages)


def test_a_long_step_blocks_everybody_while_nobody_waits() -> None:
    giant = RequestClass("giant", Uniform(20000, 20000), Uniform(10, 10))
    server = Server(num_gpu_blocks=4000, max_num_batched_tokens=32768, step=QUIET)
    shorts = Recorded(CHAT, arrivals(100, 1.0, 100, 40))
    rare = Recorded(giant, tuple((5.0 + 20 * index, 20000, 10) for index in range(5)))
    blocked = list(simulate(setup(server, shorts, rare, duration_s=150, interval_s=1.0), seed=1))
    assert max(total(page, "vllm:num_requests_waiting") for page in blocked) == 0
    limited = replace(server, long_prefill_token_threshold=256)
    cured = list(simulate(setup(limited, shorts, rare, duration_s=150, interval_s=1.0), seed=1))

    def slow(page: Page) -> float:
        key = 'vllm:time_to_first_token_seconds_bucket{engine="0",le="%s",model_name="m"}'
        return page.values[key % "+Inf"] - page.values[key % "0.75"]

    assert slow(blocked[-1]) > 10
    assert slow(cured[-1]) <= 5  # the giants themselves


@pytest.mark.parametrize(("spares", "prefill_s"), [(True, 0.82), (False, 0.88)])
def test_the_threshold_spares_a_prompt_that_is_alone_in_newer_releases(
    spares: bool, prefill_s: float
) -> None:
    server = Server(
        num_gpu_blocks=4000,
        step=QUIET,
        long_prefill_token_threshold=1000,
        threshold_spares_lone_request=spares,
    )
    alone = setup(server, Recorded(CHAT, ((1.0, 4000, 1),)), duration_s=60)
    last = list(simulate(alone, seed=1))[-1]
    # one step of 4,000 tokens, or four of 1,000
    assert total(last, "vllm:request_prefill_time_seconds_sum") == pytest.approx(prefill_s, rel=0.02)


def test_a_queue_head_that_does_not_fit_stops_those_behind_it() -> None:
    server = Server(num_gpu_blocks=500, step=QUIET, max_num_batched_tokens=8192)
    sent = ((0.0, 3000, 400), (1.0, 6000, 10), (2.0, 50, 10))
    pages = list(simulate(setup(server, Recorded(CHAT, sent), duration_s=60, interval_s=1.0), seed=1))
    stuck = pages[5]
    assert total(stuck, "vllm:num_requests_running") == 1
    assert total(stuck, "vllm:num_requests_waiting") == 2
    assert total(stuck, "vllm:kv_cache_usage_perc") < 0.5
    assert total(pages[-1], "vllm:request_success_total") == 3


def test_a_request_larger_than_the_pool_is_seen_waiting_for_ever() -> None:
    server = Server(num_gpu_blocks=200, step=QUIET)
    sent = ((0.0, 100, 10), (5.0, 5000, 10), (6.0, 100, 10))
    last = list(simulate(setup(server, Recorded(CHAT, sent), duration_s=60), seed=1))[-1]
    assert total(last, "vllm:num_requests_running") == 0
    assert total(last, "vllm:num_requests_waiting") == 2


def test_prefix_cache_hits_until_others_need_the_blocks() -> None:
    kind = RequestClass("rag", Uniform(64, 64), Uniform(16, 16), prefix_tokens=1024)
    sent = tuple((2.0 * index, 1088, 16) for index in range(20))
    server = Server(num_gpu_blocks=200, step=QUIET)
    last = list(simulate(setup(server, Recorded(kind, sent), duration_s=60), seed=1))[-1]
    assert total(last, "vllm:prefix_cache_hits_total") == 19 * 1024
    assert total(last, "vllm:prompt_tokens_by_source_total") == 20 * 1088
    # Strangers in between push the prefix out of a pool that cannot hold both.
    strangers = Recorded(CHAT, tuple((2.0 * index + 1.0, 2900, 2) for index in range(20)))
    pushed = list(simulate(setup(server, Recorded(kind, sent), strangers, duration_s=60), seed=1))[-1]
    assert total(pushed, "vllm:prefix_cache_hits_total") < 6 * 1024


def test_a_lost_prefix_costs_prefill_work() -> None:
    kind = RequestClass("rag", Uniform(64, 64), Uniform(16, 16), prefix_tokens=2048)
    server = Server(num_gpu_blocks=2000, step=QUIET)
    load = OpenLoop(kind, 0.8)
    sound = list(simulate(setup(server, load), seed=3))[-1]
    lost = list(simulate(setup(server, load, faults=(PrefixLoss(0.0, 0.0),)), seed=3))[-1]
    assert total(lost, "vllm:prefix_cache_hits_total") == 0
    mean = [
        total(page, "vllm:time_to_first_token_seconds_sum")
        / total(page, "vllm:time_to_first_token_seconds_count")
        for page in (sound, lost)
    ]
    assert mean[1] > 2 * mean[0]


def test_leaked_blocks_leave_a_floor_that_a_restart_clears() -> None:
    server = Server(num_gpu_blocks=600, step=QUIET)
    sent = arrivals(100, 1.0, 200, 40)
    faults = (BlockLeak(0.0, 6.0, 0.5, end_s=200.0), Restart(300.0, 0, 30.0))
    pages = list(simulate(setup(server, Recorded(CHAT, sent), duration_s=400, faults=faults), seed=1))
    idle = [page for page in pages if 200 < page.time_s < 290]
    assert all(total(page, "vllm:num_requests_running") == 0 for page in idle)
    floor = {total(page, "vllm:kv_cache_usage_perc") for page in idle}
    assert len(floor) == 1
    assert 0.2 < floor.pop() < 0.9
    after = pages[-1]
    assert total(after, "vllm:kv_cache_usage_perc") == 0.0
    assert total(after, "vllm:request_success_total") == 0.0
    assert total(after, "process_start_time_seconds") > total(pages[0], "process_start_time_seconds")
    down = [page for page in pages if 305 < page.time_s < 325]
    assert down
    assert all(set(page.values) == {'up{instance="10.0.0.10:8000",job="vllm"}'} for page in down)
    assert all(page.values['up{instance="10.0.0.10:8000",job="vllm"}'] == 0.0 for page in down)


def test_a_stall_freezes_counters_and_gauges_while_http_goes_on() -> None:
    kind = replace(CHAT, timeout_s=20.0)
    server = Server(num_gpu_blocks=2000, step=QUIET)
    pages = list(simulate(setup(server, OpenLoop(kind, 1.0), faults=(Stall(300.0),)), seed=1))
    after = [page for page in pages if page.time_s > 340]
    for name in (
        "vllm:generation_tokens_total",
        "vllm:num_requests_running",
        "vllm:iteration_tokens_total_count",
    ):
        assert len({total(page, name) for page in after}) == 1
    assert total(after[0], "vllm:num_requests_running") > 0
    assert total(after[-1], "http_requests_total") > total(after[0], "http_requests_total") + 100


def test_a_stall_from_idle_leaves_the_gauges_at_zero() -> None:
    kind = replace(CHAT, timeout_s=20.0)
    server = Server(num_gpu_blocks=2000, step=QUIET)
    fault = Stall(200.0, "idle")
    pages = list(simulate(setup(server, OpenLoop(kind, 0.03), faults=(fault,), duration_s=1200), seed=4))
    last = pages[-1]
    assert total(last, "vllm:num_requests_running") == 0
    assert total(last, "http_requests_total") > total(last, "vllm:request_success_total") + 5


def test_throttling_slows_every_step_by_its_factor() -> None:
    server = Server(num_gpu_blocks=4000, step=QUIET)
    known = Recorded(CHAT, arrivals(40, 5.0, 300, 120))
    sound = list(simulate(setup(server, known, duration_s=300), seed=1))[-1]
    slow = list(simulate(setup(server, known, duration_s=300, faults=(Throttle(0.0, 2.0, 0.0),)), seed=1))[-1]
    name = "vllm:request_decode_time_seconds_sum"
    assert total(slow, name) == pytest.approx(2.0 * total(sound, name), rel=0.12)


def test_clients_that_give_up_are_seen_by_http_only() -> None:
    kind = replace(CHAT, timeout_s=15.0)
    server = Server(num_gpu_blocks=4000, max_num_seqs=4, step=QUIET)
    last = list(simulate(setup(server, OpenLoop(kind, 3.0)), seed=1))[-1]
    done = total(last, "vllm:request_success_total")
    assert total(last, "http_requests_total") > 1.5 * done
    assert last.values['vllm:request_success_total{engine="0",finished_reason="abort",model_name="m"}'] == 0.0
    assert total(last, "vllm:e2e_request_latency_seconds_count") == done


@pytest.mark.parametrize("seed", range(5))
def test_whatever_happens_the_pool_is_empty_in_the_end(seed: int) -> None:
    rng = Random(seed)
    server = Server(
        num_gpu_blocks=rng.randint(150, 500),
        block_size=rng.choice((8, 16, 32)),
        max_num_seqs=rng.choice((4, 16, 64)),
        max_num_batched_tokens=rng.choice((64, 256, 2048)),
        long_prefill_token_threshold=rng.choice((0, 40)),
        max_model_len=1200,
        enable_prefix_caching=rng.random() < 0.7,
        reserve_full_isl=rng.random() < 0.5,
        watermark=rng.choice((0.0, 0.05)),
        extra_blocks_per_seq=rng.choice((0, 2)),
        speculation=rng.choice((None, Speculation(3, 0.7))),
        step=StepModel(noise=0.1),
    )
    ends = step(500.0, 1.0, 0.0)
    rag = RequestClass("rag", Uniform(20, 90), Uniform(5, 60), prefix_tokens=256, prefix_groups=3)
    hasty = replace(CHAT, timeout_s=rng.choice((8.0, 60.0)), patience_sigma=0.8)
    load = (OpenLoop(hasty, 1.5, ends), OpenLoop(rag, 0.5, ends))
    history = setup(server, *load, duration_s=1500.0, faults=(PrefixLoss(250.0, 0.5, end_s=400.0),))
    last = list(simulate(history, seed=seed))[-1]
    assert total(last, "vllm:num_requests_running") == total(last, "vllm:num_requests_waiting") == 0
    assert total(last, "vllm:kv_cache_usage_perc") == pytest.approx(0.0, abs=1e-12)
    assert total(last, "vllm:request_success_total") > 100


def test_another_server_gets_the_same_requests() -> None:
    """What-if questions compare servers under one demand, not under two draws of it."""
    load = (
        OpenLoop(CHAT, 0.4, step(500.0, 1.0, 0.0)),
        OpenLoop(replace(CHAT, name="b"), 0.2, step(500.0, 1.0, 0.0)),
    )
    servers = [Server(num_gpu_blocks=blocks, step=QUIET) for blocks in (150, 3000)]
    small, large = (list(simulate(setup(server, *load, duration_s=900.0), seed=1))[-1] for server in servers)
    assert total(small, "vllm:num_preemptions_total") > 0 == total(large, "vllm:num_preemptions_total")
    for name in ("vllm:prompt_tokens_total", "vllm:generation_tokens_total", "http_requests_total"):
        assert total(small, name) == total(large, name)
