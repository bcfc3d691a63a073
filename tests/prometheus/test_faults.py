"""Whatever goes wrong on the way to a Prometheus: an error in words, or a report that says what is missing.

Each within the time-out and two seconds.
"""

import json
import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from tests.prometheus import fleet
from tests.prometheus.conftest import Filled
from tests.prometheus.gateway import Gateway, Reply
from tests.prometheus.store import free_port

from vllmdoctor.diagnosis import diagnose
from vllmdoctor.errors import (
    EXIT_BLIND,
    BlindError,
    NotEnoughData,
    NotVllm,
    Unauthorized,
    Unreachable,
    UsageError,
    VllmDoctorError,
)
from vllmdoctor.model import Gap
from vllmdoctor.recording import Recording
from vllmdoctor.sources import History, Window, gather_targets

TIMEOUT_S = 2.0
Query = dict[str, list[str]]
ROLLED = History(window_s=3600, at=fleet.END, match='namespace="rolled"')


@pytest.fixture(autouse=True)
def short_timeout(monkeypatch: pytest.MonkeyPatch, no_settings: None) -> None:
    monkeypatch.setenv("VLLMDOCTOR_PROM_TIMEOUT", f"{TIMEOUT_S:g}s")


@contextmanager
def in_time() -> Iterator[None]:
    start = time.monotonic()
    yield
    assert time.monotonic() - start < TIMEOUT_S + 2


def read(target: str, history: History = ROLLED, clock: Callable[[], float] | None = None) -> Recording:
    window = Window(history=history)
    with in_time():
        return gather_targets([target], window if clock is None else replace(window, clock=clock))


def failure(target: str, history: History = ROLLED) -> VllmDoctorError:
    with pytest.raises(VllmDoctorError) as caught, in_time():
        gather_targets([target], Window(history=history))
    return caught.value


def always(status: int, body: bytes = b"", kind: str = "application/json") -> Callable[[str, Query], Reply]:
    return lambda path, query: Reply(status, body, kind)


def on(ending: str, reply: Callable[[str, Query, Reply], Reply]) -> Callable[[str, Query, Reply], Reply]:
    """Spoil only the answers of one page of the API."""
    return lambda path, query, given: reply(path, query, given) if path.endswith(ending) else given


def own_gaps(recording: Recording, target: str) -> list[Gap]:
    return [gap for gap in recording.gaps if gap.origin == target.removeprefix("prom+")]


# --- nothing can be had: exit 3 -----------------------------------------------------------------


def test_a_refused_connection() -> None:
    error = failure(f"prom+http://127.0.0.1:{free_port()}")

    assert (type(error), error.exit_code) == (Unreachable, EXIT_BLIND)
    assert error.message.endswith("refused the connection")


def test_a_name_that_no_host_has() -> None:
    error = failure("prom+http://no-such-host.invalid:9090")

    assert (type(error), error.message) == (Unreachable, "no host named 'no-such-host.invalid'")


