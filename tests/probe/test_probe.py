"""A probe against a real server: what it measures, what it counts as failed, and where it stops."""

import json
import math
import os
import random
import signal
import ssl
import subprocess
import sys
import time
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from bench.probe.server import Behave, Behaviour, Server, cut_up, event, streamed
from tests.probe.conftest import Probe, Serve

from vllmdoctor import probe_series as names
from vllmdoctor.errors import UsageError
from vllmdoctor.model_probe import Failure
from vllmdoctor.probe.questions import Question
from vllmdoctor.probe.run import Settings, prepare, run
from vllmdoctor.sources.http import Http

CERTIFICATE = Path(__file__).parents[1] / "sources" / "self-signed.pem"
ASK = {"prompt": "2 + 2 =", "contains": "4"}
CHAT = {"messages": [{"role": "user", "content": "2 + 2 ="}], "expected": "it is 4"}


def always(*writes: Any, **how: Any) -> Behave:
    return lambda path, body, number: Behaviour(*writes, **how)


def right(path: str, body: dict[str, Any], number: int) -> Behaviour:
    return Behaviour(streamed("it is 4", chat="chat" in path))


def question(prompt: str) -> Question:
    return Question(prompt, "/v1/completions", "", {"prompt": prompt}, None)


def failures(report: dict[str, Any]) -> dict[str, int]:
    return {f["failure"]: f["count"] for f in report["failures"]}


# --- what is measured --------------------------------------------------------------------------


def test_answers_are_counted_judged_and_kept(serve: Serve, probe: Probe) -> None:
    def behave(path: str, body: dict[str, Any], number: int) -> Behaviour:
        return Behaviour(streamed("it is 5" if body["prompt"] == "odd" else "it is 4"))

    server = serve(behave)
    done = probe(
        server.url, [ASK] * 6 + [{"prompt": "odd", "contains": "4", "id": "odd"}, {"prompt": "free"}]
    )

    report = done.report
    assert done.code == 0
    assert (report["answered"], report["failed"], report["judged"], report["correct"]) == (8, 0, 7, 6)
    assert report["wrong"] == [{"id": "odd", "expected": "contains 4", "got": "it is 5"}]
    assert (report["output_tokens"], report["prompt_tokens"]) == (24.0, 56.0)
    columns = done.recording.columns[names.PROBE_INSTANCE]
    assert int(np.nansum(columns[names.CORRECT].values)) == 6
    assert np.isfinite(columns[names.CORRECT].values).sum() == 7
    assert columns[names.ERROR].values.tolist() == [0.0] * 8
    facts = {f.key: f.value for f in done.recording.facts}
    assert facts.keys() >= {names.REQUESTS_SHA256}
    assert {k: facts[k] for k in (names.CONCURRENCY, names.LOOP, names.WARMUP, names.SEED)} == {
        names.CONCURRENCY: 4,
        names.LOOP: "closed",
        names.WARMUP: 0,
        names.SEED: 1,
    }
    assert (facts[names.MODEL], facts[names.VLLM_VERSION]) == ("tiny", "0.32.0")


def test_quantiles_agree_with_the_servers_own_record(serve: Serve, probe: Probe) -> None:
    chance = random.Random(7)
    waits = {str(i): (chance.uniform(0.2, 0.3), chance.uniform(0.03, 0.05)) for i in range(24)}

    def behave(path: str, body: dict[str, Any], number: int) -> Behaviour:
        first, each = waits[body["prompt"]]
        return Behaviour(streamed("one two three four five six", first_s=first, each_s=each))

    server = serve(behave)
    for _ in range(3):  # a machine that is busy elsewhere delays writer and reader apart
        server.served.clear()
        report = probe(server.url, [{"prompt": key} for key in waits], "--concurrency", "8").report
        told = {s["name"]: s for s in report["spreads"]}
        texts = [(s.received, s.written[:6]) for s in server.served]
        record = {
            names.TTFT: [w[0] - received for received, w in texts],
            names.ITL: [b - a for _, w in texts for a, b in pairwise(w)],
            names.E2E: [w[-1] - received for received, w in texts],
        }
        off = [
            abs(told[name][p] / float(np.quantile(values, q)) - 1)
            for name, values in record.items()
            for p, q in (("p50", 0.5), ("p95", 0.95))
        ]
        counts = [told[n]["count"] for n in (names.TTFT, names.ITL, names.E2E)]
        if max(off) < 0.02 and counts == [24, 120, 24]:
            break

    assert counts == [24, 120, 24]
    assert max(off) < 0.02, str(off)


