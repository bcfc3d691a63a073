"""The line to one API server: GET with credentials, time-outs and second tries; failures in words."""

import re
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from urllib.parse import urlencode

import urllib3
from kubernetes.client.rest import RESTClientObject

from vllmdoctor.errors import SourceError, Unreachable, UsageError
from vllmdoctor.kube.answers import CutOff, words
from vllmdoctor.kube.door.login import configured
from vllmdoctor.kube.door.streams import login
from vllmdoctor.kube.nouns import Access

CONNECT_S, READ_S = 5.0, 20.0
_TRIES = 3
_LONGEST_WAIT_S = 5.0
_RENEW_S = 60.0
_PIECE = 1 << 16
_WHERE = re.compile(r" \(_ssl\.c:\d+\)")  # in OpenSSL's words: nobody's business

Query = Sequence[tuple[str, str]]


class Line:
    """Brings questions to one server; safe to use from several threads."""

    def __init__(self, access: Access) -> None:
        self._access = access
        self._lock = threading.Lock()
        self.configuration, self.namespace, self.whose = configured(access)
        self._rest = self._opened()
        self._renewed = time.monotonic()

    def close(self) -> None:
        """Close every connection."""
        self._rest.pool_manager.clear()

    @property
    def shown(self) -> str:
        """The server's address."""
        return str(self.configuration.host)

    @contextmanager
    def answer(self, path: str, query: Query) -> "Iterator[urllib3.BaseHTTPResponse]":
        """An answer of any status that is worth no second try."""
        tries = 0
        while True:
            tries += 1
            asked_at = time.monotonic()
            with self._told():
                response = self._once(path, query)
            try:
                if response.status == 401 and self._renew(asked_at):
                    continue
                if response.status in (429, 503) and tries < _TRIES and "retry-after" in response.headers:
                    time.sleep(min(again_s(response), _LONGEST_WAIT_S))
                    continue
                if response.status in (409, 500) and tries < 2:
                    time.sleep(0.5)
                    continue
                with self._told():
                    yield response
                return
            finally:
                response.drain_conn() if response.status != 200 else response.close()
                response.release_conn()

    def _once(self, path: str, query: Query) -> "urllib3.BaseHTTPResponse":
        url = f"{self.configuration.host}/{path}" + (f"?{urlencode(query)}" if query else "")
        headers = {"Accept": "application/json, */*;q=0.5", "User-Agent": "vllmdoctor"}
        manager = self._rest.pool_manager
        return manager.request(
            "GET",
            url,
            headers=headers | login(self.configuration),
            preload_content=False,
            redirect=False,
            retries=False,
            timeout=urllib3.Timeout(connect=CONNECT_S, read=READ_S),
        )

    def _opened(self) -> RESTClientObject:
        try:
            return RESTClientObject(self.configuration)
        except (OSError, ValueError) as error:
            raise UsageError(
                f"the certificates of {self.whose} cannot be used: {words(str(error))}"
            ) from None

    def _renew(self, asked_at: float) -> bool:
        """Read the credentials anew where they may have expired since; whether it is worth another try."""
        with self._lock:
            if self._renewed > asked_at:
                return True
            if time.monotonic() - self._renewed < _RENEW_S:
                return False
            self._renewed = time.monotonic()
            self.configuration, self.namespace, self.whose = configured(self._access)
            self._rest = self._opened()
            return True

    @contextmanager
    def _told(self) -> Iterator[None]:
        """What fails in the connection, in words."""
        shown = self.shown
        try:
            yield
        except urllib3.exceptions.SSLError as error:
            hint = "does the kubeconfig's certificate-authority belong to this API server?"
            raise Unreachable(f"{shown}: TLS failed: {_reason(error)}", hint=hint) from None
        except urllib3.exceptions.NewConnectionError as error:
            hint = "does `kubectl get pods` work from here?"
            raise Unreachable(f"{shown} cannot be reached: {_reason(error)}", hint=hint) from None
        except urllib3.exceptions.ConnectTimeoutError:
            hint = "is the API server reachable from here (VPN, proxy)?"
            raise Unreachable(f"{shown} did not connect within {CONNECT_S:g} s", hint=hint) from None
        except urllib3.exceptions.ReadTimeoutError:
            hint = "the API server, or the pod behind it, is too busy to answer"
            raise Unreachable(f"{shown} did not answer within {READ_S:g} s", hint=hint) from None
        except (urllib3.exceptions.HTTPError, OSError) as error:
            why = "the answer was cut off" if "IncompleteRead" in str(error) else _reason(error)
            raise CutOff(f"{shown} broke off: {why}") from None


def body_of(response: "urllib3.BaseHTTPResponse") -> bytes:
    """The start of an answer that explains a failure."""
    return b"".join(pieces_of(response, READ_S, 1 << 20))


def pieces_of(response: "urllib3.BaseHTTPResponse", whole_s: float, most: int | None) -> Iterator[bytes]:
    """An answer's body as it comes; a SourceError where it takes too long or has more than `most` bytes."""
    started, size = time.monotonic(), 0
    for piece in response.stream(_PIECE):
        size += len(piece)
        if most is not None and size > most:
            raise SourceError(f"an answer has more than {most // 2**20} MiB")
        yield piece
        if time.monotonic() - started > whole_s:
            raise Unreachable(f"an answer took more than {whole_s:g} s")


def again_s(response: "urllib3.BaseHTTPResponse") -> float:
    """How long the server asks to wait (s)."""
    text = response.headers.get("retry-after", "1")
    return float(text) if text.isdigit() else 1.0


def _reason(error: BaseException) -> str:
    inner = next((a for a in error.args if isinstance(a, BaseException)), error)
    text = getattr(inner, "strerror", "") or str(getattr(inner, "reason", "") or inner)
    text = _WHERE.sub("", text).rpartition("] ")[2].rpartition(": ")[2] or text
    return words(text).rstrip(")") or type(error).__name__
