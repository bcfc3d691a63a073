# ruff: noqa: E501  lines of a log stand here as they are
"""What a log alone gives: public reports whose cause is known, and the real server's logs beside its metrics."""

import gzip
import json
import math
import re
from functools import cache
from pathlib import Path

import pytest

from vllmdoctor.diagnosis import diagnose
from vllmdoctor.model import Report, Status, Verdict
from vllmdoctor.recording import Recording
from vllmdoctor.sources import Window, gather_targets

HERE = Path(__file__).parent
LABELS: list[dict[str, object]] = json.loads((HERE / "labels.json").read_text(encoding="utf-8"))
NAMES = [str(label["log"]) for label in LABELS]
TRACES = sorted(path.name.removesuffix(".log.gz") for path in (HERE / "traces").glob("*.log.gz"))

WELL = {"healthy", "demand-drop", "low-load"}
RIGHT = {
    "demand_drop": WELL,
    "fragmentation": {"kv-fragmentation"},
    "gpu_memory_growth": {"gpu-memory-growth"},
    "hang_stall": {"stall", "context-exceeds-pool"},
    "head_of_line": {"head-of-line-blocking"},
    "healthy": WELL,
    "kv_preemption_thrash": {"overload"},
    "misconfiguration": {"context-exceeds-pool"},
    "overload": {"overload"},
    "prefill_bound": {"prefill-bound", "overload"},
}
# Reports whose log lines end before their trouble shows: what they hold is what is said of them.
NOT_IN_THE_LOG = {
    "24-prefill-chunks-starve-decode-0.2-tok-s": "healthy",
    "28-batch-decode-then-stuck-xpu": "healthy",
    "35-v0-stall-at-99pct-kv": "overload",
}


@cache
def recording(name: str) -> Recording:
    return gather_targets([str(HERE / name)], Window())


@cache
def report(name: str) -> Report:
    return diagnose(recording(name), target=name)


def case(name: str) -> str:
    return name.split("/")[1]


@pytest.mark.parametrize("label", LABELS, ids=NAMES)
def test_no_statistics_line_of_a_report_is_lost(label: dict[str, object]) -> None:
    name = str(label["log"])
    text = (HERE / name).read_text(encoding="utf-8").replace("\n", "")
    written = [float(n) for n in re.findall(r"Running:\s*(\d+) reqs", text)]
    assert len(written) == label["lines"]
    read = [
        value
        for columns in recording(name).columns.values()
        for series, column in columns.items()
        if series.startswith("log:num_requests_running")
        for value in column.values
        if not math.isnan(value)
    ]
    if "29-" in name:  # a stall is the repeated last line
        assert sorted(set(read)) == sorted(set(written))
    else:
        idle = [0.0] * (len(read) - len(written))  # silence after a line of zeros
        assert sorted(read) == sorted(written + idle)


def test_a_log_gives_the_right_cause_in_most_reports_whose_cause_is_sure() -> None:
    sure = [label for label in LABELS if label["evidence"] != "unknown"]
    wrong = {str(x["log"]) for x in sure if report(str(x["log"])).primary not in RIGHT[str(x["label"])]}
    assert {case(name) for name in wrong} <= set(NOT_IN_THE_LOG)
    assert len(wrong) <= 0.15 * len(sure)


def test_no_healthy_server_is_called_sick() -> None:
    well = [str(x["log"]) for x in LABELS if x["label"] in ("healthy", "demand_drop")]
    assert len(well) == 4
    assert {report(name).verdict for name in well} == {Verdict.HEALTHY}


@pytest.mark.parametrize("name", [n for n in NAMES if case(n) in NOT_IN_THE_LOG])
def test_a_log_that_ends_before_the_trouble_is_judged_by_what_it_holds(name: str) -> None:
    assert report(name).primary == NOT_IN_THE_LOG[case(name)]


@pytest.mark.parametrize("name", TRACES)
def test_the_real_servers_log_gives_the_same_cause_as_its_metrics(name: str) -> None:
    by_log = report(f"traces/{name}.log.gz")
    by_metrics = diagnose(gather_targets([f"example:{name}"], Window()))
    assert by_log.primary == by_metrics.primary
    assert by_log.version == "0.32.0"


@pytest.mark.parametrize("name", TRACES)
def test_no_statistics_line_of_the_real_server_is_lost(name: str) -> None:
    path = f"traces/{name}.log.gz"
    text = gzip.decompress((HERE / path).read_bytes()).decode()
    written = [float(n) for n in re.findall(r"Running: (\d+) reqs", text)]
    columns = next(iter(recording(path).columns.values()))
    running = next(c for s, c in columns.items() if s.startswith("log:num_requests_running"))
    assert [v for v in running.values if not math.isnan(v)] == written
    made = next(c for s, c in columns.items() if s.startswith("log:generation_tokens_total"))
    rates = [float(n) for n in re.findall(r"generation throughput: ([\d.]+)", text)]
    assert made.values[-1] == pytest.approx(10 * sum(rates), rel=0.01)


