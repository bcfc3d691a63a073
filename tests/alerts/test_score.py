"""The bench: when an alert fires, and what is held against its label."""

from dataclasses import replace

import numpy as np
from bench.accuracy.truth import Truth
from bench.alerts.evaluation import fired, joined, levels
from bench.alerts.history import Labelled
from bench.alerts.score import NAIVE, judge

from vllmdoctor.alerts import Basis, Record, rules_for
from vllmdoctor.promql import Metrics, all_names

HOUR = 3600.0


def minutes(*spans: tuple[int, int]) -> np.ndarray:
    return np.concatenate([np.arange(a, b + 1) * 60.0 for a, b in spans])


def test_an_alert_fires_when_it_has_held_for_its_time_and_lingers() -> None:
    assert fired(minutes((10, 30)), 600.0, 300.0) == [(1200.0, 2100.0)]
    assert fired(minutes((10, 19)), 600.0, 0.0) == []
    assert fired(minutes((10, 19), (21, 40)), 600.0, 0.0) == [(1860.0, 2400.0)]  # a hole begins anew


def test_spans_that_touch_are_one() -> None:
    assert joined([(600.0, 900.0), (0.0, 590.0), (2000.0, 2100.0)]) == ((0.0, 900.0), (2000.0, 2100.0))


def test_recordings_are_made_after_those_that_they_read() -> None:
    records = rules_for(Basis(Metrics(all_names()))).records
    made: set[str] = set()
    names = {r.name for r in records}
    for level in levels(records):
        for record in level:
            assert not {n for n in names if n in record.expr} - made - {record.name}
        made |= {r.name for r in level}
    assert made == names
    assert levels([Record("a:b:c", "x", ""), Record("d:e:f", "a:b:c", "")])[1][0].name == "d:e:f"


def labelled(label: str, onset: float | None) -> Labelled:
    return Labelled("x-1", Truth(label, acceptable=("overload",)), onset, onset, 12 * HOUR, "v1")


def test_an_alert_on_a_server_that_is_fine_is_false() -> None:
    found = judge(labelled("healthy", None), {"VLLMStall": [(0.0, HOUR)], "VLLMRestarted": [(0.0, 1.0)]})
    assert (found.right, found.false) == ({}, ("VLLMStall",))
    rolled = replace(labelled("healthy", HOUR), truth=Truth("healthy", acceptable=("restart",)))
    assert judge(rolled, {"VLLMRestarted": [(HOUR, 2 * HOUR)]}).false == ()


def test_what_begins_after_the_last_scrape_does_not_count() -> None:
    found = judge(
        labelled("healthy", None), {"VLLMStall": [(12.1 * HOUR, 13 * HOUR)], NAIVE: [(13 * HOUR, 14 * HOUR)]}
    )
    assert (found.false, found.naive) == ((), False)


def test_an_alert_of_the_cause_a_consequence_or_a_symptom_is_right_and_one_of_another_is_beside_it() -> None:
    fires = {
        "VLLMBlocksHeldWhileIdle": [(4 * HOUR, 5 * HOUR)],
        "VLLMRequestsQueue": [(3 * HOUR, 5 * HOUR)],
        "VLLMThroughputDegradation": [(4 * HOUR, 5 * HOUR)],
        "VLLMGpuThrottled": [(4 * HOUR, 5 * HOUR)],
        NAIVE: [(4 * HOUR, 5 * HOUR)],
    }
    found = judge(labelled("kv-fragmentation", 2 * HOUR), fires)
    assert set(found.right) == {"VLLMBlocksHeldWhileIdle", "VLLMRequestsQueue", "VLLMThroughputDegradation"}
    assert found.beside == ("VLLMGpuThrottled",)
    assert found.delay == HOUR
    assert found.naive


def test_an_alert_before_the_trouble_is_false() -> None:
    found = judge(labelled("kv-fragmentation", 5 * HOUR), {"VLLMStall": [(HOUR, 2 * HOUR)]})
    assert found.false == ("VLLMStall",)
