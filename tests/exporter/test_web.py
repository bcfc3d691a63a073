"""The page over HTTP: paths, limits, TLS and users, and every way to write the file wrong."""

import base64
import http.client
import os
import socket
import ssl
import threading
import urllib.error
import urllib.request
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import bcrypt
import pytest
from tests.prometheus.store import free_port

from vllmdoctor.errors import UsageError
from vllmdoctor.exporting.metrics import application
from vllmdoctor.exporting.state import State, TargetState
from vllmdoctor.exporting.web import MOST_REQUESTS, Web, parse_listen
from vllmdoctor.exporting.webconfig import WebConfig, read_web_config

if TYPE_CHECKING:
    from wsgiref.types import StartResponse, WSGIEnvironment

PEM = Path(__file__).parent.parent / "sources" / "self-signed.pem"
STATE = State(targets=(TargetState("http://10.0.0.1:8000", True, 1, 0, 1.0),))
PASSWORD = "not-on-a-command-line"
HASH = bcrypt.hashpw(PASSWORD.encode(), bcrypt.gensalt(4)).decode().replace("$2b$", "$2y$")


@contextmanager
def served(config: WebConfig | None = None, *, well: bool = True) -> Iterator[Web]:
    web = Web("127.0.0.1:0", application(lambda: STATE, lambda: 0.0), lambda: well, config)
    try:
        yield web
    finally:
        web.close()


def get(url: str, *, tls: ssl.SSLContext | None = None, **headers: str) -> tuple[int, str]:
    request = urllib.request.Request(url, headers=headers)
    try:
        with urllib.request.urlopen(request, context=tls, timeout=10) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def basic(user: str, password: str) -> str:
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "web.yml"
    path.write_text(text)
    return path


def test_metrics_health_and_a_page_for_people() -> None:
    with served() as web:
        status, text = get(f"{web.url}/metrics")
        assert status == 200
        assert 'vllmdoctor_up{target="http://10.0.0.1:8000"} 1.0' in text
        assert "process_resident_memory_bytes " in text
        assert get(f"{web.url}/-/healthy") == (200, "healthy\n")
        assert get(web.url)[0] == 200
        assert get(f"{web.url}/secret")[0] == 404
        request = urllib.request.Request(f"{web.url}/metrics", method="POST", data=b"x")
        with pytest.raises(urllib.error.HTTPError, match="405"):
            urllib.request.urlopen(request)


def test_a_loop_that_is_stuck_is_not_healthy() -> None:
    with served(well=False) as web:
        assert get(f"{web.url}/-/healthy")[0] == 503


def test_openmetrics_is_given_to_who_asks_for_it() -> None:
    with served() as web:
        _, text = get(f"{web.url}/metrics", Accept="application/openmetrics-text; version=1.0.0")

    assert text.endswith("# EOF\n")


def test_requests_under_way_end_before_the_exporter_does_and_the_port_is_free() -> None:
    begun, go = threading.Event(), threading.Event()

    def slow(_: "WSGIEnvironment", start: "StartResponse") -> Iterable[bytes]:
        begun.set()
        go.wait(10)
        start("200 OK", [("Content-Type", "text/plain")])
        return [b"whole\n"]

    web = Web("127.0.0.1:0", slow, lambda: True)
    answers: list[tuple[int, str]] = []
    asking = threading.Thread(target=lambda: answers.append(get(f"{web.url}/metrics")))
    asking.start()
    begun.wait(10)
    closing = threading.Thread(target=web.close)
    closing.start()
    go.set()
    closing.join(10)
    asking.join(10)

    assert answers == [(200, "whole\n")]
    port = int(web.url.rpartition(":")[2])
    with socket.socket() as again:
        again.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        again.bind(("127.0.0.1", port))


def test_more_requests_than_there_may_be_are_refused_and_the_next_is_served() -> None:
    with served() as web:
        place = ("127.0.0.1", int(web.url.rpartition(":")[2]))
        silent = [socket.create_connection(place, timeout=10) for _ in range(MOST_REQUESTS)]
        with socket.create_connection(place, timeout=10) as late:
            assert late.recv(12) == b"HTTP/1.0 503"
        for each in silent:
            each.close()
        status = 503
        for _ in range(100):
            try:
                status, _text = get(f"{web.url}/-/healthy")
            except (OSError, http.client.HTTPException):
                continue
            if status == 200:
                break
    assert status == 200


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("127.0.0.1:9810", ("127.0.0.1", 9810)),
        (":9810", ("", 9810)),
        ("[::1]:9810", ("::1", 9810)),
        ("doctor.local:0", ("doctor.local", 0)),
    ],
)
def test_addresses_to_listen_on(text: str, place: tuple[str, int]) -> None:
    assert parse_listen(text) == place


@pytest.mark.parametrize("text", ["9810", "host", "::1:9810", "host:99999", "host:http", ""])
def test_what_is_no_address_is_said(text: str) -> None:
    with pytest.raises(UsageError, match="not an address to listen on"):
        parse_listen(text)


def test_a_port_that_is_taken_is_one_line() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(UsageError, match=r"cannot listen on 127.0.0.1:\d+: address already in use"):
            Web(f"127.0.0.1:{taken.getsockname()[1]}", application(lambda: STATE, lambda: 0.0), lambda: True)


def test_a_host_that_is_not_ours_is_one_line() -> None:
    with pytest.raises(UsageError, match=r"cannot listen on 192\.0\.2\.1"):
        Web(f"192.0.2.1:{free_port()}", application(lambda: STATE, lambda: 0.0), lambda: True)


