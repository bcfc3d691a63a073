"""A live server is read over real sockets, and what goes wrong is told in words with a next step."""

import gzip
import socket
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import vllmdoctor.sources.http as door
from vllmdoctor.errors import NotVllm, Unauthorized, Unreachable, UsageError, VllmDoctorError
from vllmdoctor.exposition import parse_page
from vllmdoctor.model import Event, Fact, Gap, Observation, Snapshot
from vllmdoctor.sources import Window, open_source
from vllmdoctor.sources.scrape import ScrapeSource

if TYPE_CHECKING:
    from tests.sources.conftest import Server

CERTIFICATE = Path(__file__).parent / "self-signed.pem"
ONCE = Window(duration_s=0, interval_s=1, clock=lambda: 1795960204.21912)


def scrapes(count: int) -> Window:
    """So many scrapes, without waiting for them."""
    clock = iter(range(1000, 2000))
    return Window(count - 1, 1, lambda: next(clock), lambda _: None)


def read(url: str, window: Window = ONCE) -> list[Observation]:
    return list(open_source(url).read(window))


def failure(url: str) -> VllmDoctorError:
    with pytest.raises(VllmDoctorError) as caught:
        read(url)
    return caught.value


def test_a_scrape_has_the_page_the_time_and_the_version(server: "Server", page: bytes) -> None:
    server.serve("/metrics", 200, page)
    server.serve("/version", 200, b'{"version":"0.32.0"}')
    instance = f"127.0.0.1:{server.port}"
    assert read(server.url) == [
        Fact("vllm_version", "0.32.0", "/version", instance),
        Snapshot(1795960204.219, instance, parse_page(page.decode()).values),
    ]


def test_the_version_is_asked_once_and_a_server_without_it_is_a_gap(server: "Server", page: bytes) -> None:
    server.serve("/metrics", 200, page)
    observations = read(server.url, scrapes(3))
    assert [path for path, _ in server.requests] == ["/metrics", "/version", "/metrics", "/metrics"]
    instance = f"127.0.0.1:{server.port}"
    why = f"{server.url}/version answered 404, there is no such page"
    assert observations[0] == Gap(instance, "vLLM's version", why, "give it with --vllm-version")
    assert [o.time for o in observations if isinstance(o, Snapshot)] == [1000, 1001, 1002]


@pytest.mark.parametrize("body", [b"[]", b'{"version": 3}', b"no json", b'{"version": ""}', b"[" * 100_000])
def test_a_version_that_is_none_is_a_gap(server: "Server", page: bytes, body: bytes) -> None:
    server.serve("/metrics", 200, page)
    server.serve("/version", 200, body)
    assert isinstance(read(server.url)[0], Gap)


def test_a_path_that_is_given_is_respected(server: "Server", page: bytes) -> None:
    server.serve("/custom/stats", 200, page)
    server.serve("/custom/version", 200, b'{"version":"0.1"}')
    assert isinstance(read(f"{server.url}/custom/stats")[0], Fact)
    assert [path for path, _ in server.requests] == ["/custom/stats", "/custom/version"]


@pytest.mark.parametrize("given", ["/model-a", "/model-a/", "/model-a/metrics"])
def test_a_path_may_be_a_proxys_prefix(server: "Server", page: bytes, given: str) -> None:
    server.serve("/model-a/metrics", 200, page)
    server.serve("/model-a/version", 200, b'{"version":"0.32.0"}')
    fact, snapshot = read(server.url + given)
    assert isinstance(snapshot, Snapshot)
    assert snapshot.instance == f"127.0.0.1:{server.port}/model-a"
    assert isinstance(fact, Fact)


def test_host_and_port_alone_are_enough(server: "Server", page: bytes) -> None:
    server.serve("/metrics", 200, page)
    assert isinstance(read(f"127.0.0.1:{server.port}")[1], Snapshot)


def test_a_packed_answer_is_unpacked(server: "Server", page: bytes) -> None:
    server.serve("/metrics", 200, gzip.compress(page), Content_Encoding="gzip")
    assert isinstance(read(server.url)[1], Snapshot)


