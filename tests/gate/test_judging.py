"""Estimates, intervals and judgements: what is certain is said, and nothing else."""

import math

import numpy as np
import pytest
from hypothesis import given as any_of
from hypothesis import settings
from hypothesis import strategies as st
from tests.gate.made import given, probe

from vllmdoctor.errors import NotEnoughData
from vllmdoctor.gate import Tolerances, compare
from vllmdoctor.gate.blocks import Estimate, Ratio, blocks_for, bucketed, estimate, pooled
from vllmdoctor.gate.chance import fewer_by_chance, lag_one, t_quantile
from vllmdoctor.gate.verdict import Question, judge, judge_share
from vllmdoctor.model import Fact, Samples
from vllmdoctor.model_gate import Judgement, Measure
from vllmdoctor.recording import Recording, gather

FASTER = Question("throughput", "throughput", "tokens/s", True, 0.05)
LATER = Question("ttft_p95", "time to first token (p95)", "s", False, 0.10)
CORRECT = Question("correctness", "correct answers", "ratio", True, 0.0)
PASS, IMPROVED, REGRESSED, INCONCLUSIVE = (
    Judgement.PASS,
    Judgement.IMPROVED,
    Judgement.REGRESSED,
    Judgement.INCONCLUSIVE,
)


@pytest.mark.parametrize(
    ("p", "freedom", "expected"),
    [
        (0.975, 1, 12.7062),
        (0.975, 2, 4.30265),
        (0.99, 5, 3.36493),
        (0.95, 18, 1.73406),
        (0.9875, 1e6, 2.2414),
    ],
)
def test_students_t_is_that_of_the_tables(p: float, freedom: float, expected: float) -> None:
    assert t_quantile(p, freedom) == pytest.approx(expected, rel=1e-5)


def test_the_exact_test_is_fishers() -> None:
    # the tea taster: 3 of 4 cups right, and 1 of the other 4
    assert fewer_by_chance(1, 4, 3, 4) == pytest.approx(17 / 70)
    assert fewer_by_chance(0, 4, 4, 4) == pytest.approx(1 / 70)
    assert fewer_by_chance(4, 4, 4, 4) == pytest.approx(1.0)


def test_neighbours_that_rise_together_are_dependent_and_noise_is_not() -> None:
    assert lag_one(np.arange(20.0)) > 0.8
    assert abs(lag_one(np.random.default_rng(1).standard_normal(2000))) < 0.1
    assert lag_one(np.ones(20)) == 0.0


def test_the_spread_of_a_mean_is_that_of_its_blocks() -> None:
    noise = np.exp(0.1 * np.random.default_rng(2).standard_normal(400))
    found = estimate(Ratio(noise, np.ones(400)))

    assert found.value == pytest.approx(1.0, abs=0.02)
    assert found.error == pytest.approx(0.1 / math.sqrt(400), rel=0.35)


def test_too_few_blocks_have_a_value_and_no_spread() -> None:
    found = estimate(Ratio(np.ones(4), np.ones(4)))

    assert (found.value, found.known) == (1.0, False)


@pytest.mark.parametrize(
    ("seconds", "requests", "blocks"),
    [(215, 500, 10), (3600, 5000, 20), (3600, 120, 12), (70, 5000, 0), (3600, 40, 0), (900, math.inf, 15)],
)
def test_blocks_are_ten_to_twenty_where_time_and_requests_allow(
    seconds: float, requests: float, blocks: int
) -> None:
    assert blocks_for(seconds, requests) == blocks


def test_a_quantile_comes_from_all_blocks_together() -> None:
    values = np.arange(1.0, 101.0)
    found = pooled(values, np.arange(100) % 10, 10, 0.95)

    assert found.value(np.ones(10, np.bool_)) == 95.0
    assert found.value(np.arange(10) < 1) == 91.0


def steady(value: float, error: float) -> Estimate:
    return Estimate(value, error, 19.0, 20)


@pytest.mark.parametrize(
    ("question", "now", "error", "expected"),
    [
        (FASTER, 100.0, 0.005, PASS),
        (FASTER, 97.0, 0.002, PASS),
        (FASTER, 94.0, 0.01, INCONCLUSIVE),
        (FASTER, 85.0, 0.01, REGRESSED),
        (FASTER, 110.0, 0.01, IMPROVED),
        (FASTER, 100.0, 0.20, INCONCLUSIVE),
        (LATER, 100.0, 0.01, PASS),
        (LATER, 109.0, 0.02, INCONCLUSIVE),
        (LATER, 125.0, 0.01, REGRESSED),
        (LATER, 90.0, 0.01, IMPROVED),
    ],
)
def test_an_interval_is_held_against_the_tolerance(
    question: Question, now: float, error: float, expected: Judgement
) -> None:
    assert judge(question, steady(100.0, error), steady(now, error), 0.0125).judgement is expected


