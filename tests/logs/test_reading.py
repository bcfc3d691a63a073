# ruff: noqa: E501  lines of a log stand here as they are
"""A log becomes history: nothing is lost, holes stay holes, silence is told from a fall."""

import gzip
import io
import math
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pytest

from vllmdoctor.errors import NotEnoughData, NotVllm
from vllmdoctor.model import Event, Fact, Gap, Observation, Samples
from vllmdoctor.sources import Window, gather_targets, open_source
from vllmdoctor.sources.log.reader import read_log

NOW = 1_795_960_800.0  # 2026-11-29 14:00 UTC
ACCESS = 'INFO:     10.0.0.1:40000 - "POST /v1/completions HTTP/1.1" 200 OK\n'


def line(
    time: str,
    prompt: float,
    generation: float,
    running: int,
    waiting: int = 0,
    usage: float = 50.0,
    engine: int = 0,
) -> str:
    return (
        f"(APIServer pid=1) INFO 11-29 {time} [loggers.py:310] Engine {engine:03d}: Avg prompt throughput: {prompt:.1f} "
        f"tokens/s, Avg generation throughput: {generation:.1f} tokens/s, Running: {running} reqs, Waiting: {waiting} reqs, "
        f"GPU KV cache usage: {usage:.1f}%, Prefix cache hit rate: 10.0%\n"
    )


def read(*texts: str | bytes) -> list[Observation]:
    pieces = [t.encode() if isinstance(t, str) else t for t in texts]
    return list(read_log(pieces, "server.log", NOW))


def series(observations: Iterable[Observation], name: str, engine: str = "0") -> Samples:
    found = [
        o
        for o in observations
        if isinstance(o, Samples)
        and o.series.startswith(f"log:{name}{{")
        and f'engine="{engine}"' in o.series
    ]
    assert len(found) == 1, [o.series for o in observations if isinstance(o, Samples)]
    return found[0]


def steps(samples: Samples) -> list[tuple[float, float]]:
    """(seconds, increase) from each sample to the next."""
    return list(zip(np.diff(samples.times).tolist(), np.diff(samples.values).round(6).tolist(), strict=True))


def shown(samples: Samples) -> list[float]:
    return [v for v in samples.values if not math.isnan(v)]


def test_rates_become_counters_that_give_the_rates_back() -> None:
    seen = read(line("13:00:00", 100, 10, 3), line("13:00:10", 50, 20, 4), line("13:00:21", 0, 30, 2))
    assert steps(series(seen, "generation_tokens_total")) == [(10, 100), (10, 200), (11, 330)]
    assert steps(series(seen, "prompt_tokens_total")) == [(10, 1000), (10, 500), (11, 0)]
    assert shown(series(seen, "num_requests_running")) == [3, 4, 2]
    assert shown(series(seen, "kv_cache_usage_ratio")) == pytest.approx([0.5, 0.5, 0.5])


def test_a_hole_stays_a_hole_and_the_line_after_it_counts_its_own_interval_only() -> None:
    seen = read(line("13:00:00", 0, 10, 3), line("13:00:10", 0, 10, 3), line("13:10:00", 0, 40, 3))
    assert steps(series(seen, "generation_tokens_total")) == [(10, 100), (10, 100), (580, 0), (10, 400)]
    assert shown(series(seen, "num_requests_running")) == [3, 3, 3]


def test_silence_after_a_line_of_zeros_is_idleness() -> None:
    seen = read(line("13:00:00", 9, 9, 1), line("13:00:10", 0, 0, 0, usage=0), line("13:01:10", 5, 40, 1))
    running = series(seen, "num_requests_running")
    assert shown(running) == [1, 0, 0, 0, 0, 0, 0, 1]
    assert steps(series(seen, "generation_tokens_total")) == [(10, 90)] + [(10, 0)] * 6 + [(10, 400)]


def test_silence_after_a_line_of_zeros_with_work_inside_is_a_stall_as_long_as_the_log_goes_on() -> None:
    wait = "(EngineCore pid=2) INFO 11-29 13:02:10 [shm_broadcast.py:466] No available shared memory broadcast block found in 60 seconds.\n"
    seen = read(line("13:00:00", 9, 9, 2), line("13:00:10", 0, 0, 2), wait)
    running = series(seen, "num_requests_running")
    assert running.times[-1] - running.times[1] == 130
    assert set(shown(running)) == {2}
    assert [e.kind for e in seen if isinstance(e, Event)] == ["worker-silent"]


