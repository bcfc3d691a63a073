"""Each remedy computes its value from the figures, or says why it is useless or harmful here."""

import math
import re

import pytest

from vllmdoctor.errors import UnknownName
from vllmdoctor.flags import Release, flag, flags
from vllmdoctor.model import Effort, Fact, Outcome, Severity, Status, Step
from vllmdoctor.release import Version, VersionRange, version
from vllmdoctor.remedies import FIGURES, REMEDIES, Figures, figures, prescribe
from vllmdoctor.versions import releases

GIB = 1024.0**3
NEW = version("0.32.0")


def finding(slug: str, kind: str = "") -> Outcome:
    return Outcome(slug, slug, Status.FOUND, Severity.CRITICAL, 0.9, "0", kind)


KV_BOUND = finding("overload", "kv-bound")
SLOT_BOUND = finding("overload", "slot-bound")
PREFILL_BOUND = finding("overload", "prefill-bound")
FRAGMENTED = finding("kv-fragmentation")
LEAK = finding("memory-leak")
GPU_GROWTH = finding("gpu-memory-growth")
BLOCKED = finding("head-of-line-blocking")

# A real server on 64 blocks of 32 tokens, thrashing: 156 preemptions, 180 of 249 requests done.
THRASH = {
    "num_blocks": 64,
    "block_size": 32,
    "num_gpu_blocks_override": 64,
    "max_num_seqs": 64,
    "max_model_len": 1024,
    "mean_prompt": 256,
    "mean_output": 256,
    "running_mean": 4.4,
    "arrival_rate": 249 / 215,
    "completion_rate": 180 / 225,
    "preemptions_per_minute": 41,
    "kv_usage_p95": 1.0,
}
# A real server whose steps took a 4,000-token prompt whole.
BIG_BATCH = {
    "max_num_batched_tokens": 8192,
    "max_num_seqs": 64,
    "max_model_len": 8192,
    "prompt_p50": 66,
    "prompt_p99": 4000,
}


def known(**measured: float | str | bool) -> Figures:
    return figures(measured=measured)


def given(slug: str, outcome: Outcome, release: Release = NEW, /, **measured: float | str | bool) -> Step:
    step = prescribe(slug, figures(measured=measured), release, outcome)
    assert step is not None
    return step


# --- the figures


def test_labels_of_the_server_become_figures() -> None:
    labels = {
        "num_gpu_blocks": "512",
        "block_size": "32",
        "gpu_memory_utilization": "0.92",
        "enable_prefix_caching": "True",
        "cache_dtype": "auto",
        "num_gpu_blocks_override": "None",
        "kv_cache_layout": "None",
        "sliding_window": "4096",
    }
    read = figures([Fact(key, value, "vllm:cache_config_info") for key, value in labels.items()])

    assert read.number("pool_tokens") == 16384
    assert read.fact("pool_tokens") == Fact(
        "pool_tokens", 16384.0, "num_gpu_blocks x block_size (vllm:cache_config_info)"
    )
    assert read.number("gpu_memory_utilization") == 0.92
    assert read.switch("enable_prefix_caching") is True
    assert read.text("kv_cache_dtype") == "auto"
    assert read.fact("num_gpu_blocks_override") is None


def test_the_servers_own_token_count_wins_over_blocks_times_size() -> None:
    read = figures([Fact("kv_cache_size_tokens", 4096, "x")], {"num_blocks": 512, "block_size": 32})

    assert read.number("pool_tokens") == 4096


def test_blocks_are_shared_by_data_parallel_engines() -> None:
    assert known(num_blocks=1024, block_size=16, data_parallel_size=4).number("pool_tokens") == 4096


def test_a_missing_figure_is_nan_and_says_how_to_get_it() -> None:
    read = known(mean_prompt=math.nan)

    assert math.isnan(read.number("mean_prompt"))
    assert read.switch("enable_prefix_caching") is None
    assert read.missing("pool_tokens") == ("KV pool: the server's start-up log: KV cache size",)