def test_the_recording_holds_every_gap_once_and_in_time_order(serve: Serve, probe: Probe) -> None:
    server = serve(always(streamed("a b c d e", each_s=0.02)))

    done = probe(server.url, [{"prompt": "x"}] * 12, "--concurrency", "12")

    itl = done.recording.columns[names.PROBE_INSTANCE][names.ITL]
    assert np.isfinite(itl.values).sum() == {s["name"]: s["count"] for s in done.report["spreads"]}[names.ITL]
    assert (np.diff(itl.times) > 0).all()
    assert done.recording.gaps == ()


def test_several_tokens_in_a_chunk_are_counted_by_the_servers_usage(serve: Serve, probe: Probe) -> None:
    server = serve(always(streamed("a b c d e f g h", chunks=2, each_s=0.2)))

    report = probe(server.url, [{"prompt": "x"}] * 3).report

    assert report["output_tokens"] == 24.0
    assert {s["name"]: s["count"] for s in report["spreads"]}[names.ITL] == 3


@pytest.mark.parametrize("seed", range(6))
def test_pieces_that_end_anywhere_do_not_change_an_answer(serve: Serve, probe: Probe, seed: int) -> None:
    writes = cut_up(streamed("Zürich 東京 🚀 ½"), random.Random(seed))
    server = serve(always([(0.001, piece) for _, piece in writes]))

    report = probe(server.url, [{"prompt": "x", "expected": "Zürich 東京 🚀 ½"}] * 4).report

    assert (report["correct"], report["failed"]) == (4, 0)


def test_without_usage_the_rate_is_not_measured_and_that_is_said(serve: Serve, probe: Probe) -> None:
    server = serve(always(streamed("it is 4", usage=False)))

    report = probe(server.url, [ASK] * 3).report

    assert (report["output_rate"], report["output_tokens"]) == (None, None)
    assert "came without usage" in json.dumps(report["gaps"])


def test_reasoning_takes_time_and_is_not_the_answer(serve: Serve, probe: Probe) -> None:
    def delta(finish: str | None = None, **text: str) -> bytes:
        return event({"choices": [{"delta": text, "finish_reason": finish}]})

    writes = [
        (0.0, delta(role="assistant", content="")),
        (0.2, delta(reasoning_content="hm, 5?")),
        (0.2, delta(content="it is 4")),
        (0.0, delta("stop") + b"data: [DONE]\n\n"),
    ]
    report = probe(serve(always(writes)).url, [CHAT]).report

    assert report["correct"] == 1
    spreads = {s["name"]: s for s in report["spreads"]}
    assert spreads[names.TTFT]["p50"] >= 0.2
    assert spreads[names.ITL]["count"] == 1


def test_a_stream_whose_connection_stays_open_after_done_is_an_answer(serve: Serve, probe: Probe) -> None:
    server = serve(always(streamed("it is 4"), end="hang"))

    report = probe(server.url, [ASK] * 2, "--timeout", "300ms").report

    assert (report["answered"], report["correct"]) == (2, 2)
    assert {s["name"]: s["p50"] for s in report["spreads"]}[names.E2E] < 0.3


# --- how it is sent ----------------------------------------------------------------------------


def test_so_many_are_in_flight_and_no_more(serve: Serve, probe: Probe) -> None:
    server = serve(always(streamed("a b", first_s=0.05)))

    probe(server.url, [{"prompt": "x"}] * 12, "--concurrency", "3")

    moments = [(s.received, 1) for s in server.served] + [(s.written[-1], -1) for s in server.served]
    inside = np.cumsum([step for _, step in sorted(moments)])
    assert inside.max() == 3