def test_a_server_that_makes_nothing_at_all_is_worse_for_certain() -> None:
    nothing = estimate(Ratio(np.zeros(10), np.ones(10)))

    assert judge(FASTER, steady(100.0, 0.01), nothing, 0.0125).judgement is REGRESSED
    assert judge(LATER, steady(100.0, 0.01), nothing, 0.0125).judgement is INCONCLUSIVE


@any_of(
    before=st.floats(1e-6, 1e6),
    ratio=st.floats(0.01, 100),
    error=st.floats(0, 1),
    other=st.floats(0, 1),
    higher=st.booleans(),
)
@settings(max_examples=60, deadline=None)
def test_a_verdict_is_never_surer_than_its_interval(
    before: float, ratio: float, error: float, other: float, higher: bool
) -> None:
    question = FASTER if higher else LATER
    found = judge(question, steady(before, error), steady(before * ratio, other), 0.0125)
    inside = found.low <= question.limit <= found.high

    assert found.low <= found.ratio * 1.000001
    assert found.high >= found.ratio * 0.999999
    if inside:
        assert found.judgement is INCONCLUSIVE
    swapped = judge(question, steady(before * ratio, other), steady(before, error), 0.0125)
    assert not (found.judgement is REGRESSED and swapped.judgement is REGRESSED)


def test_what_it_says_it_could_have_shown_is_shown_nine_times_in_ten() -> None:
    rng = np.random.default_rng(5)
    error = 0.02
    smallest = judge(FASTER, steady(1.0, error), steady(1.0, error), 0.0125).detectable
    found = [
        judge(
            FASTER,
            steady(1.0, error),
            steady(smallest * float(np.exp(error * math.sqrt(2) * z)), error),
            0.0125,
        )
        for z in rng.standard_normal(2000)
    ]

    assert np.mean([m.judgement is REGRESSED for m in found]) == pytest.approx(0.9, abs=0.03)


def test_a_value_inside_one_wide_bucket_cannot_show_a_tenth() -> None:
    bounds = np.array([0.1, 0.25, 0.5, np.inf])
    counts = np.tile([[80.0, 18.0, 2.0, 0.0]], (10, 1))
    one = bucketed(bounds, counts, 0.95, lambda free: t_quantile(0.99, free))
    found = judge(LATER, one, one, 0.0125)

    assert one.bucket == (0.1, 0.25)
    assert (found.judgement, found.why) == (INCONCLUSIVE, "its histogram's buckets are too wide to tell")


def test_buckets_far_apart_tell_without_a_point_between_them() -> None:
    bounds = np.array([0.1, 0.25, 0.5, 1.0, np.inf])
    before = np.tile([[80.0, 20.0, 0.0, 0.0, 0.0]], (10, 1))
    after = np.tile([[0.0, 20.0, 20.0, 60.0, 0.0]], (10, 1))
    low, high = (bucketed(bounds, c, 0.95, lambda free: t_quantile(0.99, free)) for c in (before, after))

    assert judge(LATER, low, high, 0.0125).judgement is REGRESSED
    assert judge(LATER, high, low, 0.0125).judgement is IMPROVED
    assert judge(LATER, low, high, 0.0125).low == 2.0  # 0.5 s against at most 0.25 s


@pytest.mark.parametrize(
    ("good", "of", "expected"),
    [
        ((500, 500), (500, 500), PASS),
        ((490, 489), (500, 500), PASS),
        ((490, 440), (500, 500), REGRESSED),
        ((440, 490), (500, 500), IMPROVED),
        ((20, 19), (20, 20), INCONCLUSIVE),
        ((0, 0), (0, 500), INCONCLUSIVE),
    ],
)
def test_fewer_right_answers_regress_only_beyond_chance(
    good: tuple[int, int], of: tuple[int, int], expected: Judgement
) -> None:
    assert judge_share(CORRECT, good, of, 0.01).judgement is expected


def by_name(measures: tuple[Measure, ...]) -> dict[str, Judgement]:
    return {m.name: m.judgement for m in measures}


def test_equal_probes_pass_and_say_how_fine_they_could_tell() -> None:
    gate = compare(given(probe(1)), given(probe(2)))

    assert gate.judgement is PASS
    assert set(by_name(gate.measures)) == {"throughput", "ttft_p95", "itl_p95", "correctness", "errors"}
    assert 0.9 < gate.measures[0].detectable < 0.95


def test_a_slower_probe_regresses_in_throughput_and_in_time_per_token() -> None:
    gate = compare(given(probe(1)), given(probe(2, gap=0.035)))

    assert gate.judgement is REGRESSED
    assert by_name(gate.measures)["throughput"] is REGRESSED
    assert by_name(gate.measures)["itl_p95"] is REGRESSED
    assert by_name(gate.measures)["ttft_p95"] is PASS


