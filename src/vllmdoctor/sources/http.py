"""The door to HTTP: GET with limits on time, size and redirects. The only module that knows httpx."""

import os
import socket
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

import httpx

from vllmdoctor.errors import NotVllm, Unauthorized, Unreachable, UsageError
from vllmdoctor.sources import without_login
from vllmdoctor.sources.http_words import not_connected, short
from vllmdoctor.sources.login import TOKEN, Login, sendable, trust
from vllmdoctor.sources.stamps import arrived, left, stamp

if TYPE_CHECKING:
    from ssl import SSLContext

CONNECT_S = 5.0
READ_S = 10.0
WHOLE_S = 30.0
MOST_BYTES = 64 * 2**20

# vLLM closes a connection that is idle for 5 s; one that is older than this is not used again, so
# that no scrape meets that moment.
_IDLE_S = 2.0
_MOST_REDIRECTS = 5
_LONGEST_URL = 6000  # proxies refuse longer ones; what is longer goes into the body of a POST
_ACCEPT = "text/plain;version=0.0.4;q=1, text/plain;q=0.9, */*;q=0.1"


@dataclass(frozen=True, slots=True)
class Answer:
    """What a server answered with status 200."""

    url: str
    kind: str
    text: str


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer of any status, as it comes in; `pieces` may raise a SourceError."""

    status: int
    kind: str
    pieces: Iterator[bytes]


@dataclass(frozen=True, slots=True)
class Stream:
    """An answer that comes in while it is made: `pieces` with the time of their arrival may raise a
    SourceError. `sent` is when its request had been written. Times are `time.perf_counter` seconds."""

    status: int
    kind: str
    pieces: Iterator[tuple[float, bytes]]
    sent: float
    retry_after: str


class BrokeOff(Unreachable):
    """The connection ended in the middle of an answer."""


class TimedOut(Unreachable):
    """Connected, and then nothing came for too long."""


class TooLarge(NotVllm):
    """More came than any answer of vLLM's holds."""


