"""A report as text and as JSON: goldens, and what must hold for any report."""

import json
import math
import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from rich.cells import cell_len
from tests.sample_report import BLIND, FLEET, FRAGMENTATION, HEALTHY, KV_BOUND, SAMPLES

from vllmdoctor.errors import UnknownName
from vllmdoctor.model import (
    EngineReport,
    Event,
    Evidence,
    Fact,
    Gap,
    Outcome,
    Report,
    Step,
    Symptom,
    Trend,
    Verdict,
)
from vllmdoctor.render import FORMATS, format_for, pages, render
from vllmdoctor.render.quantity import NOT_SEEN, change, clock, duration, extent, number, quantity, span
from vllmdoctor.render.sparkline import RAMP, column_of, sparkline
from vllmdoctor.render.steps import flag_line

GOLDEN = Path(__file__).parent / "golden"
ESCAPE = re.compile(r"\x1b\[[0-9;]*m")
NAN, INF = math.nan, math.inf


def check_golden(name: str, text: str) -> None:
    """Compare with a golden file; UPDATE_GOLDEN=1 in the environment writes it instead."""
    path = GOLDEN / name
    if os.environ.get("UPDATE_GOLDEN") == "1":
        path.write_text(text, encoding="utf-8")
    expected = path.read_text(encoding="utf-8") if path.exists() else ""

    assert expected == text, f"{path} differs; if the new page is right: UPDATE_GOLDEN=1 pytest {__file__}"


# --- goldens ---------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SAMPLES)
@pytest.mark.parametrize("width", [100, 80])
def test_the_text_of_a_sample_is_its_golden_file(name: str, width: int) -> None:
    check_golden(f"report-{name}.{width}.txt", render(SAMPLES[name], "text", width=width))


@pytest.mark.parametrize("name", SAMPLES)
def test_the_json_of_a_sample_is_its_golden_file(name: str) -> None:
    check_golden(f"report-{name}.json", render(SAMPLES[name], "json"))


def test_verbose_ascii_and_colour_are_their_golden_files() -> None:
    check_golden("report-fleet.verbose.txt", render(FLEET, "text", verbose=True))
    check_golden("report-kv-bound.ascii.txt", render(KV_BOUND, "text", encoding="ascii"))
    check_golden("report-healthy.color.txt", render(HEALTHY, "text", color=True))


# --- the page --------------------------------------------------------------------------------


def test_the_page_answers_in_the_order_of_a_persons_questions() -> None:
    text = render(KV_BOUND, "text")
    questions = ["SICK", "IS IT SLOW?", "WHY?", "WHY NOT THE OTHERS?", "WHAT TO DO", "DO NOT"]
    questions += ["WHAT COULD NOT BE SEEN", "NOTES", "NEXT"]
    places = [text.index(q) for q in questions]

    assert places == sorted(places)


def test_a_flag_stands_alone_on_its_line_ready_to_be_copied() -> None:
    lines = [line.strip() for line in render(KV_BOUND, "text").splitlines()]

    assert "--num-gpu-blocks-override 512" in lines
    assert "--max-num-seqs 4" in lines


def test_a_switch_is_written_as_a_switch() -> None:
    step = next(s for s in KV_BOUND.plan if s.flag == "--enable-prefix-caching")

    assert flag_line(step) == "--enable-prefix-caching"
    assert flag_line(replace(step, before="on", after="off")) == "--no-enable-prefix-caching"
    assert flag_line(replace(step, before="4", after="")) == ""


def test_each_cause_that_did_not_fire_has_one_line_with_its_number_and_limit() -> None:
    for width in (100, 80):
        lines = render(KV_BOUND, "text", width=width).splitlines()
        clear = [line for line in lines if line.startswith("  - no  ")]

        assert len(clear) == 8
        assert all("needs" in line for line in clear)
        assert any(re.search(r"stall .*: 2 s, needs >= 60 s$", line) for line in clear)


def test_a_rule_that_cannot_tell_says_what_is_missing() -> None:
    assert re.search(r"\? cannot tell +gpu-throttle +not seen: SM clock", render(FRAGMENTATION, "text"))


def test_a_healthy_report_is_short_and_says_how_far_it_could_see() -> None:
    text = render(HEALTHY, "text")

    assert "likely (86 %), as far as 9 of 11 rules could see" in text
    assert "│ cause" not in text
    assert "WHAT TO DO" not in text
    assert len(text.splitlines()) < 45


