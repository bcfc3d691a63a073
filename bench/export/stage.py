"""A simulated server on a real port, at whatever hour is wanted: it goes down and comes back as told."""

import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING

from vllmdoctor.commands_simulate import Playback, play
from vllmdoctor.exporting.settings import Clock
from vllmdoctor.simulator import Scrape, Setup, simulate

if TYPE_CHECKING:
    from http.server import ThreadingHTTPServer


class Stage:
    """Plays `setup` from its beginning; `outages` are (from, to) in seconds, each ended by a restart.

    After a restart everything begins anew, counters at zero and the story of the setup as well.
    """

    def __init__(self, setup: Setup, *, seed: int = 1, outages: Sequence[tuple[float, float]] = ()) -> None:
        self._setup = replace(setup, scrape=Scrape(min(15.0, setup.scrape.interval_s), 0.0, 0.0))
        self._seed, self._outages = seed, outages
        self.passed_s = 0.0
        self.restarts = 0
        self._server: ThreadingHTTPServer | None = None
        self._port = 0
        self._open()
        self.url = f"http://127.0.0.1:{self._port}"

    @property
    def now(self) -> float:
        """The simulated time (unix s)."""
        return self._setup.start_unix_s + self.passed_s

    def at(self, passed_s: float) -> None:
        """Set the time: so many seconds after the beginning."""
        self.passed_s = passed_s
        down = any(start <= passed_s < end for start, end in self._outages)
        if down:
            self.close()
        elif self._server is None:
            self.restarts += 1
            self._open()

    def clock(self, end_s: float, each: Callable[[], object] = lambda: None) -> Clock:
        """A clock for an exporter that moves the stage instead of waiting, until `end_s`."""

        def sleep(seconds: float) -> bool:
            each()
            self.at(self.passed_s + seconds)
            return self.passed_s >= end_s

        return Clock(lambda: self.now, lambda: self.passed_s, sleep)

    def __enter__(self) -> "Stage":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """The port is free; whoever asks is refused."""
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server = None

    def _open(self) -> None:
        setup = replace(self._setup, start_unix_s=self.now)
        pages = simulate(setup, seed=self._seed + self.restarts)
        playback = Playback(pages, 1.0, lambda: self.passed_s)
        self._server = play(playback, self._setup.era.text, self._port)
        self._port = self._server.server_port
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()
