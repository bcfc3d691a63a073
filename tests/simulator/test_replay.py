"""Replaying with a host whose speed changes, and what the calibration reads from recordings."""

from __future__ import annotations

import csv
import gzip
import math
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from bench.simulator.calibrate import agrees
from bench.simulator.fitting import Fit, gaps_by_second, measure_speed, run
from bench.simulator.recordings import Recording, requests

from vllmdoctor.simulator import Page, Server, StepModel
from vllmdoctor.simulator.replay import replay

if TYPE_CHECKING:
    from pathlib import Path

SERVER = Server(num_gpu_blocks=512, max_num_seqs=64, max_num_batched_tokens=2048)
STEP = StepModel(base_s=0.02, noise=0.0)
ARRIVALS = [(1.0 + 0.8 * index, 100, 60) for index in range(270)]


def total(page: Page, name: str) -> float:
    return sum(value for key, value in page.values.items() if key.partition("{")[0] == name)


def itl(pages: list[Page], start_s: float, end_s: float) -> float:
    inside = [page for page in pages if start_s <= page.time_s <= end_s]
    name = "vllm:inter_token_latency_seconds"
    first, last = inside[0], inside[-1]
    return (total(last, f"{name}_sum") - total(first, f"{name}_sum")) / (
        total(last, f"{name}_count") - total(first, f"{name}_count")
    )


def test_slowdown_acts_from_its_time_on_and_ends_with_the_next() -> None:
    profile = [(0.0, 1.0), (80.0, 1.5), (160.0, 1.0)]
    plain = list(replay(ARRIVALS, SERVER, STEP, duration_s=220.0))
    slowed = list(replay(ARRIVALS, SERVER, STEP, duration_s=220.0, slowdown=profile))
    assert itl(slowed, 10, 78) == pytest.approx(itl(plain, 10, 78), rel=0.02)
    assert itl(slowed, 85, 158) > 1.4 * itl(plain, 85, 158)
    assert itl(slowed, 165, 218) == pytest.approx(itl(plain, 165, 218), rel=0.02)


def test_no_slowdown_changes_nothing() -> None:
    plain = list(replay(ARRIVALS, SERVER, STEP, duration_s=60.0))
    same = list(replay(ARRIVALS, SERVER, STEP, duration_s=60.0, slowdown=[(0.0, 1.0)]))
    name = "vllm:generation_tokens_total"
    assert [total(page, name) for page in plain] == [total(page, name) for page in same]


def test_the_hosts_speed_is_measured_from_the_latency_between_tokens() -> None:
    fit = Fit(STEP, 0.004)
    truth = [(0.0, 1.0), (75.0, 1.6), (150.0, 0.8)]
    blank = Recording("made", "healthy", SERVER, ARRIVALS, 0, 8e-4, [])
    made = replace(blank, pages=run(blank, fit, truth, seed=5))
    found = measure_speed(made, fit, length_s=75.0)
    assert [start for start, _ in found] == [0.0, 75.0, 150.0]
    for (_, factor), (_, want) in zip(found, truth, strict=True):
        assert factor == pytest.approx(want, rel=0.05)


def test_the_seconds_of_a_recording_hold_all_gaps_between_tokens() -> None:
    pages = list(replay(ARRIVALS, SERVER, STEP, duration_s=224.5))
    seconds = gaps_by_second(pages)
    name = "vllm:inter_token_latency_seconds"
    assert sum(each.count for each in seconds) == pytest.approx(total(pages[-1], f"{name}_count"))
    assert sum(each.seconds for each in seconds) == pytest.approx(total(pages[-1], f"{name}_sum"))
    assert not any(each.stalled for each in seconds)


def test_a_second_in_which_a_long_prefill_ends_is_no_measure_of_the_host() -> None:
    giant = replace(SERVER, max_num_batched_tokens=16384, num_gpu_blocks=2048)
    arrivals = sorted([*ARRIVALS, (100.2, 10_000, 5)])  # two seconds of prefill in one step
    stalled = [
        g.at_s for g in gaps_by_second(list(replay(arrivals, giant, STEP, duration_s=224.5))) if g.stalled
    ]
    assert stalled
    assert all(101.0 < at_s < 105.0 for at_s in stalled)


def test_requests_that_never_reached_the_server_are_left_out(tmp_path: Path) -> None:
    rows = [
        ("t", "prompt_tokens", "max_tokens", "out_tokens", "status"),
        ("1.0", "10", "50", "20", "ok"),
        ("2.0", "11", "50", "3", "cancelled"),
        ("3.0", "12", "50", "0", "ServerDisconnectedError"),
    ]
    with gzip.open(tmp_path / "requests.csv.gz", "wt", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows(rows)
    assert requests(tmp_path) == [(1.0, 10, 20), (2.0, 11, 50)]


@pytest.mark.parametrize(
    ("key", "there", "here", "want"),
    [
        ("gen/s", 100.0, 124.0, True),
        ("gen/s", 100.0, 126.0, False),
        ("wait", 0.1, 0.9, True),
        ("ttft95", 0.1, 0.2, False),
        ("ttft50", 1.0, math.nan, False),
    ],
)
def test_agreement(key: str, there: float, here: float, want: bool) -> None:
    assert agrees(key, there, here) is want