def test_the_order_is_the_seeds_and_every_request_is_sent_once(serve: Serve, probe: Probe) -> None:
    server = serve(right)
    requests = [{"prompt": str(i)} for i in range(20)]
    orders = []
    for seed in ("1", "1", "2"):
        server.served.clear()
        probe(server.url, requests, "--concurrency", "1", "--seed", seed)
        orders.append([s.body["prompt"] for s in server.served])

    assert orders[0] == orders[1] != orders[2]
    assert sorted(orders[0], key=int) == sorted(orders[2], key=int) == [str(i) for i in range(20)]


def test_warm_up_requests_are_sent_first_and_do_not_count(serve: Serve, probe: Probe) -> None:
    server = serve(right)

    done = probe(server.url, [ASK] * 5, "--warmup", "3")

    assert (len(server.served), done.report["answered"]) == (8, 5)
    assert len(done.recording.columns[names.PROBE_INSTANCE][names.ERROR].times) == 5


def test_more_requests_than_the_file_holds_begin_it_again_and_fewer_take_its_first(
    serve: Serve, probe: Probe
) -> None:
    server = serve(right)
    for count in ("2", "7"):
        server.served.clear()
        probe(server.url, [{"prompt": p} for p in "abc"], "--max-requests", count)
        sent = Counter(s.body["prompt"] for s in server.served)
        assert sent == ({"a": 1, "b": 1} if count == "2" else {"a": 3, "b": 2, "c": 2})


def test_an_open_loop_sends_by_chance_and_says_when_it_cannot_keep_up(serve: Serve, probe: Probe) -> None:
    server = serve(always(streamed("a b", first_s=0.3)))

    free = probe(server.url, [{"prompt": "x"}] * 8, "--rate", "100", "--concurrency", "8").report
    tight = probe(server.url, [{"prompt": "x"}] * 8, "--rate", "100", "--concurrency", "2").report

    assert (free["loop"], free["late"]) == ("open", 0)
    assert tight["late"] == 6


def test_what_it_will_send_is_said_before_anything_is_sent(serve: Serve, probe: Probe) -> None:
    server = serve(right)

    said = probe(server.url, [ASK] * 3, "--warmup", "1", "--max-time", "30s").err

    what = f"sends 3 requests (after 1 to warm up) to {server.url}, model tiny"
    assert said.startswith(f"{what}, up to 3 at once, for at most 30 s")


# --- what fails --------------------------------------------------------------------------------

ERROR = json.dumps({"error": {"message": "engine is dead"}}).encode()


@pytest.mark.parametrize(
    ("behaviour", "failure", "told"),
    [
        (Behaviour(status=500, writes=[(0, ERROR)]), Failure.SERVER, "500: engine is dead"),
        (Behaviour(status=503), Failure.SERVER, "503"),
        (Behaviour(status=400, writes=[(0, ERROR)]), Failure.REJECTED, "400: engine is dead"),
        (Behaviour(status=401, writes=[(0, ERROR)]), Failure.UNAUTHORIZED, "401"),
        (Behaviour(status=403), Failure.UNAUTHORIZED, "403"),
        (Behaviour(status=404, writes=[(0, ERROR)]), Failure.NOT_FOUND, "404"),
        (Behaviour(status=302, headers={"Location": "http://127.0.0.1:1/"}), Failure.REDIRECTED, "302"),
        (Behaviour(kind="text/html", writes=[(0, b"<html>sign in")]), Failure.NOT_A_STREAM, "login page"),
        (Behaviour(kind="application/json", writes=[(0, b"{}")]), Failure.NOT_A_STREAM, "application/json"),
        (Behaviour(status=0), Failure.BROKE_OFF, "broke off"),
        (Behaviour(streamed("a b c")[:2], end="drop"), Failure.BROKE_OFF, "broke off"),
        (Behaviour(streamed("a b c")[:2]), Failure.BROKE_OFF, "after 2 chunks, without [DONE]"),
        (Behaviour([(0, b"data: {nonsense\n\n")]), Failure.BAD_CHUNK, "{nonsense"),
        (Behaviour([(0, b"data: [1]\n\n")]), Failure.BAD_CHUNK, "[1]"),
        (Behaviour([(0, event(json.loads(ERROR)))]), Failure.STREAM_ERROR, "engine is dead"),
        (Behaviour([(0, b"data: [DONE]\n\n")]), Failure.NO_ANSWER, "no chunk"),
        (Behaviour([(0, b": ping\n\n")]), Failure.NO_ANSWER, "without a chunk"),
        (Behaviour(streamed("a b c")[:2], end="hang"), Failure.TIMED_OUT, "within 0.2 s"),
    ],
    ids=lambda value: value.name.lower() if isinstance(value, Failure) else "",
)
def test_each_way_of_failing_is_counted_as_what_it_is(
    serve: Serve, probe: Probe, behaviour: Behaviour, failure: Failure, told: str
) -> None:
    def behave(path: str, body: dict[str, Any], number: int) -> Behaviour:
        return behaviour if body["prompt"] == "bad" else right(path, body, number)

    server = serve(behave)
    done = probe(server.url, [ASK, {"prompt": "bad", "id": "bad"}], "--timeout", "200ms")

    assert done.code == 0
    assert (done.report["answered"], failures(done.report)) == (1, {failure.value: 1})
    assert told in done.report["failures"][0]["example"]
    errors = done.recording.columns[names.PROBE_INSTANCE][names.ERROR].values
    assert sorted(errors) == [0.0, 1.0]
    assert [e.text for e in done.recording.events] == [f"bad: {failure.value}"]