# --- the web config file -------------------------------------------------------------------


def test_users_with_bcrypt_hashes_as_htpasswd_makes_them(tmp_path: Path) -> None:
    config = read_web_config(written(tmp_path, f"basic_auth_users:\n  alice: {HASH}\n"))
    with served(config) as web:
        page = f"{web.url}/metrics"
        assert get(page)[0] == 401
        assert get(f"{web.url}/-/healthy")[0] == 200  # a probe has no login
        assert get(page, Authorization=basic("alice", PASSWORD))[0] == 200
        assert get(page, Authorization=basic("alice", PASSWORD))[0] == 200  # remembered now
        assert get(page, Authorization=basic("alice", "wrong"))[0] == 401
        assert get(page, Authorization=basic("bob", PASSWORD))[0] == 401
        assert get(page, Authorization=basic("nobody", ""))[0] == 401
        assert get(page, Authorization="Basic no-base64")[0] == 401
        assert get(page, Authorization="Bearer x")[0] == 401
    assert HASH not in repr(config)


def test_tls_with_the_certificate_of_the_file_and_a_client_that_is_slow_holds_up_no_other(
    tmp_path: Path,
) -> None:
    config = read_web_config(
        written(
            tmp_path, f"tls_server_config:\n  cert_file: {PEM}\n  key_file: {PEM}\n  min_version: TLS13\n"
        )
    )
    trust = ssl.create_default_context(cafile=str(PEM))
    with served(config) as web:
        port = int(web.url.rpartition(":")[2])
        assert web.url.startswith("https://")
        with socket.create_connection(("127.0.0.1", port)):  # never greets
            assert get(f"https://127.0.0.1:{port}/-/healthy", tls=trust) == (200, "healthy\n")
        trust.minimum_version = trust.maximum_version = ssl.TLSVersion.TLSv1_2
        with pytest.raises(urllib.error.URLError):
            get(f"https://127.0.0.1:{port}/-/healthy", tls=trust)


def test_a_certificate_that_was_renewed_is_used_and_one_that_is_broken_is_not(tmp_path: Path) -> None:
    pem = tmp_path / "server.pem"
    pem.write_bytes(PEM.read_bytes())
    config = read_web_config(
        written(tmp_path, "tls_server_config: {cert_file: server.pem, key_file: server.pem}")
    )
    assert config.tls is not None
    first = config.tls.context
    assert config.tls.context is first
    os.utime(pem, ns=(1, 1))
    second = config.tls.context
    assert second is not first
    pem.write_text("half a certifi")
    assert config.tls.context is second


def test_a_client_certificate_where_one_is_asked_for(tmp_path: Path) -> None:
    lines = ("tls_server_config:", f"cert_file: {PEM}", f"key_file: {PEM}", f"client_ca_file: {PEM}")
    text = "\n  ".join((*lines, "client_auth_type: RequireAndVerifyClientCert"))
    with served(read_web_config(written(tmp_path, text))) as web:
        trust = ssl.create_default_context(cafile=str(PEM))
        with pytest.raises(OSError):
            get(f"{web.url}/metrics", tls=trust)
        trust.load_cert_chain(PEM)
        assert get(f"{web.url}/metrics", tls=trust)[0] == 200


def test_paths_are_relative_to_the_file(tmp_path: Path) -> None:
    (tmp_path / "server.pem").write_bytes(PEM.read_bytes())
    text = "tls_server_config: {cert_file: server.pem, key_file: server.pem}"

    assert read_web_config(written(tmp_path, text)).tls is not None


def test_an_empty_file_guards_nothing(tmp_path: Path) -> None:
    assert read_web_config(written(tmp_path, "")) == WebConfig()


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("basic_auth_users: {alice: secret}", "user alice is no bcrypt hash"),
        ("basic_auth_users: {alice: 12}", "user alice is no bcrypt hash"),
        ("basic_auth_users: [alice]", "basic_auth_users must be a mapping"),
        ("[]", "it must be a mapping"),
        ("a: [", "is no YAML"),
        ("tls_server_config: {cert_file: x}", "needs cert_file and key_file"),
        ("tls_server_config: {cert_file: x, key_file: y}", "which is not there"),
        ("tls_server_config: {cert_file: web.yml, key_file: web.yml}", "cannot be used"),
        (f"tls_server_config: {{cert_file: {PEM}, key_file: {PEM}, client_ca_file: {PEM}}}", "go together"),
        (
            f"tls_server_config: {{cert_file: {PEM}, key_file: {PEM}, client_auth_type: Require}}",
            "no client_auth_type named 'Require'",
        ),
        (f"tls_server_config: {{cert_file: {PEM}, key_file: {PEM}, min_version: TLS10}}", "'TLS10'"),
        (f"tls_server_config: {{cert_file: {PEM}, key_file: {PEM}, cipher_suites: []}}", "is not supported"),
        ("http_server_config: {http2: false}", "http_server_config is not supported"),
    ],
)
def test_what_is_wrong_with_the_file_is_one_line_without_a_secret(
    tmp_path: Path, text: str, says: str
) -> None:
    with pytest.raises(UsageError) as caught:
        read_web_config(written(tmp_path, text))
    assert says in caught.value.message
    assert "\n" not in caught.value.message
    assert "secret" not in caught.value.message


def test_a_file_that_is_not_there_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"cannot read .*nowhere.yml: no such file"):
        read_web_config(tmp_path / "nowhere.yml")
