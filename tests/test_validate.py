"""Did a fix hold? Histories made by hand, one thing wrong in each, and simulated servers beside them."""

import json
import math
import os
import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vllmdoctor.cli import main
from vllmdoctor.commands_simulate import serve
from vllmdoctor.errors import NotEnoughData
from vllmdoctor.model import Gap, Observation, Samples
from vllmdoctor.model_validation import Standing, Validation
from vllmdoctor.recording import Recording, gather
from vllmdoctor.render import validation as page
from vllmdoctor.simulator import SCENARIOS, simulate, write_openmetrics
from vllmdoctor.simulator.setup import Scrape
from vllmdoctor.sources import Window, gather_targets
from vllmdoctor.storage import save
from vllmdoctor.validation import LIMITS, validate

Capture = pytest.CaptureFixture[str]
Curve = Callable[[float], float]

START = 1_795_900_000.0
PASS, FAIL, UNKNOWN, MOOT = Standing.PASS, Standing.FAIL, Standing.UNKNOWN, Standing.MOOT
GOLDEN = Path(__file__).parent / "golden"
BOUNDS = (0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2, math.inf)


def flat(value: float) -> Curve:
    return lambda hour: value


def ramp(start: float, end: float, hours: float = 24.0) -> Curve:
    return lambda hour: start + (end - start) * hour / hours


def after_hour(hour: float, before: float, later: float) -> Curve:
    return lambda now: later if now >= hour else before


TOKENS, RUNNING, PREEMPTIONS = flat(2000.0), flat(20.0), flat(0.1)
USAGE, HITS, TTFT = flat(0.78), flat(0.8), flat(0.15)


def server(
    hours: float = 24.0,
    *,
    every: float = 60.0,
    tokens: Curve = TOKENS,
    running: Curve = RUNNING,
    preemptions: Curve = PREEMPTIONS,
    usage: Curve = USAGE,
    hits: Curve = HITS,
    ttft: Curve = TTFT,
    requests: float = 8.0,
    engine: str = "0",
    seen: Callable[[float], bool] = lambda hour: True,
    without: tuple[str, ...] = (),
) -> list[Observation]:
    """The history of a server: tokens/s, requests running, preemptions per minute, KV usage, hit ratio,
    seconds to the first token, each by the hour; `requests` per second finish."""
    chance = np.random.default_rng(3)
    times = [t for t in np.arange(START, START + hours * 3600 + 1, every) if seen((t - START) / 3600)]
    hour = (np.asarray(times) - START) / 3600

    def gauge(curve: Curve, noise: float = 0.0) -> list[float]:
        return [curve(h) * (1 + noise * chance.standard_normal()) for h in hour]

    def counter(curve: Curve, scale: float = 1.0) -> list[float]:
        steps = np.diff(hour, prepend=hour[0]) * 3600
        grown = [
            curve(h) * scale * s * (1 + 0.02 * chance.standard_normal())
            for h, s in zip(hour, steps, strict=True)
        ]
        return [float(x) for x in np.cumsum(grown)]

    series: dict[str, list[float]] = {
        "num_requests_running": gauge(running, 0.05),
        "num_requests_waiting": gauge(flat(0.0)),
        "kv_cache_usage_perc": gauge(usage, 0.02),
        "generation_tokens_total": counter(tokens),
        "prompt_tokens_total": counter(flat(500.0)),
        "num_preemptions_total": counter(preemptions, 1 / 60),
        'request_success_total{finished_reason="stop"}': counter(flat(requests)),
        "prefix_cache_queries_total": counter(flat(1000.0)),
        "prefix_cache_hits_total": counter(hits, 1000.0),
        "time_to_first_token_seconds_sum": counter(ttft, requests),
        "time_to_first_token_seconds_count": counter(flat(requests)),
    }
    for bound in BOUNDS:
        name = f'time_to_first_token_seconds_bucket{{le="{"+Inf" if math.isinf(bound) else bound}"}}'
        share: Curve = lambda h, b=bound: 1 - math.exp(-math.log(2) * b / ttft(h))  # type: ignore[misc]  # noqa: E731
        series[name] = counter(share, requests)
    return [
        Samples("h:8000", _labelled(n, engine), times, v)
        for n, v in series.items()
        if n.split("{")[0] not in without
    ]


def _labelled(name: str, engine: str) -> str:
    head, _, labels = name.partition("{")
    own = f'engine="{engine}",model_name="m"'
    return f"vllm:{head}{{{own}{',' + labels if labels else '}'}"


def judged(observations: list[Observation], before: list[Observation] | None = None) -> Validation:
    earlier = gather(before) if before is not None else None
    return validate(gather(observations), before=earlier, before_name="before.rec" if before else "")


