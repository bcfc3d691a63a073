"""Model against reality: ``python -m bench.simulator.calibrate TRACES``.

TRACES holds recordings of a real server (folders with trace.om.gz, requests.csv.gz, meta.json).
The step-time model is fitted to all recordings at once, with one speed of the (shared) host for
each (``--fit all``), or to one of them (its name). Then every recording's arrivals are replayed,
and the table compares what both servers' own metrics say over the same window.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import json
import sys
from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.simulator.summary import Period, Summary

from vllmdoctor.simulator import Page, Server, StepModel
from vllmdoctor.simulator.fit import BusyInterval, fit_step_model
from vllmdoctor.simulator.replay import replay

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

WINDOW_S = (5.0, 240.0)
Meta = dict[str, Any]


def recorded_pages(folder: Path, start_s: float) -> Iterator[Page]:
    """Pages of a recording, times from its start."""
    pages: dict[float, dict[str, float]] = defaultdict(dict)
    with gzip.open(folder / "trace.om.gz", "rt", encoding="utf-8") as lines:
        for text in lines:
            if text.startswith(("vllm:", "http_requests")):
                key, value, stamp = text.rsplit(" ", 2)
                pages[float(stamp)][key] = float(value)
    for time_s in sorted(pages):
        yield Page(time_s - start_s, "real", pages[time_s])


def requests(folder: Path) -> list[tuple[float, int, int]]:
    """(sent [s], prompt, output); unfinished ones would have used their max_tokens."""
    with gzip.open(folder / "requests.csv.gz", "rt", encoding="utf-8") as lines:
        return [
            (
                float(row["t"]),
                int(row["prompt_tokens"]),
                int(row["out_tokens"] or row["max_tokens"]) or int(row["max_tokens"]),
            )
            for row in csv.DictReader(lines)
        ]


def server_of(meta: Meta) -> Server:
    """The simulated server with the recording's flags."""
    arguments = [str(each) for each in meta["server_args"]]

    def flag(name: str, default: int) -> int:
        return int(arguments[arguments.index(name) + 1]) if name in arguments else default

    seqs = flag("--max-num-seqs", 128)
    return Server(
        num_gpu_blocks=flag("--num-gpu-blocks-override", 512),
        block_size=flag("--block-size", 16),
        max_num_seqs=seqs,
        max_num_batched_tokens=flag("--max-num-batched-tokens", 2048),
        long_prefill_token_threshold=flag("--long-prefill-token-threshold", 0),
        max_model_len=flag("--max-model-len", 2048),
        enable_prefix_caching="--no-enable-prefix-caching" not in arguments,
        frontend_s=0.006,
    )


def prefix_of(meta: Meta) -> int:
    """Tokens all prompts of a recording share."""
    classes = meta["workload"]["classes"]
    return max(int(each.get("prefix", 0)) for each in classes)


def busy_intervals(
    pages: list[Page], tokens: int, sent: list[tuple[float, int, int]], cached: int, least_s: float = 6.0
) -> list[BusyInterval]:
    """Stretches of some seconds in which every scrape saw requests running.

    A prompt is counted in one lump when it ends, so single seconds will not do.
    """

    def value(page: Page, name: str) -> float:
        return sum(v for k, v in page.values.items() if k.partition("{")[0] == name)

    found: list[BusyInterval] = []
    run: list[Page] = []
    for page in pages:
        if value(page, "vllm:num_requests_running") < 1:
            run = []
            continue
        run.append(page)
        first, last = run[0], run[-1]
        if last.time_s - first.time_s < least_s:
            continue

        def gain(name: str, a: Page = first, b: Page = last) -> float:
            return value(b, name) - value(a, name)

        steps = gain("vllm:iteration_tokens_total_count")
        usage = sum(value(each, "vllm:kv_cache_usage_perc") for each in run) / len(run)
        prompts = [p - cached for t, p, _ in sent if first.time_s <= t < last.time_s]
        mean_square = sum(p * p for p in prompts) / max(1, sum(prompts))
        prefill = gain("vllm:prompt_tokens_total") - gain("vllm:prompt_tokens_cached_total")
        found.append(
            BusyInterval(
                seconds=last.time_s - first.time_s,
                steps=steps,
                prefill_tokens=prefill,
                decode_tokens=gain("vllm:generation_tokens_total"),
                context_token_steps=usage * tokens * steps,
                prefill_pairs=0.5 * prefill * mean_square,
            )
        )
        run = [page]
    return found


