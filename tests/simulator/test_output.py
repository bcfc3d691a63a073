"""Pages and files: names by version, OpenMetrics text, the command line."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest

from vllmdoctor.simulator import (
    SCENARIOS,
    Companions,
    Era,
    Scrape,
    Server,
    Setup,
    Speculation,
    simulate,
    truth,
    write_openmetrics,
)
from vllmdoctor.simulator.__main__ import main
from vllmdoctor.simulator.load import OpenLoop, RequestClass, Uniform
from vllmdoctor.simulator.openmetrics import family
from vllmdoctor.simulator.scenario import LABELS

if TYPE_CHECKING:
    from pathlib import Path

CHAT = RequestClass("chat", Uniform(100, 400), Uniform(20, 120))


def small(version: tuple[int, int, int] = (0, 32, 0), **changes: object) -> Setup:
    fields: dict[str, object] = {
        "server": Server(num_gpu_blocks=800),
        "load": (OpenLoop(CHAT, 0.5),),
        "duration_s": 300.0,
        "era": Era(version),
        "model_name": "m",
        "scrape": Scrape(15.0, 0.0, 0.0),
        **changes,
    }
    return Setup(**fields)  # type: ignore[arg-type]


def names(setup: Setup) -> set[str]:
    last = list(simulate(setup, seed=1))[-1]
    return {key.partition("{")[0] for key in last.values}


@pytest.mark.parametrize(
    ("version", "there", "absent"),
    [
        ((0, 6, 6),
         {"vllm:gpu_cache_usage_perc", "vllm:num_requests_swapped", "vllm:time_per_output_token_seconds_sum"},
         {"vllm:kv_cache_usage_perc", "process_resident_memory_bytes", "http_requests_total",
          "vllm:inter_token_latency_seconds_sum"}),
        ((0, 8, 5),
         {"vllm:gpu_cache_usage_perc", "vllm:gpu_prefix_cache_hits_total",
          "vllm:time_per_output_token_seconds_sum", "http_requests_total"},
         {"vllm:kv_cache_usage_perc", "vllm:prefix_cache_hits_total", "vllm:num_requests_swapped",
          "vllm:prompt_tokens_created"}),
        ((0, 12, 0),
         {"vllm:kv_cache_usage_perc", "vllm:prefix_cache_hits_total",
          "vllm:inter_token_latency_seconds_sum", "vllm:request_time_per_output_token_seconds_sum"},
         {"vllm:gpu_cache_usage_perc", "vllm:time_per_output_token_seconds_sum",
          "vllm:num_requests_waiting_by_reason"}),
        ((0, 32, 0),
         {"vllm:num_requests_waiting_by_reason", "vllm:request_num_preemptions_count",
          "vllm:prompt_tokens_created", "vllm:request_prefill_kv_computed_tokens_sum"},
         {"vllm:gpu_cache_usage_perc"}),
    ],
)  # fmt: skip
def test_each_version_shows_its_own_names(
    version: tuple[int, int, int], there: set[str], absent: set[str]
) -> None:
    shown = names(small(version))
    assert there <= shown
    assert not absent & shown


def test_engine_label_and_pods_tell_targets_apart() -> None:
    v0 = list(simulate(small((0, 6, 6)), seed=1))[-1].values
    assert 'vllm:num_requests_running{model_name="m"}' in v0
    two = list(simulate(small(engines=2), seed=1))[-1].values
    assert {'vllm:num_requests_running{engine="0",model_name="m"}',
            'vllm:num_requests_running{engine="1",model_name="m"}'} <= set(two)  # fmt: skip
    fleet = {page.instance for page in simulate(small(pods=3), seed=1)}
    assert fleet == {"10.0.0.10:8000", "10.0.0.11:8000", "10.0.0.12:8000"}


def test_histograms_are_cumulative_and_know_finished_requests_only() -> None:
    last = list(simulate(small(), seed=1))[-1].values
    where = 'engine="0",le="%s",model_name="m"}'
    bounds = ["0.3", "0.5", "1.0", "10.0", "60.0", "7680.0", "+Inf"]
    counts = [last["vllm:e2e_request_latency_seconds_bucket{" + where % each] for each in bounds]
    assert all(low <= high for low, high in pairwise(counts))
    done = sum(v for k, v in last.items() if k.startswith("vllm:request_success_total{"))
    assert counts[-1] == last['vllm:e2e_request_latency_seconds_count{engine="0",model_name="m"}'] == done
    assert 'vllm:iteration_tokens_total_bucket{engine="0",le="16384.0",model_name="m"}' in last
    assert 'vllm:request_prompt_tokens_bucket{engine="0",le="50000.0",model_name="m"}' not in last


def test_companions_and_speculation_are_optional() -> None:
    plain = names(small(companions=Companions(up=False)))
    assert not {name for name in plain if name.startswith(("DCGM", "container_", "up"))}
    assert not {name for name in plain if "spec_decode" in name}
    full = names(
        small(
            companions=Companions(cadvisor=True, cfs=True, dcgm=True),
            server=Server(num_gpu_blocks=800, speculation=Speculation(3, 0.7)),
        )
    )
    assert {"DCGM_FI_DEV_SM_CLOCK", "container_memory_working_set_bytes", "up",
            "vllm:spec_decode_num_accepted_tokens_per_pos_total"} <= full  # fmt: skip


def test_openmetrics_text_is_grouped_ascending_and_ended(tmp_path: Path) -> None:
    path = tmp_path / "history.om.gz"
    pages = write_openmetrics(simulate(small(), seed=1), path)
    lines = gzip.decompress(path.read_bytes()).decode().splitlines()
    assert pages == 20
    assert lines[-1] == "# EOF"
    assert "# TYPE vllm:iteration_tokens_total histogram" in lines
    assert "# TYPE vllm:prompt_tokens counter" in lines
    families = [line.split()[2] for line in lines if line.startswith("# TYPE")]
    assert len(families) == len(set(families))
    current, key, last_s = "", "", 0.0
    for line in lines[:-1]:
        if line.startswith("# TYPE"):
            current = line.split()[2]
            continue
        series, value, stamp = line.rsplit(" ", 2)
        float(value)
        assert family(series.partition("{")[0])[0] == current
        assert series != key or float(stamp) > last_s
        key, last_s = series, float(stamp)


def test_equal_seeds_give_equal_files_and_others_do_not(tmp_path: Path) -> None:
    files = [tmp_path / f"{name}.om.gz" for name in "abc"]
    for path, seed in zip(files, (1, 1, 2), strict=True):
        write_openmetrics(simulate(small(), seed=seed), path)
    first, again, other = (path.read_bytes() for path in files)
    assert first == again != other


def test_scrape_gaps_leave_holes() -> None:
    setup = small(scrape=Scrape(15.0, 0.0, 0.0, gaps=((60.0, 120.0),)), start_unix_s=0.0)
    times = [page.time_s for page in simulate(setup, seed=1)]
    assert not [time_s for time_s in times if 60 <= time_s < 180]
    assert [time_s for time_s in times if time_s > 180]


def test_scenarios_cover_all_labels_and_differ_by_seed() -> None:
    assert len(SCENARIOS) >= 36
    assert {scenario.label for scenario in SCENARIOS.values()} == set(LABELS)
    for scenario in SCENARIOS.values():
        one, two = scenario.setup(1), scenario.setup(2)
        assert one != two
        assert one == scenario.setup(1)
        assert 10 <= one.duration_s / 3600 <= 24
        known = truth(scenario, seed=1)
        onset_s = known["onset_s"]
        assert onset_s is None or (isinstance(onset_s, float) and 0 <= onset_s < one.duration_s)
        assert scenario.label not in scenario.must_not
        assert not set(scenario.must_not) & {*scenario.acceptable, *scenario.also}
        json.dumps(known)


def test_the_command_writes_history_and_truth(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = SCENARIOS["low-load"]
    short = replace(whole, recipe=lambda draw: replace(whole.recipe(draw), duration_s=3600.0))
    monkeypatch.setitem(SCENARIOS, "low-load", short)
    assert main([str(tmp_path), "--only", "low-load", "--seeds", "3"]) == 0
    known = json.loads((tmp_path / "low-load-3.truth.json").read_text())
    assert known["label"] == "low_load"
    assert (tmp_path / "low-load-3.om.gz").stat().st_size > 10_000
    assert main(["--list"]) == 0
    assert "fragmentation-leak-ramp" in capsys.readouterr().out


def test_importing_the_simulator_is_light() -> None:
    code = "import sys, vllmdoctor.simulator; print('pandas' in sys.modules, 'httpx' in sys.modules)"
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert answer.stdout.split() == ["False", "False"]
