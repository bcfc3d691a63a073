"""The plan: each remedy once, in the order to try it, and never two ways to turn one screw."""

from vllmdoctor.model import Effort, Outcome, Severity, Status, Step
from vllmdoctor.plan import OPPOSITES, make_plan
from vllmdoctor.release import version
from vllmdoctor.remedies import REMEDIES, Figures
from vllmdoctor.remedies import figures as figures_of
from vllmdoctor.versions import releases

GIB = 1024.0**3
NEW = version("0.32.0")


def figures(**measured: float | str | bool) -> Figures:
    return figures_of(measured=measured)


def finding(
    slug: str,
    kind: str = "",
    severity: Severity = Severity.CRITICAL,
    confidence: float = 0.9,
    explained_by: str = "",
) -> Outcome:
    return Outcome(slug, slug, Status.FOUND, severity, confidence, "0", kind, explained_by=explained_by)


TREATMENT = {
    "overload kv-bound": (
        "raise-gpu-memory-utilization",
        "more-kv-blocks",
        "fp8-kv-cache",
        "add-replica",
        "lower-max-num-seqs",
        "kv-watermark",
        "lower-max-model-len",
        "limit-admission",
    ),
    "overload slot-bound": ("raise-max-num-seqs", "add-replica", "limit-admission"),
    "head-of-line-blocking ": (
        "lower-max-num-batched-tokens",
        "set-long-prefill-token-threshold",
        "split-traffic-by-length",
    ),
    "kv-fragmentation ": ("upgrade", "rolling-restart", "raise-gpu-memory-utilization", "lower-max-num-seqs"),
    "memory-leak ": ("rolling-restart", "raise-memory-limit", "upgrade", "collect-evidence-then-restart"),
    "gpu-memory-growth ": ("lower-gpu-memory-utilization", "rolling-restart"),
    "demand-drop ": ("no-action", "check-client"),
    "low-load ": ("no-action",),
    "prefill ": ("raise-max-num-batched-tokens",),
}


def remedies_of(outcome: Outcome) -> tuple[str, ...]:
    return TREATMENT[f"{outcome.slug} {outcome.kind}"]


def plan(*findings: Outcome, known: Figures | None = None) -> tuple[Step, ...]:
    return make_plan(findings, known or figures(), NEW, remedies_of)


def slugs(steps: tuple[Step, ...], *verdicts: str) -> list[str]:
    return [s.slug for s in steps if not verdicts or s.verdict in verdicts]


THRASH = figures(
    num_blocks=64,
    block_size=32,
    num_gpu_blocks_override=64,
    gpu_memory_utilization=0.92,
    enable_prefix_caching=True,
    max_num_seqs=64,
    mean_prompt=256,
    mean_output=256,
    prompt_p99=390,
    output_p99=320,
    max_model_len=1024,
    running_mean=4.4,
    arrival_rate=1.158,
    completion_rate=0.8,
    preemptions_per_minute=41,
    kv_usage_p95=1.0,
)


def test_more_kv_comes_before_a_cap_on_requests() -> None:
    steps = plan(finding("overload", "kv-bound"), known=THRASH)

    assert slugs(steps, "helps") == [
        "more-kv-blocks",
        "fp8-kv-cache",
        "lower-max-num-seqs",
        "kv-watermark",
        "add-replica",
        "tensor-parallel",
        "limit-admission",
    ]
    assert slugs(steps)[-len(slugs(steps, "moot", "harmful")) :] == slugs(steps, "moot", "harmful")


def test_well_known_advice_that_is_wrong_here_is_shown_with_its_reason() -> None:
    steps = {s.slug: s for s in plan(finding("overload", "kv-bound"), known=THRASH)}

    assert steps["lower-gpu-memory-utilization"].verdict == "harmful"
    assert "preemptions rise" in steps["lower-gpu-memory-utilization"].why
    assert steps["enable-prefix-caching"].verdict == "moot"
    assert steps["enable-prefix-caching"].why == "prefix caching is in force"
    assert steps["rolling-restart"].verdict == "harmful"


def test_the_threshold_comes_before_a_smaller_budget() -> None:
    known = figures(
        max_num_batched_tokens=8192, max_num_seqs=64, prompt_p50=66, prompt_p99=4000, max_model_len=8192
    )

    assert slugs(plan(finding("head-of-line-blocking"), known=known), "helps") == [
        "set-long-prefill-token-threshold",
        "lower-max-num-batched-tokens",
        "split-traffic-by-length",
    ]