def test_sick_says_slow_only_where_slowness_was_measured() -> None:
    unmeasured = replace(KV_BOUND, engines=(replace(KV_BOUND.engines[0], symptoms=()),))

    assert "the server is slow" in render(KV_BOUND, "text")
    assert "the server is slow" not in render(unmeasured, "text")


def test_a_blind_report_begins_with_what_is_missing() -> None:
    text = render(BLIND, "text")

    assert text.index("WHAT COULD NOT BE SEEN") < text.index("IS IT SLOW?")
    assert "could look 0 of 11 rules" in text


def test_several_engines_have_a_line_each_and_the_details_of_the_worst() -> None:
    text = render(FLEET, "text")

    assert re.search(r"sick +engine 0 +10\.0\.0\.7:8000 +overload, kv-bound +very likely \(93 %\)", text)
    assert re.search(r"healthy +engine 0 +10\.0\.0\.8:8000 +nothing found", text)
    assert text.count("IS IT SLOW?") == 1
    assert render(FLEET, "text", verbose=True).count("IS IT SLOW?") == 2


def test_only_v_shows_the_comparisons_of_clear_rules_and_the_settings() -> None:
    terse, verbose = render(KV_BOUND, "text"), render(KV_BOUND, "text", verbose=True)

    assert "degradation guide: the median is stable" not in terse
    assert "degradation guide: the median is stable" in verbose
    assert "SETTINGS" not in terse
    assert re.search(r"max_num_seqs +64 +default of 0.32", verbose)


def test_many_gaps_are_cut_short_and_the_rest_is_counted() -> None:
    many = replace(KV_BOUND, gaps=tuple(Gap("prometheus", f"series {i}", "empty") for i in range(20)))

    assert "and 12 gaps more: -v" in render(many, "text")
    assert "series 19: empty" in render(many, "text", verbose=True)


def test_the_onset_is_marked_under_the_plots() -> None:
    lines = render(KV_BOUND, "text").splitlines()
    marker = next(line for line in lines if "▲" in line)
    plot = next(line for line in lines if "generation rate" in line)

    assert marker.strip() == "▲ since 13:59:28"
    assert plot[marker.index("▲")] in RAMP


def test_without_colour_there_is_no_escape_and_with_it_nothing_else_changes() -> None:
    plain, colored = render(KV_BOUND, "text"), render(KV_BOUND, "text", color=True)

    assert "\x1b" not in plain
    assert "\x1b[31m" in colored or "\x1b[1;31m" in colored
    stripped = [line.rstrip() for line in ESCAPE.sub("", colored).splitlines()]
    assert stripped == plain.splitlines()


def test_what_the_encoding_cannot_spell_is_replaced() -> None:
    for encoding in ("ascii", "latin-1", "cp437", "no-such-encoding"):
        assert render(KV_BOUND, "text", encoding=encoding).replace("?", "").isascii()


def test_the_environment_does_not_change_the_page(monkeypatch: pytest.MonkeyPatch) -> None:
    before = render(KV_BOUND, "text", color=True)
    for name, value in {"NO_COLOR": "1", "TERM": "dumb", "COLUMNS": "40", "FORCE_COLOR": "1"}.items():
        monkeypatch.setenv(name, value)

    assert render(KV_BOUND, "text", color=True) == before


# --- any report ------------------------------------------------------------------------------

NASTY = [
    "",
    "[bold]loud[/bold]",
    "[/]",
    "\x1b[31mred\x1b[0m",
    "\x9b31m\x07\x00\r\n\tend",
    ":smile: 👩‍👩‍👧 模型名称ａ",
    "\u202eright to left\u2066",
    "x" * 300,
    "模" * 120,
    "\ud800",
    "e\u0301" * 40,
]
words = st.one_of(st.sampled_from(NASTY), st.text(st.characters(), max_size=30))
numbers = st.one_of(
    st.floats(), st.sampled_from([NAN, INF, -INF, 0.0, 1.0, 1e308, -1e308, 5e-324, 1795960751.0])
)
maybe = st.none() | numbers
units = st.sampled_from(
    ["ratio", "ratio/h", "x", "h", "s", "bytes", "bytes/s", "tokens", "requests", "1/s", "Hz", "celsius", ""]
) | (words)


def small(strategy: st.SearchStrategy[object]) -> st.SearchStrategy[tuple[object, ...]]:
    return st.lists(strategy, max_size=3).map(tuple)