@pytest.mark.parametrize(
    ("behave", "told", "hint"),
    [
        (always(status=401), "not authorized", ""),
        (always(status=404), "not found", "it serves: small, large"),
        (always(status=500), "server error", ""),
        (always(kind="text/html", writes=[(0, b"<html>")]), "no event stream", ""),
        (always(end="hang"), "no token in time", "overloaded"),
    ],
)
def test_where_every_request_fails_the_reason_is_told_and_no_file_is_left(
    serve: Serve, probe: Probe, behave: Behave, told: str, hint: str
) -> None:
    server = serve(behave, models=("small", "large"))

    done = probe(server.url, [ASK] * 3, "--model", "large", "--timeout", "200ms")

    assert done.code == 3
    assert f"no request was answered; 3 of 3: {told}" in done.err
    assert hint in done.err
    assert not done.path.exists()


def test_a_429_is_waited_out_as_told_and_counted(serve: Serve, probe: Probe) -> None:
    def behave(path: str, body: dict[str, Any], number: int) -> Behaviour:
        return (
            Behaviour(status=429, headers={"Retry-After": "0"}) if number == 1 else right(path, body, number)
        )

    server = serve(behave)
    report = probe(server.url, [ASK]).report

    assert (report["answered"], report["refused"], report["failed"]) == (1, 1, 0)
    assert server.served[1].received - server.served[0].received >= 1.0  # no server is asked again at once


def test_a_429_that_outlasts_the_time_is_a_failure_and_not_waited_for(serve: Serve, probe: Probe) -> None:
    def behave(path: str, body: dict[str, Any], number: int) -> Behaviour:
        if body["prompt"] == "bad":
            return Behaviour(status=429, headers={"Retry-After": "3600"})
        return right(path, body, number)

    report = probe(serve(behave).url, [ASK, {"prompt": "bad"}]).report

    assert failures(report) == {Failure.THROTTLED.value: 1}


# --- where it stops ----------------------------------------------------------------------------


def test_when_the_time_is_up_what_came_is_kept_and_the_rest_is_counted(serve: Serve, probe: Probe) -> None:
    def behave(path: str, body: dict[str, Any], number: int) -> Behaviour:
        return right(path, body, number) if number <= 2 else Behaviour(streamed("a b"), end="hang")

    server = serve(always_after(behave))
    began = time.monotonic()
    done = probe(server.url, [{"prompt": str(i)} for i in range(6)], "--concurrency", "1", "--max-time", "1s")

    assert time.monotonic() - began < 30
    report = done.report
    assert (report["answered"], report["cut"], report["ended"]) == (2, 4, "the time was up")
    assert len(done.recording.columns[names.PROBE_INSTANCE][names.ERROR].times) == 2


def always_after(behave: Behave) -> Behave:
    """The same, but that a hanging answer never says that it is done."""

    def other(path: str, body: dict[str, Any], number: int) -> Behaviour:
        told = behave(path, body, number)
        return Behaviour(told.writes[:1], end="hang") if told.end == "hang" else told

    return other


