"""A Prometheus as a source: survey it, plan, ask the pieces side by side, hand on what comes."""

import math
import time
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field

from vllmdoctor.errors import NotEnoughData, NotVllm, SourceError, Unauthorized, Unreachable, VllmDoctorError
from vllmdoctor.model import Gap, Observation
from vllmdoctor.promql import one_of
from vllmdoctor.sources import History, Window
from vllmdoctor.sources.prom.api import Api, Asker, TooLarge
from vllmdoctor.sources.prom.companions import Link, links
from vllmdoctor.sources.prom.emit import Emitter
from vllmdoctor.sources.prom.matrix import Row
from vllmdoctor.sources.prom.names import INFO
from vllmdoctor.sources.prom.pieces import Question, questions
from vllmdoctor.sources.prom.place import Place, place_of
from vllmdoctor.sources.prom.plan import Piece
from vllmdoctor.sources.prom.survey import Survey, survey

CONCURRENCY = 4
_AHEAD = 2  # answers that may wait to be taken in
_TOGETHER_S = 1.0
_MOST_FAILURES = 8  # in a row, before the rest is given up
_INFO_LOOKS = 12
_NAMED = 3


def open_target(target: str) -> "PrometheusSource":
    """The Source for `prom+http(s)://HOST:PORT[/prefix]`."""
    return PrometheusSource(place_of(target))


class PrometheusSource:
    """What a Prometheus, or a server that speaks its API, has kept of vLLM servers."""

    live = False
    beside = False

    def __init__(self, place: Place, http: Asker | None = None) -> None:
        self._place, self._http = place, http

    def read(self, window: Window) -> Iterator[Observation]:
        """Yield the history of every server found.

        SourceError where nothing can be had; what is missing beside something else is a Gap.
        """
        history = window.history
        with Api(self._place, self._http) as api:
            told = survey(api, history, window.clock())
            yield from told.gaps
            around, failed = _companions(api, told)
            if failed is not None:
                yield failed
            grid, asked = questions(told, around, history.max_points)
            yield from _told_limits(api, told, history, grid.fine, grid.coarse)
            emitter = Emitter(grid, told)
            reading = _Reading(api, history, emitter)
            try:
                # first when each server was there, then what else there was meanwhile
                for first in (True, False):
                    yield from reading.run(q for q in asked if (q.whose == "engines") == first)
                yield from reading.gaps()
            finally:
                reading.close()
                if history.tell is not None:
                    history.tell("")
            yield from _missing(api, told, emitter)
            yield from _settings(api, told, emitter)
            yield from emitter.present(frozenset(n for q in asked for n in q.piece.names))
            yield from api.gaps()


def _companions(api: Api, told: Survey) -> tuple[list[Link], Gap | None]:
    try:
        return links(api, told), None
    except SourceError as error:
        return [], Gap(api.shown, "containers, GPUs and replicas", error.message, error.hint)


def _told_limits(api: Api, told: Survey, history: History, fine: float, coarse: float) -> Iterator[Gap]:
    if fine > 1.5 * told.scrape_s:
        span = told.end - told.start
        yield Gap(
            api.shown,
            f"what lasts less than {fine:g} s",
            f"{span / 3600:.3g} h were looked at every {fine:g} s (histograms every {coarse:g} s), "
            f"though scraped every {told.scrape_s:g} s",
            "a shorter --window, or a larger --max-points, looks closer",
        )


def _missing(api: Api, told: Survey, emitter: Emitter) -> Iterator[Gap]:
    lost = sorted({t.name for t in told.targets.values()} - set(emitter.seen))
    if lost and emitter.seen:
        more = f" and {len(lost) - _NAMED} more" if len(lost) > _NAMED else ""
        what = f"{len(lost)} of {len(lost) + len(emitter.seen)} servers: {', '.join(lost[:_NAMED])}{more}"
        yield Gap(api.shown, what, "they are in the index and have no sample in this window")


def _settings(api: Api, told: Survey, emitter: Emitter) -> Iterator[Observation]:
    names = told.spelling.chosen(told.names, [INFO])
    if not names:
        return
    step = max(60.0, math.ceil((told.end - told.start) / _INFO_LOOKS))
    inner = "{" + ",".join([one_of("__name__", names), *told.matchers]) + "}"
    try:
        # from the end backwards, so that the last look is at the end itself
        looks = math.floor((told.end - told.start) / step)
        rows = api.matrix(f"last_over_time({inner}[{step:.0f}s])", told.end - looks * step, told.end, step)
    except SourceError as error:
        yield Gap(api.shown, "the servers' cache settings", error.message, error.hint)
        return
    yield from emitter.info(rows)