def test_an_undeclared_figure_is_an_error() -> None:
    with pytest.raises(UnknownName, match="no figure named 'pool_size'"):
        known(pool_size=4096)
    with pytest.raises(UnknownName, match="no remedy named 'reboot'"):
        prescribe("reboot", figures(), NEW, LEAK)


# --- the KV pool


def test_a_thrashing_pool_is_made_as_large_as_the_load_needs() -> None:
    step = given("more-kv-blocks", KV_BOUND, **THRASH)

    assert (step.flag, step.before, step.after) == ("--num-gpu-blocks-override", "64", "188")
    assert step.formula == (
        "to keep up 6.4 must run (peak 11.4) x (256 + 256/2) tokens / 0.95 = 4,615 tokens; pool 2,048; "
        "x 1.3: a larger batch has longer steps"
    )
    assert "completions x 1.0-1.4" in step.effect
    assert step.missing == ()


def test_the_prediction_holds_what_the_real_pair_measured() -> None:
    """With 512 blocks the same load ran 6.0 requests, used 4,489 tokens at p95 and did 1.34 x the work."""
    step = given("more-kv-blocks", KV_BOUND, **THRASH)

    needed = float(step.formula.split(" = ")[1].split()[0].replace(",", ""))
    assert 4489 <= needed <= 1.2 * 4489
    assert 1.0 <= 1.34 <= float(step.effect.split("1.0-")[1].split()[0])


def test_a_pool_that_is_large_enough_is_left_alone() -> None:
    step = given(
        "more-kv-blocks", FRAGMENTED, **(THRASH | {"num_blocks": 512, "num_gpu_blocks_override": 512})
    )

    assert step.verdict == "moot"


def test_a_pool_seen_full_grows_by_a_quarter_at_least() -> None:
    roomy = THRASH | {"num_blocks": 512, "num_gpu_blocks_override": 512}

    assert given("more-kv-blocks", KV_BOUND, **roomy).after == "640"


def test_an_explicit_pool_size_grows_in_bytes() -> None:
    rest = {k: v for k, v in THRASH.items() if k != "num_gpu_blocks_override"}
    step = given("more-kv-blocks", KV_BOUND, **rest, kv_cache_memory_bytes=2 * GIB)

    assert step.flag == "--kv-cache-memory-bytes"
    assert float(step.after) / (2 * GIB) == pytest.approx(1.3 * 4614.8 / 2048, rel=1e-3)


def test_nothing_to_raise_where_nothing_fixes_the_pool() -> None:
    assert prescribe("more-kv-blocks", known(pool_tokens=2048), NEW, KV_BOUND) is None


def test_memory_utilization_is_raised_as_far_as_free_memory_goes() -> None:
    step = given(
        "raise-gpu-memory-utilization",
        KV_BOUND,
        version("0.19.0"),
        gpu_memory_utilization=0.9,
        gpu_memory_total=80 * GIB,
        gpu_memory_free=4 * GIB,
        pool_tokens=100_000,
        kv_bytes_per_token=131_072,
        tensor_parallel_size=2,
    )

    assert (step.before, step.after) == ("0.9", "0.93")  # 0.9 + (4 - 1.6) / 80
    assert "(0.93 - 0.9) x 80 GiB x 2 GPU / 131072 bytes = 39,322 tokens more" in step.formula
    assert step.missing == ()


def test_without_the_size_of_a_token_the_least_gain_is_given() -> None:
    step = given("raise-gpu-memory-utilization", KV_BOUND, gpu_memory_utilization=0.92)

    assert step.after == "0.95"
    assert step.formula == "pool + at least 0.95/0.92 - 1 = 3.3% (weights stay the same)"
    assert step.missing == (
        "GPU memory free: nvidia-smi, or dcgm-exporter",
        "GPU memory: nvidia-smi, or dcgm-exporter",
    )


def test_the_default_is_the_starting_point_where_the_release_is_known() -> None:
    assert given("raise-gpu-memory-utilization", KV_BOUND, version("0.19.0")).before == "0.9"
    assert given("raise-gpu-memory-utilization", KV_BOUND, version("0.20.0")).before == "0.92"
    assert given("raise-gpu-memory-utilization", KV_BOUND, None).before == "not known"