def test_ctrl_c_keeps_what_is_there(serve: Serve, tmp_path: Path) -> None:
    def behave(path: str, body: dict[str, Any], number: int) -> Behaviour:
        return right(path, body, number) if number <= 3 else Behaviour(streamed("a b")[:1], end="hang")

    server = serve(behave)
    requests, path = tmp_path / "r.jsonl", tmp_path / "probe.rec"
    requests.write_text("".join(json.dumps({"prompt": str(i)}) + "\n" for i in range(5)))
    command = [sys.executable, "-m", "vllmdoctor", "probe", server.url, "--requests", str(requests)]
    process = subprocess.Popen(
        [*command, "--concurrency", "1", "-o", str(path), "-f", "json"], stdout=subprocess.PIPE
    )
    while len(server.served) < 4:
        assert process.poll() is None
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=60)

    report = json.loads(out)
    assert process.returncode == 0
    assert (report["answered"], report["cut"], report["ended"]) == (3, 2, "Ctrl-C")


def test_a_disk_that_cannot_be_written_ends_the_probe_in_words(serve: Serve, tmp_path: Path) -> None:
    server = serve(always(streamed("a b", first_s=0.1)))
    with Http() as http:
        ready = prepare(server.url, (question("x"),) * 8, Settings(concurrency=2), http)

        with pytest.raises(UsageError, match="cannot write"):
            run(ready, tmp_path / "no-such-folder" / "probe.rec", http, None)

    assert len(server.served) < 8


# --- before anything is sent -------------------------------------------------------------------


def test_a_token_comes_from_the_environment_and_is_never_shown(
    serve: Serve, probe: Probe, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VLLMDOCTOR_TOKEN", "very-secret")
    server = serve(right)

    done = probe(server.url, [ASK], fmt="text")

    assert server.served[0].headers["authorization"] == "bearer very-secret"
    assert "very-secret" not in done.out + done.err + done.path.read_text()


def test_a_server_behind_tls_is_probed_like_any(
    serve: Serve, probe: Probe, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(CERTIFICATE))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(CERTIFICATE)
    server = serve(lambda *asked: Behaviour(streamed("it is 4", each_s=0.05)), tls=context)

    report = probe(server.url, [ASK] * 4, "--concurrency", "2").report

    assert (report["correct"], report["failed"]) == (4, 0)
    assert {s["name"]: s["count"] for s in report["spreads"]}[names.ITL] == 8


def test_a_login_page_or_a_401_in_front_of_everything_is_told(serve: Serve, probe: Probe) -> None:
    server = serve(right)
    server.pages = dict.fromkeys(("/v1/models", "/version"), (401, "text/html", b"<html>"))

    done = probe(server.url, [ASK])

    assert done.code == 3
    assert "VLLMDOCTOR_TOKEN" in done.err
    assert server.served == []


@pytest.mark.parametrize(
    ("models", "options", "code", "told"),
    [
        (("a", "b"), (), 2, "--model NAME"),
        (("alpha", "b"), ("--model", "alpa"), 2, "did you mean 'alpha'?"),
        ((), (), 2, "does not say which models"),
        (("a", "b"), ("--model", "b"), 0, ""),
    ],
)
def test_the_model_is_the_servers_only_one_or_must_be_said(
    serve: Serve, probe: Probe, models: tuple[str, ...], options: tuple[str, ...], code: int, told: str
) -> None:
    done = probe(serve(right, models=models).url, [ASK], *options)

    assert done.code == code
    assert told in done.err


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("--concurrency", "0"), "a concurrency is 1 to 512"),
        (("--concurrency", "100000"), "a concurrency is 1 to 512"),
        (("--rate", "-1"), "a rate is a number"),
        (("--rate", "0"), "a rate is a number"),
        (("--rate", "nan"), "a rate is a number"),
        (("--max-requests", "0"), "0 is not in the range"),
        (("--max-requests", "99999999"), "99,999,999 requests are more than a probe sends (1,000,000)"),
        (("--warmup", "99999999"), "99,999,999 requests are more than a probe sends (1,000,000)"),
        (("--max-time", "0"), "longer than nothing"),
        (("--max-time", "soon"), "not a duration"),
        (("--fail-on", "error"), "no occasion to fail named 'error'"),
    ],
)
def test_a_wrong_option_sends_nothing(
    serve: Serve, probe: Probe, options: tuple[str, ...], told: str
) -> None:
    server = serve(right)

    done = probe(server.url, [ASK], *options)

    assert (done.code, server.served) == (2, [])
    assert told in done.err


