"""The door to HTTP: GET with limits on time, size and redirects. The only module that knows httpx."""

import os
import ssl
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import TracebackType
from urllib.parse import urlencode, urlsplit

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
class Login:
    """What a server wants to see: headers, a user with a password, a client certificate. Never shown."""

    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    user: tuple[str, str] | None = field(default=None, repr=False)
    ca_file: str = ""
    cert_file: str = ""
    key_file: str = ""


class BrokeOff(Unreachable):
    """The connection ended in the middle of an answer."""


class Http:
    """A client whose connection serves several scrapes, where they follow each other closely.

    `login` is for servers that are no vLLM; without one, only a token from the environment is sent.
    """

    def __init__(
        self,
        transport: httpx.BaseTransport | None = None,
        *,
        login: Login | None = None,
        read_s: float = READ_S,
    ) -> None:
        token = os.environ.get(TOKEN, "") if login is None else ""
        self._read_s = read_s
        headers = {"Accept": _ACCEPT, "User-Agent": "vllmdoctor"}
        self._has_token = bool(token)
        if token:
            headers["Authorization"] = f"Bearer {token}"
        headers |= login.headers if login else {}
        if not all(_sendable(text) for pair in headers.items() for text in pair):
            what = TOKEN if login is None else "a token, a tenant or a header that was set"
            raise UsageError(f"{what} holds what a header cannot carry")
        self._client = httpx.Client(
            headers=headers,
            auth=login.user if login else None,
            timeout=httpx.Timeout(read_s, connect=min(CONNECT_S, read_s)),
            limits=httpx.Limits(keepalive_expiry=_IDLE_S),
            transport=transport,
            verify=_trust(login) if login else True,
        )

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
            raise Unreachable(f"{shown} did not {step} within {limit:g} s", hint=hint) from None
        except httpx.ConnectError as error:
            raise _not_connected(shown, str(error)) from None
        except httpx.DecodingError:
            raise NotVllm(f"{shown} answered with data that cannot be unpacked") from None
        except (httpx.InvalidURL, httpx.UnsupportedProtocol, UnicodeError):
            raise UsageError(f"{shown!r} is not a URL that can be read") from None
        except httpx.TransportError as error:
            hint = "does it speak HTTP there (or HTTPS)?"
            raise BrokeOff(f"{shown} broke off: {_short(str(error))}", hint=hint) from None

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


def _in_time(response: httpx.Response, shown: str, whole_s: float) -> Iterator[bytes]:
    started = time.monotonic()
    for piece in response.iter_bytes():
        yield piece
        if time.monotonic() - started > whole_s:
            raise Unreachable(f"{shown} took more than {whole_s:g} s to answer")


def _sendable(text: str) -> bool:
    """Whether a header can carry it; what cannot would stand in an error, and it may be a secret."""
    return text.isascii() and text.isprintable()


def _trust(login: Login) -> ssl.SSLContext | bool:
    """The certificates to trust and to show; UsageError where a file is none."""
    if not (login.ca_file or login.cert_file):
        return True
    try:
        context = ssl.create_default_context(cafile=login.ca_file or None)
        if login.cert_file:
            context.load_cert_chain(login.cert_file, login.key_file or None, password="")
    except (OSError, ValueError) as error:  # an SSLError is an OSError
        names = ", ".join(n for n in (login.ca_file, login.cert_file, login.key_file) if n)
        raise UsageError(f"cannot use the certificates in {names}: {_short(str(error))}") from None
    return context


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
