"""One table for every name a metric has had: what is read, what is absent and why, what is new."""

import pytest

from vllmdoctor.errors import UnknownName
from vllmdoctor.release import VersionRange, version
from vllmdoctor.signals import (
    KNOWN_NOT_JUDGED,
    NEVER_EXISTED,
    SIGNALS,
    absence,
    canonical_name,
    family_name,
    renamed,
    resolve,
    unclaimed,
)
from vllmdoctor.tables import rows

MIB = 1024.0**2
NOT_JUDGED = {name for group in KNOWN_NOT_JUDGED.values() for name in group}

RULES_USE = {
    "requests_running",
    "requests_waiting",
    "requests_waiting_deferred",
    "requests_waiting_capacity",
    "requests_swapped",
    "kv_cache_usage",
    "preemptions",
    "prompt_tokens",
    "prompt_tokens_cached",
    "generation_tokens",
    "prefix_cache_queries",
    "prefix_cache_hits",
    "prefix_cache_hit_rate",
    "external_prefix_cache_queries",
    "external_prefix_cache_hits",
    "requests_finished",
    "admission_rejections",
    "ttft",
    "itl",
    "tpot",
    "e2e_latency",
    "queue_time",
    "prefill_time",
    "decode_time",
    "inference_time",
    "prompt_length",
    "output_length",
    "max_tokens_param",
    "iteration_tokens",
    "preemptions_per_request",
    "prefill_computed_tokens",
    "spec_drafts",
    "spec_draft_tokens",
    "spec_accepted_tokens",
    "spec_acceptance_rate",
    "sleep_state",
    "corrupted_requests",
    "cache_config",
    "process_memory",
    "process_start_time",
    "process_cpu",
    "http_requests",
    "http_duration",
    "container_memory",
    "container_memory_limit",
    "container_restarts",
    "container_oom_killed",
    "container_cpu",
    "container_cpu_periods",
    "container_cpu_throttled_periods",
    "replicas_available",
    "replicas_desired",
    "scrape_up",
    "gpu_memory_used",
    "gpu_memory_free",
    "gpu_memory_total",
    "gpu_utilization",
    "gpu_sm_clock",
    "gpu_sm_clock_max",
    "gpu_temperature",
    "gpu_power",
    "gpu_power_limit",
    "gpu_throttle_reasons",
    "gpu_thermal_violation",
    "gpu_power_violation",
    "gpu_xid",
}


def test_every_signal_that_rules_use_is_in_the_table() -> None:
    assert RULES_USE - set(SIGNALS) == set()


@pytest.mark.parametrize("row", rows("metrics"), ids=lambda row: f"{row['name']}-{row['engine']}")
def test_every_metric_vllm_ever_had_is_claimed_or_known(row: dict[str, str]) -> None:
    claimed = {name.text for signal in SIGNALS.values() for name in signal.names}

    assert row["name"] in claimed | NOT_JUDGED


def test_no_metric_is_both_claimed_and_not_judged() -> None:
    claimed = {name.text for signal in SIGNALS.values() for name in signal.names}

    assert claimed & NOT_JUDGED == set()


@pytest.mark.parametrize("signal", SIGNALS.values(), ids=lambda signal: signal.name)
def test_names_stand_newest_first_and_live_as_the_metric_table_says(signal: object) -> None:
    lives: dict[str, list[dict[str, str]]] = {}
    for row in rows("metrics"):
        lives.setdefault(row["name"], []).append(row)
    known = [n for s in SIGNALS.values() if s is signal for n in s.names if n.text in lives and n.since]
    for name in known:
        engines = lives[name.text]
        assert version(name.since) == min(version(row["since"]) for row in engines), name
        lasts = [row["last"] for row in engines]
        last = "" if "" in lasts else max(lasts, key=version)
        assert name.until == last, name
    spans = [version(name.until) if name.until else version("99.0") for name in known]
    assert spans == sorted(spans, reverse=True)


def test_the_newest_name_that_is_present_is_read() -> None:
    both = ["vllm:gpu_cache_usage_perc", "vllm:kv_cache_usage_perc"]

    assert resolve(both)["kv_cache_usage"].text == "vllm:kv_cache_usage_perc"
    assert resolve(both[:1])["kv_cache_usage"].text == "vllm:gpu_cache_usage_perc"
    assert resolve([]) == {}


