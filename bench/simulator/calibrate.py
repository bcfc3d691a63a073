"""Model against reality: ``python bench/simulator/calibrate.py TRACES``.

TRACES holds recordings of a real server (folders with trace.om.gz, requests.csv.gz, meta.json).
The step-time model is fitted to all recordings at once, with one speed of the host for each
(``--fit all``), to each by itself (``self``) or to one of them (its name); then every recording's arrivals are replayed; the table compares what both servers' own metrics
say over the same window.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import json
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from summary import Period, Summary

from vllmdoctor.simulator import Page, Server, StepModel
from vllmdoctor.simulator.fit import BusyInterval, fit_step_model
from vllmdoctor.simulator.replay import replay

WINDOW_S = (5.0, 240.0)


def recorded_pages(folder: Path, start_s: float) -> Iterator[Page]:
    """Pages of a recording, times from its start."""
    pages: dict[float, dict[str, float]] = defaultdict(dict)
    with gzip.open(folder / "trace.om.gz", "rt", encoding="utf-8") as lines:
        for text in lines:
            if text.startswith(("vllm:", "http_requests")):
                key, value, time_s = text.rsplit(" ", 2)
                pages[float(time_s)][key] = float(value)
    for time_s in sorted(pages):
        yield Page(time_s - start_s, "real", pages[time_s])


def requests(folder: Path) -> list[tuple[float, int, int]]:
    """(sent [s], prompt, output); unfinished ones would have used their max_tokens."""
    with gzip.open(folder / "requests.csv.gz", "rt", encoding="utf-8") as lines:
        return [
            (float(row["t"]), int(row["prompt_tokens"]), int(row["out_tokens"] or row["max_tokens"])
             or int(row["max_tokens"]))  # fmt: skip
            for row in csv.DictReader(lines)
        ]


def server_of(meta: dict[str, object]) -> Server:
    """The simulated server with the recording's flags."""
    arguments = [str(each) for each in meta["server_args"]]  # type: ignore[attr-defined]

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


def prefix_of(meta: dict[str, object]) -> int:
    """Tokens all prompts of a recording share."""
    classes = meta["workload"]["classes"]  # type: ignore[index]
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


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("traces", type=Path)
    parser.add_argument("--fit", default="all", help="all, self, or a recording to fit to")
    options = parser.parse_args()
    folders = sorted(each.parent for each in options.traces.glob("*/trace.om.gz"))
    work: dict[str, list[BusyInterval]] = {}
    metas: dict[str, dict[str, object]] = {}
    real: dict[str, list[Page]] = {}
    for folder in folders:
        metas[folder.name] = meta = json.loads((folder / "meta.json").read_text(encoding="utf-8"))
        real[folder.name] = list(recorded_pages(folder, float(meta["t0_unix"])))  # type: ignore[arg-type]
        cached = prefix_of(meta) if server_of(meta).enable_prefix_caching else 0
        work[folder.name] = busy_intervals(
            real[folder.name], server_of(meta).kv_tokens, requests(folder), cached
        )
    models = fit_all(work) if options.fit == "all" else {n: fit_step_model(work[n]) for n in work}
    good = total = 0
    for folder in folders:
        name = folder.name
        model = models[name if options.fit in ("all", "self") else options.fit]
        prefix = prefix_of(metas[name])
        simulated = replay(
            requests(folder), server_of(metas[name]), model, duration_s=WINDOW_S[1], prefix_tokens=prefix
        )
        there, here = measured(real[name]), measured(simulated)
        print(
            f"{name}: base {1e3 * model.base_s:.2f} ms, prefill {1e6 * model.per_prefill_token_s:.0f} us, "
            f"seq {1e6 * model.per_decode_seq_s:.0f} us, context {1e9 * model.per_context_token_s:.1f} ns, pair {1e9 * model.per_prefill_pair_s:.1f} ns, {len(work[name])} intervals"
        )
        for key in there:
            a, b = there[key], here[key]
            off = (b - a) / a if a > 1e-9 else 0.0 if b < 1e-9 else float("inf")
            within = abs(off) <= 0.25 or abs(b - a) <= {"wait": 1.0, "preempt": 5, "run": 0.5, "kv": 0.02}.get(key, 0)
            if key in ("gen/s", "run", "wait", "preempt", "ttft50", "ttft95"):
                good, total = good + within, total + 1
            print(f"    {key:8} real {a:9.3f}  model {b:9.3f}  {100 * off:+7.1f} %{'' if within else '  !'}")
    print(f"{good} of {total} within 25 % (or the smallest step that matters)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
