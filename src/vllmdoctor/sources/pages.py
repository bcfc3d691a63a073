"""Pages without timestamps: one, many in a row, or many files of one server, laid out in time."""

from array import array
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from vllmdoctor.errors import UsageError
from vllmdoctor.exposition import canonical, parse_line, shown, unread_gap
from vllmdoctor.model import Gap, Observation, Snapshot
from vllmdoctor.sources.moments import moment_of_line

START = "process_start_time_seconds"


@dataclass(frozen=True, slots=True)
class SavedPage:
    """A page as it was read: compact, since a day of scrapes may have to wait for its times."""

    time: float | None
    series: tuple[str, ...]
    values: "array[float]"

    def snapshot(self, time: float, instance: str) -> Snapshot:
        """The page as an observation."""
        return Snapshot(time, instance, dict(zip(self.series, self.values, strict=True)))

    def value(self, series: str) -> float | None:
        """The value of one series, None where the page does not show it."""
        return self.values[self.series.index(series)] if series in self.series else None


class PageReader:
    """Splits text into pages: a series seen again, or a line that is a time, begins a new one."""

    def __init__(self, origin: str) -> None:
        self._origin = origin
        self._time: float | None = None
        self._page: dict[str, float] = {}
        self._known: dict[tuple[str, ...], tuple[str, ...]] = {}
        self._unread, self._first_unread, self._number = 0, "", 0

    def pages(self, texts: Iterable[str]) -> Iterator[SavedPage]:
        """All pages of the text, in its order."""
        for text in texts:
            for line in text.split("\n")[:-1]:
                self._number += 1
                if not line or line.startswith(("# HELP", "# TYPE")):
                    continue
                yield from self._line(line)
        yield from self._turn(None)

    def gaps(self) -> list[Gap]:
        """What could not be read, once all is read."""
        return [unread_gap(self._origin, self._unread, self._first_unread)] if self._unread else []

    def _line(self, line: str) -> Iterator[SavedPage]:
        text, _, number = line.rpartition(" ")
        try:
            series, value = canonical(text), float(number)
        except (UsageError, ValueError):
            sample = parse_line(line)
            if sample is None:
                moment = moment_of_line(line)
                if moment is not None:
                    yield from self._turn(moment)
                elif line.strip() and not line.lstrip().startswith("#"):
                    self._unread += 1
                    self._first_unread = self._first_unread or shown(line, self._number)
                return
            series, value = sample.series, sample.value
        if series in self._page:
            yield from self._turn(None)
        self._page[series] = value

    def _turn(self, next_time: float | None) -> Iterator[SavedPage]:
        if self._page:
            series = tuple(self._page)
            series = self._known.setdefault(series, series)
            yield SavedPage(self._time, series, array("d", self._page.values()))
            self._page = {}
        self._time = next_time


def laid_out(pages: list[SavedPage], instance: str, *, end: float, interval: float) -> Iterator[Observation]:
    """The pages as Snapshots. Those without a time are taken as `interval` seconds apart; where none
    has one, the last was taken at `end` (unix s)."""
    untimed = sum(page.time is None for page in pages)
    if untimed == len(pages):
        times = [end - interval * (len(pages) - 1 - at) for at in range(len(pages))]
    else:
        times = _filled([page.time for page in pages], interval)
    if untimed and len(pages) > 1:
        yield Gap(
            instance,
            f"the time of {untimed} of {len(pages)} pages",
            f"the pages carry none; taken as {interval:g} s apart",
            "give --every, or put the output of date +%s before each page",
        )
    for page, time in zip(pages, times, strict=True):
        yield page.snapshot(time, instance)


def _filled(times: list[float | None], interval: float) -> list[float]:
    first = next(at for at, time in enumerate(times) if time is not None)
    last = (times[first] or 0.0) - interval * (first + 1)
    filled = []
    for time in times:
        last = last + interval if time is None else time
        filled.append(last)
    return filled


def by_server(pages: Iterable[SavedPage]) -> list[list[SavedPage]]:
    """Pages of files that were given together, by the server they come from, each in time order.

    A page belongs to the same server as an earlier one if the process is the same or started
    after that earlier page was taken (a restart); a process that ran beside it is another server.
    """
    groups: list[list[SavedPage]] = []
    for page in sorted(pages, key=lambda page: page.time or 0.0):
        start = page.value(START)
        for group in groups:
            before = group[-1].value(START)
            same = start is None or before is None or abs(start - before) < 1
            if same or (start is not None and start > (group[-1].time or 0.0)):
                group.append(page)
                break
        else:
            groups.append([page])
    return groups


def by_process(pages: Iterable[SavedPage]) -> list[list[SavedPage]]:
    """The same for pages whose times are not known: only one process can be told to be one server."""
    groups: dict[float | None, list[SavedPage]] = {}
    for page in pages:
        groups.setdefault(page.value(START), []).append(page)
    return list(groups.values())
