"""Frames turn raw series into measures: resets, gaps, labels, histograms, several engines."""

import math
from collections.abc import Mapping, Sequence

import numpy as np
import pytest

from vllmdoctor.engines import frames
from vllmdoctor.frame import Frame, choose_step
from vllmdoctor.model import Observation, Snapshot
from vllmdoctor.recording import gather

ENGINE = 'engine="0",model_name="m"'


def history(
    series: Mapping[str, Sequence[float]], every: float = 10.0, instance: str = "s"
) -> list[Observation]:
    length = max(len(v) for v in series.values())
    return [
        Snapshot(1000 + i * every, instance, {k: float(v[i]) for k, v in series.items() if i < len(v)})
        for i in range(length)
    ]


def frame(series: Mapping[str, Sequence[float]], every: float = 10.0) -> Frame:
    (only,) = frames(gather(history(series, every)))
    return only


def test_a_counter_becomes_a_rate() -> None:
    f = frame({f"vllm:generation_tokens_total{{{ENGINE}}}": [100 * i for i in range(61)]})
    assert np.nanmean(f.rate("generation_tokens")) == pytest.approx(10)


def test_a_reset_counts_from_zero_and_is_a_restart() -> None:
    f = frame({f"vllm:generation_tokens_total{{{ENGINE}}}": [*range(0, 3000, 100), *range(0, 3000, 100)]})

    rate = f.rate("generation_tokens")

    assert np.nanmin(rate) >= 0
    assert f.restarts == (1300.0,)


def test_a_hole_is_not_a_fall_to_zero() -> None:
    observed = history({f"vllm:generation_tokens_total{{{ENGINE}}}": [100 * i for i in range(200)]})
    (f,) = frames(gather(observed[:60] + observed[120:]))

    rate = f.rate("generation_tokens")

    assert np.isnan(rate).any()
    assert np.nanmin(rate) == pytest.approx(10)


def test_old_and_new_names_of_one_gauge_count_once() -> None:
    usage = [0.4] * 60
    f = frame(
        {f"vllm:kv_cache_usage_perc{{{ENGINE}}}": usage, f"vllm:gpu_cache_usage_perc{{{ENGINE}}}": usage}
    )
    assert np.nanmean(f.gauge("kv_cache_usage")) == pytest.approx(0.4)


def test_label_sets_of_a_counter_are_summed() -> None:
    f = frame({
        f'vllm:request_success_total{{{ENGINE},finished_reason="stop"}}': list(range(60)),
        f'vllm:request_success_total{{{ENGINE},finished_reason="length"}}': list(range(60)),
    })  # fmt: skip
    assert np.nanmean(f.rate("requests_finished")) == pytest.approx(0.2)


def test_a_histogram_knows_its_quantiles_and_mean() -> None:
    name = "vllm:time_to_first_token_seconds"
    grow = np.arange(60.0)
    f = frame({
        f'{name}_bucket{{{ENGINE},le="0.5"}}': (9 * grow).tolist(),
        f'{name}_bucket{{{ENGINE},le="1.0"}}': (9 * grow).tolist(),
        f'{name}_bucket{{{ENGINE},le="2.5"}}': (10 * grow).tolist(),
        f'{name}_bucket{{{ENGINE},le="+Inf"}}': (10 * grow).tolist(),
        f"{name}_sum{{{ENGINE}}}": (4 * grow).tolist(),
        f"{name}_count{{{ENGINE}}}": (10 * grow).tolist(),
    })  # fmt: skip

    histogram = f.histogram("ttft")
    assert histogram is not None
    everything = histogram.over(np.ones(f.size, np.bool_))

    assert everything.mean == pytest.approx(0.4)
    assert everything.quantile(0.95)[1] == (1.0, 2.5)
    assert everything.above(1.0) == pytest.approx(59)


def test_two_engines_are_two_frames() -> None:
    both = frames(gather(history({
        'vllm:num_requests_running{engine="0",model_name="m"}': [1] * 30,
        'vllm:num_requests_running{engine="1",model_name="m"}': [5] * 30,
        "process_resident_memory_bytes": [1e9] * 30,
    })))  # fmt: skip

    assert [(f.engine, float(np.nanmean(f.gauge("requests_running")))) for f in both] == [("0", 1), ("1", 5)]
    assert all(f.has("process_memory") for f in both)


def test_the_config_that_names_no_model_joins_its_engine() -> None:
    (f,) = frames(gather(history({
        'vllm:num_requests_running{engine="0",model_name="m"}': [1] * 30,
        'vllm:cache_config_info{block_size="16",engine="0"}': [1] * 30,
    })))  # fmt: skip
    assert f.labels("cache_config")["block_size"] == "16"


