# ruff: noqa: E501  lines of a log stand here as they are
"""A recording of metrics -> the log that its server would have written: for measuring what a log alone tells."""

import math
from collections.abc import Iterator
from datetime import UTC, datetime

import numpy as np

from vllmdoctor.engines import frames
from vllmdoctor.frame import Frame
from vllmdoctor.recording import Recording

INTERVAL_S = 10.0


def as_log(recording: Recording) -> Iterator[str]:
    """Statistics lines and access lines of all engines, in the order of time."""
    engines = frames(recording)
    lines = [line for frame in engines for line in _lines(frame, len(engines) == 1)]
    for _, text in sorted(lines, key=lambda line: line[0]):
        yield text


def _lines(frame: Frame, alone: bool) -> Iterator[tuple[float, str]]:
    times, running = frame.raw("requests_running")
    last, idle = times[0], False
    columns = {
        name: _at(frame, name, times)
        for name in ("requests_waiting", "kv_cache_usage", "prompt_tokens", "generation_tokens", "requests_finished",
                     "prefix_cache_queries", "prefix_cache_hits", "spec_draft_tokens", "spec_accepted_tokens")
    }  # fmt: skip
    before = 0
    for i in range(1, times.size):
        if times[i] - last < INTERVAL_S - 0.5 or np.isnan(running[i]):
            continue
        span = times[i] - last
        rates = {name: max(columns[name][i] - columns[name][before], 0.0) for name in columns}
        if span > 4 * max(INTERVAL_S, frame.interval) or math.isnan(rates["generation_tokens"]):
            last, before = times[i], i  # not scraped, so not known
            continue
        prompt, generation = rates["prompt_tokens"] / span, rates["generation_tokens"] / span
        still = round(prompt, 1) == round(generation, 1) == 0
        stamp = f"{datetime.fromtimestamp(times[i], UTC):%m-%d %H:%M:%S}"
        if alone and rates["requests_finished"] == rates["requests_finished"]:
            for _ in range(int(rates["requests_finished"])):
                yield times[i] - 0.5, 'INFO:     10.0.0.1:40000 - "POST /v1/completions HTTP/1.1" 200 OK\n'
        if not (still and idle):
            hits = (
                rates["prefix_cache_hits"] / rates["prefix_cache_queries"]
                if rates["prefix_cache_queries"]
                else 0.0
            )
            yield (
                times[i],
                f"(APIServer pid=1) INFO {stamp} [loggers.py:335] Engine {int(frame.engine or 0):03d}: Avg prompt throughput: "
                f"{prompt:.1f} tokens/s, Avg generation throughput: {generation:.1f} tokens/s, Running: {running[i]:.0f} "
                f"reqs, Waiting: {columns['requests_waiting'][i]:.0f} reqs, GPU KV cache usage: "
                f"{100 * columns['kv_cache_usage'][i]:.1f}%, Prefix cache hit rate: {100 * hits:.1f}%\n",
            )
            if rates["spec_draft_tokens"] > 0:
                yield (
                    times[i] + 0.01,
                    f"(APIServer pid=1) INFO {stamp} [metrics.py:120] SpecDecoding metrics: Mean acceptance length: 2.00, "
                    f"Accepted throughput: 1.00 tokens/s, Drafted throughput: 1.00 tokens/s, Accepted: "
                    f"{rates['spec_accepted_tokens']:.0f} tokens, Drafted: {rates['spec_draft_tokens']:.0f} tokens, "
                    "Per-position acceptance rate: 0.5, Avg Draft acceptance rate: 50.0%\n",
                )
        idle, last, before = still, times[i], i
    stamp = f"{datetime.fromtimestamp(frame.end, UTC):%m-%d %H:%M:%S}"
    yield (
        frame.end,
        f"(APIServer pid=1) INFO {stamp} [launcher.py:254] [shutdown] API server: shutdown triggered\n",
    )


def _at(frame: Frame, signal: str, times: "np.ndarray[tuple[int], np.dtype[np.float64]]") -> list[float]:
    own, values = frame.raw(signal)
    if not own.size:
        return [float("nan")] * times.size
    where = np.clip(np.searchsorted(own, times, "right") - 1, 0, own.size - 1)
    return [float(v) for v in values[where]]