def test_a_certificate_that_nobody_signed(one: Filled, tmp_path: Path) -> None:
    certificate, key = self_signed(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    gateway = Gateway(one.url, context)
    try:
        error = failure(gateway.target)
    finally:
        gateway.close()

    assert type(error) is Unreachable
    assert "TLS failed" in error.message
    assert "VLLMDOCTOR_PROM_CA_FILE" in error.hint


def test_plain_http_where_tls_was_asked_for(gateway: Gateway) -> None:
    error = failure(gateway.target.replace("http:", "https:"))

    assert type(error) is Unreachable
    assert "TLS failed" in error.message


@pytest.mark.parametrize("status", [401, 403])
def test_an_answer_that_wants_a_login(gateway: Gateway, status: int) -> None:
    gateway.before = always(status, b"Unauthorized", "text/plain")

    error = failure(gateway.target)

    assert (type(error), error.message) == (Unauthorized, f"http://{gateway.place} answered {status}")
    assert "VLLMDOCTOR_PROM_TOKEN" in error.hint


def test_a_wrong_prefix(gateway: Gateway) -> None:
    gateway.before = always(404, b"404 page not found", "text/plain")

    error = failure(gateway.target + "/wrong")

    assert (type(error), error.exit_code) == (NotVllm, EXIT_BLIND)
    assert error.message.endswith("/wrong/api/v1/query answered 404, there is no such page")
    assert "prefix" in error.hint


def test_a_server_that_is_not_ready(gateway: Gateway) -> None:
    gateway.before = always(503, b"Service Unavailable", "text/plain")

    error = failure(gateway.target)

    assert type(error) is Unreachable
    assert error.message == f"http://{gateway.place} answered 503: Service Unavailable"
    assert len(gateway.requests) == 2  # it may have been a moment: asked once more


def test_a_server_that_never_answers() -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        error = failure(f"prom+http://127.0.0.1:{silent.getsockname()[1]}")

    assert type(error) is Unreachable
    assert error.message.endswith("did not answer within 2 s")


def test_an_answer_that_trickles() -> None:
    trickle = trickling()
    try:
        error = failure(f"prom+http://127.0.0.1:{trickle.getsockname()[1]}")
    finally:
        trickle.close()

    assert type(error) is Unreachable
    assert error.message.endswith("took more than 2 s to answer")


def test_json_that_is_cut_off(gateway: Gateway) -> None:
    gateway.spoil = lambda path, query, reply: replace(reply, body=reply.body[:-20])

    error = failure(gateway.target)

    assert type(error) is NotVllm
    assert "cannot be read: " in error.message


def test_a_connection_that_ends_in_the_middle(gateway: Gateway) -> None:
    gateway.spoil = lambda path, query, reply: replace(reply, cut=len(reply.body) // 2)

    error = failure(gateway.target)

    assert type(error) is Unreachable
    assert "broke off" in error.message


def test_a_login_page(gateway: Gateway) -> None:
    gateway.before = always(200, b"<html><body>Sign in</body></html>", "text/html")

    error = failure(gateway.target)

    assert (type(error), error.message) == (NotVllm, f"http://{gateway.place} answered with an HTML page")
    assert "login page" in error.hint


def test_a_window_without_any_sample(one: Filled) -> None:
    error = failure(one.target, replace(ROLLED, at=fleet.START - 86400))

    assert isinstance(error, NotVllm | NotEnoughData)
    assert "in this window" in error.message


def test_matchers_that_nothing_has(one: Filled) -> None:
    error = failure(one.target, replace(ROLLED, match='namespace="no-such"'))

    assert type(error) is NotVllm
    assert error.message == f'{one.url} holds no vLLM metrics with namespace="no-such" in this window'
    assert error.hint.startswith("without --match there is something")


def test_matchers_that_are_none(one: Filled) -> None:
    error = failure(one.target, replace(ROLLED, match="namespace=inference"))

    assert type(error) is UsageError
    assert "--match" in error.hint


def test_queries_that_are_refused_however_small(gateway: Gateway) -> None:
    said = b'{"status":"error","errorType":"422","error":"too many points"}'
    gateway.spoil = on("query_range", lambda path, query, reply: Reply(422, said))

    error = failure(gateway.target)

    assert isinstance(error, BlindError)
    assert "too many points" in error.message


# --- something can be had: a report with gaps ---------------------------------------------------


def test_slow_queries_do_not_take_away_what_the_others_brought(gateway: Gateway) -> None:
    stop = threading.Event()

    def slow(path: str, query: Query, reply: Reply) -> Reply:
        late = "time_to_first_token" in query["query"][0] and "_bucket" in query["query"][0]
        return replace(reply, wait=lambda: stop.wait(TIMEOUT_S + 3)) if late else reply

    gateway.spoil = on("query_range", slow)
    recording = read(gateway.target)
    stop.set()

    assert len(recording.instances) == 6
    (gap,) = [g for g in own_gaps(recording, gateway.target) if "histogram of ttft" in g.what]
    assert "did not answer within 2 s" in gap.why
    assert diagnose(recording).gaps


def test_a_server_that_goes_away_in_the_middle(gateway: Gateway) -> None:
    asked: list[str] = []

    def gone(path: str, query: Query, reply: Reply) -> Reply:
        asked.append(path)
        return reply if len(asked) < 4 else Reply(503, b"shutting down", "text/plain")

    gateway.spoil = on("query_range", gone)
    recording = read(gateway.target)

    assert recording.instances
    assert any("answered 503: shutting down" in gap.why for gap in own_gaps(recording, gateway.target))


def test_partial_answers_are_told_with_the_servers_own_words(gateway: Gateway) -> None:
    warning = "No StoreAPIs matched: store-gateway-1 is not reachable"

    def warn(path: str, query: Query, reply: Reply) -> Reply:
        return replace(reply, body=json.dumps(json.loads(reply.body) | {"warnings": [warning]}).encode())

    gateway.spoil = on("query_range", warn)
    recording = read(gateway.target)

    (gap,) = [g for g in own_gaps(recording, gateway.target) if g.why == warning]
    assert gap.what.startswith("part of what was asked")
    assert len(recording.instances) == 6


def test_half_of_the_pods_missing_from_the_answers(gateway: Gateway) -> None:
    def halve(path: str, query: Query, reply: Reply) -> Reply:
        fields = json.loads(reply.body)
        fields["data"]["result"] = [
            row
            for row in fields["data"]["result"]
            if row["metric"].get("pod", "") not in fleet.NEW
            and row["metric"].get("exported_pod", "") not in fleet.NEW
        ]
        return replace(reply, body=json.dumps(fields).encode())

    gateway.spoil = on("query_range", halve)
    recording = read(gateway.target)

    assert recording.instances == tuple(sorted(fleet.OLD))
    (gap,) = [g for g in own_gaps(recording, gateway.target) if "servers" in g.what]
    assert gap.what.startswith(f"3 of 6 servers: {min(fleet.NEW)}")


def test_companions_that_cannot_be_had_are_a_gap(gateway: Gateway) -> None:
    def fail(path: str, query: Query, reply: Reply) -> Reply:
        return Reply(500, b"no such index", "text/plain") if len(query["match[]"]) > 1 else reply

    gateway.spoil = on("series", fail)
    recording = read(gateway.target)

    assert len(recording.instances) == 6
    (gap,) = own_gaps(recording, gateway.target)
    assert gap.what == "containers, GPUs and replicas"


@pytest.mark.parametrize(("ahead", "word"), [(3600.0, "ahead of"), (-3600.0, "behind")])
def test_a_clock_that_is_wrong_is_told_and_the_servers_is_used(one: Filled, ahead: float, word: str) -> None:
    recording = read(one.target, clock=lambda: time.time() + ahead)

    (gap,) = [g for g in own_gaps(recording, one.target) if g.what == "clock"]
    assert word in gap.why
    assert recording.end == pytest.approx(fleet.END, abs=30)


def test_a_moment_of_trouble_leaves_no_trace(gateway: Gateway) -> None:
    bad = [Reply(502, b"bad gateway", "text/plain"), Reply(200, b'{"status":"success","data":{"resu')]
    asked: set[str] = set()

    def once(path: str, query: Query, reply: Reply) -> Reply:
        text = query["query"][0]
        spoiled = bad and text not in asked
        asked.add(text)
        return bad.pop() if spoiled else reply

    gateway.spoil = on("query_range", once)
    recording = read(gateway.target)

    assert bad == []
    assert own_gaps(recording, gateway.target) == []


# --- targets ------------------------------------------------------------------------------------


@pytest.mark.parametrize("target", ["prom+http://", "prom+http://host:port", "prom+http://h:1/?a=b"])
def test_an_address_that_is_none_is_said_before_anything_is_asked(target: str) -> None:
    assert type(failure(target)) is UsageError


def self_signed(folder: Path) -> tuple[Path, Path]:
    certificate, key = folder / "cert.pem", folder / "key.pem"
    made = subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"),
            *("-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"),
            *("-keyout", str(key), "-out", str(certificate)),
        ],
        capture_output=True,
    )
    assert made.returncode == 0
    return certificate, key


def trickling() -> socket.socket:
    """A server that sends a byte of its answer now and then."""
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen()

    def serve() -> None:
        try:
            client, _ = listener.accept()
            with client:
                client.recv(65536)
                client.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")
                while True:
                    client.sendall(b" ")
                    time.sleep(0.1)
        except OSError:
            return

    threading.Thread(target=serve, daemon=True).start()
    return listener
