"""Sends requests, so many at once and no longer than told, and keeps what came over the wire.

A thread and a connection of its own for each slot: a read ends with the clock and nothing else, what
came is read by whoever takes it from the queue. Times are `time.perf_counter` seconds.
"""

import queue
import random
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING

from vllmdoctor.errors import SourceError
from vllmdoctor.model_probe import Failure
from vllmdoctor.probe.answer import Wire
from vllmdoctor.probe.questions import Question
from vllmdoctor.sources.http import BrokeOff, Http, Stream, TimedOut, TooLarge

if TYPE_CHECKING:
    from vllmdoctor.probe.stream import Piece

LATE_S = 0.05  # an arrival that had to wait longer than this for a slot was not sent when it was due
LEAST_WAIT_S = 1.0  # after a 429: what the server says, but no less
MOST_WAIT_S = 30.0  # where it says nothing: 1, 2, 4 ... s, but no more
SWITCH_S = 0.001  # between threads: a reader does not wait long for the one that parses
LEAVE_S = 2.0  # so long the readers have to end once their connections are closed

clock = time.perf_counter


@dataclass(frozen=True, slots=True)
class Traffic:
    """How requests are sent: to `base`, at most `slots` at once, until `until` (a time of `clock`).

    `due` holds the seconds after the start at which each request is to be sent, or nothing: then each is
    sent as soon as a slot is free.
    """

    base: str
    model: str
    slots: int
    until: float
    due: Sequence[float] = ()


def in_order(questions: Sequence[Question], count: int, seed: int) -> list[Question]:
    """The first `count` of the questions, from the front again where there are fewer, in a seeded order."""
    planned = [questions[i % len(questions)] for i in range(count)]
    random.Random(seed).shuffle(planned)
    return planned


def arrivals(count: int, rate: float, seed: int) -> list[float]:
    """Seconds after the start at which `count` requests of a Poisson process arrive, `rate` per second."""
    chance = random.Random(f"arrivals {seed}")
    now, out = 0.0, []
    for _ in range(count):
        out.append(now)
        now += chance.expovariate(rate)
    return out


class Slots:
    """The connections of a probe. Use it in a `with` statement; `send` may be called several times."""

    def __init__(self, count: int, idle_s: float, beside: Http) -> None:
        self._clients = [Http(read_s=idle_s, beside=beside) for _ in range(count)]

    def __enter__(self) -> "Slots":
        return self

    def __exit__(self, *_: object) -> None:
        for client in self._clients:
            client.close()

    def send(self, questions: Sequence[Question], traffic: Traffic, take: Callable[[Wire], None]) -> str:
        """Send the questions in their order and hand each Wire to `take`, in this thread, as it ends.

        Why it ended early ("the time was up", "Ctrl-C"), else ""; what was under way then is handed over
        with `cut` set, what was not sent yet is not.
        """
        turns = _Turns(questions, traffic)
        done: queue.SimpleQueue[Wire | None] = queue.SimpleQueue()
        used = self._clients[: min(traffic.slots, len(questions))]
        threads = [
            threading.Thread(target=_serve, args=(client, turns, done), name="probe", daemon=True)
            for client in used
        ]
        ended, busy = "", len(threads)
        with _quick_switches():
            try:
                for thread in threads:
                    thread.start()
                while busy and not ended:
                    busy -= _take_one(done, take, min(0.5, max(0.0, traffic.until - clock())))
                    if clock() >= traffic.until:
                        ended = "the time was up"
            except KeyboardInterrupt:
                ended = "Ctrl-C"
            finally:
                turns.over.set()
                if busy:
                    _leave(threads, used)
            while busy and not done.empty():
                busy -= _take_one(done, take, 0.0)
        return ended if turns.unsent or turns.cut else ""


