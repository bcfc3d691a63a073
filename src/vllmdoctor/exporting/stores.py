"""The targets of an exporter that keep history themselves: each diagnosis asks them for the last hours."""

from collections.abc import Sequence

from vllmdoctor.errors import SourceError
from vllmdoctor.exporting.settings import Clock, Settings
from vllmdoctor.exporting.state import TargetState
from vllmdoctor.exporting.troubles import Troubles
from vllmdoctor.recording import Gatherer
from vllmdoctor.sources import Source, Window


class Stores:
    """Every Prometheus among the targets, by the name it is shown with."""

    def __init__(self, settings: Settings, clock: Clock, troubles: Troubles) -> None:
        self._settings, self._clock, self._troubles = settings, clock, troubles
        self._sources: dict[str, Source] = {}
        self._states: dict[str, TargetState] = {}

    def add(self, name: str, source: Source) -> None:
        """One more."""
        self._sources[name] = source
        self._states[name] = TargetState(name)

    def __len__(self) -> int:
        return len(self._sources)

    @property
    def states(self) -> Sequence[TargetState]:
        """How each of them does."""
        return tuple(self._states.values())

    def pour(self, gatherer: Gatherer) -> None:
        """Ask each for its history; one that fails is counted, and the others go on."""
        history = self._settings.prometheus
        window = Window(0.0, self._settings.every_s, self._clock.now, history=history)
        for name, source in self._sources.items():
            up = False
            try:
                for observation in source.read(window):
                    gatherer.add(observation)
                up = True
                self._troubles.mended(name, f"{name} answers again")
            except SourceError as error:
                self._troubles.failed(name, error)
            self._states[name] = self._states[name].after(up, self._clock.now())
