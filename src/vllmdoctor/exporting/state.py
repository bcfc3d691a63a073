"""What an exporter publishes: frozen, so that a page can be made of it while the next one is worked out."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from vllmdoctor.model import EngineReport


@dataclass(frozen=True, slots=True)
class TargetState:
    """One target as it was given (without a login). `up`: whether the last reading of it worked, None before.

    `last_success` is in unix seconds, NaN before the first.
    """

    name: str
    up: bool | None = None
    scrapes: int = 0
    failures: int = 0
    last_success: float = math.nan

    def after(self, up: bool, now: float) -> "TargetState":
        """The same after one more reading, at `now`."""
        failures, last = self.failures + (not up), now if up else self.last_success
        return TargetState(self.name, up, self.scrapes + 1, failures, last)


@dataclass(frozen=True, slots=True)
class State:
    """All there is to say at one moment. `answers` hold until `holds_until` (unix s), and not longer.

    `errors` are counted by their kind. Times are unix seconds, NaN for what has not happened.
    """

    targets: tuple[TargetState, ...] = ()
    answers: tuple[EngineReport, ...] = ()
    holds_until: float = math.inf
    errors: Mapping[str, int] = field(default_factory=dict)
    diagnoses: int = 0
    diagnosis_s: float = 0.0
    last_diagnosis_s: float = math.nan
    last_success: float = math.nan
    engines_dropped: int = 0
    series_dropped: int = 0
    series: int = 0
    samples: int = 0