def test_what_a_log_cannot_show_is_unknown_and_never_clear() -> None:
    healthy = report("traces/healthy.log.gz").engines[0]
    by_slug = {o.slug: o for o in healthy.outcomes}
    for slug in ("memory-leak", "gpu-memory-growth", "gpu-throttle", "prefill-bound", "prefix-cache-collapse",
                 "head-of-line-blocking", "host-cpu-bound", "client-side"):  # fmt: skip
        assert by_slug[slug].status is Status.UNKNOWN, slug
    symptoms = {s.name: s for s in healthy.symptoms}
    assert all(
        symptoms[name].slow is None and math.isnan(symptoms[name].now) for name in ("ttft", "tail", "itl")
    )
    whys = [gap.why for gap in report("traces/healthy.log.gz").gaps]
    assert any("a server's log does not tell it" in why for why in whys)


def test_start_up_lines_become_settings() -> None:
    facts = {fact.key: fact for fact in report("traces/kv-thrash-fix-maxseqs.log.gz").engines[0].facts}
    assert facts["max_num_seqs"].value == 4
    assert facts["max_num_seqs"].origin == "log: non-default args"
    assert facts["kv_cache_size_tokens"].value == 2048
    assert facts["pool_tokens"].value == 2048
    assert facts["max_model_len"].value == 1024
    assert facts["kv_cache_max_concurrency"].value == 2.0
    assert facts["enable_prefix_caching"].value is False
    assert report("traces/kv-thrash-fix-maxseqs.log.gz").engines[0].model == "./mid"


def test_a_log_and_the_metrics_of_the_same_time_are_one_server() -> None:
    log = str(HERE / "traces/overload-kv.log.gz")
    both = gather_targets(["example:overload-kv", log], Window())
    (instance,) = both.columns
    alone = gather_targets(["example:overload-kv"], Window())
    said = diagnose(both)
    assert len(said.engines) == 1
    assert said.primary == "overload"
    assert (said.scrapes, said.start, said.end) == (alone.scrapes, alone.start, alone.end)
    assert {fact.key: fact.value for fact in said.engines[0].facts}["max_num_seqs"] == 64
    assert "stopping" not in {event.kind for event in alone.events}
    assert {event.instance for event in both.events} == {instance}


def test_a_log_in_another_zone_finds_its_metrics(tmp_path: Path) -> None:
    text = gzip.decompress((HERE / "traces/overload-kv.log.gz").read_bytes()).decode()
    moved = re.sub(r"([A-Z]+ 11-29 )1(\d):", lambda m: f"{m[1]}0{m[2]}:", text)  # ten hours behind
    path = tmp_path / "server.log"
    path.write_text(moved, encoding="utf-8")
    both = gather_targets(["example:overload-kv", str(path)], Window())
    (columns,) = both.columns.values()
    logged = next(c for s, c in columns.items() if s.startswith("log:num_requests_running"))
    assert both.start - 10 <= logged.times[0] <= both.start + 15


def test_a_log_of_another_time_stays_a_server_of_its_own() -> None:
    both = gather_targets(
        ["example:overload-kv", str(HERE / "cases/09-single-runaway-generation-slowing/server.log")], Window()
    )
    assert len(both.columns) == 2


def test_blocks_that_nobody_holds_are_seen_while_nothing_runs(tmp_path: Path) -> None:
    line = (
        "(APIServer pid=1) INFO 11-29 {:02d}:{:02d}:{:02d} [loggers.py:310] Engine 000: Avg prompt throughput: {} tokens/s, "
        "Avg generation throughput: {} tokens/s, Running: {} reqs, Waiting: {} reqs, GPU KV cache usage: {}%\n"
    )
    text = ""
    for i in range(600):
        at = (i // 360, i // 6 % 60, i % 6 * 10)
        pause = i > 300 and i % 20 < 4
        text += (
            line.format(*at, 0.0, 0.0, 0, 9, 62.0)
            if pause
            else line.format(*at, 100.0, 200.0 + i % 7, 8, 9, 95.0)
        )
    path = tmp_path / "server.log"
    path.write_text(text, encoding="utf-8")
    said = diagnose(gather_targets([str(path)], Window()))
    assert said.primary == "kv-fragmentation"