class _Turns:
    """Whose turn it is; asked by every thread."""

    def __init__(self, questions: Sequence[Question], traffic: Traffic) -> None:
        self.traffic = traffic
        self.over = threading.Event()
        self.cut = False
        self._questions = iter(enumerate(questions))
        self.unsent = len(questions)
        self._lock = threading.Lock()
        self._start = clock()

    def next(self) -> tuple[Question, bool] | None:
        """The next question once it is due, and whether it is late; None when there is none any more."""
        with self._lock:
            index, question = next(self._questions, (0, None))
        if question is None or self.over.is_set():
            return None
        late = False
        if self.traffic.due:
            left = self._start + self.traffic.due[index] - clock()
            late = left < -LATE_S
            if self.over.wait(max(0.0, left)):
                return None
        with self._lock:
            self.unsent -= 1
        return question, late


def _leave(threads: Sequence[threading.Thread], clients: Sequence[Http]) -> None:
    """End what the threads read, again and again: one may just have begun to."""
    until = clock() + LEAVE_S
    while any(thread.is_alive() for thread in threads) and clock() < until:
        for thread, client in zip(threads, clients, strict=True):
            if thread.is_alive():
                client.abort()
        time.sleep(0.02)


def _take_one(done: "queue.SimpleQueue[Wire | None]", take: Callable[[Wire], None], wait_s: float) -> int:
    """Hand on what comes within `wait_s`; 1 where a thread said that it ended."""
    try:
        wire = done.get(timeout=wait_s)
    except queue.Empty:
        return 0
    if wire is None:
        return 1
    take(wire)
    return 0


def _serve(client: Http, turns: _Turns, done: "queue.SimpleQueue[Wire | None]") -> None:
    """A slot: one question after the other."""
    try:
        while (turn := turns.next()) is not None:
            question, late = turn
            done.put(replace(_ask(client, question, turns), late=late))
    finally:
        done.put(None)


def _ask(client: Http, question: Question, turns: _Turns) -> Wire:
    """Send a question until it is not answered with a 429 any more, or there is no time left for that."""
    traffic, refused = turns.traffic, 0
    url, body = traffic.base + question.route, question.body(traffic.model)
    while True:
        wire, wait_s = _exchange(client, url, body, question)
        if turns.over.is_set() and wire.trouble:
            turns.cut = True
            return replace(wire, cut=True, refused=refused)
        if wire.status != 429:
            return replace(wire, refused=refused)
        refused += 1
        wait_s = min(MOST_WAIT_S, 2.0 ** (refused - 1)) if wait_s is None else max(LEAST_WAIT_S, wait_s)
        if clock() + wait_s >= traffic.until:
            return replace(wire, refused=refused)
        if turns.over.wait(wait_s):
            turns.cut = True
            return replace(wire, cut=True, refused=refused)


def _exchange(client: Http, url: str, body: bytes, question: Question) -> tuple[Wire, float | None]:
    """One request and what came, with the seconds to wait if it was refused and said so."""
    pieces: list[Piece] = []
    sent, status, kind, wait_s = clock(), 0, "", None
    trouble: tuple[Failure, str] | None = None
    reply: Stream | None = None
    try:
        with client.post(url, body) as reply:
            for piece in reply.pieces:
                pieces.append(piece)
    except SourceError as error:
        trouble = (_failure(error), error.message)
    if reply is not None:
        sent, status, kind, wait_s = reply.sent, reply.status, reply.kind, _wait_s(reply.retry_after)
    return Wire(question, sent, clock(), status, kind, tuple(pieces), trouble), wait_s


def _failure(error: SourceError) -> Failure:
    match error:
        case BrokeOff():
            return Failure.BROKE_OFF
        case TimedOut():
            return Failure.TIMED_OUT
        case TooLarge():
            return Failure.TOO_LARGE
    return Failure.CONNECT


def _wait_s(told: str) -> float | None:
    """Seconds of a Retry-After, which is a number or a date; None where it is neither."""
    try:
        return float(int(told))
    except ValueError:
        pass
    try:
        return parsedate_to_datetime(told).timestamp() - time.time()
    except (TypeError, ValueError, OverflowError):
        return None


@contextmanager
def _quick_switches() -> Iterator[None]:
    """Threads take turns more often while this lasts."""
    usual = sys.getswitchinterval()
    sys.setswitchinterval(SWITCH_S)
    try:
        yield
    finally:
        sys.setswitchinterval(usual)
