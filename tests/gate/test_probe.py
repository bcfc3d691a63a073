"""From a probe of a server to the gate: recordings of before and after, and servers probed by the gate."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from bench.probe.server import Behave, Behaviour, Server, streamed

from vllmdoctor import probe_series as series
from vllmdoctor.cli import main
from vllmdoctor.gate.changed import LOAD
from vllmdoctor.sources import Window, gather_targets

COARSE = (
    "--throughput",
    "60",
    "--ttft",
    "200",
    "--itl",
    "200",
)  # other work here is no regression
RUNS = 5  # from so many on each run is a block: they may be short


def behaves(*, first_s: float = 0.01, each_s: float = 0.002, wrong: int = 0) -> Behave:
    """A server of a speed, of whose answers `wrong` in a hundred are wrong."""

    def behave(path: str, body: dict[str, Any], number: int) -> Behaviour:
        answer = "it is 5" if number % 100 < wrong else "it is 4"
        return Behaviour(streamed(f"{answer} and that is it", first_s=first_s, each_s=each_s))

    return behave


@pytest.fixture
def serve() -> Iterator[Callable[..., str]]:
    """Start servers; each one's address."""
    servers: list[Server] = []

    def start(**how: Any) -> str:
        servers.append(Server(behaves(**how)))
        return servers[-1].url

    yield start
    for server in servers:
        server.close()


@pytest.fixture
def requests(tmp_path: Path) -> Path:
    path = tmp_path / "set.jsonl"
    path.write_text("".join(f'{{"prompt": "2 + 2 = {n}", "contains": "4"}}\n' for n in range(40)))
    return path


@pytest.fixture
def probed(requests: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., list[str]]:
    """Recordings of a server, by the command."""

    def run(url: str, name: str, runs: int = 1, *options: str) -> list[str]:
        paths = [str(tmp_path / f"{name}-{n}.rec") for n in range(runs)]
        usual = () if "--concurrency" in options else ("--concurrency", "8")
        for path in paths:
            assert main(["probe", url, "--requests", str(requests), "-o", path, *usual, *options]) == 0
        capsys.readouterr()
        return paths

    return run


@pytest.fixture
def gate(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, dict[str, Any]]]:
    """The gate's exit code and its report."""

    def run(candidates: list[str], baselines: list[str], *options: str) -> tuple[int, dict[str, Any]]:
        before = [x for path in baselines for x in ("--baseline", path)]
        code = main(["gate", *candidates, *before, "-f", "json", *options])
        said = capsys.readouterr()
        assert said.out, said.err
        return code, json.loads(said.out)

    return run


def judged(report: dict[str, Any]) -> dict[str, str]:
    return {m["name"]: m["judgement"] for m in report["measures"]}


def test_the_facts_that_tell_a_load_are_those_that_a_probe_writes(
    serve: Callable[..., str], probed: Callable[..., list[str]]
) -> None:
    (path,) = probed(serve(), "one", 1, "--rate", "400")

    told = {f.key for f in gather_targets([path], Window()).facts}
    assert told >= LOAD.keys() == {series.LOOP, series.CONCURRENCY, series.RATE, series.REQUESTS_SHA256}


def test_the_same_server_twice_does_not_regress_and_a_slow_one_does(
    serve: Callable[..., str], probed: Callable[..., list[str]], gate: Callable[..., Any]
) -> None:
    url = serve()
    before, again = probed(url, "before", RUNS), probed(url, "again", RUNS)
    slow = probed(serve(first_s=0.08, each_s=0.016), "slow", RUNS)

    code, same = gate(again, before, *COARSE)
    assert code in (0, 3)
    assert same["candidate"]["kind"] == "requests"
    code, slower = gate(slow, before, *COARSE)
    assert code == 1
    found = judged(slower)
    assert found["throughput"] == "regressed"
    assert found["ttft_p95"] in ("regressed", "inconclusive")  # a tail of so short runs is uncertain
    assert (found["correctness"], found["errors"]) == ("pass", "pass")


def test_wrong_answers_regress_apart_from_speed(
    serve: Callable[..., str], probed: Callable[..., list[str]], gate: Callable[..., Any]
) -> None:
    right, wrong = (probed(serve(wrong=n), f"wrong-{n}", 3) for n in (0, 30))

    code, report = gate(wrong, right, *COARSE)

    assert code == 1
    assert [name for name, ended in judged(report).items() if ended == "regressed"] == ["correctness"]


def test_a_probe_at_another_concurrency_compares_no_speed(
    serve: Callable[..., str], probed: Callable[..., list[str]], gate: Callable[..., Any]
) -> None:
    url = serve()

    code, report = gate(probed(url, "16", 1, "--concurrency", "16"), probed(url, "8"))

    assert code == 3
    assert report["measures"][0]["why"] == "another load was sent: concurrency 8 -> 16"


def test_the_gate_probes_a_url_against_a_recording_and_against_a_url(
    serve: Callable[..., str], probed: Callable[..., list[str]], gate: Callable[..., Any], requests: Path
) -> None:
    right, wrong = serve(), serve(wrong=50)
    how = ("--probe", "--requests", str(requests), "--concurrency", "8", "--max-requests", "120")

    recorded = probed(right, "before", 1, "--max-requests", "120")

    for before in (recorded, [right]):
        code, report = gate([wrong], before, *how, *COARSE)
        assert code == 1
        assert judged(report)["correctness"] == "regressed"
        assert report["candidate"]["targets"] == [wrong]
        assert report["candidate"]["requests"] == 120
        assert report["changes"] == []


def test_what_the_gate_probed_becomes_a_baseline(
    serve: Callable[..., str], requests: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    url, base = serve(), tmp_path / "base.rec.gz"
    how = ["--probe", "--requests", str(requests), "--concurrency", "8", "--warmup", "4"]

    assert main(["gate", url, *how, "--update-baseline", str(base)]) == 0

    assert f"sends 40 requests (after 4 to warm up) to {url}" in capsys.readouterr().err
    facts = {f.key: f.value for f in gather_targets([str(base)], Window()).facts}
    assert (facts["baseline_source"], facts[series.WARMUP]) == (url, 4)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--requests", "set.jsonl"), "--requests is for a probe"),
        (("--probe", "--concurrency", "8"), "--probe needs --requests"),
        (("--probe", "--requests", "set.jsonl"), "--probe needs --concurrency"),
        (("--probe", "--requests", "set.jsonl", "--concurrency", "8"), "--probe, and no side is a URL"),
    ],
)
def test_what_a_probe_lacks_is_told_before_anything_is_sent(
    options: tuple[str, ...], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["gate", "example:healthy", "--baseline", "example:kv-thrash", *options]) == 2
    assert words in capsys.readouterr().err
