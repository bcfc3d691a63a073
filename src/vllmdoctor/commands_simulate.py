"""What is behind `simulate`: a scenario as a file, or as a server whose metrics page lives through it."""

import itertools
import json
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from vllmdoctor.errors import FileExists, UnknownName, UsageError
from vllmdoctor.simulator import SCENARIOS, Page, Scenario, simulate, write_openmetrics
from vllmdoctor.simulator.openmetrics import family

LOOPBACK = "127.0.0.1"


def scenario_of(name: str) -> Scenario:
    """The scenario of a name, or UnknownName with the nearest."""
    if name not in SCENARIOS:
        raise UnknownName("scenario", name, SCENARIOS)
    return SCENARIOS[name]


def scenarios() -> list[tuple[str, str]]:
    """(name, what happens in it) of every scenario."""
    return [(s.name, s.about) for s in SCENARIOS.values()]


def write(name: str, path: Path, *, seed: int) -> int:
    """Write a scenario as OpenMetrics text (packed for `.gz`); how many pages. FileExists if it is there."""
    scenario = scenario_of(name)
    if path.exists():
        raise FileExists(f"{path} exists", hint="choose another name; nothing is ever overwritten")
    try:
        return write_openmetrics(simulate(scenario, seed=seed), path)
    except OSError as error:
        raise UsageError(f"cannot write {path}: {(error.strerror or str(error)).lower()}") from None


class Playback:
    """A history that is played as time passes, `speed` times as fast. Asked by several threads."""

    def __init__(
        self, pages: Iterator[Page], speed: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._first = next(pages)
        self._pages = itertools.chain([self._first], pages)
        self._speed, self._clock = speed, clock
        self._began = clock()
        self._ahead: Page | None = None
        self._shown: dict[str, Page] = {}
        self._lock = threading.Lock()

    def text(self) -> str:
        """The metrics page now: of every pod the newest scrape that is not in the future."""
        with self._lock:
            now = self._first.time_s + (self._clock() - self._began) * self._speed
            while (page := self._ahead or next(self._pages, None)) is not None:
                self._ahead = page
                if page.time_s > now and self._shown:
                    break
                self._shown[page.instance] = page
                self._ahead = None
            values = {k: v for page in self._shown.values() for k, v in page.values.items()}
        return _exposition(values)


def serve(name: str, port: int, *, seed: int, speed: float) -> ThreadingHTTPServer:
    """A server on the loopback address that plays the scenario; `serve_forever` runs it. Port 0 picks one."""
    scenario = scenario_of(name)
    if not speed > 0:
        raise UsageError("the speed must be above 0", hint="60 plays an hour in a minute")
    return play(Playback(simulate(scenario, seed=seed), speed), scenario.setup(seed).era.text, port)


def play(playback: Playback, version: str, port: int) -> ThreadingHTTPServer:
    """A server on the loopback address that shows a playback as a vLLM of this version would."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path == "/version":
                self._answer("application/json", json.dumps({"version": version}))
            elif self.path == "/metrics":
                self._answer("text/plain; version=0.0.4; charset=utf-8", playback.text())
            else:
                self.send_error(404)

        def _answer(self, kind: str, text: str) -> None:
            body = text.encode()
            self.send_response(200)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """The page is for scrapers: nobody reads an access log."""

    try:
        return ThreadingHTTPServer((LOOPBACK, port), Handler)
    except OSError as error:
        raise UsageError(
            f"cannot listen on {LOOPBACK}:{port}: {(error.strerror or str(error)).lower()}"
        ) from None


def _exposition(values: dict[str, float]) -> str:
    """A page in Prometheus' text format, families together under their type."""
    families: dict[tuple[str, str], list[str]] = {}
    for key, value in values.items():
        name, kind = family(key.partition("{")[0])
        shown = f"{name}_total" if kind == "counter" else name
        families.setdefault((shown, kind), []).append(f"{key} {value!r}\n")
    return "".join(f"# TYPE {name} {kind}\n" + "".join(lines) for (name, kind), lines in families.items())