def fit_all(work: dict[str, list[BusyInterval]]) -> dict[str, StepModel]:
    """One model for all recordings, times one speed of the (shared) host for each."""
    speed = dict.fromkeys(work, 1.0)
    joint = StepModel()
    for _ in range(6):
        joint = fit_step_model(
            [replace(each, seconds=each.seconds / speed[name]) for name in work for each in work[name]]
        )
        for name, intervals in work.items():
            predicted = sum(each.seconds_by(joint) for each in intervals)
            speed[name] = sum(each.seconds for each in intervals) / predicted if predicted else 1.0
    return {
        name: replace(
            joint,
            base_s=joint.base_s * factor,
            per_prefill_token_s=joint.per_prefill_token_s * factor,
            per_decode_seq_s=joint.per_decode_seq_s * factor,
            per_context_token_s=joint.per_context_token_s * factor,
            per_prefill_pair_s=joint.per_prefill_pair_s * factor,
        )
        for name, factor in speed.items()
    }


def measured(pages: Iterable[Page]) -> dict[str, float]:
    """The compared numbers over the window."""
    period, summary, outside = Period(), Summary(), Period()
    for page in pages:
        summary.add(page, period if WINDOW_S[0] <= page.time_s <= WINDOW_S[1] else outside)
    ttft = "vllm:time_to_first_token_seconds"
    return {
        "gen/s": period.rate("vllm:generation_tokens_total"),
        "done": period.counters["vllm:e2e_request_latency_seconds_count"],
        "run": period.mean("vllm:num_requests_running"),
        "wait": period.mean("vllm:num_requests_waiting"),
        "kv": period.mean("vllm:kv_cache_usage_perc"),
        "preempt": period.counters["vllm:num_preemptions_total"],
        "ttft50": period.quantile(ttft, 0.5),
        "ttft95": period.quantile(ttft, 0.95),
        "itl ms": 1000
        * period.ratio("vllm:inter_token_latency_seconds_sum", "vllm:inter_token_latency_seconds_count"),
        "e2e": period.ratio("vllm:e2e_request_latency_seconds_sum", "vllm:e2e_request_latency_seconds_count"),
    }


COMPARED = ("gen/s", "run", "wait", "preempt", "ttft50", "ttft95", "itl ms")
SMALL = {"run": 0.5, "wait": 1.0, "preempt": 5.0}
"""Differences that do not matter whatever their ratio."""


def row(name: str, there: dict[str, float], here: dict[str, float]) -> tuple[str, int]:
    """A line of the table (``real/model``, ``!`` where they disagree) and how many agree."""
    cells, good = [], 0
    for key in COMPARED:
        gap = abs(here[key] - there[key])
        agrees = gap <= 0.25 * abs(there[key]) or gap <= SMALL.get(key, 0.0)
        good += agrees
        cells.append(f"{there[key]:.3g}/{here[key]:.3g}{'' if agrees else '!'}".rjust(15))
    return f"{name:22}{''.join(cells)}", good


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("traces", type=Path)
    parser.add_argument("--fit", default="all", help="all, or the recording to fit to")
    options = parser.parse_args()
    folders = sorted(each.parent for each in options.traces.glob("*/trace.om.gz"))
    work: dict[str, list[BusyInterval]] = {}
    metas: dict[str, Meta] = {}
    real: dict[str, list[Page]] = {}
    for folder in folders:
        name = folder.name
        metas[name] = meta = json.loads((folder / "meta.json").read_text(encoding="utf-8"))
        real[name] = list(recorded_pages(folder, float(meta["t0_unix"])))
        server = server_of(meta)
        cached = prefix_of(meta) if server.enable_prefix_caching else 0
        work[name] = busy_intervals(real[name], server.kv_tokens, requests(folder), cached)
    models = fit_all(work) if options.fit == "all" else dict.fromkeys(work, fit_step_model(work[options.fit]))
    print(" " * 22 + "".join(key.rjust(15) for key in COMPARED) + "   (real/model)")
    good = 0
    for folder in folders:
        name = folder.name
        arrivals, server = requests(folder), server_of(metas[name])
        simulated = replay(
            arrivals, server, models[name], duration_s=WINDOW_S[1], prefix_tokens=prefix_of(metas[name])
        )
        text, agreeing = row(name, measured(real[name]), measured(simulated))
        good += agreeing
        print(f"{text}   base {1e3 * models[name].base_s:.1f} ms", flush=True)
    print(f"{good} of {len(folders) * len(COMPARED)} within 25 %, or too close to matter")
    return 0


if __name__ == "__main__":
    sys.exit(main())
