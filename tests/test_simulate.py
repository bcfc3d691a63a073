"""`simulate`: a known condition as a file, and as a server to try alerts and diagnoses on."""

import itertools
import threading
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from vllmdoctor.cli import main
from vllmdoctor.commands_simulate import Playback, serve
from vllmdoctor.simulator import Page

Capture = pytest.CaptureFixture[str]


def test_without_a_scenario_all_are_listed(capsys: Capture) -> None:
    assert main(["simulate"]) == 0
    assert "fragmentation-leak-ramp" in capsys.readouterr().out


def test_a_scenario_becomes_a_file_that_is_diagnosed_as_what_it_is(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "x.om.gz"
    assert main(["simulate", "low-load", "-o", str(path), "--seed", "3"]) == 0
    assert main(["diagnose", str(path)]) == 0
    assert "low-load" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["simulate", "overlod-slots", "-o", "x.om"], "no scenario named 'overlod-slots'"),
        (["simulate", "low-load"], "either -o FILE or --serve PORT"),
        (["simulate", "low-load", "--serve", "http"], "not a port"),
        (["simulate", "low-load", "--serve", "0", "--speed", "0"], "speed"),
    ],
)
def test_a_mistake_gets_one_line(arguments: list[str], line: str, capsys: Capture) -> None:
    assert main(arguments) == 2
    assert line in capsys.readouterr().err


def pages() -> Iterator[Page]:
    for i in itertools.count():
        yield Page(1000.0 + 15 * i, "s", {"vllm:generation_tokens_total": float(i)})


def test_a_history_is_played_as_time_passes() -> None:
    now = 0.0
    played = Playback(itertools.islice(pages(), 10), speed=60.0, clock=lambda: now)

    assert "vllm:generation_tokens_total 0.0" in played.text()
    now = 1.0
    assert "vllm:generation_tokens_total 4.0" in played.text()
    now = 100.0
    assert "vllm:generation_tokens_total 9.0" in played.text()


def test_a_served_scenario_answers_like_a_server() -> None:
    server = serve("low-load", 0, seed=1, speed=60.0)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_port}"
    page = urllib.request.urlopen(f"{url}/metrics", timeout=10).read().decode()
    version = urllib.request.urlopen(f"{url}/version", timeout=10).read().decode()
    server.shutdown()
    server.server_close()

    assert "# TYPE vllm:num_requests_running gauge" in page
    assert '"version"' in version