@pytest.mark.parametrize(
    ("measured", "why"),
    [
        ({"num_gpu_blocks_override": 64}, "--num-gpu-blocks-override 64 sets the pool"),
        ({"kv_cache_memory_bytes": 1000}, "--kv-cache-memory-bytes 1000 sets the pool"),
        ({"gpu_memory_utilization": 0.95}, "0.95 is near the top"),
        (
            {"gpu_memory_utilization": 0.9, "gpu_memory_total": 80 * GIB, "gpu_memory_free": GIB},
            "the device has no memory left for it",
        ),
    ],
)
def test_raising_is_moot_where_it_cannot_help(measured: dict[str, float], why: str) -> None:
    step = given("raise-gpu-memory-utilization", KV_BOUND, **measured)

    assert step.verdict == "moot"
    assert step.why.startswith(why)


@pytest.mark.parametrize("outcome", [KV_BOUND, FRAGMENTED])
def test_lowering_memory_utilization_is_harmful_where_the_pool_is_full(outcome: Outcome) -> None:
    step = given("lower-gpu-memory-utilization", outcome, gpu_memory_utilization=0.92, pool_tokens=100_000)

    assert step.verdict == "harmful"
    assert (
        step.formula
        == "pool - at least 1 - 0.87/0.92 = 5.4% = 5,435 of 100,000 tokens (weights stay the same)"
    )


def test_lowering_memory_utilization_helps_where_memory_outside_the_pool_grows() -> None:
    step = given(
        "lower-gpu-memory-utilization",
        GPU_GROWTH,
        gpu_memory_utilization=0.92,
        gpu_memory_total=80 * GIB,
        memory_slope_bytes_per_s=0.1 * GIB / 3600,
    )

    assert (step.verdict, step.before, step.after) == ("helps", "0.92", "0.88")
    assert step.effect == "3.2 GiB of room: 32 h at 0.10 GiB/h"


def test_lowering_memory_utilization_is_moot_elsewhere() -> None:
    assert given("lower-gpu-memory-utilization", LEAK, kv_usage_p95=0.3).verdict == "moot"
    assert given("raise-gpu-memory-utilization", GPU_GROWTH).verdict == "harmful"


def test_fp8_says_whether_twice_the_pool_is_enough() -> None:
    step = given("fp8-kv-cache", KV_BOUND, **THRASH)

    assert step.formula == "2 x 2,048 = 4,096 tokens; needed 4,615: not enough"
    assert given("fp8-kv-cache", KV_BOUND, kv_cache_dtype="fp8_e4m3").verdict == "moot"


def test_the_watermark_is_offered_to_releases_that_know_it() -> None:
    assert given("kv-watermark", KV_BOUND, num_blocks=1000).formula == "0.02 x 1,000 = 20 blocks kept free"
    assert prescribe("kv-watermark", figures(), version("0.23.0"), KV_BOUND) is None
    assert given("kv-watermark", KV_BOUND, watermark=0.05).verdict == "moot"


def test_a_longer_request_than_the_pool_is_forbidden() -> None:
    step = given(
        "lower-max-model-len", finding("context-exceeds-pool"), max_model_len=262_144, pool_tokens=76_640
    )

    assert (step.verdict, step.after) == ("helps", "76640")
    assert "can never run" in step.why


def test_a_lower_model_length_adds_no_blocks() -> None:
    step = given(
        "lower-max-model-len",
        KV_BOUND,
        max_model_len=32_768,
        pool_tokens=100_000,
        prompt_p99=2400,
        output_p99=400,
    )

    assert step.verdict == "moot"
    assert step.formula == "1.2 x p99 of (2,400 + 400) = 3,584 tokens"


# --- the batch


