"""GuideLLM's benchmarks.json: each benchmark with its requests, by how they ended.

The fields are those of GenerativeBenchmarksReport: `benchmarks[].requests.successful[]` with
`request_start_time`, `request_end_time` (unix seconds; `start_time`, `end_time` before 0.4),
`time_to_first_token_ms`, `inter_token_latency_ms` (the mean of the request) and the token counts.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from vllmdoctor import probe_series as series
from vllmdoctor import run_series as run
from vllmdoctor.errors import UsageError
from vllmdoctor.model import Observation
from vllmdoctor.results.rows import Row, number, observations, summary

PROGRAM = "GuideLLM"


def recognises(document: Mapping[str, Any]) -> bool:
    """Whether an object is its report."""
    benchmarks = document.get("benchmarks")
    return isinstance(benchmarks, list) and all(isinstance(b, dict) and "metrics" in b for b in benchmarks)


def runs(documents: Sequence[Mapping[str, Any]], name: str) -> tuple[tuple[Observation, ...], ...]:
    """Each benchmark is a run; UsageError where they are of several loads, as in a sweep."""
    benchmarks = [b for document in documents for b in document["benchmarks"]]
    loads = {_load(b) for b in benchmarks}
    if not benchmarks:
        raise UsageError(f"{name} holds no benchmark", hint="did GuideLLM end before its first one did?")
    if len(loads) > 1:
        raise UsageError(
            f"{name} holds benchmarks of {len(loads)} loads: "
            + ", ".join(sorted(f"{kind} {size}" for kind, size in loads)),
            hint="a gate compares one load: run guidellm with one rate, not as a sweep",
        )
    return tuple(_run(b, documents[0], name) for b in benchmarks)


def _run(benchmark: Mapping[str, Any], document: Mapping[str, Any], name: str) -> tuple[Observation, ...]:
    requests = benchmark.get("requests") or {}
    done, failed = requests.get("successful") or [], requests.get("errored") or []
    facts = _facts(benchmark, document)
    totals = benchmark["metrics"].get("request_totals") or {}
    whole = not (number(totals.get("successful")) > len(done) or number(totals.get("errored")) > len(failed))
    if (done or failed) and whole:
        rows = [_row(each, failed=False) for each in done] + [_row(each, failed=True) for each in failed]
        last = _first(benchmark, "end_time")  # of one that failed before it was sent no more is known
        rows = [replace(r, end=last) if r.failed and math.isnan(r.end) else r for r in rows]
        return observations([r for r in rows if math.isfinite(r.end)], facts, name)
    why = "the file holds a sample of the requests" if done or failed else "the file holds no requests"
    end = number(benchmark.get("end_time"))
    return summary(_summary(benchmark["metrics"]), facts, name, end if math.isfinite(end) else 0.0, why)


def _row(request: Mapping[str, Any], *, failed: bool) -> Row:
    start = _first(request, "request_start_time", "start_time")
    end = _first(request, "request_end_time", "end_time")
    itl = number(request.get("inter_token_latency_ms")) / 1000
    return Row(
        end,
        failed,
        number(request.get("time_to_first_token_ms")) / 1000,
        end - start,
        _first(request, "prompt_tokens"),
        _first(request, "output_tokens"),
        () if math.isnan(itl) else ((end, itl),),
    )


def _summary(metrics: Mapping[str, Any]) -> dict[str, float]:
    def of(key: str, *path: str) -> float:
        found: Any = (metrics.get(key) or {}).get("successful") or {}
        for step in path:
            found = found.get(step) or {}
        return number(found)

    return {
        run.THROUGHPUT: of("output_tokens_per_second", "mean"),
        run.TTFT_P95: of("time_to_first_token_ms", "percentiles", "p95") / 1000,
        run.TTFT_MEAN: of("time_to_first_token_ms", "mean") / 1000,
        run.ITL_P95: of("inter_token_latency_ms", "percentiles", "p95") / 1000,
        run.ITL_MEAN: of("inter_token_latency_ms", "mean") / 1000,
        run.E2E_MEAN: of("request_latency", "mean"),
        run.COMPLETED: number((metrics.get("request_totals") or {}).get("successful")),
        run.FAILED: number((metrics.get("request_totals") or {}).get("errored")),
    }


def _facts(benchmark: Mapping[str, Any], document: Mapping[str, Any]) -> dict[str, str | float | int]:
    kind, rate = _load(benchmark)
    closed = kind in ("concurrent", "synchronous", "throughput")
    backend = (benchmark.get("config") or {}).get("backend") or (document.get("args") or {})
    return {
        series.MODEL: str(backend.get("model") or ""),
        series.LOOP: "closed" if closed else "open",
        series.CONCURRENCY if closed else series.RATE: rate,
        series.TOOL: PROGRAM,
        series.ITL_KIND: "mean of each request",
    }


def _load(benchmark: Mapping[str, Any]) -> tuple[str, str | float]:
    """The kind of load and its size."""
    config = benchmark.get("config") or benchmark.get("args") or {}
    strategy = config.get("strategy") or {}
    kind = str(strategy.get("type_") or strategy.get("kind") or "")
    size = next(
        (strategy[k] for k in ("streams", "rate", "max_concurrency") if strategy.get(k) is not None), ""
    )
    return kind, size if isinstance(size, int | float) else str(size)


def _first(request: Mapping[str, Any], *keys: str) -> float:
    return next((x for key in keys if not math.isnan(x := number(request.get(key)))), math.nan)
