"""A replica is gone: the fleet's sum falls, each server that is left is fine or carries more."""

from collections.abc import Iterator

import numpy as np

from vllmdoctor.case import Case, Kind, Limit, Onset, ratio
from vllmdoctor.model import Severity
from vllmdoctor.rules import Yielded, rule


@rule(
    summary="a replica is gone; the others carry its load",
    severity=Severity.CRITICAL,
    signals=(("requests_running", "replicas_available"),),
    helpful=("replicas_desired", "scrape_up"),
    limits={
        "lost": Limit(1.0, "replicas", "one is enough", "vllmdoctor"),
        "silent": Limit(300.0, "s", "a scrape or two may fail", "vllmdoctor"),
    },
    remedies={"": ("add-replica",)},
    explains=("overload", "demand-drop"),
)
def replica_loss(case: Case) -> Iterator[Yielded]:
    lim = case.limits
    last = max(f.end for f in case.fleet.frames)
    first = min(f.start for f in case.fleet.frames)
    silent = [f for f in case.fleet.frames if last - f.end >= max(lim["silent"].value, 5 * f.interval)]
    # a rolled pod comes back under another name: what came later makes up for what left
    came = [f for f in case.fleet.frames if f.start - first >= lim["silent"].value and f not in silent]
    missing = max(0, len({f.instance for f in silent}) - len({f.instance for f in came}))
    have, want = case.frame.gauge("replicas_available"), case.frame.gauge("replicas_desired")
    short = want - have
    lacking = float(np.nanmax(short[case.windows.now])) if np.isfinite(short[case.windows.now]).any() else 0.0
    alone = len(case.fleet.frames) == 1 and not case.frame.has("replicas_available")
    yield case.require(
        "replicas gone", float("nan") if alone else max(float(missing), lacking), ">=", lim["lost"]
    )
    gone = min((f.end for f in silent), default=None)
    if gone is not None:
        yield Onset(gone)
        at = case.frame.times
        arrivals = case.vitals.arrivals
        carried = ratio(
            float(np.nanmean(arrivals[at > gone]))
            if np.isfinite(arrivals[at > gone]).any()
            else float("nan"),
            float(np.nanmean(arrivals[at <= gone]))
            if np.isfinite(arrivals[at <= gone]).any()
            else float("nan"),
        )
        yield case.support("arrivals here, since / before", carried, ">=", 1.1, "x")
    names = ", ".join(sorted({f.instance for f in silent})) or "by the deployment's count"
    yield Kind(
        "",
        f"{max(missing, round(lacking))} of {len({f.instance for f in case.fleet.frames})} replicas gone ({names})",
    )
