"""The schedule: read every target, diagnose now and then, publish. Nothing that fails in a round ends it."""

import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from vllmdoctor.diagnosis import diagnose
from vllmdoctor.errors import (
    NotEnoughData,
    NotVllm,
    SourceError,
    Unauthorized,
    Unreachable,
    UsageError,
    VllmDoctorError,
)
from vllmdoctor.exporting.history import History
from vllmdoctor.exporting.reader import Reader
from vllmdoctor.exporting.settings import FRESH_ROUNDS, Clock, Settings
from vllmdoctor.exporting.state import State, TargetState
from vllmdoctor.model import EngineReport, Observation
from vllmdoctor.recording import Gatherer, Recording
from vllmdoctor.sources import Source, Window, open_source, without_login
from vllmdoctor.sources.strangers import is_vllm, not_vllm

ERRORS: tuple[tuple[str, type[Exception]], ...] = (
    ("unreachable", Unreachable),
    ("unauthorized", Unauthorized),
    ("not_vllm", NotVllm),
    ("not_enough_data", NotEnoughData),
    ("source", SourceError),
    ("usage", UsageError),
    ("internal", Exception),
)
"""The kinds that errors are counted by; the first that fits counts. `internal` is a bug."""

_PROMETHEUS = "prom+"
_DIAGNOSIS = "diagnosis"
_COARSE_S = 20.0  # a Prometheus may be asked in steps of this, and be so late