def test_the_cap_on_requests_is_what_the_pool_holds_at_full_length() -> None:
    step = given(
        "lower-max-num-seqs",
        KV_BOUND,
        pool_tokens=4096,
        mean_prompt=128,
        mean_output=512,
        max_num_seqs=256,
        preemptions_per_minute=20,
    )

    assert (step.flag, step.before, step.after) == ("--max-num-seqs", "256", "6")
    assert step.formula == "4,096 tokens / (128 + 512) = 6 requests at full length (10 half grown)"
    assert "adds no capacity" in step.effect
    assert "--max-num-active-seqs" in step.tradeoff


def test_the_cap_computed_for_the_real_server_is_the_one_that_stopped_its_preemptions() -> None:
    assert given("lower-max-num-seqs", KV_BOUND, **THRASH).after == "4"


def test_a_cap_has_nothing_to_stop_without_preemptions() -> None:
    step = given(
        "lower-max-num-seqs", SLOT_BOUND, pool_tokens=4096, preemptions_per_minute=0, kv_usage_p95=0.4
    )

    assert step.verdict == "moot"


def test_a_cap_that_is_low_already_is_left_alone() -> None:
    step = given("lower-max-num-seqs", KV_BOUND, **(THRASH | {"max_num_seqs": 4}))

    assert (step.verdict, step.why) == ("moot", "--max-num-seqs 4 is within what the pool holds")


def test_the_cap_without_figures_is_a_formula_and_a_list_of_what_is_missing() -> None:
    step = given("lower-max-num-seqs", KV_BOUND)

    assert step.after == ""
    assert step.formula == "pool tokens / (mean prompt + mean output)"
    assert len(step.missing) == 4


def test_slots_are_raised_to_what_the_load_needs_within_the_pool() -> None:
    step = given(
        "raise-max-num-seqs",
        SLOT_BOUND,
        pool_tokens=200_000,
        mean_prompt=500,
        mean_output=300,
        max_num_seqs=64,
        running_mean=64,
        arrival_rate=3.0,
        completion_rate=2.0,
    )

    assert (step.before, step.after) == ("64", "116")  # 96 on average, two deviations up; the pool holds 250
    assert "up to 1.8 x the requests at once" in step.effect


def test_more_slots_are_harmful_where_the_pool_holds_no_more() -> None:
    """The real server with a cap of 4: the pool of 2,048 tokens holds 4 requests of 512."""
    step = given("raise-max-num-seqs", SLOT_BOUND, **(THRASH | {"max_num_seqs": 4}))

    assert step.verdict == "harmful"
    assert step.why == "the pool holds 4 requests at full length: more slots only bring preemptions"


def test_the_long_prefill_threshold_is_the_one_that_cured_the_real_server() -> None:
    step = given("set-long-prefill-token-threshold", BLOCKED, **BIG_BATCH)

    assert (step.flag, step.before, step.after) == ("--long-prefill-token-threshold", "0", "256")
    assert "p99 prompt 4,000 / 256 = 16 steps instead of 1 of up to 8,192 tokens" in step.formula


@pytest.mark.parametrize(("median", "threshold"), [(20, "256"), (300, "1024"), (700, "2048"), (5000, "2048")])
def test_the_threshold_follows_the_usual_prompt(median: float, threshold: str) -> None:
    assert given("set-long-prefill-token-threshold", BLOCKED, prompt_p50=median).after == threshold


def test_a_threshold_in_force_is_not_proposed_again() -> None:
    step = given("set-long-prefill-token-threshold", BLOCKED, **BIG_BATCH, long_prefill_token_threshold=256)

    assert step.verdict == "moot"


def test_v0_does_not_heed_the_threshold() -> None:
    v0 = VersionRange(version("0.8.3"), version("0.9.0"), "V0")

    assert prescribe("set-long-prefill-token-threshold", known(**BIG_BATCH), v0, BLOCKED) is None


@pytest.mark.parametrize(
    ("budget", "slots", "after"),
    [(8192, 64, "2048"), (16384, 4096, "4096"), (2048, 64, "512"), (512, 64, "256")],
)
def test_the_budget_is_lowered_but_never_below_the_slots(budget: int, slots: int, after: str) -> None:
    step = given("lower-max-num-batched-tokens", BLOCKED, max_num_batched_tokens=budget, max_num_seqs=slots)

    assert step.after == after
    assert "TTFT does not" in step.effect