def standings(found: Validation) -> Mapping[str, Standing]:
    return {c.name: c.standing for c in found.engines[0].criteria}


def test_a_server_that_holds_for_a_day_passes_every_criterion() -> None:
    found = judged(server())

    assert standings(found) == dict.fromkeys(
        ("rate", "preemptions", "preemptions-rise", "usage", "usage-peak", "hits", "first-token"), PASS
    )
    assert found.standing is PASS


@pytest.mark.parametrize(
    ("wrong", "failing"),
    [
        ({"tokens": after_hour(20, 2000.0, 1700.0)}, {"rate"}),
        ({"tokens": ramp(2200.0, 1700.0)}, {"rate"}),
        ({"preemptions": flat(1.5)}, {"preemptions"}),
        ({"preemptions": ramp(0.0, 0.5)}, {"preemptions-rise"}),
        ({"usage": flat(0.88)}, {"usage"}),
        ({"usage": flat(0.95)}, {"usage", "usage-peak"}),
        ({"usage": lambda h: 0.95 if h % 4 < 0.5 else 0.75}, {"usage-peak"}),
        ({"hits": flat(0.4)}, {"hits"}),
        ({"ttft": ramp(0.2, 0.5)}, {"first-token"}),
        ({"ttft": lambda h: 0.1 if h < 2 else 0.3 * h}, {"first-token"}),
    ],
)
def test_one_thing_wrong_fails_one_criterion(wrong: dict[str, Curve], failing: set[str]) -> None:
    found = judged(server(**wrong))  # type: ignore[arg-type]

    assert {n for n, s in standings(found).items() if s is FAIL} == failing
    assert found.standing is FAIL


@pytest.mark.parametrize(
    "harmless",
    [
        {"usage": flat(0.3)},
        {"ttft": ramp(0.02, 0.05)},
        {"tokens": lambda h: 2000 + 80 * math.sin(h)},
        {
            "tokens": lambda h: 100 * (20 + 15 * math.sin(h / 3.8)),
            "running": lambda h: 20 + 15 * math.sin(h / 3.8),
        },
        {"preemptions": flat(0.9)},
    ],
    ids=["room in the pool", "a rise nobody feels", "a small swing", "a day's wave", "some preemptions"],
)
def test_what_is_no_fault_passes(harmless: dict[str, Curve]) -> None:
    assert judged(server(**harmless)).standing is PASS  # type: ignore[arg-type]


def test_a_short_history_cannot_tell_and_says_which_lines_that_shortens() -> None:
    found = judged(server(4.0))

    assert found.standing is UNKNOWN
    short = {c.name: c.reason for c in found.engines[0].criteria if c.standing is UNKNOWN}
    assert set(short) == {"rate", "preemptions", "preemptions-rise", "usage", "usage-peak", "first-token"}
    assert set(short.values()) == {"holds so far, and takes 24 h to tell"}
    assert standings(found)["hits"] is PASS


def test_what_fails_fails_also_in_a_short_history() -> None:
    assert standings(judged(server(2.0, preemptions=flat(5.0))))["preemptions"] is FAIL


def test_a_glance_tells_nothing() -> None:
    found = judged(server(1 / 60, every=5.0, preemptions=flat(50.0)))

    (line,) = [c for c in found.engines[0].criteria if c.name == "preemptions"]
    assert (line.standing, line.reason) == (UNKNOWN, "does not hold, in too short a glance to tell")


def test_a_day_with_a_step_less_is_a_day_and_one_with_holes_is_not() -> None:
    assert judged(server(23.9)).standing is PASS
    assert judged(server(seen=lambda hour: hour % 2 < 1.2)).standing is UNKNOWN


@pytest.mark.parametrize(
    ("hits", "without", "reason"),
    [
        (flat(0.05), (), "hardly repeat"),
        (flat(0.0), ("prefix_cache_queries_total", "prefix_cache_hits_total"), "no prompt was looked up"),
    ],
)
def test_the_hit_ratio_does_not_apply_where_prompts_do_not_repeat(
    hits: Curve, without: tuple[str, ...], reason: str
) -> None:
    found = judged(server(hits=hits, without=without))

    (line,) = [c for c in found.engines[0].criteria if c.name == "hits"]
    assert (line.standing, found.standing) == (MOOT, PASS)
    assert reason in line.reason


def test_hits_that_were_there_before_the_fix_make_it_apply() -> None:
    assert standings(judged(server(hits=flat(0.05)), server(2.0)))["hits"] is FAIL