@dataclass(slots=True)
class _Reading:
    """The pieces that are asked: at most CONCURRENCY at a time, smaller ones where one was too large."""

    api: Api
    history: History
    emitter: Emitter
    waiting: "deque[Question]" = field(default_factory=deque)
    _pool: ThreadPoolExecutor = field(init=False)
    _running: "dict[Future[list[Row]], Question]" = field(default_factory=dict)
    _failures: dict[tuple[str, str], int] = field(default_factory=dict)
    _in_a_row: int = 0
    _silent_since: float = math.inf
    _done: int = 0
    _error: VllmDoctorError | None = None
    _over: str = ""

    def __post_init__(self) -> None:
        self._pool = ThreadPoolExecutor(CONCURRENCY, "prometheus")

    def run(self, asked: Iterable[Question]) -> Iterator[Observation]:
        """Ask these; a VllmDoctorError where nothing has come so far."""
        self.waiting.extend(asked)
        if self._over:
            self._give_up(self._over)
        self._fill()
        while self._running:
            ready, _ = wait(self._running, return_when=FIRST_COMPLETED)
            for future in ready:
                question = self._running.pop(future)
                try:
                    rows = future.result()
                except VllmDoctorError as error:
                    self._failed(question, error)
                    continue
                self._done += 1
                self._in_a_row = 0
                yield from self._observations(question, rows)
            total = self._done + len(self._running) + len(self.waiting)
            if self.history.tell is not None:
                came = f"{self.api.points / 1e6:.2f} million points"
                self.history.tell(f"asked {self._done} of {total} times, {came}")
            self._over_budget()
            self._fill()
        if not self.emitter.seen:
            raise self._error or NotEnoughData(f"{self.api.shown} answered without any sample")

    def gaps(self) -> Iterator[Gap]:
        """What was asked in vain."""
        for (what, why), count in self._failures.items():
            often = f" ({count} queries)" if count > 1 else ""
            yield Gap(self.api.shown, f"{what}{often}", why, "" if self._error is None else self._error.hint)

    def close(self) -> None:
        """Ask nothing more; what is under way ends with its time-out at the latest."""
        self.waiting.clear()
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _fill(self) -> None:
        while self.waiting and len(self._running) < CONCURRENCY + _AHEAD:
            question = self.waiting.popleft()
            self._running[self._pool.submit(self._ask, question.piece)] = question

    def _ask(self, piece: Piece) -> list[Row]:
        return self.api.matrix(piece.query, piece.start, piece.end, piece.step)

    def _observations(self, question: Question, rows: list[Row]) -> Iterator[Observation]:
        if question.link is not None:
            return self.emitter.around(rows, question.link)
        if question.whose == "processes":
            return self.emitter.processes(rows)
        return self.emitter.engines(rows, question.piece.step)

    def _failed(self, question: Question, error: VllmDoctorError) -> None:
        self._in_a_row += 1
        silent = isinstance(error, Unreachable) and "within" in error.message
        now = time.monotonic()
        self._silent_since = min(now, self._silent_since) if silent else self._silent_since
        # those asked together fail together; who is silent again later is waited for no more
        slow = silent and now - self._silent_since < _TOGETHER_S and bool(self.emitter.seen)
        if isinstance(error, TooLarge | NotVllm) and self._in_a_row < _MOST_FAILURES:
            halves = question.halves()
            if halves:
                self.waiting.extendleft(reversed(halves))
                return
        self._error = error
        self._note(question.piece.about, error.message)
        lost = isinstance(error, Unreachable | Unauthorized) and not slow
        if lost or self._in_a_row >= _MOST_FAILURES:
            self._give_up(error.message)

    def _over_budget(self) -> None:
        """An estimate was wrong: stop where twice as much came as was allowed."""
        if self.waiting and self.api.points > 2 * self.history.max_points:
            self._give_up(f"more than {2 * self.history.max_points:,} points had come (--max-points)")

    def _give_up(self, why: str) -> None:
        self._over = why
        for question in self.waiting:
            self._note(question.piece.about, why)
        self.waiting.clear()

    def _note(self, about: str, why: str) -> None:
        self._failures[about, why] = self._failures.get((about, why), 0) + 1