def test_a_budget_below_a_prompt_needs_chunked_prefill() -> None:
    step = given("lower-max-num-batched-tokens", BLOCKED, **BIG_BATCH, enable_chunked_prefill=False)

    assert step.verdict == "harmful"


def test_a_larger_budget_is_offered_when_prefill_bound_and_the_pool_has_room() -> None:
    assert (
        given(
            "raise-max-num-batched-tokens", PREFILL_BOUND, max_num_batched_tokens=2048, kv_usage_p95=0.3
        ).after
        == "8192"
    )
    assert (
        given(
            "raise-max-num-batched-tokens", PREFILL_BOUND, max_num_batched_tokens=2048, kv_usage_p95=1.0
        ).verdict
        == "harmful"
    )
    assert given("raise-max-num-batched-tokens", PREFILL_BOUND, max_num_batched_tokens=8192).verdict == "moot"
    assert given("raise-max-num-batched-tokens", PREFILL_BOUND).verdict == "unknown"


# --- caches

OFF: dict[str, float | bool] = {"enable_prefix_caching": False}


@pytest.mark.parametrize(
    ("measured", "release", "verdict", "why"),
    [
        ({"enable_prefix_caching": True}, NEW, "moot", "prefix caching is in force"),
        ({}, NEW, "moot", "it is on by default in this release: adding the flag changes nothing"),
        ({"prefix_hit_ratio": 0.95}, NEW, "moot", "prefix caching is in force: 95% hits"),
        (OFF | {"repeated_prompt_share": 0.05}, NEW, "moot", "only 5% of the prompt tokens repeat"),
        (OFF | {"repeated_prompt_share": 0.95}, NEW, "helps", ""),
        (OFF, NEW, "unknown", ""),
        ({"repeated_prompt_share": 0.6}, version("0.7.3"), "helps", ""),
    ],
)  # fmt: skip
def test_prefix_caching_is_advised_only_where_it_is_off_and_prompts_repeat(
    measured: dict[str, float | bool], release: Version, verdict: str, why: str
) -> None:
    step = given("enable-prefix-caching", PREFILL_BOUND, release, **measured)

    assert step.verdict == verdict
    assert step.why.startswith(why)


def test_prefix_caching_predicts_the_tokens_saved() -> None:
    step = given(
        "enable-prefix-caching",
        PREFILL_BOUND,
        enable_prefix_caching=False,
        repeated_prompt_share=0.95,
        mean_prompt=1072,
    )

    assert step.formula == "95% of 1,072 prompt tokens = 1,018 tokens saved per request"
    assert step.effect == "hit ratio up to 95% and prefill work down by as much (0-95%)"


def test_speculation_drafts_what_is_accepted() -> None:
    step = given(
        "disable-or-retune-spec-decode",
        finding("spec-decode-decay"),
        spec_acceptance=0.3,
        num_speculative_tokens=5,
    )

    assert (step.before, step.after) == ("num_speculative_tokens 5", "num_speculative_tokens 2")
    assert step.formula == "1 + 0.30 x 5 = 2.50 tokens per step"


def test_routing_by_prefix_needs_more_than_one_replica() -> None:
    collapse = finding("prefix-cache-collapse")

    assert given("prefix-aware-routing", collapse, replicas=1).verdict == "moot"
    step = given("prefix-aware-routing", collapse, replicas=4, prefix_hit_ratio=0.2)
    assert (step.verdict, step.effort, step.restart) == ("helps", Effort.LIVE, False)


# --- the fleet


def test_replicas_are_counted_from_arrivals_and_completions() -> None:
    step = given("add-replica", KV_BOUND, replicas=3, arrival_rate=2.0, completion_rate=1.0)

    assert (step.before, step.after) == ("3", "8")
    assert step.formula == "3 x 2.00 / 1.00 per s / 0.8 = 7.5"
    assert step.restart is False


