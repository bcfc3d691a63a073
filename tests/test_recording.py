"""A recording keeps what was seen as it was seen, in time order, on shared scrape times."""

import math

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from vllmdoctor.model import Event, Fact, Gap, Observation, Samples, Snapshot
from vllmdoctor.recording import Column, Recording, gather


def shown(recording: Recording, instance: str = "h") -> dict[str, list[tuple[float, float | None]]]:
    """Columns as pairs, NaN as None, so that they compare."""
    return {
        series: [
            (t, None if math.isnan(v) else v)
            for t, v in zip(c.times.tolist(), c.values.tolist(), strict=True)
        ]
        for series, c in recording.columns[instance].items()
    }


def test_scrapes_become_columns_that_share_their_times() -> None:
    recording = gather([Snapshot(10, "h", {"a": 1, "b": 2}), Snapshot(15, "h", {"a": 3, "b": 4})])
    assert shown(recording) == {"a": [(10, 1), (15, 3)], "b": [(10, 2), (15, 4)]}
    columns = recording.columns["h"]
    assert columns["a"].times is columns["b"].times


def test_a_series_that_a_scrape_did_not_show_is_nan_there() -> None:
    recording = gather(
        [
            Snapshot(10, "h", {"a": 1}),
            Snapshot(15, "h", {"a": 2, "b": 5}),
            Snapshot(20, "h", {"b": 6, "c": 7}),
        ]
    )
    assert shown(recording) == {
        "a": [(10, 1), (15, 2), (20, None)],
        "b": [(10, None), (15, 5), (20, 6)],
        "c": [(10, None), (15, None), (20, 7)],
    }
    assert len({id(c.times) for c in recording.columns["h"].values()}) == 1


def test_histories_with_equal_times_share_them_and_a_shorter_one_is_laid_on_the_longer() -> None:
    recording = gather(
        [
            Samples("h", "a", [1, 2, 3], [1, 2, 3]),
            Samples("h", "b", [1, 2, 3], [4, 5, 6]),
            Samples("h", "late", [2, 3], [7, 8]),
            Samples("h", "elsewhere", [1.5, 2.5], [9, 9]),
        ]
    )
    columns = recording.columns["h"]
    assert columns["a"].times is columns["b"].times is columns["late"].times
    assert shown(recording)["late"] == [(1, None), (2, 7), (3, 8)]
    assert shown(recording)["elsewhere"] == [(1.5, 9), (2.5, 9)]


def test_pieces_of_one_history_are_joined() -> None:
    recording = gather([Samples("h", "a", [3, 4], [3, 4]), Samples("h", "a", [1, 2], [1, 2])])
    assert shown(recording) == {"a": [(1, 1), (2, 2), (3, 3), (4, 4)]}
    assert recording.gaps == ()


def test_of_samples_at_the_same_time_the_last_wins_and_a_gap_says_so() -> None:
    recording = gather(
        [Snapshot(10, "h", {"a": 1}), Snapshot(10, "h", {"a": 2}), Snapshot(15, "h", {"a": 3})]
    )
    assert shown(recording) == {"a": [(10, 2), (15, 3)]}
    assert recording.gaps == (Gap("h", "samples", "a time repeats once; the last sample of each was kept"),)


def test_a_clock_that_goes_backwards_is_sorted_and_a_gap_says_so() -> None:
    recording = gather([Snapshot(t, "h", {"a": t}) for t in (10, 20, 15, 30, 25)])
    assert shown(recording) == {"a": [(t, t) for t in (10, 15, 20, 25, 30)]}
    assert recording.gaps == (
        Gap("h", "clock", "the time goes backwards 2 times; the samples were sorted by time"),
    )


def test_times_that_are_no_moment_are_dropped_and_told() -> None:
    recording = gather([Samples("h", "a", [math.nan, 1, math.inf, 2], [0, 1, 0, 2])])
    assert shown(recording) == {"a": [(1, 1), (2, 2)]}
    assert recording.gaps == (Gap("h", "samples", "a time is no moment 2 times; those samples were dropped"),)


def test_a_history_without_any_moment_leaves_nothing_behind() -> None:
    assert gather([Samples("h", "a", [math.nan], [1])]).columns == {}


