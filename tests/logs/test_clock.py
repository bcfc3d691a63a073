# ruff: noqa: E501  lines of a log stand here as they are
"""When a line was written, through every prefix that logs are kept with."""

from datetime import UTC, datetime

import pytest

from vllmdoctor.sources.log.clock import Clock

NOW = datetime(2026, 11, 29, 12, tzinfo=UTC).timestamp()
OWN = "(APIServer pid=1) INFO 10-14 17:00:48 [loggers.py:123] Engine 000: Avg prompt throughput: 1.0 tokens/s"


def utc(*parts: int) -> float:
    return datetime(*parts, tzinfo=UTC).timestamp()  # type: ignore[arg-type,misc]


@pytest.mark.parametrize(
    ("prefix", "line", "when"),
    [
        ("none, 0.6", "INFO 10-14 17:00:48 metrics.py:341] x", utc(2026, 10, 14, 17, 0, 48)),
        ("none", "INFO 10-14 17:00:48 [loggers.py:1] x", utc(2026, 10, 14, 17, 0, 48)),
        ("process", OWN, utc(2026, 10, 14, 17, 0, 48)),
        ("docker", f"2025-10-15T00:00:48.753199366Z {OWN}", utc(2025, 10, 15, 0, 0, 48) + 0.753199366),
        ("CRI", f"2025-10-15T00:00:48.753199366Z stdout F {OWN}", utc(2025, 10, 15, 0, 0, 48) + 0.753199366),
        ("kubectl, zone", f"2025-10-15T02:00:48.5+02:00 {OWN}", utc(2025, 10, 15, 0, 0, 48) + 0.5),
        ("json-file", f'{{"log":"{OWN}\\n","stream":"stdout","time":"2025-10-15T00:00:48.5Z"}}',
         utc(2025, 10, 15, 0, 0, 48) + 0.5),
        ("journald", f"Oct 14 17:00:49 host vllm[123]: {OWN}", utc(2026, 10, 14, 17, 0, 48)),
        ("journald, other format", "Oct 14 17:00:49 host vllm[123]: loggers Avg", utc(2026, 10, 14, 17, 0, 49)),
        ("custom, dated", "2026-10-14 17:00:48,250 - vllm - INFO - Avg", utc(2026, 10, 14, 17, 0, 48) + 0.25),
        ("custom, in brackets", "[2026-10-14 17:00:48] INFO Avg", utc(2026, 10, 14, 17, 0, 48)),
        ("custom, time only", "11:00:48 | INFO | Avg", utc(2026, 11, 29, 11, 0, 48)),
    ],
)  # fmt: skip
def test_a_time_is_read_through_the_prefix(prefix: str, line: str, when: float) -> None:
    assert Clock(NOW).read(line) == pytest.approx(when, abs=1e-3), prefix


def test_a_line_without_a_time_has_none() -> None:
    assert Clock(NOW).read('INFO:     10.0.0.1:58396 - "GET /metrics HTTP/1.1" 200 OK') is None
    assert Clock(NOW).read('  File "core.py", line 12:30, in run') is None


def test_a_date_that_would_be_in_the_future_is_of_the_year_before() -> None:
    assert Clock(NOW).read("INFO 12-25 00:00:00 [a.py:1] x") == utc(2025, 12, 25)
    assert Clock(NOW).read("INFO 11-29 13:00:00 [a.py:1] x") == utc(2026, 11, 29, 13)  # a zone ahead


def test_the_new_year_goes_on_from_the_old() -> None:
    clock = Clock(utc(2026, 1, 3))
    times = [
        clock.read(f"INFO {d} [a.py:1] x") for d in ("12-31 23:59:55", "12-31 23:59:59", "01-01 00:00:05")
    ]
    assert times == [utc(2025, 12, 31, 23, 59, 55), utc(2025, 12, 31, 23, 59, 59), utc(2026, 1, 1, 0, 0, 5)]


def test_lines_of_two_processes_may_step_back_a_little() -> None:
    clock = Clock(NOW)
    assert clock.read("INFO 10-14 17:00:48 [a.py:1] x") == utc(2026, 10, 14, 17, 0, 48)
    assert clock.read("INFO 10-14 17:00:46 [a.py:1] x") == utc(2026, 10, 14, 17, 0, 46)


def test_a_leap_day_is_of_a_leap_year() -> None:
    assert Clock(NOW).read("INFO 02-29 10:00:00 [a.py:1] x") == utc(2024, 2, 29, 10)


def test_midnight_is_counted_where_lines_show_no_date() -> None:
    clock = Clock(utc(2026, 11, 29, 0, 30))
    first, second = clock.read("23:59:50 INFO a"), clock.read("00:00:10 INFO a")
    assert first is not None and second == first + 20
    assert clock.dateless


def test_the_zone_is_learnt_from_a_line_that_shows_both_times() -> None:
    clock = Clock(NOW)
    clock.read(f"2025-10-15T00:00:48.7Z {OWN}")
    assert clock.read("(EngineCore pid=2) INFO 10-14 17:01:00 [core.py:1] x") == pytest.approx(
        utc(2026, 10, 15, 0, 1, 0)
    )
