"""The history in memory: what it keeps is what a recording of the same scrapes would have, and no more."""

import math

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from vllmdoctor.exporting.history import MOST_REMARKS, History
from vllmdoctor.model import Event, Fact, Gap, Observation, Samples, Snapshot
from vllmdoctor.recording import Gatherer, Recording, gather

SERIES = [f'vllm:family_{letter}{{engine="0",model_name="m"}}' for letter in "abcdefgh"]


def kept(history: History, now: float) -> Recording:
    gatherer = Gatherer()
    history.pour(gatherer, now)
    return gatherer.recording()


def filled(history: History, observations: list[Observation]) -> History:
    for observation in observations:
        history.add(observation, getattr(observation, "time", 0.0))
    return history


def shown(recording: Recording) -> dict[tuple[str, str], list[tuple[float, str]]]:
    """Every sample but those of series that show nothing at all."""
    return {
        (instance, series): [(float(t), str(v)) for t, v in zip(c.times, c.values, strict=True)]
        for instance, columns in recording.columns.items()
        for series, c in columns.items()
        if np.isfinite(c.values).any()
    }


@st.composite
def scrapes(draw: st.DrawFn) -> list[Snapshot]:
    """Scrapes of two targets on one schedule, each showing some series, some of them NaN."""
    time, found = 1000.0, []
    for _ in range(draw(st.integers(1, 40))):
        time += draw(st.sampled_from([15.0, 15.0, 15.0, 14.5, 16.0, 400.0]))
        for target in draw(st.sampled_from([("a:1",), ("a:1", "b:2")])):
            names = draw(st.lists(st.sampled_from(SERIES), min_size=1, unique=True))
            values = draw(st.lists(st.sampled_from([0.0, 1.5, 7e9, math.nan]), min_size=8, max_size=8))
            found.append(Snapshot(time, target, dict(zip(names, values, strict=False))))
    return found


@given(scrapes(), st.sampled_from([60.0, 150.0, 600.0, 30000.0]))
@settings(max_examples=40, deadline=None)
def test_it_keeps_what_a_recording_of_the_same_time_holds(seen: list[Snapshot], keep_s: float) -> None:
    now = seen[-1].time
    history = filled(History(keep_s, 15.0), list(seen))

    assert shown(kept(history, now)) == shown(gather(seen).window(now - keep_s, now))


def test_its_memory_is_the_same_after_ten_windows_as_after_one() -> None:
    history = History(600.0, 15.0)
    sizes = set()
    for tick in range(400):
        history.add(Snapshot(15.0 * tick, "a:1", dict.fromkeys(SERIES, float(tick))), 15.0 * tick)
        if tick > 40:
            sizes.add(history.size_bytes)

    assert len(sizes) == 1
    assert history.samples <= len(SERIES) * (41 + 41 // 8 + 2)


def test_series_that_are_not_shown_any_more_make_room() -> None:
    history = History(600.0, 15.0)
    for tick in range(1000):  # a pod that is renamed every five scrapes
        values = {f'vllm:x{{model_name="m",pod="p-{tick // 5}"}}': 1.0, SERIES[0]: 1.0}
        history.add(Snapshot(15.0 * tick, "a:1", values), 15.0 * tick)

    assert history.series < 25
    assert len(history.seen()) <= 10


def test_series_beyond_the_limit_are_not_kept_and_are_counted() -> None:
    history = History(600.0, 15.0, most_series=5)
    for tick in range(3):
        history.add(Snapshot(15.0 * tick, "a:1", dict.fromkeys(SERIES, 1.0)), 15.0 * tick)

    assert (history.series, history.dropped) == (5, 3)
    assert sorted(kept(history, 30.0).columns["a:1"]) == sorted(SERIES)[:5]


def test_a_long_time_at_a_short_interval_is_thinned_evenly_and_ends_with_the_newest_scrape() -> None:
    history = History(3600.0, 1.0, most_points=360)
    for second in range(7200):
        history.add(Snapshot(float(second), "a:1", {SERIES[0]: float(second)}), float(second))
    column = kept(history, 7199.0).columns["a:1"][SERIES[0]]

    assert column.times[-1] == 7199.0
    assert set(np.diff(column.times[:-1]).tolist()) == {10.0}
    assert column.values.tolist() == column.times.tolist()
    assert len(column.times) <= 362


def test_a_series_spelt_twice_counts_once_and_the_last_value_wins() -> None:
    history = History(600.0, 15.0)
    twice = {'vllm:x{a="1",engine="0"}': 1.0, 'vllm:x{engine="0",a="1"}': 2.0}
    history.add(Snapshot(0.0, "a:1", twice), 0.0)

    (column,) = kept(history, 0.0).columns["a:1"].values()
    assert column.values.tolist() == [2.0]


def test_of_a_fact_the_newest_is_kept_and_of_remarks_so_many() -> None:
    history = History(3600.0, 15.0)
    history.add(Snapshot(0.0, "a:1", {SERIES[0]: 1.0}), 0.0)
    for version in ("0.31.0", "0.32.0"):
        history.add(Fact("vllm_version", version, "/version", "a:1"), 0.0)
    for number in range(2 * MOST_REMARKS):
        history.add(Gap("a:1", f"scrape {number}", "refused"), 1.0)
        history.add(Event(1.0, "scrape-failed", f"refused {number}", "a:1", "a:1"), 1.0)
    recording = kept(history, 2.0)

    assert [fact.value for fact in recording.facts] == ["0.32.0"]
    assert (len(recording.gaps), len(recording.events)) == (MOST_REMARKS, MOST_REMARKS)
    assert kept(history, 4000.0).gaps == ()


def test_a_server_is_known_by_the_name_that_a_recording_has_for_it() -> None:
    history = History(600.0, 15.0)
    history.add(Snapshot(5.0, "gateway:80", {'vllm:x{engine="0",pod="pod-a"}': 1.0}), 5.0)

    assert history.seen() == {"pod-a": 5.0}
    assert kept(history, 5.0).instances == ("pod-a",)


def test_a_clock_that_was_set_back_loses_nothing_that_is_seen_later() -> None:
    history = History(600.0, 15.0)
    for time in (*range(10_000, 10_300, 15), *range(5_000, 5_300, 15)):
        history.add(Snapshot(float(time), "a:1", {SERIES[0]: float(time)}), float(time))

    assert 5_285.0 in kept(history, 5_285.0).columns["a:1"][SERIES[0]].times


def test_samples_are_of_stores_and_are_not_kept_here() -> None:
    history = History(600.0, 15.0)
    history.add(Samples("a:1", SERIES[0], [1.0], [1.0]), 1.0)

    assert history.samples == 0