def test_v0_histograms_are_read_as_what_v1_calls_otherwise() -> None:
    page = ["vllm:time_per_output_token_seconds_bucket", "vllm:time_in_queue_requests_sum"]

    found = resolve(page)

    assert found["itl"].text == "vllm:time_per_output_token_seconds"
    assert found["queue_time"].text == "vllm:time_in_queue_requests"
    assert "tpot" not in found


def test_one_family_gives_two_signals_told_apart_by_label() -> None:
    found = resolve(["vllm:num_requests_waiting_by_reason"])

    assert found["requests_waiting_deferred"].labels == (("reason", "deferred"),)
    assert found["requests_waiting_capacity"].labels == (("reason", "capacity"),)


@pytest.mark.parametrize(
    ("raw", "canonical"),
    [
        ("vllm:num_requests_running", "vllm:num_requests_running"),
        ("vllm_num_requests_running", "vllm:num_requests_running"),
        ("ray_vllm_num_requests_running", "vllm:num_requests_running"),
        ("ray_vllm:num_requests_running", "vllm:num_requests_running"),
        ("num_requests_running", "vllm:num_requests_running"),
        ("gpu_cache_usage_perc", "vllm:gpu_cache_usage_perc"),
        ("time_to_first_token_seconds_bucket", "vllm:time_to_first_token_seconds_bucket"),
        ("vllm:prompt_tokens", "vllm:prompt_tokens_total"),
        ("ray_vllm_prompt_tokens", "vllm:prompt_tokens_total"),
        ("vllm:prompt_tokens_created", "vllm:prompt_tokens_created"),
        ("vllm:iteration_tokens_total_sum", "vllm:iteration_tokens_total_sum"),
        ("tokens_total", "tokens_total"),
        ("DCGM_FI_DEV_FB_USED", "DCGM_FI_DEV_FB_USED"),
        ("up", "up"),
        ("vllm:made_up", "vllm:made_up"),
        ("vllm_router_requests", "vllm_router_requests"),
    ],
)
def test_every_spelling_of_a_name_is_read_as_vllms_own(raw: str, canonical: str) -> None:
    assert canonical_name(raw) == canonical


def test_a_histogram_that_ends_in_total_is_no_counter() -> None:
    assert SIGNALS["iteration_tokens"].kind == "histogram"
    assert family_name("vllm:iteration_tokens_total_bucket") == "vllm:iteration_tokens_total"
    assert family_name("vllm:prompt_tokens_total") == "vllm:prompt_tokens_total"


@pytest.mark.parametrize(
    ("signal", "name", "scale"),
    [
        ("gpu_memory_used", "DCGM_FI_DEV_FB_USED", MIB),
        ("gpu_memory_total", "DCGM_FI_DEV_FB_TOTAL", MIB),
        ("gpu_memory_used", "nvml:memory_used_bytes", 1.0),
        ("gpu_utilization", "DCGM_FI_DEV_GPU_UTIL", 0.01),
        ("gpu_sm_clock", "DCGM_FI_DEV_SM_CLOCK", 1e6),
        ("gpu_temperature", "DCGM_FI_DEV_GPU_TEMP", 1.0),
        ("kv_cache_usage", "vllm:kv_cache_usage_perc", 1.0),
    ],
)
def test_values_become_si_by_their_scale(signal: str, name: str, scale: float) -> None:
    assert resolve([name])[signal].scale == scale


def test_ratios_are_never_added_up() -> None:
    summed = [s.name for s in SIGNALS.values() if s.unit == "ratio" and s.merge == "sum"]

    assert summed == []


def test_what_a_new_release_adds_is_reported() -> None:
    page = [
        "vllm:num_requests_running",
        "vllm:shiny_total",
        "vllm:shiny_seconds_bucket",
        "vllm:shiny_seconds_sum",
        "vllm:mm_cache_hits_total",
        "vllm:prompt_tokens_created",
        "vllm:request_params_n_bucket",
        "python_info",
    ]

    assert unclaimed(page) == ["vllm:shiny_seconds", "vllm:shiny_total"]