pairs_of_numbers = st.tuples(numbers, numbers)
evidence = st.builds(
    Evidence,
    what=words,
    observed=numbers,
    limit=numbers,
    unit=units,
    source=words,
    detail=words,
    interval=st.none() | pairs_of_numbers,
)
outcomes = st.builds(
    Outcome,
    slug=words,
    title=words,
    confidence=numbers,
    engine=words,
    kind=words,
    summary=words,
    reason=words,
    evidence=small(evidence),
    onset=maybe,
    share=maybe,
    explained_by=words,
)
symptoms = st.builds(
    Symptom,
    name=words,
    title=words,
    now=numbers,
    before=numbers,
    unit=units,
    ratio=numbers,
    limit=numbers,
    baseline=words,
    onset=maybe,
    slope_per_hour=maybe,
    detail=words,
)
trends = st.builds(
    Trend,
    signal=words,
    title=words,
    unit=units,
    start=numbers,
    end=numbers,
    points=st.lists(numbers, max_size=30).map(tuple),
    limit=maybe,
)
facts = st.builds(Fact, key=words, value=words | numbers | st.booleans(), origin=words, instance=words)
engines = st.builds(
    EngineReport,
    engine=words,
    instance=words,
    model=words,
    version=words,
    headline=words,
    primary=words,
    kind=words,
    confidence=numbers,
    onset=maybe,
    symptoms=small(symptoms),
    outcomes=small(outcomes),
    trends=small(trends),
    facts=small(facts),
)
steps = st.builds(
    Step,
    **dict.fromkeys(("slug", "title", "action", "why", "flag", "before", "after"), words),
    **dict.fromkeys(("formula", "effect", "tradeoff", "verify"), words),
    treats=small(words),
    missing=small(words),
)
reports = st.builds(
    Report,
    **dict.fromkeys(
        ("target", "version", "version_origin", "headline", "primary", "kind", "compared"), words
    ),
    **dict.fromkeys(("start", "end", "interval", "confidence"), numbers),
    scrapes=st.integers(0, 10**9),
    onset=maybe,
    engines=small(engines),
    plan=small(steps),
    notes=small(words),
    events=small(st.builds(Event, numbers, words, words, words, words)),
    gaps=small(st.builds(Gap, words, words, words, words)),
    coverage=st.tuples(st.integers(0, 99), st.integers(0, 99)),
)
# without shrinking: a report is large, and a failure should not take minutes to tell
unhurried = settings(
    deadline=None,
    max_examples=60,
    phases=(Phase.explicit, Phase.generate),
    suppress_health_check=list(HealthCheck),
)


@unhurried
@given(reports, st.integers(40, 130), st.booleans())
def test_any_report_becomes_a_page_that_fits_and_obeys_no_data(
    report: Report, width: int, verbose: bool
) -> None:
    text = render(report, "text", width=width, verbose=verbose)

    assert [line for line in text.split("\n") if cell_len(line) > width] == []
    assert [
        c for c in text if c != "\n" and (ord(c) < 32 or 127 <= ord(c) < 160 or c in "\u202e\u2066")
    ] == []
    colored = render(report, "text", width=width, verbose=verbose, color=True)
    assert "\x1b" not in ESCAPE.sub("", colored)
    text.encode("utf-8")


@unhurried
@given(reports)
def test_any_report_becomes_strict_json(report: Report) -> None:
    def refuse(constant: str) -> None:
        raise AssertionError(constant)

    text = render(report, "json")

    assert json.loads(text, parse_constant=refuse)["schema"] == "vllmdoctor/report/1"
    assert text.isascii()
    assert text.rstrip("\n").replace("\n", "").isprintable()


def test_markup_and_emoji_codes_in_data_are_shown_as_they_are() -> None:
    engine = replace(KV_BOUND.engines[0], model="[bold]m[/bold] :smile: [link=http://x]y[/link]")
    text = render(replace(KV_BOUND, engines=(engine,)), "text", color=True)

    assert "[bold]m[/bold] :smile: [link=http://x]y[/link]" in text


# --- JSON ------------------------------------------------------------------------------------


def test_json_begins_with_the_verdict_and_holds_the_whole_report() -> None:
    document = json.loads(render(KV_BOUND, "json"))

    first = ["schema", "verdict", "primary", "kind", "confidence", "headline", "onset"]
    assert list(document)[:7] == first
    assert document["verdict"] == "sick"
    assert document["worst"] == "critical"
    assert document["coverage"] == [9, 11]
    assert document["plan"][0]["effort"] == "restart"
    finding = document["engines"][0]["outcomes"][0]
    assert (finding["status"], finding["severity"]) == ("found", "critical")
    assert finding["evidence"][0]["met"] is True
    assert finding["evidence"][4]["interval"] == [30.0, 40.0]
    assert finding["evidence"][6]["limit"] is None


