"""What a person chose for an exporter, and how it knows the time."""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from vllmdoctor.errors import UsageError
from vllmdoctor.sources import SHORTEST_INTERVAL_S, History

FRESH_ROUNDS = 3
"""An answer is shown no longer than so many rounds after its server, or its diagnosis, was last seen."""

MOST_ENGINES = 64
"""Answers for more engines are dropped, the best ones first."""


@dataclass(frozen=True, slots=True)
class Settings:
    """Seconds between scrapes, between diagnoses, and of history; UsageError where they do not fit."""

    every_s: float = 15.0
    diagnose_every_s: float = 60.0
    keep_s: float = 10 * 3600.0
    prometheus: History = field(default_factory=History)
    vllm_version: str = ""
    most_engines: int = MOST_ENGINES

    def __post_init__(self) -> None:
        if self.every_s < SHORTEST_INTERVAL_S:
            raise UsageError(f"a server is not scraped more often than every {SHORTEST_INTERVAL_S:g} s")
        if self.diagnose_every_s < self.every_s:
            raise UsageError(
                "--diagnose-every must not be shorter than --every",
                hint="a diagnosis without a new scrape says what the last one said",
            )
        if self.keep_s < 2 * self.diagnose_every_s:
            raise UsageError(
                "--keep must be at least twice --diagnose-every",
                hint="a decline over hours needs hours: --keep 10h",
            )


@dataclass(frozen=True, slots=True)
class Clock:
    """The time (unix s; s since some moment) and how to wait; `sleep` returns True at the end."""

    now: Callable[[], float] = time.time
    steady: Callable[[], float] = time.monotonic
    sleep: Callable[[float], object] = field(default_factory=lambda: threading.Event().wait)
