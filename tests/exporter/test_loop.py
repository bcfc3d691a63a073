"""An exporter over simulated hours: real sockets, real scrapes, a clock that does not wait."""

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from bench.export.stage import Stage

from vllmdoctor.errors import UsageError
from vllmdoctor.exporting.history import History
from vllmdoctor.exporting.loop import Exporter
from vllmdoctor.exporting.settings import Clock, Settings
from vllmdoctor.exporting.state import State
from vllmdoctor.model import Verdict
from vllmdoctor.simulator import SCENARIOS, Setup

if TYPE_CHECKING:
    from tests.sources.conftest import Server

HOUR = 3600.0


def busy(hours: float) -> Setup:
    """A server that is overloaded from the second hour on."""
    setup = SCENARIOS["overload-kv-step"].setup(1)
    return replace(setup, duration_s=hours * HOUR)


@pytest.fixture(scope="module")
def day() -> Iterator[tuple[list[State], list[str], History]]:
    """Three hours with an outage of ten minutes, looked at every ten minutes; one hour is kept."""
    told: list[str] = []
    states: list[State] = []
    with Stage(busy(3), outages=[(5400.0, 6000.0)]) as stage:

        def look() -> None:
            if stage.passed_s % 600 == 0:
                states.append(exporter.state)

        settings = Settings(every_s=30.0, diagnose_every_s=240.0, keep_s=HOUR)
        exporter = Exporter([stage.url], settings, stage.clock(3 * HOUR, look), told.append)
        exporter.run()
        yield states, told, exporter.history


Day = tuple[list[State], list[str], History]


def test_every_diagnosis_of_a_server_that_is_there_gives_an_answer(day: Day) -> None:
    states, _, _ = day
    there = [state for n, state in enumerate(states) if n not in (0, 10)]

    assert all(len(state.answers) == 1 for state in there)
    assert states[-1].diagnoses == 42
    assert states[-1].errors["internal"] == 0


def test_a_restart_with_counters_at_zero_is_survived(day: Day) -> None:
    states, told, _ = day

    assert states[-1].targets[0].up
    assert states[-1].targets[0].failures == 20
    assert sum("refused the connection" in line for line in told) == 1
    assert sum("answers again" in line for line in told) == 1
    assert any(event.slug == "restart" for event in states[11].answers[0].findings)