class Http:
    """A client whose connection serves several scrapes, where they follow each other closely.

    `login` is for servers that are no vLLM; without one, only a token from the environment is sent.
    `read_s` is how long nothing may come. `beside` is a client whose certificates serve this one too:
    to read them takes 50 ms.
    """

    def __init__(
        self,
        transport: httpx.BaseTransport | None = None,
        *,
        login: Login | None = None,
        read_s: float = READ_S,
        beside: "Http | None" = None,
    ) -> None:
        token = os.environ.get(TOKEN, "") if login is None else ""
        self._read_s = read_s
        self._wire: socket.socket | None = None
        headers = {"Accept": _ACCEPT, "User-Agent": "vllmdoctor"}
        self._has_token = bool(token)
        if token:
            headers["Authorization"] = f"Bearer {token}"
        headers |= login.headers if login else {}
        if not all(sendable(text) for pair in headers.items() for text in pair):
            what = TOKEN if login is None else "a token, a tenant or a header that was set"
            raise UsageError(f"{what} holds what a header cannot carry")
        self.trusted: SSLContext = beside.trusted if beside else _trusted(login)
        self._client = httpx.Client(
            headers=headers,
            auth=login.user if login else None,
            timeout=httpx.Timeout(read_s, connect=min(CONNECT_S, read_s)),
            limits=httpx.Limits(keepalive_expiry=_IDLE_S),
            transport=transport,
            verify=self.trusted,
        )

    def __enter__(self) -> "Http":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close its connections."""
        self._client.close()

    def get(self, url: str) -> Answer:
        """GET `url`; redirects are followed on the same host only.

        Unreachable, Unauthorized or NotVllm, each with what to do next.
        """
        shown = without_login(url)
        with self._told(shown):
            for _ in range(_MOST_REDIRECTS + 1):
                with self._client.stream("GET", url) as response:
                    if not response.has_redirect_location:
                        return self._answer(response, shown)
                    url = _redirected(response, shown)
        raise NotVllm(f"{shown} redirects more than {_MOST_REDIRECTS} times")

    @contextmanager
    def ask(self, url: str, query: Sequence[tuple[str, str]], whole_s: float = WHOLE_S) -> Iterator[Reply]:
        """Ask `url` with a query, whatever the status; a query too long for a URL is posted.

        The whole answer must be there after `whole_s` seconds. SourceError as for `get`.
        """
        shown, encoded = without_login(url), urlencode(query)
        long = len(url) + len(encoded) > _LONGEST_URL
        headers = {"Accept": "application/json"}
        if long:
            headers["Content-Type"] = "application/x-www-form-urlencoded"
        method, content = ("POST", encoded.encode()) if long else ("GET", None)
        url = url if long else f"{url}?{encoded}"
        with self._told(shown):
            for _ in range(_MOST_REDIRECTS + 1):
                with self._client.stream(method, url, content=content, headers=headers) as response:
                    if not response.has_redirect_location:
                        pieces = _in_time(response, shown, whole_s)
                        yield Reply(response.status_code, response.headers.get("content-type", ""), pieces)
                        return
                    secure, url = url.startswith("https:"), _redirected(response, shown)
                    if secure and not url.startswith("https:"):
                        raise NotVllm(f"{shown} redirects from https to http", hint="no secret is sent there")
        raise NotVllm(f"{shown} redirects more than {_MOST_REDIRECTS} times")

    @contextmanager
    def post(self, url: str, body: bytes) -> Iterator[Stream]:
        """POST JSON to `url` and read the answer as it comes, whatever its status, also a redirect.

        No two pieces may lie further apart than the client's `read_s`. SourceError as for `get`, and
        TimedOut, BrokeOff or TooLarge also while the pieces are read.
        """
        shown = without_login(url)
        sent = time.perf_counter()

        def watch(event: str, info: Mapping[str, Any]) -> None:
            nonlocal sent
            if event == "http11.send_request_body.started":
                sent = time.perf_counter()
            elif event in ("connection.connect_tcp.complete", "connection.start_tls.complete"):
                self._wire = info["return_value"].get_extra_info("socket")
                stamp(self._wire)

        # packed, an answer would come in lumps
        headers = {
            "Content-Type": "application/json",
            "Accept": "text/event-stream",
            "Accept-Encoding": "identity",
        }
        with (
            self._told(shown),
            self._client.stream(
                "POST", url, content=body, headers=headers, extensions={"trace": watch}
            ) as response,
        ):
            told = response.headers
            yield Stream(
                status=response.status_code,
                kind=told.get("content-type", ""),
                pieces=_bounded(response, self._wire, shown),
                sent=left(self._wire) or sent,
                retry_after=told.get("retry-after", ""),
            )

    def abort(self) -> None:
        """End what another thread reads from this client; it meets a BrokeOff."""
        if self._wire is not None:
            with suppress(OSError):
                self._wire.shutdown(socket.SHUT_RDWR)

    @contextmanager
    def _told(self, shown: str) -> Iterator[None]:
        """What fails in the connection, in words."""
        try:
            yield
        except httpx.TimeoutException as error:
            step = "connect" if isinstance(error, httpx.ConnectTimeout) else "answer"
            limit = min(CONNECT_S, self._read_s) if step == "connect" else self._read_s
            hint = "is it the right host, and does a firewall let you through?"
            if step == "answer":
                hint = "the server is too busy to answer, or something else listens there"
            kind = Unreachable if step == "connect" else TimedOut
            raise kind(f"{shown} did not {step} within {limit:g} s", hint=hint) from None
        except httpx.ConnectError as error:
            raise not_connected(shown, str(error)) from None
        except httpx.DecodingError:
            raise NotVllm(f"{shown} answered with data that cannot be unpacked") from None
        except (httpx.InvalidURL, httpx.UnsupportedProtocol, UnicodeError):
            raise UsageError(f"{shown!r} is not a URL that can be read") from None
        except httpx.TransportError as error:
            hint = "does it speak HTTP there (or HTTPS)?"
            raise BrokeOff(f"{shown} broke off: {short(str(error))}", hint=hint) from None

    def _answer(self, response: httpx.Response, shown: str) -> Answer:
        status = response.status_code
        if status in (401, 403):
            hint = f"put a token into the environment variable {TOKEN}"
            if self._has_token:
                hint = f"the token in {TOKEN} was sent and refused"
            raise Unauthorized(f"{shown} answered {status}", hint=hint)
        if status == 404:
            raise NotVllm(
                f"{shown} answered 404, there is no such page",
                hint="vLLM's page is /metrics; behind a proxy give its whole path; "
                "with --disable-log-stats vLLM shows no metrics",
            )
        if status >= 500:
            raise Unreachable(f"{shown} answered {status}", hint="is the server still starting, or down?")
        if status != 200:
            raise NotVllm(f"{shown} answered {status}")
        return Answer(shown, response.headers.get("content-type", ""), _body(response, shown))


def _body(response: httpx.Response, shown: str) -> str:
    started = time.monotonic()
    body = bytearray()
    for piece in response.iter_bytes():
        body += piece
        if len(body) > MOST_BYTES:
            raise _too_large(shown, "a vLLM page has less than 1 MiB; is it the right address?")
        if time.monotonic() - started > WHOLE_S:
            raise Unreachable(f"{shown} took more than {WHOLE_S:g} s to answer")
    return body.decode("utf-8", "replace")


def _trusted(login: Login | None) -> "SSLContext":
    return trust(login) or httpx.create_ssl_context()


def _bounded(response: httpx.Response, wire: object, shown: str) -> Iterator[tuple[float, bytes]]:
    size = 0
    for piece in response.iter_bytes():
        yield arrived(wire), piece
        size += len(piece)
        if size > MOST_BYTES:
            raise _too_large(shown, "ask for shorter answers (max_tokens)")


def _too_large(shown: str, hint: str) -> TooLarge:
    return TooLarge(f"{shown} answered with more than {MOST_BYTES // 2**20} MiB", hint=hint)


def _in_time(response: httpx.Response, shown: str, whole_s: float) -> Iterator[bytes]:
    started = time.monotonic()
    for piece in response.iter_bytes():
        yield piece
        if time.monotonic() - started > whole_s:
            raise Unreachable(f"{shown} took more than {whole_s:g} s to answer")


def _redirected(response: httpx.Response, shown: str) -> str:
    target = response.url.join(response.headers["location"])
    if target.host != response.url.host or target.scheme not in ("http", "https"):
        raise NotVllm(
            f"{shown} redirects to another host ({target.host or target.scheme})",
            hint="give that address itself if you trust it; a login page may stand in between",
        )
    return str(target)
