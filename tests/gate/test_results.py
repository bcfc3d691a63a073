"""Results files of load generators: what is in them reaches the gate, and what is not is said."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.gate.made import bench_serve, rows, write

from vllmdoctor import probe_series as series
from vllmdoctor import run_series as run
from vllmdoctor.errors import NotEnoughData, UsageError
from vllmdoctor.model import Fact, Gap
from vllmdoctor.recording import Recording, gather
from vllmdoctor.results import read_results


def read(path: Path) -> list[Recording]:
    runs = read_results(path)
    assert runs is not None
    return [gather(run) for run in runs]


def values(recording: Recording, name: str, instance: str = "probe") -> list[float]:
    column = recording.columns[instance][name]
    return [v for v in column.values.tolist() if v == v]


def test_vllm_bench_with_details_gives_each_request_and_each_gap(tmp_path: Path) -> None:
    (one,) = read(write(tmp_path / "r.json", bench_serve(1, count=50, failed=2)))

    assert len(values(one, series.TTFT)) == 50
    assert values(one, series.ERROR).count(1.0) == 2
    assert len(values(one, series.ITL)) == 50 * 29
    assert values(one, series.OUTPUT_TOKENS)[0] == 30
    assert Fact("probe_loop", "closed", "r.json") in one.facts
    assert Fact("probe_concurrency", 8, "r.json") in one.facts


def test_vllm_bench_sets_its_own_clock_to_the_date_of_the_file(tmp_path: Path) -> None:
    (one,) = read(write(tmp_path / "r.json", bench_serve(1, count=50)))

    assert one.end == pytest.approx(1_795_960_800.0)  # 2026-11-29 14:00:00
    assert one.end - one.start < max(sent + ttft + sum(gaps) for sent, ttft, gaps in rows(1, 50))


def test_vllm_bench_without_details_is_a_summary_and_says_how_to_get_more(tmp_path: Path) -> None:
    (one,) = read(write(tmp_path / "r.json", bench_serve(1, count=50, detailed=False)))

    assert values(one, run.THROUGHPUT, "run") == [bench_serve(1, count=50)["output_throughput"]]
    assert run.TTFT_P95 not in one.columns["run"]
    assert "--save-detailed" in one.gaps[0].why


def test_vllm_bench_of_an_older_release_without_start_times_is_a_summary(tmp_path: Path) -> None:
    old = bench_serve(1, count=50)
    del old["start_times"]

    (one,) = read(write(tmp_path / "r.json", old))

    assert list(one.columns) == ["run"]
    assert one.gaps[0].why.startswith("the file has no start_times")


def test_appended_results_are_repeat_runs(tmp_path: Path) -> None:
    found = read(write(tmp_path / "r.json", *(bench_serve(n, count=20, detailed=False) for n in range(4))))

    assert len(found) == 4


def guidellm(
    count: int, *, strategy: dict[str, Any] | None = None, totals: int | None = None
) -> dict[str, Any]:
    def request(start: float, ttft: float, gaps: list[float]) -> dict[str, Any]:
        return {
            "type_": "generative_request_stats",
            "request_id": f"{start}",
            "request_start_time": 1_795_960_000.0 + start,
            "request_end_time": 1_795_960_000.0 + start + ttft + sum(gaps),
            "request_latency": ttft + sum(gaps),
            "prompt_tokens": 200,
            "output_tokens": len(gaps) + 1,
            "time_to_first_token_ms": 1000 * ttft,
            "inter_token_latency_ms": 1000 * sum(gaps) / len(gaps),
        }

    done = [request(*row) for row in rows(3, count)]
    summary = {"successful": {"mean": 312.5, "percentiles": {"p95": 480.0}}, "errored": None}
    benchmark = {
        "type_": "generative_benchmark",
        "config": {
            "strategy": strategy or {"type_": "concurrent", "streams": 8},
            "backend": {"model": "llama-3-70b"},
        },
        "metrics": {
            "request_totals": {
                "successful": totals or count,
                "errored": 1,
                "incomplete": 0,
                "total": count + 1,
            },
            "time_to_first_token_ms": summary,
            "output_tokens_per_second": {"successful": {"mean": 301.0}},
        },
        "requests": {
            "successful": done,
            "incomplete": [],
            "errored": [{**done[0], "time_to_first_token_ms": None}],
        },
        "start_time": 1_795_960_000.0,
        "end_time": 1_795_960_300.0,
    }
    return {"metadata": {"version": 2, "guidellm_version": "0.8.1"}, "config": {}, "benchmarks": [benchmark]}


def test_guidellm_gives_each_request_and_the_mean_gap_of_each(tmp_path: Path) -> None:
    (one,) = read(write(tmp_path / "benchmarks.json", guidellm(40)))

    assert len(values(one, series.TTFT)) == 40
    assert values(one, series.ERROR).count(1.0) == 1
    assert sorted(values(one, series.TTFT)) == pytest.approx(sorted(ttft for _, ttft, _ in rows(3, 40)))
    assert Fact("probe_itl", "mean of each request", "benchmarks.json") in one.facts
    assert Fact("probe_concurrency", 8, "benchmarks.json") in one.facts


def test_guidellm_with_only_a_sample_of_its_requests_is_a_summary(tmp_path: Path) -> None:
    (one,) = read(write(tmp_path / "benchmarks.json", guidellm(40, totals=4000)))

    assert values(one, run.TTFT_P95, "run") == [0.48]
    assert values(one, run.THROUGHPUT, "run") == [301.0]
    assert Gap("benchmarks.json", "each request", "the file holds a sample of the requests") in one.gaps


def test_a_sweep_of_guidellm_is_refused_since_it_is_many_loads(tmp_path: Path) -> None:
    sweep = guidellm(5)
    sweep["benchmarks"] += guidellm(5, strategy={"type_": "constant", "rate": 2.0})["benchmarks"]

    with pytest.raises(UsageError, match=r"2 loads: concurrent 8, constant 2\.0"):
        read_results(write(tmp_path / "benchmarks.json", sweep))


def aiperf_record(start: float, ttft: float, gaps: list[float], **more: Any) -> dict[str, Any]:
    end = start + ttft + sum(gaps)
    return {
        "metadata": {
            "session_num": 1,
            "request_start_ns": int(1e9 * (1_795_960_000 + start)),
            "request_end_ns": int(1e9 * (1_795_960_000 + end)),
            "benchmark_phase": "profiling",
            "was_cancelled": False,
            **more,
        },
        "metrics": {
            "time_to_first_token": {"value": 1000 * ttft, "unit": "ms"},
            "request_latency": {"value": 1000 * (end - start), "unit": "ms"},
            "inter_token_latency": {"value": 1000 * sum(gaps) / len(gaps), "unit": "ms"},
            "inter_chunk_latency": {"value": [1000 * g for g in gaps], "unit": "ms"},
            "output_sequence_length": {"value": len(gaps) + 1, "unit": "tokens"},
            "input_sequence_length": {"value": 200, "unit": "tokens"},
        },
        "error": None,
    }


def test_aiperf_records_give_each_request_without_warm_up_and_cancelled_ones(tmp_path: Path) -> None:
    records = [aiperf_record(*row) for row in rows(4, 30)]
    records += [
        aiperf_record(*rows(4, 1)[0], benchmark_phase="warmup"),
        aiperf_record(*rows(4, 1)[0], was_cancelled=True),
    ]

    (one,) = read(write(tmp_path / "profile_export.jsonl", *records))

    assert len(values(one, series.TTFT)) == 30
    assert len(values(one, series.ITL)) == 30 * 29
    assert sorted(values(one, series.TTFT)) == pytest.approx(sorted(ttft for _, ttft, _ in rows(4, 30)))


def test_the_summary_of_aiperf_is_read_in_its_units(tmp_path: Path) -> None:
    summary = {
        "schema_version": "1.3",
        "aiperf_version": "0.13.0",
        "request_throughput": {"unit": "requests/sec", "avg": 2.5},
        "output_token_throughput": {"unit": "tokens/sec", "avg": 301.0},
        "time_to_first_token": {"unit": "ms", "avg": 250.0, "p95": 480.0},
        "input_config": {"phases": [{"name": "profiling", "type": "concurrency", "concurrency": 8}]},
    }

    (one,) = read(write(tmp_path / "profile_export_aiperf.json", summary))

    assert values(one, run.TTFT_P95, "run") == [0.48]
    assert values(one, run.THROUGHPUT, "run") == [301.0]
    assert Fact("probe_concurrency", 8, "profile_export_aiperf.json") in one.facts


@pytest.mark.parametrize("text", ["", "{}", "[1]", "vllm:x 1", '{"a": 1}', '{"benchmarks": 3}', "{"])
def test_another_file_is_left_to_others(tmp_path: Path, text: str) -> None:
    path = tmp_path / "other"
    path.write_text(text, encoding="utf-8")

    assert read_results(path) is None


def test_a_result_that_is_broken_inside_is_one_clear_error(tmp_path: Path) -> None:
    broken = bench_serve(1, count=5)
    broken["itls"] = broken["itls"][:3]

    with pytest.raises(UsageError, match="looks like results of vllm bench serve, but cannot be read"):
        read_results(write(tmp_path / "r.json", broken))


def test_lines_of_a_cut_off_or_spoilt_file_are_counted_and_the_others_are_read(tmp_path: Path) -> None:
    lines = [json.dumps(aiperf_record(*row)) for row in rows(4, 30)]
    lines[8] = lines[8].replace('"error": null', '"error": null, "note": "a\u2028separator is no line feed"')
    lines[12] = "not json"
    path = tmp_path / "profile_export.jsonl"
    path.write_text("\n".join(lines)[:-40], encoding="utf-8")

    (one,) = read(path)

    assert len(values(one, series.TTFT)) == 28
    assert [g.what for g in one.gaps] == ["2 of 30 lines of profile_export.jsonl"]


def test_a_file_with_a_byte_order_mark_is_read(tmp_path: Path) -> None:
    path = tmp_path / "r.json"
    path.write_text(json.dumps(bench_serve(1, count=5)), encoding="utf-8-sig")

    assert len(values(read(path)[0], series.TTFT)) == 5


def test_results_of_several_programs_in_one_file_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="object 2 is no result of vllm bench serve, as the first one is"):
        read_results(write(tmp_path / "r.json", bench_serve(1, count=5), guidellm(5)))


def test_objects_in_each_other_without_end_are_no_result(tmp_path: Path) -> None:
    path = tmp_path / "deep.json"
    path.write_text('{"a":' * 100_000, encoding="utf-8")

    assert read_results(path) is None


def test_latencies_of_a_run_without_an_answer_are_not_seen_and_not_zero(tmp_path: Path) -> None:
    none = bench_serve(1, count=5, detailed=False) | {"completed": 0, "failed": 5, "mean_ttft_ms": 0.0}

    (one,) = read(write(tmp_path / "r.json", none))

    assert run.TTFT_MEAN not in one.columns["run"]
    assert values(one, run.FAILED, "run") == [5.0]


@pytest.mark.parametrize("program", ["vllm bench serve", "GuideLLM", "AIPerf"])
def test_a_run_without_a_request_is_no_evidence(tmp_path: Path, program: str) -> None:
    zeros = {"completed": 0, "failed": 0, "output_throughput": 0.0}
    empty = guidellm(1)
    empty["benchmarks"][0]["requests"] = {"successful": [], "errored": [], "incomplete": []}
    empty["benchmarks"][0]["metrics"] = {"request_totals": {"successful": 0, "errored": 0, "total": 0}}
    document = {
        "vllm bench serve": bench_serve(1, count=5, detailed=False) | zeros,
        "GuideLLM": empty,
        "AIPerf": aiperf_record(*rows(4, 1)[0], benchmark_phase="warmup"),
    }[program]

    with pytest.raises(NotEnoughData, match="holds a run without a request"):
        read_results(write(tmp_path / "r.json", document))


def test_guidellm_whose_requests_all_failed_gives_each_as_failed(tmp_path: Path) -> None:
    report = guidellm(30)
    benchmark = report["benchmarks"][0]
    failed = [
        {"request_start_time": r["request_start_time"], "request_end_time": None}
        for r in benchmark["requests"]["successful"]
    ]
    benchmark["requests"] = {"successful": [], "incomplete": [], "errored": failed}
    benchmark["metrics"]["request_totals"] = {"successful": 0, "errored": 30, "total": 30}

    (one,) = read(write(tmp_path / "benchmarks.json", report))

    assert values(one, series.ERROR) == [1.0] * 30


def test_a_cut_off_file_is_no_result(tmp_path: Path) -> None:
    path = tmp_path / "r.json"
    path.write_text(json.dumps(bench_serve(1, count=5))[:-40], encoding="utf-8")

    assert read_results(path) is None


JSON = st.recursive(
    st.none() | st.booleans() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@given(place=st.sampled_from(sorted(bench_serve(1, count=3))), odd=JSON)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_field_of_any_other_kind_is_read_or_refused_in_words(tmp_path: Path, place: str, odd: Any) -> None:
    document = bench_serve(1, count=3) | {place: odd}
    try:
        read_results(write(tmp_path / "r.json", document))
    except (UsageError, NotEnoughData) as error:
        assert error.message
