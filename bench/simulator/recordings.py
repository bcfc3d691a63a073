"""Recordings of a real server, and the numbers both servers are compared by."""

from __future__ import annotations

import csv
import gzip
import json
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from bench.simulator.summary import Period, Summary

from vllmdoctor.simulator import Page, Server
from vllmdoctor.simulator.fit import BusyInterval

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

WINDOW_S = (5.0, 224.5)
"""The load without its start; at 225 s the recordings' clients leave whatever they still wait for."""
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
    """(sent [s], prompt, output); unfinished ones would have used their max_tokens.

    Requests whose connection failed never reached the engine and are left out.
    """
    with gzip.open(folder / "requests.csv.gz", "rt", encoding="utf-8") as lines:
        return [
            (
                float(row["t"]),
                int(row["prompt_tokens"]),
                int(row["out_tokens"] if row["status"] == "ok" else row["max_tokens"]),
            )
            for row in csv.DictReader(lines)
            if not row["status"].endswith("Error")
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
        threshold_spares_lone_request=True,
        max_model_len=flag("--max-model-len", 2048),
        enable_prefix_caching="--no-enable-prefix-caching" not in arguments,
        frontend_s=0.006,
    )


def pair_cost(meta: Meta) -> float:
    """Arithmetic of one (query, key) pair, as a fraction of a prompt token's in the linear layers.

    A pair is a product and a sum over each head's width, for the scores and again for the values;
    a token passes each weight of the attention's projections and of the gated feed-forward once.
    """
    model = meta["model"]
    wide = int(model["num_attention_heads"]) * int(model["head_dim"])
    keys = int(model["num_key_value_heads"]) * int(model["head_dim"])
    hidden = int(model["hidden_size"])
    weights = hidden * (2 * wide + 2 * keys + 3 * int(model["intermediate_size"]))
    return 2 * wide / weights


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


@dataclass(frozen=True)
class Recording:
    """One recording: what was asked of the server, and what its metrics said."""

    name: str
    label: str
    server: Server
    arrivals: list[tuple[float, int, int]]
    prefix_tokens: int
    pair_cost: float
    pages: list[Page]

    @property
    def busy(self) -> list[BusyInterval]:
        """Its busy stretches."""
        cached = self.prefix_tokens if self.server.enable_prefix_caching else 0
        return busy_intervals(self.pages, self.server.kv_tokens, self.arrivals, cached)


def recording(folder: Path) -> Recording:
    """Read the recording in ``folder``."""
    meta: Meta = json.loads((folder / "meta.json").read_text(encoding="utf-8"))
    label = json.loads((folder / "truth.json").read_text(encoding="utf-8"))["label"]
    pages = [p for p in recorded_pages(folder, float(meta["t0_unix"])) if p.time_s <= WINDOW_S[1]]
    return Recording(
        folder.name, label, server_of(meta), requests(folder), prefix_of(meta), pair_cost(meta), pages
    )