def test_nan_infinity_negative_values_and_resets_are_kept_raw() -> None:
    values = [5.0, math.inf, -1.0, 0.0, math.nan]
    column = gather([Samples("h", "a_total", [1, 2, 3, 4, 5], values)]).columns["h"]["a_total"]
    np.testing.assert_array_equal(column.values, values)


def test_series_are_keyed_in_their_one_spelling() -> None:
    recording = gather([Snapshot(1, "h", {'a{z="1",b="2"}': 1}), Snapshot(2, "h", {'a{b="2",z="1"}': 2})])
    assert shown(recording) == {'a{b="2",z="1"}': [(1, 1), (2, 2)]}


def test_of_two_spellings_in_one_scrape_the_last_counts() -> None:
    recording = gather([Snapshot(t, "h", {'a{z="1",b="2"}': 1, "c": 5, 'a{b="2",z="1"}': 2}) for t in (1, 2)])
    assert shown(recording) == {'a{b="2",z="1"}': [(1, 2), (2, 2)], "c": [(1, 5), (2, 5)]}


def test_facts_events_and_gaps_are_kept_once_and_events_in_time_order() -> None:
    fact, gap = Fact("max_num_seqs", 4, "launch command", "h"), Gap("h", "x", "y")
    early, late = Event(1, "restart", "r", "h", "h"), Event(2, "oom", "o", "h", "h")
    recording = gather([late, fact, gap, early, fact, gap, late])
    assert (recording.facts, recording.events, recording.gaps) == ((fact,), (early, late), (gap,))


def test_start_end_interval_and_scrapes_are_those_of_the_busiest_instance() -> None:
    recording = gather(
        [Snapshot(t, "busy", {"a": 1}) for t in (10, 15, 20, 40)]
        + [Snapshot(t, "idle", {"a": 1}) for t in (5, 50)]
    )
    assert (recording.start, recording.end, recording.interval, recording.scrapes) == (5, 50, 5, 4)
    assert recording.instances == ("busy", "idle")


def test_an_empty_recording_has_no_start_and_no_scrape() -> None:
    recording = gather([])
    assert (math.isnan(recording.start), math.isnan(recording.interval), recording.scrapes) == (True, True, 0)


def test_a_window_keeps_both_its_ends_and_the_sharing_of_times() -> None:
    recording = gather(
        [Snapshot(t, "h", {"a": t, "b": -t}) for t in range(10)] + [Event(3, "k", "t", "h", "h")]
    )
    part = recording.window(2, 4)
    assert shown(part) == {"a": [(2, 2), (3, 3), (4, 4)], "b": [(2, -2), (3, -3), (4, -4)]}
    assert part.columns["h"]["a"].times is part.columns["h"]["b"].times
    assert recording.window(4, 5).events == ()
    assert recording.window(100, 200).columns == {}


def test_columns_cannot_be_written_to() -> None:
    column = gather([Snapshot(1, "h", {"a": 1})]).columns["h"]["a"]
    assert not column.times.flags.writeable
    assert not column.values.flags.writeable


def test_a_recording_can_be_asked_for_while_it_is_gathered() -> None:
    from vllmdoctor.recording import Gatherer

    gatherer = Gatherer()
    gatherer.add(Snapshot(1, "h", {"a": 1}))
    first = gatherer.recording()
    gatherer.add(Snapshot(2, "h", {"a": 2}))
    assert shown(first) == {"a": [(1, 1)]}
    assert shown(gatherer.recording()) == {"a": [(1, 1), (2, 2)]}


OBSERVATIONS = st.lists(
    st.one_of(
        st.builds(
            Snapshot, st.floats(), st.sampled_from("gh"), st.dictionaries(st.sampled_from("abc"), st.floats())
        ),
        st.lists(st.tuples(st.floats(), st.floats())).map(
            lambda p: Samples("h", "a", [t for t, _ in p], [v for _, v in p])
        ),
    ),
    max_size=12,
)


@settings(deadline=None)
@given(OBSERVATIONS)
def test_whatever_is_gathered_times_ascend_and_columns_are_whole(observations: list[Observation]) -> None:
    recording = gather(observations)
    for columns in recording.columns.values():
        for column in columns.values():
            assert isinstance(column, Column)
            assert len(column.times) == len(column.values) > 0
            assert bool(np.all(column.times[1:] > column.times[:-1]))