def test_stop_gaps_come_last_of_what_helps() -> None:
    leak = finding("memory-leak")

    steps = make_plan([leak], figures(), version("0.21.0"), remedies_of)

    assert slugs(steps) == [
        "upgrade",
        "collect-evidence-then-restart",
        "rolling-restart",
        "raise-memory-limit",
        "shrink-mm-cache",
    ]


def test_what_helps_stands_live_before_restart_before_capacity() -> None:
    steps = plan(finding("overload", "kv-bound"), finding("demand-drop"), known=THRASH)
    helps = [s.effort for s in steps if s.verdict == "helps" and s.slug != "limit-admission"]

    assert helps == sorted(helps)
    assert helps[0] is Effort.LIVE


def test_a_remedy_of_two_findings_stands_once_and_names_both() -> None:
    steps = plan(finding("overload", "kv-bound"), finding("kv-fragmentation", confidence=0.6), known=THRASH)

    assert len(slugs(steps)) == len(set(slugs(steps)))
    cap = next(s for s in steps if s.slug == "lower-max-num-seqs")
    assert cap.treats == ("overload", "kv-fragmentation")


GROWING = figures(
    gpu_memory_utilization=0.9, gpu_memory_total=80 * GIB, gpu_memory_free=6 * GIB, kv_usage_p95=0.99
)


def test_memory_utilization_is_never_raised_and_lowered_at_once() -> None:
    full, growth = finding("overload", "kv-bound"), finding("gpu-memory-growth", severity=Severity.WARNING)

    pool_first = {s.slug: s for s in plan(full, growth, known=GROWING)}
    assert pool_first["raise-gpu-memory-utilization"].verdict == "helps"
    assert pool_first["lower-gpu-memory-utilization"].verdict == "harmful"
    assert "for gpu-memory-growth alone" in pool_first["lower-gpu-memory-utilization"].tradeoff

    urgent = finding("gpu-memory-growth"), finding("overload", "kv-bound", severity=Severity.WARNING)
    room_first = {s.slug: s for s in plan(*urgent, known=GROWING)}
    assert room_first["lower-gpu-memory-utilization"].verdict == "helps"
    assert room_first.get("raise-gpu-memory-utilization") is None


def test_the_weightier_finding_does_not_depend_on_the_order_given() -> None:
    full, growth = finding("overload", "kv-bound"), finding("gpu-memory-growth", severity=Severity.WARNING)

    assert plan(full, growth, known=GROWING) == plan(growth, full, known=GROWING)


def test_a_consequence_weighs_less_than_its_cause() -> None:
    cause = finding("kv-fragmentation", confidence=0.5)
    consequence = finding("overload", "kv-bound", confidence=0.9, explained_by="kv-fragmentation")

    cap = next(s for s in plan(consequence, cause, known=THRASH) if s.slug == "lower-max-num-seqs")

    assert cap.treats[0] == "kv-fragmentation"


def test_nothing_is_to_be_done_only_where_nothing_helps() -> None:
    assert slugs(plan(finding("low-load"))) == ["no-action"]
    assert "no-action" not in slugs(plan(finding("low-load"), finding("overload", "kv-bound"), known=THRASH))
    assert plan() == ()


def test_no_plan_holds_two_ways_to_turn_one_screw() -> None:
    every = tuple(REMEDIES)
    known = figures(
        gpu_memory_utilization=0.85,
        pool_tokens=100_000,
        mean_prompt=500,
        mean_output=500,
        max_num_seqs=64,
        max_num_batched_tokens=4096,
        running_mean=60,
        arrival_rate=2.0,
        completion_rate=1.0,
        preemptions_per_minute=0,
    )
    causes = (
        finding("overload", "slot-bound"),
        finding("gpu-memory-growth"),
        finding("head-of-line-blocking"),
    )
    for release in releases():
        steps = make_plan(causes, known, release, lambda _: every)
        live = slugs(steps, "helps", "unknown")
        assert len(slugs(steps)) == len(set(slugs(steps)))
        assert [pair for pair in OPPOSITES if set(pair) <= set(live)] == []
        named = [s.flag for s in steps if s.flag]
        assert len(named) == len(set(named)), named
