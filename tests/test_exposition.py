"""Exposition text is read exactly as prometheus_client reads it, only faster and with more patience."""

import math
import time
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client.metrics_core import Metric
from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics_families
from prometheus_client.parser import text_string_to_metric_families

from vllmdoctor.errors import UsageError
from vllmdoctor.exposition import canonical_series, parse_page, read_timestamped, split_series
from vllmdoctor.model import Gap, Samples
from vllmdoctor.recording import gather

PAGES = sorted(p for p in (Path(__file__).parent / "expositions").iterdir() if p.suffix in (".prom", ".om"))

LABELS = st.dictionaries(
    st.from_regex(r"[a-zA-Z_][a-zA-Z0-9_]{0,8}", fullmatch=True), st.text(max_size=12), max_size=4
)
NAMES = st.from_regex(r"[a-zA-Z_:][a-zA-Z0-9_:]{0,12}", fullmatch=True)


Parser = Callable[[str], Iterable[Metric]]


def oracle(text: str, parser: Parser = text_string_to_metric_families) -> dict[str, float]:
    return {canonical_series(s.name, s.labels): s.value for f in parser(text) for s in f.samples}


@pytest.mark.parametrize("path", PAGES, ids=lambda p: p.name)
def test_a_page_reads_as_prometheus_client_reads_it(path: Path) -> None:
    text = path.read_text()
    page = parse_page(text)
    assert page.values == oracle(text)
    assert page.unread == 0


def test_an_openmetrics_page_reads_as_the_openmetrics_parser_reads_it() -> None:
    text = (Path(__file__).parent / "expositions" / "written-vllm-0.33.0-rust.om").read_text()
    assert parse_page(text).values == oracle(text, openmetrics_families)


@pytest.mark.parametrize("path", PAGES, ids=lambda p: p.name)
def test_the_same_page_with_timestamps_reads_as_prometheus_client_reads_it(path: Path) -> None:
    lines = [line for line in path.read_text().split("\n") if line and not line.startswith("#")]
    stamped = "".join(f"{line} {ms}\n" for ms in (1795960204219, 1795960219219) for line in lines)
    expected: dict[str, list[tuple[float, float]]] = {}
    for family in text_string_to_metric_families(stamped):
        for s in family.samples:
            assert s.timestamp is not None
            point = (float(str(s.timestamp)), s.value)
            expected.setdefault(canonical_series(s.name, s.labels), []).append(point)
    assert read(stamped) == expected


def test_reading_with_timestamps_is_at_least_five_times_faster_than_prometheus_client() -> None:
    lines = [line for line in PAGES[0].read_text().split("\n") if line and not line.startswith("#")]
    text = "".join(f"{line} {1795960204 + at}\n" for at in range(10) for line in lines)

    def seconds(read: Callable[[], object]) -> float:
        start = time.process_time()
        read()
        return time.process_time() - start

    ours = min(seconds(lambda: list(read_timestamped([text], "h", "h"))) for _ in range(5))
    theirs = min(seconds(lambda: oracle(text)) for _ in range(2))
    assert theirs / ours >= 5


@pytest.mark.parametrize(
    ("line", "series", "value"),
    [
        ("up 1", "up", 1.0),
        ("up\t1\t1700000000000", "up", 1.0),
        ('a{b="c"}1', 'a{b="c"}', 1.0),
        ('a{b="c",} 1', 'a{b="c"}', 1.0),
        ('a { b = "c" } 1', 'a{b="c"}', 1.0),
        ('z{b="1",a="2"} +Inf', 'z{a="2",b="1"}', math.inf),
        ("a{} 2", "a", 2.0),
        (r'a{b="x\"y\\z\n"} 2', r'a{b="x\"y\\z\n"}', 2.0),
        ('a{b="} 1 2",c="# {"} 3', 'a{b="} 1 2",c="# {"}', 3.0),
        ('{"my.metric",a="b"} 3', '{"my.metric",a="b"}', 3.0),
        ('a_bucket{le="1"} 4 # {trace_id="x"} 0.5 1700000000', 'a_bucket{le="1"}', 4.0),
        ("a 5 # an explanation", "a", 5.0),
        ("a 6\r", "a", 6.0),
    ],
)
def test_odd_lines_that_are_right_are_read(line: str, series: str, value: float) -> None:
    assert parse_page(f"{line}\n").values == {series: value}


@pytest.mark.parametrize(
    "line",
    [
        "up",
        "1 2 3",
        "a{b=c} 1",
        'a{b="c} 1',
        'a{b="1",b="2"} 1',
        "a 1 2 3",
        'a{"b"} 1',
        "{} 1",
        "é 1",
        "a one",
    ],
)
def test_lines_that_are_wrong_are_counted_and_the_first_is_shown(line: str) -> None:
    page = parse_page(f"ok 1\n{line}\nok2 2\n")
    assert page.values == {"ok": 1.0, "ok2": 2.0}
    assert (page.unread, page.first_unread) == (1, f"line 2: {line}")


