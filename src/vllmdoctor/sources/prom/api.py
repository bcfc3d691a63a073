"""The HTTP API of Prometheus, and of Thanos, Mimir and VictoriaMetrics, which speak it too.

Every way of failing is told apart here: what can be mended by asking for less (TooLarge), what may
pass by asking again, what ends the reading, and what is only a part that is missing.
"""

import json
import re
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Any, Protocol, TypeVar

from vllmdoctor.errors import NotVllm, SourceError, Unauthorized, Unreachable, UsageError
from vllmdoctor.model import Gap
from vllmdoctor.sources.http import BrokeOff, Http, Reply
from vllmdoctor.sources.prom.matrix import Broken, Envelope, Row, read_matrix
from vllmdoctor.sources.prom.place import Place
from vllmdoctor.sources.prom.settings import CONFIG, PREFIX, Settings, read_settings

MOST_BYTES = 64 * 2**20
RETRY_S = 0.5
_SHOWN = 200  # so much of a server's own words is quoted
_TOO_LARGE = re.compile(
    r"exceeded maximum resolution|too many (?:samples|points|series|chunks)"
    r"|max(?:imum)?[- _]?(?:samples|points|series)|limit"
    r"|timed out|timeout|context deadline|too large|exceeds",
    re.IGNORECASE,
)
Query = Sequence[tuple[str, str]]
T = TypeVar("T")


class TooLarge(SourceError):
    """The server would not answer so much, or not in time: ask for less."""


