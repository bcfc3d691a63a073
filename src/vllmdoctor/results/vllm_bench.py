"""`vllm bench serve --save-result`: a summary, and with --save-detailed each request.

The fields are those of vllm/benchmarks/serve.py: `ttfts`, `itls`, `start_times` (seconds, on a clock of
their own), `input_lens`, `output_lens`, `errors`. --append-result writes one object a line.
"""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from vllmdoctor import probe_series as series
from vllmdoctor import run_series as run
from vllmdoctor.model import Observation
from vllmdoctor.results.rows import Row, number, observations, summary

PROGRAM = "vllm bench serve"
_DETAILS = ("start_times", "ttfts", "itls", "output_lens", "input_lens")


def recognises(document: Mapping[str, Any]) -> bool:
    """Whether an object is a result of it."""
    return "request_throughput" in document and "total_input_tokens" in document and "duration" in document


def runs(documents: Sequence[Mapping[str, Any]], name: str) -> tuple[tuple[Observation, ...], ...]:
    """Each object is a run."""
    return tuple(_run(document, name) for document in documents)


def _run(document: Mapping[str, Any], name: str) -> tuple[Observation, ...]:
    end = _date(str(document.get("date", "")))
    facts = _facts(document)
    missing = [key for key in _DETAILS if not document.get(key)]
    if not missing:
        return observations(_rows(document, end), facts, name)
    detailed = len(missing) < len(_DETAILS)
    lacks = f"the file has no {missing[0]}" if detailed else "the file holds only a summary"
    why = f"{lacks}: vllm bench serve --save-result --save-detailed keeps each request"
    return summary(_summary(document), facts, name, end, why)


def _rows(document: Mapping[str, Any], end: float) -> list[Row]:
    errors = document.get("errors") or []
    rows = []
    columns = [document[key] for key in _DETAILS]
    for place, (start, ttft, itl, output, prompt) in enumerate(zip(*columns, strict=True)):
        error = errors[place] if place < len(errors) else ""
        failed = bool(error) or not output
        last, gaps = float(start) + float(ttft), []
        for gap in itl:
            last += float(gap)
            gaps.append((last, float(gap)))
        rows.append(Row(last, failed, float(ttft), last - float(start), number(prompt), number(output), gaps))
    # the clock of the run begins anywhere: its last moment is when the file was written
    move = end - max(row.end for row in rows)
    return [
        Row(
            r.end + move,
            r.failed,
            r.ttft,
            r.e2e,
            r.prompt_tokens,
            r.output_tokens,
            [(t + move, g) for t, g in r.gaps],
        )
        for r in rows
    ]


def _summary(document: Mapping[str, Any]) -> dict[str, float]:
    def seconds(key: str) -> float:
        return number(document.get(key)) / 1000

    counts = {
        run.THROUGHPUT: number(document.get("output_throughput")),
        run.COMPLETED: number(document.get("completed")),
        run.FAILED: number(document.get("failed")),
    }
    if counts[run.COMPLETED] == 0:  # it writes zeros for latencies that no request had
        return counts
    return counts | {
        run.TTFT_P95: seconds("p95_ttft_ms"),
        run.TTFT_MEAN: seconds("mean_ttft_ms"),
        run.ITL_P95: seconds("p95_itl_ms"),
        run.ITL_MEAN: seconds("mean_itl_ms"),
        run.E2E_MEAN: seconds("mean_e2el_ms"),
    }


def _facts(document: Mapping[str, Any]) -> dict[str, str | float | int]:
    rate, concurrency = document.get("request_rate"), document.get("max_concurrency")
    closed = rate in ("inf", None) and concurrency is not None
    return {
        series.MODEL: str(document.get("model_id") or ""),
        series.LOOP: "closed" if closed else "open",
        series.CONCURRENCY: concurrency or "",
        series.RATE: "" if rate is None else rate,
        series.TOOL: PROGRAM,
    }


def _date(text: str) -> float:
    try:
        return datetime.strptime(text, "%Y%m%d-%H%M%S").replace(tzinfo=UTC).timestamp()
    except ValueError:
        return 0.0