def test_a_long_unreadable_line_is_shown_shortened_and_printable() -> None:
    page = parse_page("\x1b[31m" + "x" * 500)
    assert page.first_unread == "line 1: ?[31m" + "x" * 75 + "..."


def test_nan_and_infinity_are_kept_as_they_are() -> None:
    values = parse_page("a NaN\nb +Inf\nc -Inf\nd -3\n").values
    assert math.isnan(values.pop("a"))
    assert values == {"b": math.inf, "c": -math.inf, "d": -3.0}


@settings(deadline=None)
@given(name=NAMES, labels=LABELS)
def test_splitting_a_series_undoes_joining_it(name: str, labels: dict[str, str]) -> None:
    assert split_series(canonical_series(name, labels)) == (name, labels)


def test_what_is_no_series_is_told() -> None:
    with pytest.raises(UsageError, match="not a series"):
        split_series('a{b="c"')


@settings(deadline=None)
@given(st.text())
def test_no_text_makes_reading_a_page_fail(text: str) -> None:
    page = parse_page(text)
    assert page.unread <= text.count("\n") + 1


@settings(deadline=None)
@given(st.lists(st.text(alphabet='ab{}="\\,# 0.9eE+-\tNaInf\n'), max_size=8))
def test_no_text_makes_reading_timestamps_fail(lines: list[str]) -> None:
    text = "".join(line + "\n" for line in lines)
    for samples in read_timestamped([text], "h", "h"):
        assert isinstance(samples, Gap) or len(samples.times) == len(samples.values) > 0


@settings(deadline=None)
@given(st.dictionaries(st.builds(canonical_series, NAMES, LABELS), st.floats(), min_size=1, max_size=8))
def test_what_is_written_as_a_line_is_read_back(values: dict[str, float]) -> None:
    spelled = {s: repr(v).replace("inf", "Inf").replace("nan", "NaN") for s, v in values.items()}
    page = parse_page("".join(f"{series} {value}\n" for series, value in spelled.items()))
    assert {s: repr(v) for s, v in page.values.items()} == {s: repr(v) for s, v in values.items()}


def read(text: str) -> dict[str, list[tuple[float, float]]]:
    samples = [s for s in read_timestamped([text], "h", "h") if isinstance(s, Samples)]
    return {s.series: list(zip(s.times, s.values, strict=True)) for s in samples}


def test_milliseconds_and_seconds_are_told_by_their_size() -> None:
    text = "a 1 1795960204219\na 2 1795960205.5\na 3 15\n"
    assert read(text) == {"a": [(1795960204.219, 1.0), (1795960205.5, 2.0), (15.0, 3.0)]}


def test_two_spellings_of_one_series_are_one_series() -> None:
    assert read('a{x="1",y="2"} 1 10\na{y="2",x="1"} 2 20\n') == {
        'a{x="1",y="2"}': [(10.0, 1.0), (20.0, 2.0)]
    }


def test_a_label_that_looks_like_a_value_is_not_taken_for_one() -> None:
    text = 'a{b="x} 1 2"} 3 10\na{b="x} 1 2"} 4 20\na{b="x} 1 2"} 5\n'
    assert read(text) == {'a{b="x} 1 2"}': [(10.0, 3.0), (20.0, 4.0)]}


def test_exemplars_do_not_disturb_the_lines_beside_them() -> None:
    text = 'a_bucket{le="1"} 1 10\na_bucket{le="1"} 2 20 # {id="7"} 0.5 19\na_bucket{le="1"} 3 30\n'
    assert read(text) == {'a_bucket{le="1"}': [(10.0, 1.0), (20.0, 2.0), (30.0, 3.0)]}


def test_lines_without_a_timestamp_are_a_gap_with_the_line_shown() -> None:
    gaps = [g for g in read_timestamped(["a 1 10\nb 2\n", "c\n"], "h", "night.om") if isinstance(g, Gap)]
    assert gaps == [Gap("night.om", "2 lines of night.om", "not readable as a sample (line 2: b 2)")]


def test_a_series_with_an_instance_label_goes_to_that_instance_and_keeps_the_label() -> None:
    text = 'a{instance="x:1"} 1 10\na{instance="y:1"} 2 10\nb{pod="p"} 3 10\nc 4 10\n'
    recording = gather(read_timestamped([text], "file.om", "file.om"))
    assert {i: list(c) for i, c in recording.columns.items()} == {
        "file.om": ["c"],
        "p": ['b{pod="p"}'],
        "x:1": ['a{instance="x:1"}'],
        "y:1": ['a{instance="y:1"}'],
    }
