"""Little work: low throughput and an idle GPU are then normal."""

from collections.abc import Iterator

from vllmdoctor.case import Case, Kind, Limit, number
from vllmdoctor.model import Severity
from vllmdoctor.rules import Yielded, rule
from vllmdoctor.statistics import quantile


@rule(
    summary="the server has little to do",
    severity=Severity.INFO,
    signals=("requests_running", "requests_waiting"),
    helpful=("kv_cache_usage", "gpu_utilization"),
    limits={
        "running": Limit(1.0, "requests", "less than one request at a time", "tuning guide"),
        "waiting": Limit(0.05, "requests", "with a queue the load is not low", "tuning guide"),
        "usage": Limit(0.2, "ratio", "a nearly empty pool", "tuning guide"),
    },
    remedies={"": ("no-action",)},
)
def low_load(case: Case) -> Iterator[Yielded]:
    v, now, lim = case.vitals, case.windows.now, case.limits
    running = case.now(v.running)
    yield case.require("requests running (mean)", running, "<", lim["running"])
    yield case.require("requests waiting (mean)", case.now(v.waiting), "<", lim["waiting"])
    usage = quantile(v.usage, 0.9, now)
    yield case.support("KV usage (p90)", usage, "<", lim["usage"])
    yield Kind("", f"{number(running)} requests run on average and none wait")