def test_more_gpus_more_than_double_the_pool() -> None:
    step = given("tensor-parallel", KV_BOUND, tensor_parallel_size=2, pool_tokens=50_000)

    assert (step.before, step.after) == ("2", "4")
    assert step.formula == "more than 2 x 50,000 = 100,000 tokens"


@pytest.mark.parametrize(
    ("outcome", "median", "longest", "verdict"),
    [
        (BLOCKED, 66, 4000, "helps"),
        (BLOCKED, 1000, 3000, "moot"),
        (FRAGMENTED, 1000, 3000, "moot"),
        (FRAGMENTED, 100, 8192, "helps"),
    ],
)
def test_traffic_is_split_only_where_it_is_of_two_kinds(
    outcome: Outcome, median: float, longest: float, verdict: str
) -> None:
    assert given("split-traffic-by-length", outcome, prompt_p50=median, prompt_p99=longest).verdict == verdict


def test_admission_is_limited_in_the_server_or_else_at_the_gateway() -> None:
    new = given("limit-admission", KV_BOUND, completion_rate=0.8)
    old = given("limit-admission", KV_BOUND, version("0.28.0"), completion_rate=0.8)

    assert (new.flag, new.after, new.formula) == (
        "--max-num-queued-reqs",
        "24",
        "0.80 per s x 30 s = 24 requests",
    )
    assert (old.flag, old.action) == ("", "Let the gateway answer 503 when 24 requests wait.")


# --- care


def test_restarts_are_scheduled_well_before_the_limit() -> None:
    step = given(
        "rolling-restart",
        LEAK,
        memory_limit=32 * GIB,
        memory_used=24 * GIB,
        memory_slope_bytes_per_s=GIB / 3600,
        replicas=1,
    )

    assert step.formula == "min(6 h, half of 8.0 h to the limit)"
    assert "`0 */4 * * *`" in step.action
    assert step.action.startswith("Save /metrics, logs and memory of each process first")
    assert step.tradeoff.startswith("with a single replica each restart is an outage")


def test_a_restart_is_no_cure_for_too_much_work() -> None:
    assert given("rolling-restart", KV_BOUND).verdict == "harmful"


def test_a_memory_limit_buys_hours() -> None:
    step = given(
        "raise-memory-limit",
        LEAK,
        memory_limit=32 * GIB,
        memory_used=24 * GIB,
        memory_slope_bytes_per_s=GIB / 3600,
    )

    assert (step.before, step.after) == ("32.0Gi", "48Gi")
    assert step.effect == "16 h more until it is full; the growth goes on"
    assert given("raise-memory-limit", LEAK, memory_limit=0).verdict == "moot"


def test_an_upgrade_is_advised_for_a_known_defect() -> None:
    step = given("upgrade", LEAK, version("0.21.0"))

    assert (step.verdict, step.before, step.after) == ("helps", "0.21.0", "0.26.0 or newer")
    assert "vllm-project/vllm#44490" in step.why


def test_a_defect_that_needs_a_feature_is_a_question() -> None:
    step = given("upgrade", LEAK, version("0.28.0"))

    assert (step.verdict, step.after) == ("unknown", "0.29.0 or newer")
    assert step.missing == ("whether this applies: tensor or pipeline parallel",)
    assert given("upgrade", LEAK, version("0.28.0"), tensor_parallel_size=2).verdict == "helps"


def test_there_is_no_upgrade_without_a_defect() -> None:
    assert prescribe("upgrade", figures(), NEW, LEAK) is None
    assert prescribe("upgrade", figures(), None, LEAK) is None
    assert prescribe("upgrade", figures(), NEW, finding("head-of-line-blocking")) is not None


def test_no_release_defragments_the_pool() -> None:
    step = given("upgrade", FRAGMENTED, version("0.7.3"))

    assert step.verdict == "moot"
    assert step.why == (
        "no known defect of 0.7.3 looks like this, and no release of vLLM defragments the pool"
    )


def test_a_defect_that_the_figures_rule_out_is_not_shown() -> None:
    stall = finding("stall")

    shown = prescribe("upgrade", known(max_model_len=8192, pool_tokens=4096), NEW, stall)
    assert shown is not None and "#39734" in shown.title
    hidden = prescribe("upgrade", known(max_model_len=2048, pool_tokens=4096), NEW, stall)
    assert hidden is None or "#39734" not in hidden.title


