"""A live vLLM server: its /metrics page again and again, and its version once."""

import json
from collections.abc import Iterator
from urllib.parse import urlsplit, urlunsplit

from vllmdoctor.errors import NotVllm, SourceError, UsageError
from vllmdoctor.exposition import Page, parse_page, unread_gap
from vllmdoctor.model import Event, Fact, Gap, Observation, Snapshot
from vllmdoctor.sources import Window, without_login
from vllmdoctor.sources.http import Answer, Http

_METRICS = "/metrics"


def open_target(target: str) -> "ScrapeSource":
    """The Source for `http(s)://HOST:PORT[/path]`."""
    return ScrapeSource(target)


class ScrapeSource:
    """Scrapes one server. The first scrape must succeed; a later one that fails is a Gap."""

    live = True
    beside = False

    def __init__(self, url: str) -> None:
        try:
            parts = urlsplit(url)
            host, port = parts.hostname, parts.port
        except ValueError:
            raise UsageError(f"{without_login(url)!r} is not a URL that can be read") from None
        if not host:
            raise UsageError(f"{without_login(url)!r} names no host", hint="http://HOST:PORT")
        path = parts.path
        if not path.strip("/"):
            paths = [_METRICS]
        elif path.endswith("/"):
            paths = [path + _METRICS[1:]]
        else:  # as it was given; where that is no page, it may be a proxy's prefix
            paths = [path] if path.endswith(_METRICS) or parts.query else [path, path + _METRICS]
        self._urls = [urlunsplit(parts._replace(path=p, fragment="")) for p in paths]
        place = f"[{host}]" if ":" in host else host
        prefix = paths[-1].removesuffix(_METRICS)
        self._instance = f"{place}:{port or (443 if parts.scheme == 'https' else 80)}{prefix}"

    def read(self, window: Window) -> Iterator[Observation]:
        """Yield a Snapshot a tick; SourceError where the first scrape fails."""
        failed: list[float] = []
        reason = ""
        told_unread = started = False
        with Http() as http:
            for _ in window.ticks():
                now = round(window.clock(), 3)
                try:
                    page = self._scrape(http)
                except SourceError as error:
                    if not started:
                        raise
                    if not failed or reason != error.message:
                        reason = error.message
                        yield Event(now, "scrape-failed", reason, self._instance, self._instance)
                    failed.append(now)
                    continue
                if failed:
                    text = f"after {len(failed)} failed scrape{'s' if len(failed) > 1 else ''}"
                    yield Event(now, "scrape-recovered", text, self._instance, self._instance)
                    yield self._outage(failed, reason)
                    failed = []
                if not started:
                    started = True
                    yield self._version(http)
                yield Snapshot(now, self._instance, page.values)
                if page.unread and not told_unread:
                    told_unread = True
                    yield unread_gap(self._instance, page.unread, page.first_unread)
        if failed:
            yield self._outage(failed, reason)

    def _scrape(self, http: Http) -> Page:
        while True:
            try:
                answer = http.get(self._urls[0])
                page = parse_page(answer.text)
                if page.values:
                    if not answer.text.endswith("\n"):
                        raise SourceError(f"{self._instance} answered with a page that was cut off")
                    return page
                raise _no_page(answer)
            except NotVllm:
                if len(self._urls) == 1:
                    raise
                self._urls = self._urls[1:]

    def _version(self, http: Http) -> Fact | Gap:
        parts = urlsplit(self._urls[0])
        path = parts.path.rpartition("/")[0] + "/version"
        try:
            answer = http.get(urlunsplit(parts._replace(path=path, query="")))
            version = json.loads(answer.text)["version"]
            if isinstance(version, str) and version:
                return Fact("vllm_version", version, "/version", self._instance)
            why = "/version holds no version"
        except SourceError as error:
            why = error.message
        except (ValueError, LookupError, TypeError, RecursionError):
            why = "/version answered with something else"
        return Gap(self._instance, "vLLM's version", why, "give it with --vllm-version")

    def _outage(self, failed: list[float], reason: str) -> Gap:
        count = f"{len(failed)} scrapes" if len(failed) > 1 else "1 scrape"
        return Gap(self._instance, f"{count} in {failed[-1] - failed[0]:.0f} s", reason)


def _no_page(answer: Answer) -> NotVllm:
    text = answer.text.lstrip()
    if not text:
        hint = "with --disable-log-stats vLLM shows no metrics"
        return NotVllm(f"{answer.url} answered with an empty page", hint=hint)
    if "html" in answer.kind or text.startswith("<"):
        hint = "that is a web page, maybe a login or a proxy; vLLM's page is /metrics"
        return NotVllm(f"{answer.url} answered with an HTML page", hint=hint)
    what = "JSON" if text[0] in "{[" else "text that holds no metric"
    return NotVllm(f"{answer.url} answered with {what}", hint="vLLM's page is /metrics")
