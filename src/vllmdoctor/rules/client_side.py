"""The server answers as fast as before; what users feel happens before or after it."""

from collections.abc import Iterator

from vllmdoctor.case import Case, Kind, Limit, number, ratio
from vllmdoctor.model import Severity
from vllmdoctor.rules import Yielded, rule


@rule(
    summary="clients ask again or give up; the server itself is as fast as before",
    severity=Severity.INFO,
    signals=("http_requests", ("requests_finished", "e2e_latency")),
    helpful=("ttft", "requests_waiting"),
    limits={
        "repeats": Limit(
            1.3,
            "ratio",
            "a third more HTTP requests than finished ones are retries or aborts",
            "measured cases",
        ),
        "rise": Limit(1.2, "ratio", "and it was not always so", "vllmdoctor"),
        "waiting": Limit(0.5, "requests", "with a queue the server is not innocent", "vllmdoctor"),
    },
    remedies={"": ("check-client",)},
)
def client_side(case: Case) -> Iterator[Yielded]:
    v, lim = case.vitals, case.limits
    now = ratio(case.now(v.asked), case.now(v.finished))
    before = ratio(case.before(v.asked), case.before(v.finished))
    yield case.require("HTTP requests / finished requests", now, ">=", lim["repeats"])
    yield case.require("that ratio, now / before", ratio(now, before), ">=", lim["rise"])
    yield case.require("requests waiting (mean)", case.now(v.waiting), "<", lim["waiting"])
    slow = [s for s in case.symptoms if s.slow]
    yield case.require("slow symptoms on the server", float(len(slow)), "<", 1.0, "symptoms")
    yield Kind("", f"{number(now)} HTTP requests come for each one that finishes, and the server is not slow")
