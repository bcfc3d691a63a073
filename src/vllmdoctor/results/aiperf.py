"""AIPerf: profile_export.jsonl with a record a request, and profile_export_aiperf.json with a summary.

The fields are those of MetricRecordInfo (`metadata.request_start_ns`, `request_end_ns`, `benchmark_phase`;
`metrics` by tag, each with `value` and `unit`; `error`) and of JsonExportData with `avg` and `p95` a metric.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from vllmdoctor import probe_series as series
from vllmdoctor import run_series as run
from vllmdoctor.model import Observation
from vllmdoctor.results.rows import Row, number, observations, summary

PROGRAM = "AIPerf"
_UNITS = {"s": 1.0, "sec": 1.0, "seconds": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}
_MEASURED = "profiling"


def recognises(document: Mapping[str, Any]) -> bool:
    """Whether an object is a record or a summary of it."""
    return (
        _is_record(document)
        or "aiperf_version" in document
        or _is_block(document.get("output_token_throughput"))
    )


def runs(documents: Sequence[Mapping[str, Any]], name: str) -> tuple[tuple[Observation, ...], ...]:
    """The records of a file are one run; each summary is one."""
    if not _is_record(documents[0]):
        return tuple(_of_summary(document, name) for document in documents)
    rows = [
        _row(record)
        for record in documents
        if record["metadata"].get("benchmark_phase", _MEASURED) == _MEASURED
        and not record["metadata"].get("was_cancelled")
    ]
    chunks = any("inter_chunk_latency" in (record.get("metrics") or {}) for record in documents)
    kind = "between chunks" if chunks else "mean of each request"
    return (observations(rows, _facts({}, itl=kind), name),)


def _row(record: Mapping[str, Any]) -> Row:
    metadata, metrics = record["metadata"], record.get("metrics") or {}
    start, end = number(metadata["request_start_ns"]) / 1e9, number(metadata["request_end_ns"]) / 1e9
    ttft = _seconds(metrics.get("time_to_first_token"))
    latency = _seconds(metrics.get("request_latency"))
    return Row(
        end,
        bool(record.get("error")),
        ttft,
        end - start if math.isnan(latency) else latency,
        _value(metrics.get("input_sequence_length")),
        _output(metrics),
        _gaps(metrics, start + ttft, end),
    )


def _gaps(metrics: Mapping[str, Any], first: float, end: float) -> list[tuple[float, float]]:
    """Each gap between chunks; where those were not kept, the request's mean as one."""
    chunks = metrics.get("inter_chunk_latency")
    if isinstance(chunks, Mapping) and isinstance(chunks.get("value"), list):
        factor, found = _UNITS.get(str(chunks.get("unit")), math.nan), []
        for gap in chunks["value"]:
            first += factor * number(gap)
            found.append((first, factor * number(gap)))
        return found
    mean = _seconds(metrics.get("inter_token_latency"))
    return [] if math.isnan(mean) else [(end, mean)]


def _of_summary(document: Mapping[str, Any], name: str) -> tuple[Observation, ...]:
    def seconds(key: str, field: str) -> float:
        block = document.get(key)
        if not isinstance(block, Mapping):
            return math.nan
        return number(block.get(field)) * _UNITS.get(str(block.get("unit")), math.nan)

    def plain(key: str) -> float:
        block = document.get(key)
        return number(block.get("avg")) if isinstance(block, Mapping) else math.nan

    values = {
        run.THROUGHPUT: plain("output_token_throughput"),
        run.TTFT_P95: seconds("time_to_first_token", "p95"),
        run.TTFT_MEAN: seconds("time_to_first_token", "avg"),
        run.ITL_P95: seconds("inter_token_latency", "p95"),
        run.ITL_MEAN: seconds("inter_token_latency", "avg"),
        run.E2E_MEAN: seconds("request_latency", "avg"),
        run.COMPLETED: plain("request_count"),
        run.FAILED: plain("error_request_count"),
    }
    why = "the file holds only a summary: profile_export.jsonl beside it holds each request"
    config = document.get("input_config")
    return summary(values, _facts(config if isinstance(config, Mapping) else {}, itl=""), name, 0.0, why)


def _facts(config: Mapping[str, Any], *, itl: str) -> dict[str, str | float | int]:
    load = _load(config)
    return {
        series.CONCURRENCY: load.get("concurrency") or "",
        series.RATE: load.get("request_rate") or load.get("rate") or "",
        series.TOOL: PROGRAM,
        series.ITL_KIND: itl,
    }


def _load(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """The load that was measured: a phase of newer releases' configuration, `loadgen` of older ones'."""
    phases = config.get("phases")
    measured = [p for p in phases if p.get("name") == _MEASURED] if isinstance(phases, list) else []
    load = measured[0] if measured else config.get("loadgen")
    return load if isinstance(load, Mapping) else {}


def _output(metrics: Mapping[str, Any]) -> float:
    found = _value(metrics.get("output_sequence_length"))
    return _value(metrics.get("output_token_count")) if math.isnan(found) else found


def _value(block: object) -> float:
    return number(block.get("value")) if isinstance(block, Mapping) else math.nan


def _seconds(block: object) -> float:
    if not isinstance(block, Mapping):
        return math.nan
    return number(block.get("value")) * _UNITS.get(str(block.get("unit")), math.nan)


def _is_record(document: Mapping[str, Any]) -> bool:
    metadata = document.get("metadata")
    return isinstance(metadata, Mapping) and "request_end_ns" in metadata and "metrics" in document


def _is_block(value: object) -> bool:
    return isinstance(value, Mapping) and "unit" in value