def test_a_signal_that_was_not_seen_cannot_tell_and_is_no_pass() -> None:
    found = judged(server(without=("num_preemptions_total",)))

    assert standings(found)["preemptions"] is UNKNOWN
    assert (standings(found)["usage"], found.standing) == (PASS, UNKNOWN)


def test_a_handful_of_requests_tells_nothing() -> None:
    found = judged(server(requests=0.0005))

    assert set(standings(found).values()) == {UNKNOWN}
    assert "requests finished" in found.engines[0].criteria[0].reason


@pytest.mark.parametrize(("tokens", "standing"), [(2000.0, PASS), (1900.0, PASS), (1600.0, FAIL)])
def test_the_rate_is_held_against_the_one_before_at_equal_load(tokens: float, standing: Standing) -> None:
    found = judged(server(tokens=flat(tokens)), server(6.0))

    assert standings(found)["kept"] is standing
    compared = {c.name: c for c in found.engines[0].compared}
    assert compared["generation"].before == pytest.approx(2000, rel=0.01)
    assert compared["generation"].ratio == pytest.approx(tokens / 2000, rel=0.02)


@pytest.mark.parametrize("hour", [4.0, 8.0, 12.0, 16.0])
def test_a_rise_at_once_counts_wherever_in_the_day_it_came(hour: float) -> None:
    slower = judged(server(ttft=after_hour(hour, 0.2, 1.0)))
    evicting = judged(server(preemptions=after_hour(hour, 0.01, 0.8)))

    by = {c.name: c for c in slower.engines[0].criteria}
    assert by["first-token"].standing is FAIL
    assert by["first-token"].observed == pytest.approx(5.0, rel=0.2)
    by = {c.name: c for c in evicting.engines[0].criteria}
    assert (by["preemptions"].standing, by["preemptions-rise"].standing) == (PASS, FAIL)
    assert 0.6 < by["preemptions-rise"].observed < 0.9


def test_a_comparison_with_another_model_says_so() -> None:
    other: list[Observation] = [
        replace(s, series=s.series.replace('model_name="m"', 'model_name="n"'))
        for s in server()
        if isinstance(s, Samples)
    ]

    (gap,) = judged(server(), other).gaps
    assert (gap.origin, gap.what) == ("before.rec", "m before")
    assert gap.why == "it is compared with another model, n"
    assert judged(server(), server()).gaps == ()


def test_less_traffic_than_before_is_not_a_lower_rate() -> None:
    half = server(tokens=lambda h: 1000 + 100 * (h % 4), running=lambda h: 10 + h % 4)
    full = server(tokens=lambda h: 1000 + 300 * (h % 6), running=lambda h: 10 + 3 * (h % 6))

    assert standings(judged(half, full))["kept"] is PASS


def test_the_worst_engine_comes_first_and_decides() -> None:
    found = judged([*server(engine="0"), *server(engine="1", preemptions=flat(9.0))])

    assert [(e.engine, e.standing) for e in found.engines] == [("1", FAIL), ("0", PASS)]
    assert found.standing is FAIL


def test_of_many_engines_those_that_pass_are_only_named() -> None:
    found = judged([o for n in "0123" for o in server(engine=n, preemptions=flat(9.0 if n == "2" else 0.1))])

    out = page.text(found)
    assert out.count("CRITERIA") == 1
    assert "engine 2, h:8000" in out.split("PASS")[0]
    assert out.split("PASS  3 engines")[1].count("✓ engine") == 3


def test_a_target_that_could_not_be_read_is_told_and_is_no_pass() -> None:
    found = judged([*server(), Gap("targets", "http://h:1 refused the connection", "not read")])

    assert (found.engines[0].standing, found.standing) == (PASS, UNKNOWN)
    assert "http://h:1 refused the connection" in page.text(found)
    assert "http://h:1 refused the connection" in page.markdown(found)


def test_nothing_to_judge_is_an_error_and_no_answer() -> None:
    with pytest.raises(NotEnoughData):
        validate(Recording({}))
    with pytest.raises(NotEnoughData, match=r"before\.rec"):
        validate(gather(server(1.0)), before=Recording({}), before_name="before.rec")


@settings(max_examples=15, deadline=None)
@given(st.floats(0, 3), st.floats(0.2, 0.99), st.floats(0, 1))
def test_steady_histories_are_judged_by_their_levels(preemptions: float, usage: float, hits: float) -> None:
    found = judged(server(every=300.0, preemptions=flat(preemptions), usage=flat(usage), hits=flat(hits)))

    for line in found.engines[0].criteria:
        if (
            math.isfinite(line.observed)
            and abs(line.observed - line.limit) > 1e-9
            and line.standing is not MOOT
        ):
            beyond = line.observed < line.limit if line.op == ">=" else line.observed > line.limit
            assert line.standing is (FAIL if beyond else PASS), line


