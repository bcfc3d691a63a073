"""The command line as people use it: what they type, what they get, and which exit code."""

import http.server
import itertools
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.served import recorded as pages

from vllmdoctor.cli import main
from vllmdoctor.diagnosis import diagnose
from vllmdoctor.model import Snapshot
from vllmdoctor.recording import gather
from vllmdoctor.sources import Window, gather_targets, open_source

Capture = pytest.CaptureFixture[str]


def run(*arguments: str) -> int:
    return main(list(arguments))


def verdict(text: str) -> tuple[str, str, str]:
    report = json.loads(text)
    return report["verdict"], report["primary"], report["kind"]


def test_a_sick_server_is_diagnosed_and_that_is_no_error(capsys: Capture) -> None:
    assert run("diagnose", "example:kv-thrash") == 0

    out = capsys.readouterr().out
    assert "SICK" in out
    assert "[overload, kv-bound]" in out
    assert "--num-gpu-blocks-override" in out


def test_json_is_for_machines(capsys: Capture) -> None:
    assert run("diagnose", "example:hol-big-batch", "-f", "json") == 0

    report = json.loads(capsys.readouterr().out)
    assert report["schema"] == "vllmdoctor/report/1"
    assert report["primary"] == "head-of-line-blocking"


@pytest.mark.parametrize(
    ("target", "fail_on", "code"),
    [
        ("example:overload-kv", "never", 0),
        ("example:overload-kv", "critical", 1),
        ("example:hol-big-batch", "critical", 0),
        ("example:hol-big-batch", "warning", 1),
        ("example:healthy", "warning", 0),
        ("example:demand-drop", "warning", 0),
        ("example:demand-drop", "info", 1),
    ],
)
def test_fail_on_sets_the_exit_code(target: str, fail_on: str, code: int, capsys: Capture) -> None:
    assert run("diagnose", target, "--fail-on", fail_on) == code
    capsys.readouterr()


@pytest.mark.parametrize(
    ("arguments", "code", "line", "hint"),
    [
        (["diagnose", "nope.rec"], 2, "nope.rec", ""),
        (["diagnose", "example:overlod-kv"], 2, "no example named 'overlod-kv'", "overload-kv"),
        (["diagnose", "example:healthy", "--fail-on", "warn"], 2, "no severity named 'warn'", "warning"),
        (["diagnose", "example:healthy", "-f", "jsn"], 2, "no format named 'jsn'", "json"),
        (["diagnose", "example:healthy", "--for", "soon"], 2, "not a duration: 'soon'", "90s"),
        (["diagnose", "example:healthy", "--vllm-version", "new"], 2, "not a vLLM version", "0.12.0"),
        (["diagnose", "http://127.0.0.1:9/metrics"], 3, "127.0.0.1:9", ""),
        (["explain", "overlod"], 2, "overlod", "overload"),
        (["record", "example:healthy", "-o", "x.rec", "--max-size", "big"], 2, "not a size", "64MiB"),
    ],
)
def test_a_mistake_gets_one_line_a_hint_and_the_right_code(
    arguments: list[str], code: int, line: str, hint: str, capsys: Capture
) -> None:
    assert run(*arguments) == code

    error = capsys.readouterr().err
    assert line in error
    assert hint in error
    assert "Traceback" not in error
    assert len(error.strip().splitlines()) <= 2


def test_an_unknown_option_is_misuse(capsys: Capture) -> None:
    assert run("diagnose", "example:healthy", "--no-such-option") == 2
    assert "--no-such-option" in capsys.readouterr().err


def test_nothing_is_overwritten(tmp_path: Path, capsys: Capture) -> None:
    precious = tmp_path / "report.json"
    precious.write_text("mine")

    assert run("diagnose", "example:healthy", "-o", str(precious)) == 2

    assert precious.read_text() == "mine"
    assert "exists" in capsys.readouterr().err


