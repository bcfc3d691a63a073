"""The judge's statistics agree with their textbook values and never trip over odd input."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from vllmdoctor.statistics import (
    bucket_quantile,
    change,
    count_above,
    mann_kendall,
    rank_correlation,
    ranks,
    theil_sen,
)

ANY = st.floats(allow_nan=True, allow_infinity=True, width=64)
SERIES = hnp.arrays(np.float64, st.integers(0, 80), elements=ANY)


def test_theil_sen_finds_the_slope_through_outliers() -> None:
    x = np.arange(50.0)
    y = 3 * x + 7
    y[[5, 20, 41]] = 1e6

    slope, low, high = theil_sen(x, y)

    assert slope == pytest.approx(3)
    assert low <= 3 <= high


def test_theil_sen_says_nothing_of_three_points() -> None:
    assert all(math.isnan(v) for v in theil_sen(np.arange(3.0), np.arange(3.0)))


def test_mann_kendall_calls_a_rise_significant_and_noise_not() -> None:
    rise = np.arange(40.0)
    noise = np.tile([1.0, -1.0, 2.0, -2.0], 10)

    assert mann_kendall(rise)[0] == 1.0
    assert mann_kendall(rise)[1] < 1e-6
    assert mann_kendall(noise)[1] > 0.05


def test_mann_kendall_of_a_constant_is_no_trend() -> None:
    assert mann_kendall(np.ones(20)) == (0.0, 1.0)


def test_ranks_share_ties() -> None:
    assert ranks(np.array([10.0, 20.0, 20.0, 30.0])).tolist() == [0, 1.5, 1.5, 3]


def test_rank_correlation_sees_a_monotone_relation() -> None:
    x = np.arange(30.0)
    assert rank_correlation(x, np.exp(x / 5)) == pytest.approx(1)
    assert rank_correlation(x, -x) == pytest.approx(-1)


def test_a_step_is_found_where_it_is() -> None:
    found = change(np.r_[np.full(60, 10.0), np.full(40, 5.0)])

    assert found is not None
    assert (found.index, found.shape) == (60, "step")
    assert (found.before, found.after) == (10.0, 5.0)
    assert found.gain == pytest.approx(1)


def test_flat_then_linear_is_a_ramp_that_starts_where_it_bends() -> None:
    found = change(np.r_[np.full(50, 100.0), 100 - 1.5 * np.arange(50)])

    assert found is not None
    assert found.shape == "ramp"
    assert found.index == pytest.approx(50, abs=3)
    assert found.before == 100.0
    assert found.after < 40


def test_one_spike_is_no_change() -> None:
    flat = np.full(100, 5.0)
    flat[30] = 500.0
    assert change(flat) is None


def test_a_constant_has_no_change() -> None:
    assert change(np.ones(50)) is None


def test_a_quantile_carries_its_bucket() -> None:
    bounds = np.array([0.3, 0.5, 1.0, math.inf])

    value, bucket = bucket_quantile(bounds, np.array([95.0, 0, 5, 0]), 0.99)

    assert bucket == (0.5, 1.0)
    assert value == pytest.approx(0.9)


def test_a_quantile_in_the_first_bucket_is_known_to_lie_below_its_bound_only() -> None:
    _, bucket = bucket_quantile(np.array([0.3, math.inf]), np.array([100.0, 0]), 0.95)
    assert bucket == (0.0, 0.3)


def test_a_quantile_beyond_the_last_bound_is_unbounded_above() -> None:
    value, bucket = bucket_quantile(np.array([1.0, math.inf]), np.array([0.0, 10]), 0.5)
    assert value == 1.0
    assert bucket == (1.0, math.inf)


def test_only_what_is_certainly_above_is_counted() -> None:
    bounds, counts = np.array([0.5, 1.0, 2.0, math.inf]), np.array([1.0, 2, 4, 8])
    assert count_above(bounds, counts, 1.0) == 12
    assert count_above(bounds, counts, 0.9) == 12


@given(SERIES)
def test_no_series_trips_the_statistics(y: np.ndarray) -> None:
    x = np.arange(y.size, dtype=np.float64)
    with np.errstate(all="ignore"):
        theil_sen(x, y)
        mann_kendall(y[np.isfinite(y)])
        rank_correlation(x, y)
        found = change(y)
    assert found is None or 0 <= found.index < y.size


@given(
    st.lists(st.floats(0.001, 100), min_size=1, max_size=12, unique=True),
    st.data(),
    st.floats(0.0, 1.0),
)
def test_a_quantile_lies_in_its_bucket(bounds: list[float], data: st.DataObject, q: float) -> None:
    edges = np.array([*sorted(bounds), math.inf])
    counts = np.array(
        data.draw(st.lists(st.integers(0, 50), min_size=edges.size, max_size=edges.size)), np.float64
    )
    value, (low, high) = bucket_quantile(edges, counts, q)
    assert math.isnan(value) if not counts.sum() else low <= value <= high
