"""Real recordings: what a fix mended is an improvement, its undoing a regression, and noise is neither."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from vllmdoctor.commands_gate import causes
from vllmdoctor.gate import Given, compare
from vllmdoctor.model_gate import Gate, Judgement
from vllmdoctor.recording import Recording
from vllmdoctor.sources import Window, gather_targets

FIXES = [
    ("overload-kv-fix-blocks", "overload-kv"),
    ("kv-thrash-fix-blocks", "kv-thrash"),
    ("prefix-on", "prefix-off"),
]


@cache
def recording(name: str) -> Recording:
    return gather_targets([f"example:{name}"], Window())


def side(name: str) -> Given:
    return Given((f"example:{name}",), (recording(name),))


@cache
def gate(candidate: str, baseline: str) -> Gate:
    return compare(side(baseline), side(candidate), causes=causes(side(baseline), side(candidate)))


@pytest.mark.parametrize(("fixed", "broken"), FIXES)
def test_a_fix_passes_as_an_improvement(fixed: str, broken: str) -> None:
    assert gate(fixed, broken).judgement is Judgement.IMPROVED


@pytest.mark.parametrize(("fixed", "broken"), FIXES)
def test_undoing_the_fix_regresses(fixed: str, broken: str) -> None:
    assert gate(broken, fixed).judgement is Judgement.REGRESSED


def test_fewer_slots_bring_no_more_throughput_and_are_no_regression() -> None:
    found = gate("kv-thrash-fix-maxseqs", "kv-thrash")
    throughput = found.measures[0]

    assert found.judgement is not Judgement.REGRESSED
    assert throughput.judgement in (Judgement.PASS, Judgement.INCONCLUSIVE)
    assert throughput.ratio == pytest.approx(1.0, abs=0.02)


def test_a_server_that_stands_still_while_requests_wait_regresses_whatever_arrives() -> None:
    columns = {
        instance: {
            series: replace(c, values=np.full(c.values.size, c.values[0])) if "_total" in series else c
            for series, c in of.items()
        }
        for instance, of in recording("overload-kv").columns.items()
    }
    stuck = Given(("stuck",), (replace(recording("overload-kv"), columns=columns),))

    found = compare(side("healthy"), stuck).measures[0]

    assert (found.judgement, found.candidate) == (Judgement.REGRESSED, 0.0)
    assert found.why == "nothing came out at all"


def test_a_healthy_server_against_itself_passes() -> None:
    assert gate("healthy", "healthy").judgement is Judgement.PASS


def test_a_bigger_batch_alone_does_not_hold_up_a_better_server() -> None:
    token = gate("overload-kv-fix-blocks", "overload-kv").measures[2]

    assert (token.judgement, token.weighs) == (Judgement.INCONCLUSIVE, False)
    assert token.why.startswith("batches of 4.33 and 26.8 requests")


def test_more_load_is_no_excuse_for_nothing_and_no_proof_of_anything() -> None:
    found = gate("healthy", "demand-drop")

    assert found.judgement is Judgement.INCONCLUSIVE
    assert found.measures[1].why == (
        "the loads differ too much to compare: more requests arriving per second (2.09 -> 2.47)"
    )


def test_the_changed_flags_and_the_likely_reason_are_named() -> None:
    found = gate("kv-thrash", "kv-thrash-fix-blocks")

    assert ("num_gpu_blocks_override", "512", "64") in [
        (c.key, c.baseline, c.candidate) for c in found.changes
    ]
    assert (found.causes[0].slug, found.causes[0].new) == ("overload", True)


def test_a_cause_that_the_baseline_has_too_is_not_new() -> None:
    assert next((c.slug, c.new) for c in gate("kv-thrash-fix-maxseqs", "kv-thrash").causes) == (
        "overload",
        False,
    )