def test_verdicts_without_an_onset_are_null_in_json() -> None:
    document = json.loads(render(BLIND, "json"))

    assert document["verdict"] == Verdict.BLIND.value == "blind"
    assert document["onset"] is None
    assert document["worst"] is None


# --- formats ---------------------------------------------------------------------------------


def test_the_ending_of_a_file_chooses_the_format() -> None:
    assert format_for("report.json") == "json"
    assert format_for(Path("out/REPORT.TXT")) == "text"


def test_an_unknown_format_or_ending_is_named_with_the_nearest() -> None:
    with pytest.raises(UnknownName, match="no format named 'jsn'") as caught:
        render(KV_BOUND, "jsn")
    assert caught.value.hint == "did you mean 'json'?"
    with pytest.raises(UnknownName, match=r"no format for files named '\.xml'"):
        format_for("report.xml")


def test_every_format_has_a_module_that_renders() -> None:
    for fmt in FORMATS:
        assert render(HEALTHY, fmt).endswith("\n")


def test_importing_the_renderer_does_not_load_rich() -> None:
    code = (
        "import sys, vllmdoctor.render, vllmdoctor.render.terminal, vllmdoctor.render.machine,"
        " vllmdoctor.render.pages; print(sorted({'rich', 'numpy', 'pandas'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "[]"


# --- quantities ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (0.988, "ratio", "98.8 %"),
        (1.0, "ratio", "100 %"),
        (0.000308, "ratio", "0.0308 %"),
        (0.0186, "s", "18.6 ms"),
        (0.000012, "s", "12 µs"),
        (0.285, "s", "0.285 s"),
        (36.6667, "s", "36.7 s"),
        (127.8, "s", "2 min 8 s"),
        (30000.0, "s", "8 h 20 min"),
        (0.0, "s", "0 s"),
        (645 * 2.0**20, "bytes", "645 MiB"),
        (2.0**31, "bytes", "2 GiB"),
        (3.5 * 2.0**20, "bytes/s", "3.5 MiB/s"),
        (2048.0, "tokens", "2,048 tokens"),
        (9534.7, "tokens/s", "9,530 tokens/s"),
        (1234567.0, "tokens", "1.23 M tokens"),
        (999999999.0, "tokens", "1000 M tokens"),
        (1.0, "requests", "1 request"),
        (71.24, "requests", "71.2 requests"),
        (1.7, "1/s", "1.7/s"),
        (3.44, "per minute", "3.44 per minute"),
        (1.98e9, "Hz", "1.98 GHz"),
        (83.0, "celsius", "83 °C"),
        (699.7, "W", "700 W"),
        (2.891, "", "2.89"),
        (1.1, "x", "1.1x"),
        (0.067, "h", "4 min 1 s"),
        (0.1, "ratio/h", "10 % per hour"),
        (-0.319, "ratio", "-31.9 %"),
        (NAN, "s", NOT_SEEN),
        (INF, "s", "infinite"),
    ],
)
def test_a_quantity_is_written_as_a_person_writes_it(value: float, unit: str, text: str) -> None:
    assert quantity(value, unit) == text


@pytest.mark.parametrize(
    ("low", "high", "text"),
    [
        (0.3, 0.5, "0.30-0.50 s"),
        (0.05, 0.075, "50-75 ms"),
        (10.0, 20.0, "10-20 s"),
        (0.0, 0.3, "at most 0.30 s"),
        (10.0, INF, "over 10 s"),
        (NAN, 1.0, NOT_SEEN),
    ],
)
def test_an_interval_is_written_in_one_unit(low: float, high: float, text: str) -> None:
    assert span(low, high, "s") == text


def test_the_extent_of_a_line_says_its_unit_once() -> None:
    assert extent(0.0, 298.7, "tokens/s") == "0 to 299 tokens/s"
    assert extent(0.69, 0.978, "ratio") == "69 to 97.8 %"
    assert extent(0.018, 3.0, "s") == "18 ms to 3 s"
    assert extent(0.0, 0.0, "requests") == "0 requests"
    assert extent(NAN, NAN, "") == NOT_SEEN


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.5, "0.5 s"), (59.0, "59 s"), (119.7, "2 min"), (208.0, "3 min 28 s"), (187200.0, "2 d 4 h")],
)
def test_a_duration_is_told_in_its_two_largest_units(seconds: float, text: str) -> None:
    assert duration(seconds) == text