def test_silence_after_a_line_with_work_done_is_not_filled() -> None:
    seen = read(line("13:00:00", 9, 9, 2), "(APIServer pid=1) INFO 11-29 13:20:00 [x.py:1] bye\n")
    assert len(series(seen, "num_requests_running").times) == 2


def test_old_servers_write_every_five_seconds_and_their_rates_cover_the_time_since_the_line_before() -> None:
    old = (
        "INFO 11-29 13:00:{} metrics.py:341] Avg prompt throughput: 10.0 tokens/s, Avg generation throughput: 2.0 tokens/s, "
        "Running: 34 reqs, Swapped: 100 reqs, Pending: 9832 reqs, GPU KV cache usage: 99.2%, CPU KV cache usage: 70.4%.\n"
    )
    seen = read(old.format("15"), old.format("23"))
    assert steps(series(seen, "prompt_tokens_total")) == [(5, 50), (8, 80)]
    assert shown(series(seen, "num_requests_swapped")) == [100, 100]
    assert shown(series(seen, "num_requests_waiting")) == [9832, 9832]


def test_preemption_warnings_are_the_counter_of_old_servers() -> None:
    old = (
        "INFO 11-29 13:00:{} metrics.py:341] Avg prompt throughput: 10.0 tokens/s, Avg generation throughput: 2.0 tokens/s, "
        "Running: 34 reqs, Swapped: 0 reqs, Pending: 1 reqs, GPU KV cache usage: 99.2%, CPU KV cache usage: 70.4%.\n"
    )
    warning = (
        "WARNING 11-29 13:00:{} scheduler.py:1089] Sequence group 165 is preempted by PreemptionMode.RECOMPUTE mode because "
        "there is not enough KV cache space. total_num_cumulative_preemption={}\n"
    )
    seen = read(
        old.format("15"),
        warning.format("16", 1),
        old.format("20"),
        warning.format("21", 51),
        old.format("25"),
    )
    assert shown(series(seen, "num_preemptions_total")) == [1, 51]


def test_preemptions_of_the_rust_front_end_are_added_up_and_none_is_zero() -> None:
    rust = (
        "(RustFrontend pid=1) INFO 11-29 13:00:{} [log_stats.rs:273] Avg prompt tput: 6.0 toks/s, Avg generation tput: 1.0 "
        "toks/s, Reqs Running: 57, Waiting: 0{}, GPU KV cache used: 1.8%, Prefix cache hit rate: 0.0%\n"
    )
    seen = read(rust.format("00", ""), rust.format("10", ", Preemptions: 7"), rust.format("20", ""))
    assert list(series(seen, "num_preemptions_total").values) == [0, 0, 7, 7]


def test_a_log_of_the_python_front_end_tells_nothing_of_preemptions() -> None:
    names = [o.series for o in read(line("13:00:00", 1, 1, 1)) if isinstance(o, Samples)]
    assert not [n for n in names if "preempt" in n or "ttft" in n]


def test_engines_are_told_apart_and_a_request_is_not_given_to_one_of_them() -> None:
    seen = read(ACCESS, line("13:00:00", 1, 1, 5, engine=0), line("13:00:00", 1, 1, 7, engine=1))
    assert shown(series(seen, "num_requests_running", "0")) == [5]
    assert shown(series(seen, "num_requests_running", "1")) == [7]
    assert not [o for o in seen if isinstance(o, Samples) and "served" in o.series]


def test_answered_requests_are_counted_between_the_lines() -> None:
    failed = ACCESS.replace("200 OK", "500 Internal Server Error")
    scrape = ACCESS.replace("POST /v1/completions", "GET /metrics")
    seen = read(
        ACCESS * 3, line("13:00:00", 1, 1, 1), ACCESS * 2 + failed + scrape, line("13:00:10", 1, 1, 1)
    )
    assert list(series(seen, "requests_served_total").values) == [0, 3, 5]