def test_a_page_that_lists_no_models_is_told_with_what_it_was(serve: Serve, probe: Probe) -> None:
    server = serve(right)
    server.pages["/v1/models"] = (429, "text/plain", b"busy")

    done = probe(server.url, [ASK])

    assert done.code == 2
    assert f"does not say which models it serves: {server.url}/v1/models answered 429" in done.err
    assert "is this the server and its port?" in done.err


@pytest.mark.skipif(sys.platform == "win32", reason="pseudo-terminals are POSIX")
@pytest.mark.parametrize("behave", [right, always(status=500)])
def test_at_a_terminal_nothing_of_the_progress_stays(serve: Serve, tmp_path: Path, behave: Behave) -> None:
    import pty

    requests, (ours, theirs) = tmp_path / "one.jsonl", pty.openpty()
    requests.write_text(json.dumps(ASK))
    command = [sys.executable, "-m", "vllmdoctor", "probe", serve(behave).url, "--requests", str(requests)]
    command += ["--concurrency", "1", "-o", str(tmp_path / "x.rec")]
    subprocess.run(command, stdout=theirs, stderr=theirs, check=False)
    seen = os.read(ours, 1 << 16).decode()
    os.close(ours)
    os.close(theirs)

    assert "1 of 1 requests" in seen
    shown = [line.rpartition("\r\x1b[K")[2] for line in seen.replace("\r\n", "\n").split("\n")]
    assert not any("1 of 1 requests" in line for line in shown)


def test_a_server_that_is_not_there_is_told_at_once(probe: Probe) -> None:
    done = probe("http://127.0.0.1:9", [ASK])

    assert done.code == 3
    assert "refused the connection" in done.err


def test_nothing_is_written_over(serve: Serve, probe: Probe, tmp_path: Path) -> None:
    server = serve(right)
    probe(server.url, [ASK])
    (tmp_path / "other.rec").write_text("mine")

    done = probe(server.url, [ASK], "-o", str(tmp_path / "other.rec"))

    assert done.code == 2
    assert (tmp_path / "other.rec").read_text() == "mine"


@pytest.mark.parametrize(("answer", "code"), [("it is 4", 0), ("it is 5", 1)])
def test_fail_on_wrong_sets_the_exit_code(serve: Serve, probe: Probe, answer: str, code: int) -> None:
    assert probe(serve(always(streamed(answer))).url, [ASK], "--fail-on", "wrong").code == code


@pytest.mark.parametrize(
    "url", ["{}", "{}/", "{}/v1", "{}/v1/", "{}/metrics"], ids=["bare", "slash", "v1", "v1-slash", "metrics"]
)
def test_the_address_may_be_given_with_its_usual_endings(serve: Serve, probe: Probe, url: str) -> None:
    server: Server = serve(right)

    assert probe(url.format(server.url), [ASK]).code == 0
    assert server.served[0].path == "/v1/completions"


def test_an_answer_cannot_speak_to_the_terminal(serve: Serve, probe: Probe) -> None:
    server = serve(always(streamed("\x1b[2J\u202e it \n is [bold]5[/bold] " + "x" * 200)))

    out = probe(server.url, [{**ASK, "id": "a\x1bb"}], fmt="text").out

    assert "\x1b" not in out
    assert "\u202e" not in out
    assert "[bold]5[/bold]" in out
    assert max(map(len, out.splitlines())) <= 100


def test_what_cannot_be_measured_is_nan_and_not_zero(serve: Serve, probe: Probe) -> None:
    silent = [(0.0, event({"choices": [{"text": "", "finish_reason": "length"}]}) + b"data: [DONE]\n\n")]

    report = probe(serve(always(silent)).url, [{"prompt": "x"}]).report

    spreads = {s["name"]: s for s in report["spreads"]}
    assert (spreads[names.TTFT]["count"], spreads[names.TTFT]["p50"]) == (0, None)
    assert report["output_rate"] is None
    assert not math.isnan(report["seconds"])