@pytest.mark.parametrize(
    ("ratio", "text"),
    [
        (0.68, "-32 %"),
        (1.016, "+1.6 %"),
        (1.0, "same"),
        (60.9, "61x"),
        (0.0, "-100 %"),
        (INF, "from none"),
        (NAN, "-"),
    ],
)
def test_a_change_is_a_percentage_or_from_threefold_on_a_factor(ratio: float, text: str) -> None:
    assert change(ratio) == text


def test_a_moment_is_in_utc_and_its_date_is_left_out_on_the_same_day() -> None:
    assert clock(1795960768.0) == "2026-11-29 13:59:28"
    assert clock(1795960768.0, 1795960000.0) == "13:59:28"
    assert clock(1795960768.0, 1795860000.0) == "2026-11-29 13:59:28"
    assert clock(NAN) == clock(1e300) == "at an unknown time"


@given(st.floats(), units)
def test_any_number_has_a_text(value: float, unit: str) -> None:
    assert quantity(value, unit)
    assert number(value)
    assert duration(value)
    assert change(value)


# --- lines for the eye -----------------------------------------------------------------------


def test_a_sparkline_starts_at_zero_and_shows_the_unseen_as_a_space() -> None:
    trend = Trend("x", "x", "tokens/s", 0.0, 4.0, (0.0, 100.0, NAN, 50.0))

    assert sparkline(trend, 0.0, 4.0, 4) == "▁▇ ▄"


def test_a_ratio_is_drawn_against_full() -> None:
    trend = Trend("x", "x", "ratio", 0.0, 2.0, (0.5, 0.5))

    assert sparkline(trend, 0.0, 2.0, 2) == "▄▄"


def test_trends_of_different_length_share_the_time_axis() -> None:
    trend = Trend("x", "x", "", 2.0, 4.0, (1.0, 1.0))

    assert sparkline(trend, 0.0, 4.0, 8) == "    ▇▇▇▇"
    assert column_of(2.0, 0.0, 4.0, 8) == 4
    assert column_of(5.0, 0.0, 4.0, 8) is None


# --- small pages -----------------------------------------------------------------------------


def test_the_small_pages_are_plain_tables() -> None:
    assert pages.examples([("kv-thrash", "a full pool")]).splitlines()[0] == "kv-thrash  a full pool"
    assert pages.rules([("stall", "critical", "no progress")]) == "stall  critical  no progress\n"
    text = pages.signals(
        [("kv_cache_usage", "vllm:kv_cache_usage_perc", "1 is full")],
        [("sleep_state", "since 0.11.1")],
        ["vllm:new_thing"],
        ["renamed"],
        width=80,
    )
    assert pages.examples([("a", "b")]).endswith("\n\nvllmdoctor diagnose example:NAME\n")
    for piece in ("vllm:kv_cache_usage_perc", "since 0.11.1", "vllm:new_thing", "renamed"):
        assert piece in text


def test_a_runbook_page_keeps_its_words_and_shows_its_links() -> None:
    text = pages.runbook(
        "# Stall\n\nSee [the page](https://example.org/x).\n\n```console\n$ true\n```\n", width=60
    )

    assert "Stall" in text
    assert "https://example.org/x" in text
    assert "$ true" in text
    assert all(cell_len(line) <= 60 for line in text.splitlines())


def test_an_error_is_one_line_and_a_hint() -> None:
    assert pages.error("no such file\x1b[2J", "check the path") == (
        "vllmdoctor: no such file\N{REPLACEMENT CHARACTER}[2J\n  hint: check the path\n"
    )
    assert pages.error("é", encoding="ascii") == "vllmdoctor: \\xe9\n"


def test_a_fleet_is_counted_before_it_is_listed() -> None:
    engines = tuple(replace(KV_BOUND.engines[0], instance=f"vllm-{i}") for i in range(3)) + tuple(
        replace(HEALTHY.engines[0], instance=f"vllm-{i}") for i in range(3, 40)
    )
    text = render(replace(KV_BOUND, engines=engines), "text")

    assert "3 of 40 sick" in text
    assert "vllm-0, vllm-1, vllm-2" in text
    assert "37 of 40 healthy" in text
    assert "28 more engines: -v lists all" in text
    assert "vllm-39" in render(replace(KV_BOUND, engines=engines), "text", verbose=True)