def test_speculative_decoding_is_summed_by_its_own_lines() -> None:
    spec = (
        "(APIServer pid=1) INFO 11-29 13:00:{} [metrics.py:101] SpecDecoding metrics: Mean acceptance length: 2.49, Accepted "
        "throughput: 30.70 tokens/s, Drafted throughput: 61.80 tokens/s, Accepted: 307 tokens, Drafted: 618 tokens, "
        "Per-position acceptance rate: 0.699, Avg Draft acceptance rate: 49.7%\n"
    )
    seen = read(line("13:00:00", 1, 1, 1), spec.format("00"), line("13:00:10", 1, 1, 1), spec.format("10"))
    assert list(series(seen, "spec_decode_num_accepted_tokens_total").values) == [0, 307, 614]
    assert list(series(seen, "spec_decode_num_draft_tokens_total").values) == [0, 618, 1236]


def test_a_restart_is_an_event_and_counters_begin_anew() -> None:
    banner = "(APIServer pid=9) INFO 11-29 13:05:00 [api_server.py:1839] vLLM API server version 0.11.0\n"
    seen = read(
        banner.replace("13:05", "12:59"), line("13:00:00", 0, 50, 3), banner, line("13:05:40", 0, 10, 1)
    )
    assert list(series(seen, "generation_tokens_total").values) == [0, 500, 0, 100]
    events = [e for e in seen if isinstance(e, Event)]
    assert [(e.kind, e.text) for e in events] == [("restart", "the server started anew (vLLM 0.11.0)")]
    assert Fact("vllm_version", "0.11.0", "log: start-up line", "server.log") in seen


def test_many_workers_of_one_start_are_one_start() -> None:
    engines = "".join(
        f"(EngineCore_DP{i} pid={i}) INFO 11-29 13:05:0{i} [core.py:71] Initializing a V1 LLM engine (v0.11.0) with config: model='m'\n"
        for i in range(4)
    )
    banner = "(APIServer pid=9) INFO 11-29 13:05:00 [api_server.py:1839] vLLM API server version 0.11.0\n"
    assert not [e for e in read(banner, engines, line("13:06:00", 1, 1, 1)) if isinstance(e, Event)]


@pytest.mark.parametrize("width", range(60, 240, 7))
def test_a_line_that_a_terminal_wrapped_anywhere_is_whole_again(width: int) -> None:
    text = line("13:00:00", 1479.5, 834.0, 39, 40, 75.8)
    wrapped = "\n".join(text[i : i + width] for i in range(0, len(text), width))
    seen = read(ACCESS, wrapped, ACCESS, line("13:00:10", 0, 1, 1))
    assert shown(series(seen, "num_requests_running")) == [39, 1]
    assert shown(series(seen, "num_requests_waiting")) == [40, 0]
    assert series(seen, "kv_cache_usage_ratio").values[1] == pytest.approx(0.758)
    assert shown(series(seen, "prefix_cache_hit_ratio")) == pytest.approx([0.1, 0.1])


def test_a_wrapped_line_may_lie_on_the_edge_of_two_pieces() -> None:
    text = line("13:00:00", 1479.5, 834.0, 39)
    seen = read(text[:100] + "\n", text[100:], line("13:00:10", 0, 1, 1))
    assert shown(series(seen, "num_requests_running")) == [39, 1]


@pytest.mark.parametrize(
    "dress",
    [
        lambda text: text.replace("\n", "\r\n"),
        lambda text: text.replace("(APIServer", "\x1b[0;36m(APIServer").replace(" INFO", "\x1b[0;0m \x1b[32mINFO\x1b[0m"),
        lambda text: "Loading: 10%\rLoading: 90%\r" + text,
        lambda text: "2026-11-29T13:00:00.5Z stdout F " + text,
        lambda text: "[pod/vllm-0/vllm] " + text,
        lambda text: "vllm-1  | " + text,
        lambda text: "\0" * 50 + text,
        lambda text: "\x00\xff\xfe junk \x01\n" + text,
        lambda text: text.replace("INFO", "DEBUG"),
    ],
)  # fmt: skip
def test_a_line_is_read_through_what_was_put_around_it(dress) -> None:  # type: ignore[no-untyped-def]
    seen = read(dress(line("13:00:00", 1, 2, 3)))
    assert shown(next(o for o in seen if isinstance(o, Samples) and "running" in o.series)) == [3]


def test_pods_in_one_stream_are_servers_of_their_own() -> None:
    seen = read(
        "[pod/vllm-0/vllm] " + line("13:00:00", 1, 1, 5), "[pod/vllm-1/vllm] " + line("13:00:00", 1, 1, 7)
    )
    running = {o.instance: shown(o) for o in seen if isinstance(o, Samples) and "running" in o.series}
    assert running == {"vllm-0": [5], "vllm-1": [7]}


