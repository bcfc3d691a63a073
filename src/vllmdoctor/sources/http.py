"""The door to HTTP: GET with limits on time, size and redirects. The only module that knows httpx."""

import os
import time
from dataclasses import dataclass
from types import TracebackType
from urllib.parse import urlsplit

import httpx

from vllmdoctor.errors import NotVllm, SourceError, Unauthorized, Unreachable, UsageError
from vllmdoctor.sources import without_login

CONNECT_S = 5.0
READ_S = 10.0
WHOLE_S = 30.0
MOST_BYTES = 64 * 2**20
TOKEN = "VLLMDOCTOR_TOKEN"  # noqa: S105  the variable's name, not a token

# vLLM closes a connection that is idle for 5 s; one that is older than this is not used again, so
# that no scrape meets that moment.
_IDLE_S = 2.0
_MOST_REDIRECTS = 5
_ACCEPT = "text/plain;version=0.0.4;q=1, text/plain;q=0.9, */*;q=0.1"


@dataclass(frozen=True, slots=True)
class Answer:
    """What a server answered with status 200."""

    url: str
    kind: str
    text: str


class Http:
    """A client whose connection serves several scrapes, where they follow each other closely."""

    def __init__(self, transport: httpx.BaseTransport | None = None) -> None:
        token = os.environ.get(TOKEN, "")
        headers = {"Accept": _ACCEPT, "User-Agent": "vllmdoctor"}
        self._has_token = bool(token)
        try:
            if token:
                headers["Authorization"] = f"Bearer {token}"
            self._client = httpx.Client(
                headers=headers,
                timeout=httpx.Timeout(READ_S, connect=CONNECT_S),
                limits=httpx.Limits(keepalive_expiry=_IDLE_S),
                transport=transport,
            )
        except (UnicodeError, ValueError):
            raise UsageError(f"{TOKEN} holds what a header cannot carry") from None

    def __enter__(self) -> "Http":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._client.close()

    def get(self, url: str) -> Answer:
        """GET `url`; redirects are followed on the same host only.

        Unreachable, Unauthorized or NotVllm, each with what to do next.
        """
        shown = without_login(url)
        try:
            for _ in range(_MOST_REDIRECTS + 1):
                with self._client.stream("GET", url) as response:
                    if not response.has_redirect_location:
                        return self._answer(response, shown)
                    url = _redirected(response, shown)
        except httpx.TimeoutException as error:
            step = "connect" if isinstance(error, httpx.ConnectTimeout) else "answer"
            limit = CONNECT_S if step == "connect" else READ_S
            hint = "is it the right host, and does a firewall let you through?"
            if step == "answer":
                hint = "the server is too busy to answer, or something else listens there"
            raise Unreachable(f"{shown} did not {step} within {limit:g} s", hint=hint) from None
        except httpx.ConnectError as error:
            raise _not_connected(shown, str(error)) from None
        except httpx.DecodingError:
            raise NotVllm(f"{shown} answered with data that cannot be unpacked") from None
        except (httpx.InvalidURL, httpx.UnsupportedProtocol, UnicodeError):
            raise UsageError(f"{shown!r} is not a URL that can be read") from None
        except httpx.TransportError as error:
            hint = "does it speak HTTP there (or HTTPS)?"
            raise Unreachable(f"{shown} broke off: {_short(str(error))}", hint=hint) from None
        raise NotVllm(f"{shown} redirects more than {_MOST_REDIRECTS} times")

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
            raise NotVllm(
                f"{shown} answered with more than {MOST_BYTES // 2**20} MiB",
                hint="a vLLM page has less than 1 MiB; is it the right address?",
            )
        if time.monotonic() - started > WHOLE_S:
            raise Unreachable(f"{shown} took more than {WHOLE_S:g} s to answer")
    return body.decode("utf-8", "replace")


def _redirected(response: httpx.Response, shown: str) -> str:
    target = response.url.join(response.headers["location"])
    if target.host != response.url.host or target.scheme not in ("http", "https"):
        raise NotVllm(
            f"{shown} redirects to another host ({target.host or target.scheme})",
            hint="give that address itself if you trust it; a login page may stand in between",
        )
    return str(target)


def _not_connected(shown: str, error: str) -> SourceError:
    text = error.lower()
    if "ssl" in text or "certificate" in text or "tls" in text:
        hint = "name the CA's file in the environment variable SSL_CERT_FILE"
        if "wrong version number" in text or "record layer" in text:
            hint = "does it speak plain HTTP there? try http://"
        return Unreachable(f"{shown}: TLS failed: {_short(error)}", hint=hint)
    if "refused" in text:
        hint = "is the server running, and is this its port?"
        return Unreachable(f"{shown} refused the connection", hint=hint)
    if "name" in text or "nodename" in text or "getaddrinfo" in text:
        return Unreachable(f"no host named {urlsplit(shown).hostname!r}", hint="is the name spelled right?")
    return Unreachable(f"{shown} cannot be reached: {_short(error)}")


def _short(error: str) -> str:
    """An error's text without the numbers that tell only developers something."""
    text = error.rpartition("] ")[2] if error.startswith("[") else error
    return text.partition(" (_ssl.c")[0].strip() or "no reason given"
