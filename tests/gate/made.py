"""Runs made for the tests: requests of a known speed, as a probe or a load generator would leave them."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from vllmdoctor import probe_series as series
from vllmdoctor.gate import Given
from vllmdoctor.model import Fact, Samples
from vllmdoctor.recording import Recording, gather

START = 1_795_960_000.0


def rows(
    seed: int, count: int = 2000, *, ttft: float = 0.3, gap: float = 0.03, tokens: int = 30, clients: int = 8
) -> list[tuple[float, float, list[float]]]:
    """A closed loop of clients: (sent, time to first token, gaps) of each request, seconds."""
    rng = np.random.default_rng(seed)
    free = np.zeros(clients)
    found = []
    for _ in range(count):
        client = int(free.argmin())
        first = float(ttft * np.exp(0.3 * rng.standard_normal()))
        gaps = (gap * np.exp(0.15 * rng.standard_normal(tokens - 1))).tolist()
        found.append((float(free[client]), first, gaps))
        free[client] += first + sum(gaps) + rng.uniform(0, 1e-4)
    return found


def probe(seed: int, *, right: float = 1.0, facts: Sequence[Fact] = (), **speed: Any) -> Recording:
    """A probe's recording of such a run; `right` is the share of correct answers."""
    rng = np.random.default_rng(seed + 1)
    ends, columns = [], []
    gaps: list[tuple[float, float]] = []
    for sent, first, between in rows(seed, **speed):
        times = START + sent + first + np.cumsum(between)
        gaps += zip(times.tolist(), between, strict=True)
        ends.append(float(times[-1]))
        columns.append((first, first + sum(between), len(between) + 1, 200, float(rng.random() < right), 0.0))
    order = np.argsort(ends)
    times = np.array(ends)[order]
    names = (
        series.TTFT,
        series.E2E,
        series.OUTPUT_TOKENS,
        series.PROMPT_TOKENS,
        series.CORRECT,
        series.ERROR,
    )
    table = np.array(columns)[order].T
    gaps.sort()
    itl = Samples(series.PROBE_INSTANCE, series.ITL, [t for t, _ in gaps], [g for _, g in gaps])
    told = (
        Fact(series.LOOP, "closed", "probe"),
        Fact(series.CONCURRENCY, speed.get("clients", 8), "probe"),
        *facts,
    )
    return gather(
        [
            *(
                Samples(series.PROBE_INSTANCE, n, times.tolist(), v.tolist())
                for n, v in zip(names, table, strict=True)
            ),
            itl,
            *told,
        ]
    )


def given(*recordings: Recording) -> Given:
    """One side of a gate."""
    return Given(tuple(f"run-{n}" for n in range(len(recordings))), recordings)


def bench_serve(seed: int, *, detailed: bool = True, failed: int = 0, **speed: Any) -> dict[str, Any]:
    """What `vllm bench serve --save-result` writes of such a run."""
    run = rows(seed, **speed)
    length = max(sent + first + sum(gaps) for sent, first, gaps in run)
    ttfts, itls = [first for _, first, _ in run], [gaps for _, _, gaps in run]
    outputs = [len(gaps) + 1 for gaps in itls]
    every = [gap for gaps in itls for gap in gaps]
    result: dict[str, Any] = {
        "date": "20261129-140000",
        "endpoint_type": "vllm",
        "backend": "vllm",
        "label": None,
        "model_id": "llama-3-70b",
        "tokenizer_id": "llama-3-70b",
        "num_prompts": len(run) + failed,
        "request_rate": "inf",
        "burstiness": 1.0,
        "max_concurrency": speed.get("clients", 8),
        "duration": length,
        "completed": len(run),
        "failed": failed,
        "total_input_tokens": 200 * len(run),
        "total_output_tokens": sum(outputs),
        "request_throughput": len(run) / length,
        "request_goodput": None,
        "output_throughput": sum(outputs) / length,
        "total_token_throughput": (200 * len(run) + sum(outputs)) / length,
        "mean_ttft_ms": 1000 * float(np.mean(ttfts)),
        "median_ttft_ms": 1000 * float(np.median(ttfts)),
        "p99_ttft_ms": 1000 * float(np.quantile(ttfts, 0.99)),
        "mean_itl_ms": 1000 * float(np.mean(every)),
        "p99_itl_ms": 1000 * float(np.quantile(every, 0.99)),
    }
    if detailed:
        none: list[Any] = [0.0] * failed
        result |= {
            "input_lens": [200] * (len(run) + failed),
            "output_lens": outputs + [0] * failed,
            "ttfts": ttfts + none,
            "itls": itls + [[]] * failed,
            "start_times": [7000.0 + sent for sent, _, _ in run] + [7000.0] * failed,
            "generated_texts": ["..."] * (len(run) + failed),
            "errors": [""] * len(run) + ["Bad Gateway"] * failed,
        }
    return result


def write(path: Path, *documents: Any) -> Path:
    """JSON objects into a file, one a line."""
    path.write_text("\n".join(json.dumps(d) for d in documents), encoding="utf-8")
    return path
