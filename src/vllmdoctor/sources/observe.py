"""Several targets make one stream: files are read one after the other, live sources side by side.

A target that fails is a Gap while the rest goes on; when nothing came from any, the most telling
error is raised.
"""

import queue
import threading
import time
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from vllmdoctor.errors import (
    BlindError,
    NotEnoughData,
    NotVllm,
    Unauthorized,
    Unreachable,
    VllmDoctorError,
)
from vllmdoctor.model import Event, Gap, Observation, Samples, Snapshot
from vllmdoctor.recording import Gatherer, Recording
from vllmdoctor.sources import Source, Window, open_sources
from vllmdoctor.sources.log.join import joined
from vllmdoctor.sources.strangers import is_beside, is_vllm, not_vllm

_MOST_SPECIFIC_FIRST = (Unauthorized, NotVllm, Unreachable, BlindError, VllmDoctorError)
_PATIENCE_S = 2.0  # for scrapes still running when the user has had enough
_QUEUED = 256
_TARGETS = "targets"  # the origin of a Gap that tells that a whole target was not read
_BESIDE = (
    "targets beside the server"  # the same of one that only adds to a server: its absence is a gap, no more
)
_Inbox: TypeAlias = "queue.Queue[tuple[Source, Observation | BaseException | None]]"


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a live reading is: the failures of all servers so far, and the time (s).

    `scrapes` are those of the server that has most, `fewest` those of the one that has fewest.
    `recording()` makes a Recording of what there is by now.
    """

    scrapes: int
    fewest: int
    failures: int
    elapsed_s: float
    duration_s: float
    recording: Callable[[], Recording]


def gather(
    targets: Sequence[str], window: Window, on_progress: Callable[[Progress], None] | None = None
) -> Recording:
    """What `gather_targets` of the package does."""
    sources = open_sources(targets)
    gatherer = Gatherer()
    start, failures = time.monotonic(), 0
    scrapes: Counter[str] = Counter()
    stream = observe(sources, window)
    try:
        for observation in stream:
            gatherer.add(observation)
            failure = failure_of(observation)
            if on_progress is None or not (failure or isinstance(observation, Snapshot)):
                continue
            if isinstance(observation, Snapshot):
                scrapes[observation.instance] += 1
            failures += bool(failure)
            on_progress(
                Progress(
                    scrapes=max(scrapes.values(), default=0),
                    fewest=min(scrapes.values(), default=0),
                    failures=failures,
                    elapsed_s=time.monotonic() - start,
                    duration_s=window.duration_s,
                    recording=gatherer.recording,
                )
            )
    except KeyboardInterrupt:
        if not any(source.live for source in sources):
            raise
    finally:
        stream.close()
    return joined(gatherer.recording())


def failure_of(observation: Observation) -> str:
    """What failed, in words, where the observation tells that a target could not be read."""
    match observation:
        case Event(_, "scrape-failed", text):
            return text
        case Gap(origin, what) if origin in (_TARGETS, _BESIDE):
            return what
    return ""


def observe(sources: Sequence[Source], window: Window) -> Generator[Observation]:
    """The joined stream of several sources. VllmDoctorError where none of them gives anything."""
    watch = _Watch(sources)
    for source in sources:
        if not source.live:
            try:
                for observation in source.read(window):
                    watch.saw(source, observation)
                    yield observation
            except VllmDoctorError as error:
                yield watch.failed(source, error)
            watch.ended(source)
    live = [source for source in sources if source.live]
    if live:
        yield from _side_by_side(live, window, watch)
    watch.finish()


class _Watch:
    """What came from whom; raises when it is certain that nothing of vLLM's will come."""

    def __init__(self, sources: Sequence[Source]) -> None:
        self._silent = {id(source) for source in sources}
        self._errors: dict[int, VllmDoctorError] = {}
        self._series: list[str] = []
        self._vllm = False
        self._alone = len(sources) == 1

    def saw(self, source: Source, observation: Observation) -> None:
        """Take note of an observation."""
        if self._vllm or not isinstance(observation, Snapshot | Samples):
            return
        names = observation.values if isinstance(observation, Snapshot) else [observation.series]
        self._series += names
        self._vllm = any(map(is_vllm, names))
        if source.live:
            self.ended(source)

    def failed(self, source: Source, error: VllmDoctorError) -> Gap:
        """Take note of a failure; raise it where no other source can help."""
        self._errors[id(source)] = error
        self.ended(source)
        origin = _BESIDE if source.beside else _TARGETS
        return Gap(origin, error.message, "not read", error.hint)

    def ended(self, source: Source) -> None:
        """A source has shown what it is, or has nothing more to say."""
        self._silent.discard(id(source))
        if not self._silent:
            self.finish()

    def finish(self) -> None:
        """Raise where nothing of vLLM's came."""
        if self._vllm:
            return
        served = [series for series in self._series if not is_beside(series)]
        if served:
            raise not_vllm(served)
        for kind in _MOST_SPECIFIC_FIRST:
            for error in self._errors.values():
                if isinstance(error, kind):
                    raise error
        if self._series:
            raise not_vllm(self._series)
        raise NotEnoughData("nothing was read", hint="the target holds no samples")


def _side_by_side(sources: Sequence[Source], window: Window, watch: _Watch) -> Iterator[Observation]:
    stop = threading.Event()
    inbox: _Inbox = queue.Queue(_QUEUED)
    window = replace(window, sleep=stop.wait)
    for source in sources:
        persist = len(sources) > 1
        threading.Thread(target=_work, args=(source, window, inbox, stop, persist), daemon=True).start()
    running = len(sources)
    deadline: float | None = None
    told: set[int] = set()
    try:
        while running:
            try:
                left = None if deadline is None else max(0.0, deadline - time.monotonic())
                source, item = inbox.get(timeout=left)
            except KeyboardInterrupt:
                if deadline is not None:
                    raise
                stop.set()
                deadline = time.monotonic() + _PATIENCE_S
                continue
            except queue.Empty:
                return
            if item is None:
                running -= 1
                watch.ended(source)
            elif isinstance(item, BaseException):
                if not isinstance(item, VllmDoctorError):
                    raise item
                gap = watch.failed(source, item)
                if id(source) not in told:
                    told.add(id(source))
                    yield gap
            else:
                watch.saw(source, item)
                yield item
    finally:
        stop.set()


def _work(source: Source, window: Window, inbox: _Inbox, stop: threading.Event, persist: bool) -> None:
    """Read one source into the inbox. With `persist`, a server that cannot be reached is tried again."""

    def put(item: Observation | BaseException | None) -> None:
        while True:
            try:
                inbox.put((source, item), timeout=0.5)
                return
            except queue.Full:
                if stop.is_set():
                    return

    end = time.monotonic() + window.duration_s
    again = True
    while again:
        again = False
        try:
            for observation in source.read(window):
                put(observation)
        except Unreachable as error:
            put(error)
            again = persist and time.monotonic() + window.interval_s <= end
            again = again and not stop.wait(window.interval_s)
            window = replace(window, duration_s=max(0.0, end - time.monotonic()))
        except BaseException as error:  # noqa: BLE001  raised where the stream is read, also when it is a bug
            put(error)
    put(None)