def test_the_token_is_sent_and_never_shown(
    server: "Server", page: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VLLMDOCTOR_TOKEN", "s3cret")
    server.serve("/metrics", 401, b"")
    error = failure(server.url)
    assert server.requests[0][1]["Authorization"] == "Bearer s3cret"
    assert isinstance(error, Unauthorized)
    assert error.hint == "the token in VLLMDOCTOR_TOKEN was sent and refused"
    assert "s3cret" not in error.message + error.hint


def test_a_token_that_no_header_can_carry_is_told_and_not_shown(
    server: "Server", monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VLLMDOCTOR_TOKEN", "töken\nx")
    error = failure(server.url)
    assert isinstance(error, UsageError)
    assert error.message == "VLLMDOCTOR_TOKEN holds what a header cannot carry"


@pytest.mark.parametrize("status", [401, 403])
def test_without_a_token_its_variable_is_named(server: "Server", status: int) -> None:
    server.serve("/metrics", status, b"")
    error = failure(server.url)
    assert isinstance(error, Unauthorized)
    assert error.message == f"{server.url}/metrics answered {status}"
    assert error.hint == "put a token into the environment variable VLLMDOCTOR_TOKEN"


def test_404_names_the_path_and_the_flag_that_hides_metrics(server: "Server") -> None:
    error = failure(server.url)
    assert isinstance(error, NotVllm)
    assert error.message == f"{server.url}/metrics answered 404, there is no such page"
    assert "/metrics" in error.hint
    assert "--disable-log-stats" in error.hint


@pytest.mark.parametrize("body", [b"<!DOCTYPE html><html></html>", b"\n <html>login</html>"])
def test_an_html_page_is_told(server: "Server", body: bytes) -> None:
    server.serve("/metrics", 200, body, "text/html")
    error = failure(server.url)
    assert isinstance(error, NotVllm)
    assert error.message == f"{server.url}/metrics answered with an HTML page"


def test_an_empty_page_is_told(server: "Server") -> None:
    server.serve("/metrics", 200, b"")
    error = failure(server.url)
    assert isinstance(error, NotVllm)
    assert error.message == f"{server.url}/metrics answered with an empty page"


@pytest.mark.parametrize(
    ("body", "what"),
    [(b'{"object": "list"}', "JSON"), (b"# HELP a b\nhello world", "text that holds no metric")],
)
def test_another_answer_is_told(server: "Server", body: bytes, what: str) -> None:
    server.serve("/metrics", 200, body)
    assert failure(server.url).message == f"{server.url}/metrics answered with {what}"


def test_a_server_in_trouble_is_told(server: "Server") -> None:
    server.serve("/metrics", 503, b"")
    error = failure(server.url)
    assert isinstance(error, Unreachable)
    assert error.message == f"{server.url}/metrics answered 503"


def test_a_refused_connection_is_told(server: "Server") -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    error = failure(f"http://127.0.0.1:{port}")
    assert isinstance(error, Unreachable)
    assert error.message == f"http://127.0.0.1:{port}/metrics refused the connection"


def test_a_host_that_does_not_exist_is_told(server: "Server") -> None:
    error = failure("http://no-such-host.invalid:8000")
    assert isinstance(error, Unreachable)
    assert error.message == "no host named 'no-such-host.invalid'"


def test_a_certificate_that_nobody_signed_is_told_with_what_to_do(tls_server: "Server") -> None:
    error = failure(tls_server.url)
    assert isinstance(error, Unreachable)
    assert "TLS failed: certificate verify failed: self-signed certificate" in error.message
    assert "SSL_CERT_FILE" in error.hint


def test_a_certificate_that_is_trusted_by_what_the_hint_names_is_taken(
    tls_server: "Server", page: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(CERTIFICATE))
    tls_server.serve("/metrics", 200, page)
    assert any(isinstance(o, Snapshot) for o in read(tls_server.url))


def test_https_to_a_plain_server_is_told(server: "Server") -> None:
    error = failure(server.url.replace("http:", "https:"))
    assert isinstance(error, Unreachable)
    assert "TLS failed" in error.message
    assert error.hint == "does it speak plain HTTP there? try http://"


def test_a_server_that_does_not_answer_in_time_is_told(server: "Server") -> None:
    server.routes["/metrics"] = lambda _: time.sleep(1)
    url = f"{server.url}/metrics"
    with door.Http(read_s=0.2) as http, pytest.raises(Unreachable) as caught:
        http.get(url)
    assert caught.value.message == f"{url} did not answer within 0.2 s"
    assert "too busy" in caught.value.hint


def test_a_server_that_drips_is_not_waited_for(server: "Server", monkeypatch: pytest.MonkeyPatch) -> None:
    def drip(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.send_header("Content-Length", "1000000")
        handler.end_headers()
        for _ in range(100):
            handler.wfile.write(b"a 1\n" * 300)
            time.sleep(0.02)

    monkeypatch.setattr(door, "WHOLE_S", 0.1)
    server.routes["/metrics"] = drip
    error = failure(server.url)
    assert isinstance(error, Unreachable)
    assert error.message == f"{server.url}/metrics took more than 0.1 s to answer"


def test_a_page_of_two_hundred_megabytes_is_refused_before_it_fills_the_memory(server: "Server") -> None:
    sent = 0

    def flood(handler: BaseHTTPRequestHandler) -> None:
        nonlocal sent
        handler.send_response(200)
        handler.send_header("Content-Length", str(200 * 2**20))
        handler.end_headers()
        for _ in range(200):
            handler.wfile.write(b"vllm:a 1\n" * (2**20 // 9))
            sent += 1

    server.routes["/metrics"] = flood
    error = failure(server.url)
    assert isinstance(error, NotVllm)
    assert error.message == f"{server.url}/metrics answered with more than 64 MiB"
    assert sent < 100


def test_a_small_answer_that_unpacks_to_much_is_refused(server: "Server") -> None:
    server.serve("/metrics", 200, gzip.compress(b"\n" * (70 * 2**20)), Content_Encoding="gzip")
    assert failure(server.url).message == f"{server.url}/metrics answered with more than 64 MiB"


def test_an_answer_that_cannot_be_unpacked_is_told(server: "Server") -> None:
    server.serve("/metrics", 200, b"no gzip", Content_Encoding="gzip")
    assert failure(server.url).message == f"{server.url}/metrics answered with data that cannot be unpacked"


def test_something_that_does_not_speak_http_is_told(server: "Server") -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:

        def talk() -> None:
            connection, _ = other.accept()
            with connection:
                connection.recv(1000)
                connection.sendall(b"220 mail.example ESMTP\r\n")

        thread = threading.Thread(target=talk)
        thread.start()
        error = failure(f"http://127.0.0.1:{other.getsockname()[1]}")
        thread.join()
    assert isinstance(error, Unreachable)
    assert error.hint == "does it speak HTTP there (or HTTPS)?"


def test_a_redirect_on_the_same_host_is_followed(server: "Server", page: bytes) -> None:
    server.serve("/metrics", 307, b"", Location="/metrics/")
    server.serve("/metrics/", 200, page)
    assert any(isinstance(o, Snapshot) for o in read(server.url))


def test_a_redirect_to_another_host_is_not_followed(server: "Server", second: "Server", page: bytes) -> None:
    second.serve("/metrics", 200, page)
    server.serve("/metrics", 302, b"", Location=f"http://localhost:{second.port}/metrics")
    error = failure(server.url)
    assert error.message == f"{server.url}/metrics redirects to another host (localhost)"
    assert second.requests == []


def test_redirects_in_a_circle_end(server: "Server") -> None:
    server.serve("/metrics", 302, b"", Location="/metrics")
    assert failure(server.url).message == f"{server.url}/metrics redirects more than 5 times"


@pytest.mark.parametrize(
    "url", ["http://", "http://:8000", "http://host:port", "http://h:99999", "http://[::1"]
)
def test_a_url_that_is_none_is_told(url: str) -> None:
    with pytest.raises(UsageError):
        open_source(url)


def test_a_login_in_the_url_is_never_shown(server: "Server") -> None:
    error = failure(server.url.replace("//", "//user:hunter2@"))
    assert "hunter2" not in error.message
    assert error.message == f"{server.url}/metrics answered 404, there is no such page"


def test_scrapes_that_fail_in_the_middle_are_a_gap_and_reading_goes_on(server: "Server", page: bytes) -> None:
    good, bad = (200, page), (503, b"")
    server.serve_in_turn("/metrics", [good, good, bad, bad, good])
    server.serve("/version", 200, b'{"version":"0.32.0"}')
    observations = read(server.url, scrapes(5))[1:]
    where, why = f"127.0.0.1:{server.port}", f"{server.url}/metrics answered 503"
    assert [o.time for o in observations if isinstance(o, Snapshot)] == [1000, 1001, 1004]
    assert [o for o in observations if not isinstance(o, Snapshot)] == [
        Event(1002, "scrape-failed", why, where, where),
        Event(1004, "scrape-recovered", "after 2 failed scrapes", where, where),
        Gap(where, "2 scrapes in 1 s", why),
    ]


def test_a_server_that_stays_away_is_a_gap_at_the_end(server: "Server", page: bytes) -> None:
    server.serve("/metrics", 200, page)
    reading = iter(open_source(server.url).read(scrapes(4)))
    while not isinstance(next(reading), Snapshot):
        pass
    server.serve("/metrics", 200, b"<html>", "text/html")
    rest = list(reading)
    assert [type(o) for o in rest] == [Event, Gap]
    assert isinstance(rest[1], Gap)
    assert (rest[1].what, rest[1].why) == (
        "3 scrapes in 2 s",
        f"{server.url}/metrics answered with an HTML page",
    )


def test_lines_that_make_no_sense_are_told_once(server: "Server") -> None:
    server.serve("/metrics", 200, b"vllm:a 1\n?? what\n")
    where = f"127.0.0.1:{server.port}"
    gaps = [o for o in read(server.url, scrapes(3)) if isinstance(o, Gap)]
    assert gaps[1:] == [Gap(where, f"1 line of {where}", "not readable as a sample (line 2: ?? what)")]


def test_a_server_is_never_scraped_more_often_than_once_a_second() -> None:
    with pytest.raises(UsageError, match="not scraped more often than every 1 s"):
        Window(interval_s=0.5)


def test_ticks_come_at_once_at_every_interval_and_at_the_end() -> None:
    slept: list[float] = []

    def ticks() -> Iterator[None]:
        return Window(duration_s=10, interval_s=5, sleep=slept.append).ticks()

    assert len(list(ticks())) == 3
    assert [round(seconds) for seconds in slept] == [5, 10]
    assert len(list(replace(Window(duration_s=4, interval_s=5)).ticks())) == 1


def test_a_sleep_that_is_interrupted_ends_the_ticks() -> None:
    assert len(list(Window(sleep=lambda _: True).ticks())) == 1


def test_an_address_of_version_six_is_an_instance_in_brackets() -> None:
    source = ScrapeSource("http://[::1]:8000")
    assert source._instance == "[::1]:8000"