NEW_PAGE = [
    "vllm:kv_cache_usage_perc",
    "vllm:prefix_cache_queries_total",
    "vllm:prefix_cache_hits_total",
    "vllm:inter_token_latency_seconds",
]


def test_a_new_server_says_which_old_names_are_gone() -> None:
    usage, prefix, tokens = renamed(NEW_PAGE, version("0.32.0"))

    assert usage == (
        "this server is 0.32.0: `vllm:gpu_cache_usage_perc` (removed in 0.12) is read as "
        "`vllm:kv_cache_usage_perc`"
    )
    assert "`vllm:gpu_prefix_cache_queries_total` (removed in 0.12)" in prefix
    assert "`vllm:time_per_output_token_seconds` (removed in 0.15)" in tokens


def test_without_a_version_the_names_tell_what_is_hidden() -> None:
    assert renamed(NEW_PAGE)[0] == (
        "this server is 0.11+: `vllm:gpu_cache_usage_perc` (hidden since 0.11) is read as "
        "`vllm:kv_cache_usage_perc`"
    )


def test_a_server_between_two_names_exposes_both_and_nothing_is_said() -> None:
    assert renamed(["vllm:gpu_cache_usage_perc", "vllm:kv_cache_usage_perc"], version("0.10.0")) == []


def test_an_old_server_says_that_its_old_name_is_read() -> None:
    assert renamed(["vllm:gpu_cache_usage_perc"], version("0.8.5")) == [
        "old name `vllm:gpu_cache_usage_perc` is exposed (to 0.11.2): read as kv_cache_usage"
    ]


def test_prefix_counters_warn_of_their_changed_unit() -> None:
    lines = renamed(["vllm:gpu_prefix_cache_queries_total", "vllm:gpu_prefix_cache_hits_total"])

    assert lines[-1] == (
        "prefix cache counters are blocks to 0.8.5 and tokens from 0.9.0: only hits/queries is used"
    )


@pytest.mark.parametrize("name", NEVER_EXISTED)
def test_a_name_that_never_existed_is_called_out_and_not_read(name: str) -> None:
    assert name not in {n.text for s in SIGNALS.values() for n in s.names} | NOT_JUDGED
    assert f"`{name}` was never exposed by vLLM" in renamed([name])[0]


def test_a_foreign_spelling_is_told_once() -> None:
    lines = renamed(["ray_vllm_num_requests_running", "ray_vllm_num_requests_waiting"])

    assert lines == [
        "names are spelt as `ray_vllm_num_requests_running`: read as `vllm:num_requests_running`, and so on"
    ]


ONE_PROCESS = "not exposed with several API server processes, nor by the Rust front end"
FILTERED = "not on the page: --disable-log-stats, a scrape filter or a proxy may leave it out"


@pytest.mark.parametrize(
    ("signal", "release", "why"),
    [
        ("requests_waiting_deferred", "0.12.0", "came with 0.20; this server is 0.12.0"),
        ("requests_swapped", "0.32.0", "gone after 0.9.0; this server is 0.32.0"),
        ("requests_swapped", "0.8.5", "exposed by the V0 engine only, to 0.9.0, hidden since 0.8.3"),
        ("spec_drafts", "0.32.0", "exposed only with speculative decoding"),
        ("process_memory", "0.32.0", ONE_PROCESS),
        ("gpu_memory_used", "0.32.0", "no GPU metrics were given (dcgm-exporter or NVML)"),
        ("kv_cache_usage", "0.32.0", FILTERED),
    ],
)
def test_an_absent_signal_says_why(signal: str, release: str, why: str) -> None:
    assert absence(signal, version(release)) == why


def test_absence_knows_what_it_does_not_know() -> None:
    assert absence("preemptions_per_request") == "came with 0.30; the server's version is not known"
    inferred = VersionRange(version("0.12.0"), version("0.14.1"))
    assert absence("preemptions_per_request", inferred) == ("came with 0.30; this server is 0.12-0.14.1")
    with pytest.raises(UnknownName, match="no signal named 'kv_cache_usge'"):
        absence("kv_cache_usge")