def test_every_limit_says_why_and_whose_it_is() -> None:
    assert all(limit.why and limit.source and limit.unit for limit in LIMITS.values())


# --- simulated and bundled servers -------------------------------------------------------------


def simulated(name: str, folder: Path) -> Recording:
    path = folder / f"{name}.om.gz"
    setup = replace(SCENARIOS[name].setup(1), scrape=Scrape(60.0))
    write_openmetrics(simulate(setup, seed=1), path)
    return gather_targets([str(path)], Window())


def test_a_simulated_day_of_a_sound_server_passes(tmp_path: Path) -> None:
    found = validate(simulated("healthy-diurnal", tmp_path))

    assert found.standing is PASS


def test_a_simulated_server_that_loses_blocks_fails(tmp_path: Path) -> None:
    found = validate(simulated("fragmentation-leak-ramp", tmp_path))

    failed = {n for n, s in standings(found).items() if s is FAIL}
    assert failed >= {"rate", "preemptions", "usage", "first-token"}


# --- the command -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("target", "before", "code", "told"),
    [
        ("example:kv-thrash", "", 1, "FAIL"),
        ("example:kv-thrash-fix-blocks", "example:kv-thrash", 3, "CANNOT TELL"),
        ("example:healthy", "", 3, "CANNOT TELL"),
    ],
)
def test_the_exit_code_tells_fail_from_cannot_tell(
    target: str, before: str, code: int, told: str, capsys: Capture
) -> None:
    assert main(["validate", target, *(["--before", before] if before else [])]) == code
    assert told in capsys.readouterr().out


@pytest.mark.parametrize(
    ("command", "option"), [("validate", "--before"), ("diagnose", "--baseline"), ("plan", "--baseline")]
)
@pytest.mark.parametrize(
    ("earlier", "told"),
    [
        ("missing.rec", "no such file: missing.rec"),
        ("http://doctor:s3cret@127.0.0.1:1", "recording of an earlier time; http://127.0.0.1:1 can only be"),
    ],
)
def test_a_wrong_earlier_time_is_told_before_the_server_is_watched(
    command: str, option: str, earlier: str, told: str, capsys: Capture
) -> None:
    assert main([command, "http://127.0.0.1:1", option, earlier]) == 2
    said = capsys.readouterr().err
    assert told in said
    assert "refused" not in said
    assert "s3cret" not in said


def test_a_day_that_passes_ends_with_0(tmp_path: Path, capsys: Capture) -> None:
    save(gather(server()), tmp_path / "after.rec")

    assert main(["validate", str(tmp_path / "after.rec")]) == 0
    assert "PASS: every criterion that applies holds" in capsys.readouterr().out


def test_a_live_server_is_watched_as_long_as_told(capsys: Capture) -> None:
    live = serve("healthy-steady", 0, seed=1, speed=600)
    threading.Thread(target=live.serve_forever, args=(0.05,), daemon=True).start()
    try:
        code = main(["validate", f"http://127.0.0.1:{live.server_port}", "--for", "2s", "--every", "1s"])
    finally:
        live.shutdown()
        live.server_close()

    assert code == 3
    assert "CANNOT TELL" in capsys.readouterr().out


def test_json_is_for_machines(capsys: Capture) -> None:
    main(["validate", "example:kv-thrash", "-f", "json"])

    told = json.loads(capsys.readouterr().out)
    assert (told["schema"], told["standing"]) == ("vllmdoctor/validation/1", "fail")
    assert {c["name"] for c in told["engines"][0]["criteria"]} <= LIMITS.keys()


def test_a_format_that_does_not_exist_is_told(capsys: Capture) -> None:
    assert main(["validate", "example:healthy", "-f", "xml"]) == 2
    assert "no format named 'xml'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "options", "columns"),
    [
        ("validation.100.txt", [], "100"),
        ("validation.80.txt", [], "80"),
        ("validation.md", ["-f", "markdown"], "100"),
        ("validation.json", ["-f", "json"], "100"),
    ],
)
def test_the_page_looks_as_it_did(
    name: str, options: list[str], columns: str, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    main(["validate", "example:kv-thrash", "--before", "example:kv-thrash-fix-blocks", *options])

    out, path = capsys.readouterr().out, GOLDEN / name
    if os.environ.get("UPDATE_GOLDEN") == "1":
        path.write_text(out, encoding="utf-8")
    assert out == path.read_text(encoding="utf-8")
    assert "txt" not in name or max(map(len, out.splitlines())) <= int(columns)
