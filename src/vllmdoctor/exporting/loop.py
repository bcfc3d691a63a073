"""The schedule: read every target, diagnose now and then, publish. Nothing that fails in a round ends it."""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import replace

from vllmdoctor.diagnosis import diagnose
from vllmdoctor.errors import NotEnoughData, Unreachable, UsageError
from vllmdoctor.exporting.history import History
from vllmdoctor.exporting.presence import Engine, engine_of, engines_there
from vllmdoctor.exporting.reader import Reader
from vllmdoctor.exporting.settings import FRESH_ROUNDS, Clock, Settings
from vllmdoctor.exporting.state import State
from vllmdoctor.exporting.stores import Stores
from vllmdoctor.exporting.troubles import Troubles
from vllmdoctor.model import EngineReport, Observation
from vllmdoctor.recording import Gatherer, Recording
from vllmdoctor.sources import Source, Window, open_source, without_login
from vllmdoctor.sources.strangers import is_vllm, not_vllm

_PROMETHEUS = "prom+"
_DIAGNOSIS = "diagnosis"
_COARSE_S = 20.0  # at least so far apart are the samples of a Prometheus, as far as their age is concerned


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
        self._troubles = Troubles(tell)
        self._history = History(settings.keep_s, settings.every_s)
        self._stores = Stores(settings, self._clock, self._troubles)
        self._readers: list[Reader] = []
        self._answers: tuple[EngineReport, ...] = ()
        self._stored: frozenset[str] = frozenset()  # the servers that a Prometheus has seen lately
        self._turned = self._clock.steady()
        self._state = State(errors=self._troubles.counts)
        for target, source in _opened(targets):
            name = without_login(target)
            if target.startswith(_PROMETHEUS):
                self._stores.add(name, source)
            else:
                window = Window(0.0, settings.every_s, self._clock.now)
                self._readers.append(Reader(name, source, window, self._take, self._troubles.failed))

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
        """Read and diagnose on schedule; `once` ends after the first diagnosis.

        UsageError where a setting proves to be wrong before that one has worked.
        """
        every, pause = self._settings.every_s, self._settings.diagnose_every_s
        start = self._clock.steady()
        due = pause if self._readers else 0.0
        try:
            while True:
                self._turned = self._clock.steady()
                self.scrape()
                passed = self._clock.steady() - start
                if passed >= due:
                    if once:
                        self._give_up(passed)
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
                self._troubles.mended(reader.name, f"{reader.name} answers again")
        self._check()
        self._publish()

    def diagnose(self) -> None:
        """One diagnosis of all that is known."""
        began = self._clock.steady()
        now = self._clock.now()
        dropped = 0
        answers: tuple[EngineReport, ...] = ()
        worked = False
        try:
            recording, there = self._recording(now)
            report = diagnose(recording, vllm_version=self._settings.vllm_version)
            found = tuple(answer for answer in report.engines if engine_of(answer) in there)
            answers, dropped = found[: self._settings.most_engines], len(found[self._settings.most_engines :])
            worked = True
            self._troubles.mended(_DIAGNOSIS)
        except Exception as error:  # noqa: BLE001  tried again with the schedule, and counted
            self._troubles.failed(_DIAGNOSIS, error)
            self._check()
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

    def _give_up(self, passed: float) -> None:
        """A target that has not answered at all by the end is one that failed."""
        for reader in self._readers:
            if reader.state.up is None and reader.give_up():
                hint = "the server is too busy to answer, or something else listens there"
                error = Unreachable(f"{reader.name} did not answer within {passed:.0f} s", hint=hint)
                self._troubles.failed(reader.name, error)
        self._publish()

    def _news(self, answers: Sequence[EngineReport]) -> None:
        """Tell what is said now and was not said before."""
        before = {engine_of(old): (old.verdict, old.primary, old.kind) for old in self._answers}
        for new in answers:
            if before.get(engine_of(new)) != (new.verdict, new.primary, new.kind):
                cause = ", ".join(filter(None, (new.primary, new.kind)))
                who = " ".join(filter(None, (new.instance, f"engine {new.engine}", new.model)))
                self._tell(f"{who}: {new.verdict}" + (f" ({cause})" if cause != new.verdict else ""))

    def _check(self) -> None:
        """Raise what no trying again mends, as long as nothing has worked."""
        if self._troubles.misuse is not None and math.isnan(self._state.last_success):
            raise self._troubles.misuse

    def _recording(self, now: float) -> tuple[Recording, frozenset[Engine]]:
        """All that is known, kept here or by a Prometheus, and which engines are there now."""
        gatherer = Gatherer()
        self._stores.pour(gatherer)
        self._history.pour(gatherer, now)
        recording = gatherer.recording()
        series = [series for columns in recording.columns.values() for series in columns]
        if series and not any(map(is_vllm, series)):
            raise not_vllm(series)
        scraped = self._history.seen()
        live_s = FRESH_ROUNDS * self._settings.every_s
        stored_s = max(live_s, FRESH_ROUNDS * max(_COARSE_S, recording.interval))
        there = engines_there(recording, lambda instance: now - (live_s if instance in scraped else stored_s))
        self._stored = frozenset(instance for instance, *_ in there) - scraped.keys()
        if not there:
            age = now - recording.end
            why = f": the newest sample is {age:.0f} s old" if math.isfinite(age) else ""
            raise NotEnoughData(f"no server was seen lately{why}")
        return recording, there

    def _take(self, observation: Observation) -> None:
        self._history.add(observation, self._clock.now())

    def _publish(self) -> None:
        """Make known what is known; an engine whose server is not seen any more has no answer."""
        oldest = self._clock.now() - FRESH_ROUNDS * self._settings.every_s
        fresh = {server for server, at in self._history.seen().items() if at >= oldest} | self._stored
        self._state = replace(
            self._state,
            targets=(*(reader.state for reader in self._readers), *self._stores.states),
            answers=tuple(answer for answer in self._answers if answer.instance in fresh),
            errors=self._troubles.counts,
            series=self._history.series,
            samples=self._history.samples,
            series_dropped=self._history.dropped,
        )


def _opened(targets: Sequence[str]) -> list[tuple[str, Source]]:
    """The targets with their sources; UsageError where they cannot be read again and again."""
    once = {without_login(target): target for target in targets}
    opened = [(target, open_source(target)) for target in once.values()]
    for target, source in opened:
        if not source.live and not target.startswith(_PROMETHEUS):
            raise UsageError(
                f"{target} does not change: there is nothing to export again and again",
                hint="give a live server (http://HOST:PORT) or a Prometheus (prom+http://HOST:PORT)",
            )
    if all(source.beside for _, source in opened):
        raise UsageError("no server to diagnose", hint="nvml: and host: stand beside http://HOST:PORT")
    return opened