def test_a_line_of_ten_megabytes_is_survived() -> None:
    long = "INFO 11-29 13:00:05 [logger.py:1] Received request cmpl-1: prompt: '" + "x" * 10_000_000 + "'\n"
    seen = read(line("13:00:00", 1, 1, 5), long, "y" * 10_000_000 + "\n", line("13:00:10", 1, 1, 7))
    assert shown(series(seen, "num_requests_running")) == [5, 7]


def test_out_of_memory_keeps_its_numbers() -> None:
    text = (
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 384.00 MiB. GPU 0 has a total capacity of 19.53 GiB of "
        "which 329.87 MiB is free. Of the allocated memory 18.40 GiB is allocated by PyTorch, and 402.27 MiB is reserved by "
        "PyTorch but unallocated.\n"
    )
    seen = read(line("13:00:00", 1, 1, 1), text)
    assert [e.text for e in seen if isinstance(e, Event)] == [
        "GPU memory ran out: 384 MiB wanted, 330 MiB free, 402 MiB reserved by PyTorch and unused"
    ]
    assert shown(series(seen, "gpu_out_of_memory_wanted_bytes")) == [384 * 2**20]
    assert shown(series(seen, "gpu_out_of_memory_unused_bytes")) == [pytest.approx(402.27 * 2**20)]


def test_the_same_trouble_a_thousand_times_is_a_few_events() -> None:
    trouble = "ERROR 11-29 13:00:{:02d} [core.py:7] TimeoutError: RPC call to sample_tokens timed out.\n"
    seen = read(line("13:00:00", 1, 1, 1), "".join(trouble.format(i % 60) for i in range(1000)))
    events = [e for e in seen if isinstance(e, Event)]
    assert len(events) == 21
    assert events[-1].text == "the call sample_tokens to a worker timed out (and 979 more before)"


def test_a_log_without_times_says_so() -> None:
    text = "Avg prompt throughput: 1.0 tokens/s, Avg generation throughput: 5.0 tokens/s, Running: 2 reqs, Waiting: 0 reqs, GPU KV cache usage: 1.0%\n"
    seen = read(text * 3)
    assert steps(series(seen, "generation_tokens_total")) == [(10, 50)] * 3
    assert [g.what for g in seen if isinstance(g, Gap)] == ["times"]


@pytest.mark.parametrize("text", ["hello\nworld\n", '127.0.0.1 - - [x] "GET / HTTP/1.1" 200 OK\n' * 50])
def test_a_text_that_is_no_log_of_vllm_is_told(tmp_path: Path, text: str) -> None:
    path = tmp_path / "other.log"
    path.write_text(text)
    with pytest.raises(NotVllm, match="holds no metrics, and no line of a vLLM server's log"):
        list(open_source(str(path)).read(Window()))


def test_a_vllm_log_that_tells_nothing_is_told(tmp_path: Path) -> None:
    path = tmp_path / "server.log"
    path.write_text("INFO 11-29 13:00:00 [launcher.py:1] Route: /health, Methods: GET\n")
    with pytest.raises(NotEnoughData, match="is a vLLM log, but holds no statistics"):
        list(open_source(str(path)).read(Window()))


def test_a_packed_log_and_standard_input_are_read_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = (line("13:00:00", 1, 2, 3) + ACCESS * 500) * 20
    packed = tmp_path / "server.log.gz"
    packed.write_bytes(gzip.compress(text.encode()))
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    values = [
        [
            (o.series, shown(o))
            for o in open_source(target).read(Window(clock=lambda: NOW))
            if isinstance(o, Samples)
        ]
        for target in (str(packed), "-")
    ]
    assert values[0] == values[1]
    assert len(values[0][0][1]) == 20


def test_a_packed_log_that_was_cut_off_is_read_as_far_as_it_goes(tmp_path: Path) -> None:
    text = "".join(line(f"13:{i // 6:02d}:{i % 6}0", i, i * 7 % 13, i % 5) + ACCESS for i in range(300))
    whole = gzip.compress(text.encode())
    path = tmp_path / "server.log.gz"
    path.write_bytes(whole[: len(whole) // 2])
    recording = gather_targets([str(path)], Window())
    assert recording.scrapes > 20
    assert any("end of the file" in g.what for g in recording.gaps)
