# ruff: noqa: E501  lines of a log stand here as they are
"""Every kind of line is read as each release writes it."""

import pytest

from vllmdoctor.sources.log.shapes import (
    ARGUMENTS,
    CONFIG,
    NUMBERS,
    OUT_OF_MEMORY,
    PREEMPTED,
    PREFIX_RATE,
    SPECULATION,
    SPECULATION_V0,
    STARTED,
    STATISTICS,
    TROUBLE,
    Shape,
)
from vllmdoctor.sources.log.startup import read_startup
from vllmdoctor.sources.log.statistics import read_statistics

SHAPES = (
    STATISTICS,
    PREFIX_RATE,
    SPECULATION,
    SPECULATION_V0,
    PREEMPTED,
    OUT_OF_MEMORY,
    STARTED,
    ARGUMENTS,
    CONFIG,
)


@pytest.mark.parametrize(
    ("shape", "releases", "line"), [(s, releases, line) for s in SHAPES for releases, line in s.examples]
)
def test_each_example_is_of_its_shape_and_of_no_other(shape: Shape, releases: str, line: str) -> None:
    assert shape.pattern.search(line), releases
    others = [s.name for s in SHAPES if s is not shape and s.pattern.search(line)]
    assert others == (
        ["start-up banner"]
        if shape is CONFIG
        else ["resolved configuration"]
        if "with config" in line
        else []
    )


@pytest.mark.parametrize(("releases", "line"), STATISTICS.examples)
def test_a_statistics_line_of_any_release_gives_the_same_numbers(releases: str, line: str) -> None:
    read = read_statistics(line)
    assert read is not None
    expected = {"running": 2.0, "waiting": 20.0}
    if "RUNNING" not in line:
        expected |= {"prompt": 642.0, "generation": 61.0, "usage": 0.987}
    if "Prefix cache" in line:
        expected["hit_rate"] = 0.424
    if "Deferred" in line:
        expected["deferred"] = 3.0
    if "Swapped" in line:
        expected["swapped"] = 0.0
    if "External" in line:
        expected["external_hit_rate"] = 0.012
    if "Rust" in releases:
        expected["preemptions"] = 7.0
    assert read.values == pytest.approx(expected)
    assert read.engine == ("1" if "Engine 001" in line else "0")
    assert read.old == ((releases.startswith("0.2") and "Swapped" in line) or "V0" in releases)
    assert read.rust == ("Rust" in releases)


def test_the_first_kv_cache_of_a_line_is_the_pool_whatever_it_is_called() -> None:
    swap = read_statistics(
        "Avg prompt throughput: 1.0 tokens/s, Avg generation throughput: 1.0 tokens/s, Running: 1 reqs, "
        "Swapped: 3 reqs, Pending: 0 reqs, GPU KV cache usage: 90.0%, CPU KV cache usage: 70.4%."
    )
    cpu = read_statistics(
        "Avg prompt throughput: 1.0 tokens/s, Avg generation throughput: 1.0 tokens/s, Running: 1 reqs, "
        "Waiting: 0 reqs, CPU KV cache usage: 70.4%"
    )
    assert swap is not None and swap.values["usage"] == pytest.approx(0.9)
    assert cpu is not None and cpu.values["usage"] == pytest.approx(0.704)


@pytest.mark.parametrize(("key", "line"), [(key, line) for key, _, _, line in NUMBERS])
def test_each_start_up_line_gives_its_number(key: str, line: str) -> None:
    assert key in {found for found, _, _ in read_startup(line)}


def test_start_up_numbers_are_in_si_units() -> None:
    told = {key: value for _, _, _, line in NUMBERS for key, value, _ in read_startup(line)}
    assert told["kv_cache_size_tokens"] == 4096
    assert told["kv_cache_max_concurrency"] == 2.0
    assert told["available_kv_cache_memory"] == 12.25 * 2**30
    assert told["num_gpu_blocks"] == 27896
    assert told["num_gpu_blocks_override"] == 64
    assert told["block_size"] == 7808
    assert told["max_num_batched_tokens"] == 8192
    assert told["startup_time"] == 0.09


@pytest.mark.parametrize(("kind", "line"), [(kind, line) for kind, _, _, line in TROUBLE])
def test_each_trouble_is_told_by_its_own_words_only(kind: str, line: str) -> None:
    assert [k for k, pattern, _, _ in TROUBLE if pattern.search(line)] == [kind]


@pytest.mark.parametrize(("releases", "line"), ARGUMENTS.examples)
def test_arguments_are_kept_by_name_and_the_model_by_what_it_is_served_as(releases: str, line: str) -> None:
    told = {key: value for key, value, _ in read_startup(line)}
    assert told == {"max_num_seqs": 64, "served_model_name": "mid"}, releases


def test_the_resolved_configuration_tells_what_no_argument_said() -> None:
    told = {key: value for key, value, _ in read_startup(CONFIG.examples[0][1])}
    assert told == {
        "max_model_len": 1024,
        "tensor_parallel_size": 1,
        "served_model_name": "mid",
        "enable_prefix_caching": False,
    }


def test_a_key_among_the_arguments_is_not_kept() -> None:
    line = "non-default args: {'api_key': ['secret'], 'hf_token': 'secret', 'max_num_seqs': 8, 'port': 8000}"
    assert {key: value for key, value, _ in read_startup(line)} == {"max_num_seqs": 8}


def test_speculative_tokens_are_found_inside_of_their_own_settings() -> None:
    line = "non-default args: {'model': 'm', 'speculative_config': {'method': 'mtp', 'num_speculative_tokens': 3}}"
    assert ("num_speculative_tokens", 3) in [(key, value) for key, value, _ in read_startup(line)]