# --- all of them


def everything(**more: float | str | bool) -> Figures:
    """Figures in which every remedy has something to compute."""
    values: dict[str, float | str | bool] = {
        name: 1.0 for name, figure in FIGURES.items() if figure.unit not in ("",)
    }
    values |= THRASH | BIG_BATCH | {"repeated_prompt_share": 0.9, "prompt_p95": 95, "output_p99": 60}
    values |= {"gpu_memory_utilization": 0.85, "gpu_memory_total": 80 * GIB, "gpu_memory_free": 20 * GIB}
    values |= {"memory_limit": 32 * GIB, "memory_used": 24 * GIB, "memory_slope_bytes_per_s": 1e5}
    values |= {"long_prefill_token_threshold": 0, "max_num_queued_reqs": 0, "watermark": 0}
    return known(**(values | more))


NOTHING = figures()
FINDINGS = (
    KV_BOUND,
    SLOT_BOUND,
    PREFILL_BOUND,
    FRAGMENTED,
    LEAK,
    GPU_GROWTH,
    BLOCKED,
    *(
        finding(slug)
        for slug in ("stall", "prefix-cache-collapse", "spec-decode-decay", "context-exceeds-pool")
    ),
)
PATIENTS = {
    "nothing known": NOTHING,
    "all known": everything(),
    "cache off": everything(enable_prefix_caching=False, kv_cache_dtype="auto"),
    "pool by fraction": everything(num_gpu_blocks_override="None", kv_cache_memory_bytes="None"),
    "pool by memory": known(
        **{k: v for k, v in THRASH.items() if k not in ("num_gpu_blocks_override", "max_num_seqs")}
    ),
}
ARGUMENT = re.compile(r"--[a-z][a-z0-9-]+")
RELEASES: tuple[Release, ...] = (
    *releases(),
    None,
    VersionRange(version("0.22.0"), version("0.29.0"), "V1"),
    VersionRange(version("0.8.3"), version("0.9.0"), "V0"),
)


@pytest.mark.parametrize("release", RELEASES, ids=str)
def test_no_remedy_proposes_an_argument_that_is_unknown_inert_or_in_force(release: Release) -> None:
    for slug in REMEDIES:
        for patient, patients in PATIENTS.items():
            for outcome in FINDINGS:
                step = prescribe(slug, patients, release, outcome)
                if step is None:
                    continue
                where = f"{slug} for {outcome.slug} {outcome.kind}, {patient}"
                for name in ARGUMENT.findall(f"{step.flag} {step.action}"):
                    positive = name.replace("--no-", "--")
                    assert positive in flags(), f"{where}: {name}"
                    assert flag(positive).known_in(release), f"{where}: {name}"
                if not step.flag:
                    continue
                assert step.verdict in ("helps", "unknown"), where
                assert flag(step.flag).works_in(release), where
                key = step.flag.removeprefix("--").replace("-", "_")
                fact = patients.fact(key) if key in FIGURES else None
                in_force = flag(step.flag).default_in(release) if fact is None else str(fact.value)
                assert step.after != in_force, where
                assert step.after != step.before, where


@pytest.mark.parametrize("slug", REMEDIES)
def test_every_step_says_what_to_do_why_and_what_to_expect(slug: str) -> None:
    for patients in PATIENTS.values():
        for outcome in FINDINGS:
            step = prescribe(slug, patients, NEW, outcome)
            if step is None:
                continue
            assert step.slug == slug
            assert step.title and step.why and step.action.endswith(".")
            assert step.treats == (outcome.slug,)
            text = " ".join(
                (step.action, step.why, step.before, step.after, step.formula, step.effect, step.tradeoff)
            )
            assert not re.search(r"\bnan\b|\binf\b|\?", text), text
            if step.verdict in ("helps", "unknown") and slug != "no-action":
                assert step.effect and step.verify
            if step.flag:
                assert step.restart