class Asker(Protocol):
    """What brings questions to the server and answers back: `Http`, or another way to it."""

    def ask(self, url: str, query: Query, whole_s: float = ...) -> AbstractContextManager[Reply]:
        """Ask `url` with a query, whatever the status of the answer."""
        ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class Api:
    """Asks one server; safe to use from several threads. Use it in a `with` statement.

    `http` is another way to the server than its address.
    """

    def __init__(self, place: Place, http: Asker | None = None) -> None:
        self._settings: Settings = read_settings(place.user)
        self.shown = place.shown
        self.timeout_s = self._settings.timeout_s
        self._base = place.base + "/api/v1/"
        self._http: Asker = http or Http(login=self._settings.login, read_s=self.timeout_s)
        self._lock = threading.Lock()
        self._warnings: dict[str, int] = {}
        self.requests = self.points = self.bytes = 0

    def __enter__(self) -> "Api":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._http.__exit__(kind, error, trace)

    def instant(self, query: str, at: float | None = None) -> list[Row]:
        """The series of an instant query at a time (unix s; None: the server's now)."""
        asked = [("query", query), *([("time", _number(at))] if at is not None else [])]
        return self._rows("query", [*asked, *self._limit()])

    def matrix(self, query: str, start: float, end: float, step: float) -> list[Row]:
        """The series of a query at every `step` from `start` to `end` (unix s, both included)."""
        asked = [("query", query), ("start", _number(start)), ("end", _number(end)), ("step", _number(step))]
        return self._rows("query_range", [*asked, *self._limit()])

    def series(self, matches: Sequence[str], start: float, end: float) -> list[dict[str, str]]:
        """The label sets of all series that one of `matches` selects and that may have samples then."""
        asked = [("match[]", m) for m in matches]
        found = self._document("series", [*asked, ("start", _number(start)), ("end", _number(end))])
        return [labels for labels in found if isinstance(labels, dict)] if isinstance(found, list) else []

    def names(self, matches: Sequence[str], start: float, end: float) -> list[str]:
        """The names of those series."""
        asked = [("match[]", m) for m in matches]
        query = [*asked, ("start", _number(start)), ("end", _number(end))]
        found = self._document("label/__name__/values", query)
        return [name for name in found if isinstance(name, str)] if isinstance(found, list) else []

    def gaps(self) -> Iterator[Gap]:
        """What the server itself said about its answers."""
        for text, count in list(self._warnings.items())[:5]:
            often = f" ({count} answers)" if count > 1 else ""
            yield Gap(
                self.shown, f"part of what was asked{often}", text, "the server answered with a warning"
            )

    def hide(self, text: str) -> str:
        """The text without any secret."""
        return self._settings.hide(text)

    def _limit(self) -> Query:
        # the server gives up first, so that its own words are heard
        return [("timeout", f"{max(1, int(self.timeout_s * 0.9))}s")] if self.timeout_s >= 2 else []

    def _rows(self, path: str, query: Query) -> list[Row]:
        def read(reply: Reply) -> tuple[list[Row], dict[str, Any]]:
            envelope = Envelope()
            rows = list(read_matrix(self._counted(reply.pieces), envelope))
            return rows, envelope.fields

        rows = self._ask(path, query, read)
        with self._lock:
            self.points += sum(len(row.times) for row in rows)
        return rows

    def _document(self, path: str, query: Query) -> Any:
        def read(reply: Reply) -> tuple[Any, dict[str, Any]]:
            try:
                fields = json.loads(b"".join(self._counted(reply.pieces)))
            except ValueError:
                raise Broken("no JSON, or cut off") from None
            if not isinstance(fields, dict):
                raise Broken("not the answer of a Prometheus")
            return fields.get("data"), fields

        return self._ask(path, query, read)

    def _ask(self, path: str, query: Query, read: Callable[[Reply], tuple[T, dict[str, Any]]]) -> T:
        """Ask, and ask once more where that may help. VllmDoctorError where it does not."""
        for last in (False, True):
            try:
                with self._http.ask(self._base + path, query, self.timeout_s) as reply:
                    self._check(reply, path)
                    found, fields = read(reply)
                self._note(fields)
                return found
            except Broken as error:
                if last:
                    raise self._broken(path, error) from None
            except _Again as error:
                if last:
                    raise error.error from None
                time.sleep(RETRY_S)
            except BrokeOff as error:
                if last:
                    raise Unreachable(self.hide(error.message), hint=error.hint) from None
            except Unreachable as error:
                raise self._hinted(error) from None
        raise AssertionError("the second try returns or raises")

    def _counted(self, pieces: Iterator[bytes]) -> Iterator[bytes]:
        size = 0
        for piece in pieces:
            size += len(piece)
            if size > MOST_BYTES:
                raise TooLarge(f"{self.shown} answered with more than {MOST_BYTES // 2**20} MiB")
            yield piece
        with self._lock:
            self.requests += 1
            self.bytes += size

    def _note(self, fields: dict[str, Any]) -> None:
        if fields.get("status") == "error":
            raise SourceError(f"{self.shown}: {self._quoted(str(fields.get('error', 'no reason given')))}")
        told = [*(fields.get("warnings") or []), *(fields.get("infos") or [])]
        if fields.get("isPartial"):  # VictoriaMetrics' cluster
            told.append("the answer is partial: a storage node did not answer")
        with self._lock:
            for text in told:
                quoted = self._quoted(str(text))
                self._warnings[quoted] = self._warnings.get(quoted, 0) + 1

    def _check(self, reply: Reply, path: str) -> None:
        """Raise what the status means; return for an answer to read."""
        status = reply.status
        if status == 200:
            if "html" in reply.kind:
                raise NotVllm(f"{self.shown} answered with an HTML page", hint=_LOGIN_PAGE)
            return
        head = b""
        for piece in reply.pieces:
            head += piece
            if len(head) > 1 << 16:
                break
        said, kind = self._said(head)
        shown = f"{self.shown} answered {status}"
        words = f"{shown}: {said}" if said else shown
        if status in (401, 403):
            raise Unauthorized(shown, hint=self._credentials())
        if status == 404:
            raise NotVllm(
                f"{self.shown}/api/v1/{path} answered 404, there is no such page",
                hint="behind a proxy give its whole prefix, as in prom+http://HOST/prometheus",
            )
        much = kind == "timeout" or (_TOO_LARGE.search(said) and "parse error" not in said)
        if status in (413, 414, 422, 504) or (status in (400, 500, 503) and much):
            raise TooLarge(words, hint="ask for less: --match, or a shorter --window")
        if status == 400:
            raise UsageError(words, hint="are the matchers of --match written as in PromQL?")
        if status in (429, 502, 503):
            raise _Again(Unreachable(words, hint="is it still starting, down, or too busy?"))
        if status >= 500:
            raise Unreachable(words, hint="its own log says more")
        raise NotVllm(words, hint="is that the address of a Prometheus?")

    def _said(self, body: bytes) -> tuple[str, str]:
        """A failure in the server's words, and its type."""
        try:
            fields = json.loads(body)
            return self._quoted(str(fields["error"])), str(fields.get("errorType", ""))
        except (ValueError, LookupError, TypeError, AttributeError):
            text = body.decode("utf-8", "replace").strip()
            return ("" if text.startswith("<") else self._quoted(text)), ""

    def _quoted(self, text: str) -> str:
        text = " ".join("".join(c if c.isprintable() else " " for c in self.hide(text)).split())
        return text[:_SHOWN] + ("..." if len(text) > _SHOWN else "")

    def _broken(self, path: str, error: Broken) -> NotVllm:
        return NotVllm(
            f"{self.shown}/api/v1/{path} answered with something that cannot be read: {error}",
            hint="is that the address of a Prometheus, and does a proxy cut answers off?",
        )

    def _hinted(self, error: Unreachable) -> Unreachable:
        message, hint = self.hide(error.message), error.hint
        if "TLS failed" in message:
            hint = f"name the CA's file in {PREFIX}CA_FILE, your own certificate in {PREFIX}CERT_FILE"
        return Unreachable(message, hint=hint)

    def _credentials(self) -> str:
        told = self._settings.told
        if told:
            return f"it was asked with: {', '.join(told)}"
        return f"set {PREFIX}TOKEN, or {PREFIX}USER and {PREFIX}PASSWORD, or name a file in {CONFIG}"


_LOGIN_PAGE = "a login page or a proxy stands in between; what is needed is the address of the API itself"


class _Again(Exception):
    """What may pass: asked once more before it is an error."""

    def __init__(self, error: SourceError) -> None:
        super().__init__()
        self.error = error


def _number(value: float) -> str:
    """A time or a step as a query has it: not in powers of ten."""
    return f"{value:.3f}".rstrip("0").rstrip(".")