def test_the_ending_of_the_output_picks_the_format(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "report.json"
    assert run("diagnose", "example:healthy", "-o", str(path)) == 0
    assert verdict(path.read_text()) == ("healthy", "healthy", "")
    capsys.readouterr()


def test_what_was_saved_is_diagnosed_the_same(tmp_path: Path, capsys: Capture) -> None:
    saved = tmp_path / "night.rec.gz"
    assert run("diagnose", "example:overload-kv-fix-blocks", "-f", "json", "--save", str(saved)) == 0
    first = verdict(capsys.readouterr().out)
    assert run("diagnose", str(saved), "-f", "json") == 0

    assert verdict(capsys.readouterr().out) == first == ("sick", "overload", "compute-bound")


def test_what_was_converted_is_diagnosed_the_same(tmp_path: Path, capsys: Capture) -> None:
    text = tmp_path / "x.om"
    assert run("convert", "example:hol-big-batch", "-o", str(text)) == 0
    assert run("diagnose", str(text), "-f", "json") == 0

    assert verdict(capsys.readouterr().out)[1] == "head-of-line-blocking"


def test_a_baseline_in_health_shows_what_changed(capsys: Capture) -> None:
    assert (
        run("diagnose", "example:kv-thrash", "--baseline", "example:kv-thrash-fix-blocks", "-f", "json") == 0
    )

    report = json.loads(capsys.readouterr().out)
    assert "example:kv-thrash-fix-blocks" in report["compared"]
    ttft = next(s for s in report["engines"][0]["symptoms"] if s["name"] == "ttft")
    assert ttft["slow"] is True
    assert ttft["before"] < 0.2 < ttft["now"]


@pytest.mark.parametrize("command", ["rules", "examples", "signals"])
def test_the_lists_have_a_line_for_each(command: str, capsys: Capture) -> None:
    assert run(command) == 0
    out = capsys.readouterr().out
    assert {"rules": "kv-fragmentation", "examples": "hol-big-batch", "signals": "kv_cache_usage"}[
        command
    ] in out


def test_signals_of_a_server_say_what_is_there_and_what_is_not(capsys: Capture) -> None:
    assert run("signals", "example:healthy") == 0
    out = capsys.readouterr().out
    assert "vllm:kv_cache_usage_perc" in out
    assert "requests_swapped" in out


def test_explain_shows_the_page_of_every_rule(capsys: Capture) -> None:
    assert run("explain", "kv-fragmentation") == 0
    assert "Confirm it" in capsys.readouterr().out


# --- a live server: the recording is served again, page by page ------------------------------


class Replay(http.server.BaseHTTPRequestHandler):
    served: Iterator[tuple[float, str]]
    now = 0.0

    def do_GET(self) -> None:
        if self.path == "/version":
            return self.answer(b'{"version":"0.32.0"}')
        entry = next(type(self).served, None)
        if entry is None:
            self.send_error(503)
            return None
        type(self).now = entry[0]
        return self.answer(entry[1].encode())

    def answer(self, body: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


def serve(served: Iterator[tuple[float, str]]) -> tuple[http.server.ThreadingHTTPServer, type[Replay]]:
    handler = type("Handler", (Replay,), {"served": served})
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server, handler


@pytest.mark.parametrize("name", ["overload-kv", "hol-big-batch", "healthy", "demand-drop"])
def test_a_live_run_gives_the_same_verdict_as_the_file(name: str) -> None:
    server, handler = serve(iter(pages(name)))
    handler.now = pages(name)[0][0] - 1
    source = open_source(f"http://127.0.0.1:{server.server_port}")
    window = Window(
        duration_s=len(pages(name)) - 1.0, interval_s=1.0, clock=lambda: handler.now, sleep=lambda _: None
    )
    live = diagnose(gather(source.read(window)))
    server.shutdown()
    server.server_close()

    filed = diagnose(gather_targets([f"example:{name}"], Window()))
    assert (live.verdict, live.primary, live.kind) == (filed.verdict, filed.primary, filed.kind)
    assert live.version == "0.32.0"


def test_a_live_diagnosis_tells_its_first_look_and_ends_by_itself(capsys: Capture) -> None:
    server, _ = serve(itertools.islice(pages("overload-kv"), 60, None, 20))
    assert (
        run(
            "diagnose", f"http://127.0.0.1:{server.server_port}", "--for", "7s", "--every", "1s", "-f", "json"
        )
        == 0
    )
    server.shutdown()
    server.server_close()

    said = capsys.readouterr()
    assert "first look after two scrapes" in said.err
    assert json.loads(said.out)["version"] == "0.32.0"


def test_ctrl_c_judges_what_is_there() -> None:
    server, _ = serve(itertools.islice(pages("overload-kv"), 60, None, 20))
    asked = subprocess.Popen(
        [sys.executable, "-m", "vllmdoctor", "diagnose", f"http://127.0.0.1:{server.server_port}"]  # noqa: RUF005
        + ["--for", "10m", "--every", "1s", "-f", "json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    time.sleep(9)
    asked.send_signal(signal.SIGINT)
    out, err = asked.communicate(timeout=20)
    server.shutdown()
    server.server_close()

    assert asked.returncode == 0, err
    assert "Traceback" not in err
    assert json.loads(out)["scrapes"] >= 6


# --- histories with something odd in them ------------------------------------------------------


def test_one_scrape_is_not_enough_and_says_what_to_do(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "one.prom"
    path.write_text(pages("healthy")[50][1])

    assert run("diagnose", str(path)) == 3

    error = capsys.readouterr().err
    assert "one scrape only" in error
    assert "vllmdoctor record" in error


def test_two_engines_are_judged_apart_and_the_sick_one_comes_first() -> None:
    sick, well = pages("kv-thrash"), pages("healthy")
    observations = []
    for (t, a), (_, b) in zip(sick, well, strict=False):
        both = a + b.replace('engine="0"', 'engine="1"')
        values = dict(line.rsplit(" ", 1) for line in both.splitlines())
        observations.append(Snapshot(t, "s", {k: float(v) for k, v in values.items()}))

    report = diagnose(gather(observations))

    assert [(e.engine, e.primary) for e in report.engines] == [("0", "overload"), ("1", "healthy")]


def test_two_models_on_one_page_are_two_engines() -> None:
    observations = []
    for t, text in pages("healthy"):
        both = text + text.replace('model_name="./mid"', 'model_name="other"')
        values = dict(line.rsplit(" ", 1) for line in both.splitlines())
        observations.append(Snapshot(t, "s", {k: float(v) for k, v in values.items()}))

    assert sorted(e.model for e in diagnose(gather(observations)).engines) == ["./mid", "other"]


def test_a_reader_that_goes_away_is_not_a_finding() -> None:
    pipe = f"{sys.executable} -m vllmdoctor rules | true; exit ${{PIPESTATUS[0]}}"
    assert subprocess.run(["bash", "-c", pipe]).returncode == 0
