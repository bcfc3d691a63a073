"""Scrapes are missing: what happened meanwhile is unknown, and a hole is not a fall to zero."""

from collections.abc import Iterator

import numpy as np

from vllmdoctor.case import Case, Kind, Limit, lasting
from vllmdoctor.frame import GAP_SCRAPES
from vllmdoctor.model import Severity
from vllmdoctor.rules import Yielded, rule


@rule(
    summary="scrapes are missing: part of the history is unknown",
    severity=Severity.INFO,
    signals=(("requests_running", "generation_tokens", "kv_cache_usage"),),
    limits={"missing": Limit(0.05, "ratio", "a twentieth of the time unseen may hide a stall", "vllmdoctor")},
    remedies={"": ("no-action",)},
)
def scrape_gaps(case: Case) -> Iterator[Yielded]:
    signal = next(s for s in ("requests_running", "generation_tokens", "kv_cache_usage") if case.frame.has(s))
    times, _ = case.frame.raw(signal)
    holes = np.diff(times)
    missing = float(holes[holes > GAP_SCRAPES * case.frame.interval].sum())
    span = case.frame.end - case.frame.start
    yield case.require(
        "time without scrapes", missing / span if span > 0 else 0.0, ">=", case.limits["missing"]
    )
    longest = float(holes.max()) if holes.size else 0.0
    yield Kind(
        "", f"{lasting(missing)} of {lasting(span)} are not covered, the longest hole is {lasting(longest)}"
    )