def test_the_history_is_as_long_as_it_may_be_and_no_longer(day: Day) -> None:
    states, _, history = day
    most = HOUR / 30 + 1

    assert history.samples <= history.series * (most + most // 8 + 2)
    assert states[-1].samples <= states[-1].series * (most + most // 8 + 2)
    assert history.size_bytes < 2 * 8 * history.series * most


def test_what_is_not_seen_any_more_has_no_answer_and_is_not_healthy() -> None:
    told: list[str] = []
    with Stage(busy(1), outages=[(1200.0, 9e9)]) as stage:
        counts: dict[float, tuple[int, bool | None]] = {}

        def look() -> None:
            counts[stage.passed_s] = len(exporter.state.answers), exporter.state.targets[0].up

        exporter = Exporter([stage.url], Settings(), stage.clock(1500.0, look), told.append)
        exporter.run()

    assert counts[1185.0] == (1, True)
    assert counts[1200.0] == (1, False)  # one scrape may fail
    assert counts[1245.0] == (0, False)  # three in a row are an absence
    assert exporter.state.errors["unreachable"] > 0
    assert exporter.state.last_success < stage.now - 200


def test_a_target_that_is_not_there_at_first_is_read_when_it_comes() -> None:
    with Stage(busy(1), outages=[(0.0, 300.0)]) as stage:
        stage.at(0.0)
        told: list[str] = []
        exporter = Exporter([stage.url], Settings(), stage.clock(900.0), told.append)
        exporter.run()

    assert len(exporter.state.answers) == 1
    assert exporter.state.targets[0].failures == 20
    assert told[0].endswith("refused the connection (hint: is the server running, and is this its port?)")


def test_after_an_outage_the_version_is_asked_again(server: "Server", page: bytes) -> None:
    server.serve_in_turn("/metrics", [(200, page), (200, page), (503, b""), (503, b""), (200, page)])
    server.serve_in_turn("/version", [(200, b'{"version": "0.31.0"}'), (200, b'{"version": "0.32.0"}')])
    passed = 0.0

    def sleep(seconds: float) -> bool:
        nonlocal passed
        passed += seconds
        return passed > 120

    exporter = Exporter([server.url], Settings(), Clock(lambda: 1e9 + passed, lambda: passed, sleep))
    exporter.run()

    assert exporter.state.answers[0].version == "0.32.0"
    assert sum(path == "/version" for path, _ in server.requests) == 2
    assert exporter.state.targets[0].failures == 2


def test_a_model_that_is_not_served_any_more_has_no_answer(server: "Server", page: bytes) -> None:
    other = page.replace(b'model_name="./mid"', b'model_name="./new"')
    server.serve_in_turn("/metrics", [*[(200, page)] * 5, (200, other)])
    passed = 0.0
    said: list[list[str]] = []

    def sleep(seconds: float) -> bool:
        nonlocal passed
        said.append([answer.model for answer in exporter.state.answers])
        passed += seconds
        return passed > 120

    exporter = Exporter([server.url], Settings(), Clock(lambda: 1e9 + passed, lambda: passed, sleep))
    exporter.run()

    assert said[-2] == ["./mid"]
    assert [answer.model for answer in exporter.state.answers] == ["./new"]


def test_one_that_fails_does_not_end_the_others() -> None:
    with Stage(busy(1)) as stage:
        exporter = Exporter([stage.url, "http://127.0.0.1:1"], Settings(), stage.clock(300.0))
        exporter.run()

    assert [target.up for target in exporter.state.targets] == [True, False]
    assert len(exporter.state.answers) == 1


def test_a_server_of_something_else_is_told_and_has_no_answer(server: "Server") -> None:
    server.serve("/metrics", 200, b"node_load1 0.5\n")
    told: list[str] = []
    passed = iter(range(10_000))
    clock = Clock(lambda: 0.0, lambda: 15.0 * next(passed), lambda _: len(told) > 0)
    exporter = Exporter([server.url], Settings(), clock, told.append)
    exporter.run()

    assert exporter.state.errors["not_vllm"] == 1
    assert told == [
        "diagnosis: not a vLLM server: saw node_exporter (node_load1)"
        " (hint: give the address of the vLLM server; this one may be given beside it)"
    ]
    assert exporter.state.answers == ()


def test_a_bug_in_a_diagnosis_is_counted_and_ends_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError("division by zero")

    monkeypatch.setattr("vllmdoctor.exporting.loop.diagnose", broken)
    told: list[str] = []
    with Stage(busy(1)) as stage:
        exporter = Exporter([stage.url], Settings(), stage.clock(300.0), told.append)
        exporter.run()

    assert exporter.state.errors["internal"] == 4
    (line,) = told
    assert re.fullmatch(
        r"diagnosis: ZeroDivisionError: division by zero \(test_loop.py, line \d+\); this is a bug, .*", line
    )


def test_a_setting_that_proves_wrong_ends_it_at_once(
    server: "Server", page: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.serve("/metrics", 200, page)
    monkeypatch.setenv("VLLMDOCTOR_TOKEN", "two\nlines")
    with pytest.raises(UsageError, match="VLLMDOCTOR_TOKEN holds what a header cannot carry"):
        Exporter([server.url], Settings()).run()


def test_engines_beyond_the_limit_are_dropped_the_best_first_and_counted() -> None:
    setup = replace(busy(1), engines=3)
    with Stage(setup) as stage:
        settings = Settings(most_engines=2)
        exporter = Exporter([stage.url], settings, stage.clock(121.0))
        exporter.run()

    assert len(exporter.state.answers) == 2
    assert exporter.state.engines_dropped == 2  # one in each of two diagnoses


def test_once_ends_after_the_first_diagnosis() -> None:
    with Stage(busy(1)) as stage:
        exporter = Exporter([stage.url], Settings(every_s=5.0), stage.clock(9e9))
        exporter.run(once=True)

    assert exporter.state.diagnoses == 1
    assert exporter.state.targets[0].scrapes == 13
    assert exporter.state.answers[0].verdict is not Verdict.BLIND


@pytest.mark.parametrize(
    ("targets", "says"),
    [
        (["example:healthy"], "example:healthy does not change"),
        (["host:"], "no server to diagnose"),
        (["http://"], "names no host"),
    ],
)
def test_targets_that_make_no_sense_are_said_at_once(targets: list[str], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        Exporter(targets, Settings())


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"every_s": 0.5}, "not scraped more often than every 1 s"),
        ({"diagnose_every_s": 10.0}, "must not be shorter than --every"),
        ({"keep_s": 60.0}, "at least twice --diagnose-every"),
    ],
)
def test_times_that_do_not_fit_are_said_at_once(settings: dict[str, float], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        Settings(**settings)  # type: ignore[arg-type]