class Exporter:
    """Watches targets until its clock says that it is over; `state` is what it knows now.

    UsageError at once for a target that cannot be read again and again.
    """

    def __init__(
        self,
        targets: Sequence[str],
        settings: Settings,
        clock: Clock | None = None,
        tell: Callable[[str], object] = lambda _: None,
    ) -> None:
        self._settings = settings
        self._clock = clock or Clock()
        self._tell = tell
        self._errors = Counter({kind: 0 for kind, _ in ERRORS})
        self._said: dict[str, str] = {}
        self._lock = threading.Lock()
        self._history = History(settings.keep_s, settings.every_s)
        self._turned = self._clock.steady()
        self._answers: tuple[EngineReport, ...] = ()
        self._stored: set[str] = set()  # the servers that a Prometheus has seen just now
        self._state = State(errors=dict(self._errors))
        window = Window(0.0, settings.every_s, self._clock.now)
        self._readers: list[Reader] = []
        self._stores: dict[str, tuple[Source, TargetState]] = {}
        opened = [(target, open_source(target)) for target in dict.fromkeys(targets)]
        if all(source.beside for _, source in opened):
            raise UsageError("no server to diagnose", hint="nvml: and host: stand beside http://HOST:PORT")
        for target, source in opened:
            name = without_login(target)
            if target.startswith(_PROMETHEUS):
                self._stores[name] = source, TargetState(name)
            elif source.live:
                self._readers.append(Reader(name, source, window, self._take, self._failed))
            else:
                raise UsageError(
                    f"{name} does not change: there is nothing to export again and again",
                    hint="give a live server (http://HOST:PORT) or a Prometheus (prom+http://HOST:PORT)",
                )

    @property
    def state(self) -> State:
        """What is known now."""
        return self._state

    @property
    def history(self) -> History:
        """What is kept of live targets."""
        return self._history

    @property
    def turned(self) -> float:
        """When the last round began, by the steady clock."""
        return self._turned

    def run(self, *, once: bool = False) -> None:
        """Read and diagnose on schedule, `once` until the first diagnosis. UsageError of that one only."""
        every, pause = self._settings.every_s, self._settings.diagnose_every_s
        start = self._clock.steady()
        due = pause if self._readers else 0.0
        try:
            while True:
                self._turned = self._clock.steady()
                self.scrape()
                passed = self._clock.steady() - start
                if passed >= due:
                    self.diagnose()
                    if once:
                        return
                    due = (passed // pause + 1) * pause
                following = start + ((self._clock.steady() - start) // every + 1) * every
                if self._clock.sleep(max(0.0, following - self._clock.steady())):
                    return
        finally:
            for reader in self._readers:
                reader.stop()

    def scrape(self) -> None:
        """One scrape of every live target, side by side; none is waited for longer than half a round."""
        for reader in self._readers:
            reader.ask()
        end = time.monotonic() + self._settings.every_s / 2
        for reader in self._readers:
            reader.wait(end - time.monotonic())
            if reader.state.up:
                self._answered(reader.name)
        self._publish()

    def diagnose(self) -> None:
        """One diagnosis of all that is known."""
        began = self._clock.steady()
        now = self._clock.now()
        dropped = 0
        answers: tuple[EngineReport, ...] = ()
        worked = False
        first = self._state.diagnoses == 0
        try:
            recording = self._recording(now)
            report = diagnose(recording, vllm_version=self._settings.vllm_version)
            most = self._settings.most_engines
            answers, dropped = report.engines[:most], max(0, len(report.engines) - most)
            worked = True
            self._said.pop(_DIAGNOSIS, None)
        except UsageError as error:
            if first:
                raise
            self._failed(_DIAGNOSIS, error)
        except Exception as error:  # noqa: BLE001  tried again with the schedule, and counted
            self._failed(_DIAGNOSIS, error)
        self._news(answers)
        self._answers = answers
        took = self._clock.steady() - began
        self._state = replace(
            self._state,
            diagnoses=self._state.diagnoses + 1,
            diagnosis_s=self._state.diagnosis_s + took,
            last_diagnosis_s=took,
            last_success=now if worked else self._state.last_success,
            engines_dropped=self._state.engines_dropped + dropped,
            holds_until=now + FRESH_ROUNDS * self._settings.diagnose_every_s,
        )
        self._publish()

    def _news(self, answers: Sequence[EngineReport]) -> None:
        """Tell what is said now and was not said before."""
        before = {_engine(old): (old.verdict, old.primary, old.kind) for old in self._answers}
        for new in answers:
            if before.get(_engine(new)) != (new.verdict, new.primary, new.kind):
                cause = ", ".join(filter(None, (new.primary, new.kind)))
                self._tell(f"{_engine(new)}: {new.verdict}" + (f" ({cause})" if cause != new.verdict else ""))

    def _recording(self, now: float) -> Recording:
        """All that is known: what was kept, and what Prometheus has kept."""
        gatherer = Gatherer()
        for name, (source, state) in self._stores.items():
            window = Window(0.0, self._settings.every_s, self._clock.now, history=self._settings.prometheus)
            up = False
            try:
                for observation in source.read(window):
                    gatherer.add(observation)
                up = True
                self._answered(name)
            except SourceError as error:
                self._failed(name, error)
            last = now if up else state.last_success
            counted = TargetState(name, up, state.scrapes + 1, state.failures + (not up), last)
            self._stores[name] = source, counted
        if not self._stores and not self._fresh():
            raise NotEnoughData("no target was seen lately")
        self._history.pour(gatherer, now)
        recording = gatherer.recording()
        if self._stores:
            patience = FRESH_ROUNDS * max(_COARSE_S, self._settings.every_s, recording.interval)
            self._stored = last_seen(recording, now - patience) - set(self._history.seen())
        series = [series for columns in recording.columns.values() for series in columns]
        if series and not any(map(is_vllm, series)):
            raise not_vllm(series)
        return recording

    def _fresh(self) -> set[str]:
        """The servers that were scraped within the last rounds, by the names that reports have for them."""
        oldest = self._clock.now() - FRESH_ROUNDS * self._settings.every_s
        return {server for server, at in self._history.seen().items() if at >= oldest}

    def _take(self, observation: Observation) -> None:
        self._history.add(observation, self._clock.now())

    def _answered(self, who: str) -> None:
        with self._lock:
            failed = self._said.pop(who, "")
        if failed:
            self._tell(f"{who} answers again")

    def _failed(self, who: str, error: Exception) -> None:
        kind = next(kind for kind, of in ERRORS if isinstance(error, of))
        text = error.message if isinstance(error, VllmDoctorError) else f"{type(error).__name__}: {error}"
        with self._lock:
            self._errors[kind] += 1
            if self._said.get(who) == text:
                return
            self._said[who] = text
        self._tell(text if text.startswith(who) else f"{who}: {text}")

    def _publish(self) -> None:
        """Make known what is known; an engine whose server is not seen any more has no answer."""
        fresh = self._fresh() | self._stored
        with self._lock:
            errors = dict(self._errors)
        self._state = replace(
            self._state,
            targets=(*(reader.state for reader in self._readers), *(s for _, s in self._stores.values())),
            answers=tuple(answer for answer in self._answers if answer.instance in fresh),
            errors=errors,
            series=self._history.series,
            samples=self._history.samples,
            series_dropped=self._history.dropped,
        )


def _engine(answer: EngineReport) -> str:
    return " ".join(filter(None, (answer.instance, f"engine {answer.engine}", answer.model)))


def last_seen(recording: Recording, oldest: float) -> set[str]:
    """The servers of a recording that showed anything since `oldest` (unix s)."""
    return {
        instance
        for instance, columns in recording.columns.items()
        if any(
            bool(np.isfinite(column.values[np.searchsorted(column.times, oldest) :]).any())
            for column in columns.values()
        )
    }
