"""The bench that measures accuracy counts what it says it counts."""

import math
from collections.abc import Sequence

import numpy as np
import pytest
from bench.accuracy.baseline import thresholds
from bench.accuracy.detection import alert
from bench.accuracy.judging import Row
from bench.accuracy.page import page
from bench.accuracy.score import calibration, classes, delays
from bench.accuracy.truth import HELD_OUT, History, Truth, truth_of

from vllmdoctor.recording import Column, Recording

HOUR = 3600.0


def recorded(hours: float, rates: Sequence[tuple[float, float]], **gauges: float) -> Recording:
    """A server whose generation rate is stepwise: (from hour, tokens/s); other series are constant."""
    times = np.arange(0.0, hours * HOUR, 60.0)
    rate = np.zeros(times.size)
    for since, value in rates:
        rate[times >= since * HOUR] = value
    columns = {"vllm:generation_tokens_total": Column(times, np.cumsum(rate) * 60.0)}
    for name, value in gauges.items():
        columns[f"vllm:{name}"] = Column(times, np.full(times.size, value))
    return Recording({"server:8000": columns})


def row(truth: Truth, primary: str, **said: object) -> Row:
    told: dict[str, object] = {
        "history": History(HELD_OUT, "some", 3), "truth": truth, "verdict": "sick", "primary": primary,
        "kind": "", "confidence": 0.95, "false_findings": (), "plain": "healthy", "onset_error": 5.0,
        "effect_error": 0.0, "alerted": math.nan, "found": 10.0, "looks": 0, "alarms": (), "seconds": 0.1,
    }  # fmt: skip
    return Row(**{**told, **said})  # type: ignore[arg-type]


def test_the_runbooks_alert_fires_fifteen_minutes_after_the_half_hour_is_low() -> None:
    fired = alert(recorded(12, [(0, 100), (8, 50)]), since=0.0)

    # the mean over 30 min falls below 0.8 after 12 min at half the rate, and must stay there for 15
    assert fired == pytest.approx(8 * HOUR + 27 * 60, abs=180)


@pytest.mark.parametrize("rates", [[(0, 100), (8, 90)], [(0, 100), (8, 50), (8.2, 100)]])
def test_it_keeps_silent_for_a_small_or_a_short_fall(rates: list[tuple[float, float]]) -> None:
    assert alert(recorded(12, rates), since=0.0) is None


def test_plain_thresholds_say_what_a_runbook_says() -> None:
    assert thresholds(recorded(10, [(0, 100)], kv_cache_usage_perc=0.5)) == "healthy"
    assert thresholds(recorded(10, [(0, 100)], kv_cache_usage_perc=0.97)) == "overload"
    assert thresholds(recorded(10, [(0, 100), (8.5, 50)], kv_cache_usage_perc=0.5)) == "unexplained"


def test_a_fine_server_that_is_called_sick_is_a_harmful_mistake() -> None:
    fine = Truth("healthy", must_not=("overload",))

    assert row(fine, "unexplained", verdict="unexplained").harmful
    assert row(fine, "overload").harmful
    assert not row(fine, "healthy", verdict="healthy").harmful


def test_a_cause_that_is_true_as_well_is_right_and_a_forbidden_one_is_harmful() -> None:
    leak = Truth("memory-leak", acceptable=("restart",), must_not=("overload",))

    assert row(leak, "restart").right
    assert row(leak, "overload").harmful
    assert not row(leak, "unexplained", verdict="unexplained").harmful
    assert not row(leak, "unexplained", verdict="unexplained").right


def test_prompt_processing_at_its_limit_has_two_names() -> None:
    truth = truth_of({"label": "prefill_bound"})

    assert truth.is_right("overload", "prefill-bound")
    assert not truth.is_right("overload", "kv-bound")


def test_precision_and_recall_count_wrong_answers_on_both_sides() -> None:
    leak, fine = Truth("memory-leak"), Truth("healthy")
    rows = [row(leak, "memory-leak"), row(leak, "healthy"), row(fine, "healthy"), row(fine, "healthy")]
    by = {c.label: c for c in classes(rows)}

    assert by["memory-leak"].recall == 0.5
    assert by["memory-leak"].precision == 1.0
    assert by["healthy"].precision == pytest.approx(2 / 3)
    assert [(n, right) for _, n, right in calibration(rows, causes=True)] == [(1, 1)]


def test_a_cause_found_an_hour_and_more_after_the_alert_or_never_is_late() -> None:
    leak = Truth("memory-leak", onset=0.0)
    rows = [row(leak, "memory-leak", alerted=5.0, found=f) for f in (1.0, 64.0, 66.0, math.nan)]
    measured = delays(rows)

    assert (measured.faults, measured.found, measured.alerted) == (4, 3, 4)
    assert (measured.in_time, measured.before) == (2, 1)


def test_every_miss_is_listed_with_its_note() -> None:
    rows = [row(Truth("memory-leak", must_not=("overload",)), "overload")]
    text = page(rows, {"some-3": "because of the moon"}, "split", soon=True)

    assert "| some-3 **harmful** | memory-leak | overload 0.95 | because of the moon |" in text