def test_a_container_joins_the_engine_of_its_pod_only() -> None:
    observed = (
        history({'vllm:num_requests_running{engine="0",model_name="m",pod="a"}': [1] * 30}, instance="a")
        + history({'vllm:num_requests_running{engine="0",model_name="m",pod="b"}': [1] * 30}, instance="b")
        + history(
            {'container_memory_working_set_bytes{container="vllm",pod="b"}': [7e9] * 30}, instance="node"
        )
    )

    held = {f.instance: f.has("container_memory") for f in frames(gather(observed))}

    assert held == {"a": False, "b": True}


def test_a_gpu_exporters_own_pod_is_not_the_one_it_reports_on() -> None:
    observed = history(
        {'vllm:num_requests_running{engine="0",model_name="m",pod="a"}': [1] * 30}, instance="a"
    ) + history({'vllm:num_requests_running{engine="0",model_name="m",pod="b"}': [1] * 30}, instance="b")
    observed += history(
        {'DCGM_FI_DEV_SM_CLOCK{exported_pod="b",gpu="0",pod="dcgm"}': [1980] * 30}, instance="g"
    )

    assert {f.instance: f.has("gpu_sm_clock") for f in frames(gather(observed))} == {"a": False, "b": True}


def test_the_sum_of_a_pod_is_not_added_to_its_containers() -> None:
    observed = history({
        'vllm:num_requests_running{engine="0",model_name="m",pod="a"}': [1] * 30,
        'container_memory_working_set_bytes{container="vllm",pod="a"}': [7e9] * 30,
        'container_memory_working_set_bytes{container="",pod="a"}': [8e9] * 30,
    })  # fmt: skip
    (f,) = frames(gather(observed))

    assert float(np.nanmean(f.gauge("container_memory"))) == 7e9


@pytest.mark.parametrize(
    ("span", "interval", "step"),
    [(240, 1, 2), (86400, 15, 300), (86400, 60, 300), (43200, 60, 300), (10, 5, 10)],
)
def test_the_grid_has_about_three_hundred_bins_of_at_least_two_scrapes(
    span: float, interval: float, step: float
) -> None:
    assert choose_step(span, interval) == step


def test_an_absent_signal_is_nan_and_never_zero() -> None:
    f = frame({f"vllm:num_requests_running{{{ENGINE}}}": [1] * 30})

    assert np.isnan(f.gauge("kv_cache_usage")).all()
    assert np.isnan(f.rate("preemptions")).all()
    assert f.histogram("ttft") is None
    assert not math.isnan(float(np.nanmean(f.gauge("requests_running"))))


def pod(name: str, start: int, count: int, value: float = 1.0) -> list[Observation]:
    """A pod that was scraped every 15 s from a moment on."""
    series = f'vllm:num_requests_running{{engine="0",model_name="m",pod="{name}"}}'
    return [Snapshot(1000.0 + 15 * (start + i), name, {series: value}) for i in range(count)]


def test_the_pods_of_a_roll_out_are_one_history_with_a_restart_where_the_new_one_begins() -> None:
    rolled = gather([*pod("chat-5d4f8b7c9-aaaaa", 0, 100, 2), *pod("chat-7c9d8f6b5-bbbbb", 104, 100, 4)])

    (f,) = frames(rolled)

    assert f.instance == "chat-7c9d8f6b5-bbbbb"
    assert (f.start, f.end) == (1000.0, 1000.0 + 15 * 203)
    assert f.restarts == (1000.0 + 15 * 104,)
    assert {float(v) for v in f.gauge("requests_running") if v == v} >= {2.0, 4.0}


def test_pods_that_run_side_by_side_are_two_histories() -> None:
    both = gather([*pod("chat-5d4f8b7c9-aaaaa", 0, 200), *pod("chat-5d4f8b7c9-bbbbb", 0, 200)])
    assert len(frames(both)) == 2


def test_of_a_roll_out_of_two_pods_each_new_one_follows_one_old_one() -> None:
    rolled = gather([
        *pod("chat-5d4f8b7c9-aaaaa", 0, 100), *pod("chat-5d4f8b7c9-bbbbb", 0, 110),
        *pod("chat-7c9d8f6b5-ccccc", 102, 100), *pod("chat-7c9d8f6b5-ddddd", 112, 90),
    ])  # fmt: skip
    assert [(f.instance, len(f.restarts)) for f in frames(rolled)] == [
        ("chat-7c9d8f6b5-ccccc", 1),
        ("chat-7c9d8f6b5-ddddd", 1),
    ]


def test_servers_that_are_no_pods_of_a_deployment_are_never_joined() -> None:
    moved = gather([*pod("10.0.0.1:8000", 0, 100), *pod("10.0.0.2:8000", 104, 100)])
    assert len(frames(moved)) == 2