def test_wrong_answers_are_a_regression_apart_from_speed() -> None:
    gate = compare(given(probe(1, right=0.99)), given(probe(2, right=0.9)))

    assert gate.judgement is REGRESSED
    assert [m.name for m in gate.regressed] == ["correctness"]


def test_wider_tolerances_let_a_slower_server_pass() -> None:
    gate = compare(given(probe(1)), given(probe(2, gap=0.033)), Tolerances(throughput=0.2, itl=0.2))

    assert gate.judgement is PASS


def test_another_concurrency_is_another_load_and_nothing_is_compared() -> None:
    gate = compare(given(probe(1)), given(probe(2, clients=16)))

    assert gate.judgement is INCONCLUSIVE
    assert gate.measures[0].why == "another load was sent: concurrency 8 -> 16"


def test_other_requests_are_another_load() -> None:
    one, two = (probe(n, facts=[Fact("probe_requests_sha256", f"{n}", "probe")]) for n in (1, 2))

    why = compare(given(one), given(two)).measures[0].why

    assert why == "another load was sent: other requests, or not as many"


def test_right_answers_to_other_requests_are_not_compared() -> None:
    one, two = (
        probe(n, right=right, facts=[Fact("probe_requests_sha256", f"{n}", "probe")])
        for n, right in ((1, 1.0), (2, 0.8))
    )

    assert by_name(compare(given(one), given(two)).measures)["correctness"] is INCONCLUSIVE


def test_runs_of_several_loads_on_one_side_are_like_no_other() -> None:
    mixed = given(probe(1), probe(2, clients=16))

    gate = compare(mixed, given(probe(3), probe(4, clients=16)))

    assert gate.judgement is INCONCLUSIVE
    assert gate.measures[0].why == "another load was sent: concurrency 8 and 16 -> 8 and 16"


def test_summaries_tell_how_many_requests_failed() -> None:
    def told(completed: float, failed: float) -> Recording:
        counts = {"run:completed_requests": completed, "run:failed_requests": failed}
        return gather(Samples("run", name, [1.0], [value]) for name, value in counts.items())

    gate = compare(given(told(500.0, 0.0)), given(told(0.0, 500.0)))

    assert [m.name for m in gate.regressed] == ["errors"]


def test_the_same_data_on_both_sides_passes_and_is_said_to_compare_nothing() -> None:
    short = probe(1, count=200)
    gate = compare(given(short), given(short))

    assert gate.judgement is PASS
    assert gate.notes[0].startswith("both sides are the same data")


def test_a_changed_version_and_model_are_named() -> None:
    one = probe(1, facts=[Fact("vllm_version", "0.31.0", "probe"), Fact("model", "a", "probe")])
    two = probe(2, facts=[Fact("vllm_version", "0.32.0", "probe"), Fact("model", "b", "probe")])
    gate = compare(given(one), given(two))

    assert [(c.key, c.baseline, c.candidate) for c in gate.changes] == [
        ("vllm_version", "0.31.0", "0.32.0"),
        ("model", "a", "b"),
    ]
    assert "the two sides served different models" in gate.notes


def test_one_summary_a_side_cannot_tell_and_three_can() -> None:
    def run(number: int, rate: float) -> Samples:
        return Samples(f"run/{number}", "run:output_tokens_per_second", [1.0], [rate])

    one = compare(given(gather([run(1, 300.0)])), given(gather([run(1, 200.0)])))
    three = compare(
        given(gather(run(n, 300.0 + n) for n in range(3))), given(gather(run(n, 200.0 + n) for n in range(3)))
    )

    assert one.measures[0].judgement is INCONCLUSIVE
    assert one.measures[0].why.startswith("a summary has no spread")
    assert three.measures[0].judgement is REGRESSED


def test_requests_against_a_summary_are_compared_as_summaries() -> None:
    summary = gather([Samples("run", "run:output_tokens_per_second", [1.0], [300.0])])

    assert compare(given(probe(1, count=200)), given(summary)).baseline.kind == "summaries of runs"


def test_what_is_not_compared_on_a_side_is_told() -> None:
    server = gather(
        Samples("h", f'vllm:{name}{{model_name="m"}}', [1.0, 2.0, 3.0], [1.0, 2.0, 3.0])
        for name in ("generation_tokens_total", "num_requests_running")
    )

    gate = compare(given(probe(1, count=50)), given(probe(2, count=50), server))

    assert "1 of 2 runs of the candidate left out: no requests in it" in gate.notes


def test_sides_with_nothing_in_common_are_refused() -> None:
    server = gather(
        Samples("h", f'vllm:{name}{{model_name="m"}}', [1.0, 2.0, 3.0], [1.0, 2.0, 3.0])
        for name in ("generation_tokens_total", "num_requests_running")
    )

    with pytest.raises(NotEnoughData, match=r"the baseline has requests .*, the candidate server metrics"):
        compare(given(probe(1, count=50)), given(server))
