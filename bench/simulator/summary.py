"""Picture of a scenario before and after its onset: ``python -m bench.simulator.summary [NAME...]``.

Physical plausibility check: rates per second, latencies in seconds, one line per period.
``--hourly`` prints every hour; ``--seeds 1,2`` repeats.
"""

from __future__ import annotations

import argparse
import re
import sys
import time
from collections import defaultdict
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field

from vllmdoctor.simulator import SCENARIOS, Page, simulate, truth

_LE = re.compile(r'le="([^"]+)"')


@dataclass
class Period:
    """Sums over a stretch of the history."""

    seconds: float = 0.0
    until_s: float = 0.0
    counters: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    buckets: dict[str, dict[float, float]] = field(
        default_factory=lambda: defaultdict(lambda: defaultdict(float))
    )
    gauges: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))

    def rate(self, name: str) -> float:
        """Mean increase per second."""
        return self.counters[name] / self.seconds if self.seconds else 0.0

    def mean(self, name: str) -> float:
        """Mean of a gauge over its samples."""
        values = self.gauges[name]
        return sum(values) / len(values) if values else float("nan")

    def ratio(self, above: str, below: str) -> float:
        """Quotient of two increases."""
        return self.counters[above] / self.counters[below] if self.counters[below] else float("nan")

    def quantile(self, name: str, q: float) -> float:
        """Linear interpolation in the bucket, as PromQL does."""
        bounds = sorted(self.buckets[name].items())
        if not bounds or bounds[-1][1] <= 0:
            return float("nan")
        rank = q * bounds[-1][1]
        low, below = 0.0, 0.0
        for bound, count in bounds:
            if count >= rank:
                if bound == float("inf"):
                    return low
                share = (rank - below) / (count - below) if count > below else 1.0
                return low + share * (bound - low)
            low, below = bound, count
        return low


class Summary:
    """Adds pages to the period they fall in."""

    def __init__(self) -> None:
        self.last: dict[str, tuple[float, dict[str, float]]] = {}

    def add(self, page: Page, period: Period) -> None:
        """Increase of ``page`` over the same target's last one."""
        before = self.last.get(page.instance)
        vllm = any(key.startswith("vllm:num_requests_running") for key in page.values)
        if not vllm:
            return
        self.last[page.instance] = (page.time_s, page.values)
        for key, value in page.values.items():
            name = key.partition("{")[0]
            if name.endswith("_bucket"):
                continue
            if not name.endswith(("_total", "_sum", "_count")):
                period.gauges[name].append(value)
        if before is None:
            return
        # Rates are of the whole fleet: only the first target to answer moves the clock.
        if before[0] >= period.until_s:
            period.seconds += page.time_s - max(before[0], period.until_s)
            period.until_s = page.time_s
        for key, value in page.values.items():
            name = key.partition("{")[0]
            increase = value - before[1].get(key, 0.0)
            increase = value if increase < 0 else increase
            if name.endswith("_bucket"):
                match = _LE.search(key)
                assert match
                period.buckets[name.removesuffix("_bucket")][float(match[1])] += increase
            elif name.endswith(("_total", "_sum", "_count")):
                period.counters[name] += increase


HEAD = (
    f"{'scenario':36}{'period':>7}{'http/s':>7}{'done/s':>7}{'gen/s':>7}{'pr/s':>7}{'run':>6}"
    f"{'wait':>7}{'kv':>5}{'pre/m':>7}{'pre%':>6}{'ttft50':>7}{'95':>7}{'99':>7}{'queue':>6}"
    f"{'itl ms':>7}{'tpot':>6}{'hit':>5}{'util':>5}{'clk':>5}{'memG':>6}{'rssG':>5}{'fbG':>5}"
)


def line(name: str, label: str, period: Period) -> str:
    """One row of the table."""

    def either(*names: str) -> float:
        return next((period.mean(each) for each in names if period.gauges.get(each)), float("nan"))

    itl = next(
        (each for each in ("vllm:inter_token_latency_seconds", "vllm:time_per_output_token_seconds")
         if period.counters[each + "_count"]), "vllm:inter_token_latency_seconds")  # fmt: skip
    done = period.counters["vllm:e2e_request_latency_seconds_count"]
    hits = period.ratio("vllm:prefix_cache_hits_total", "vllm:prefix_cache_queries_total")
    if hits != hits:
        hits = period.ratio("vllm:gpu_prefix_cache_hits_total", "vllm:gpu_prefix_cache_queries_total")
    ttft = "vllm:time_to_first_token_seconds"
    decode = period.counters["vllm:request_decode_time_seconds_sum"]
    tokens = period.counters["vllm:request_generation_tokens_sum"]
    preempted = period.counters["vllm:num_preemptions_total"]
    gib = 2**30
    return (
        f"{name:36}{label:>7}{period.rate('http_requests_total'):7.2f}"
        f"{period.rate('vllm:e2e_request_latency_seconds_count'):7.2f}"
        f"{period.rate('vllm:generation_tokens_total'):7.0f}{period.rate('vllm:prompt_tokens_total'):7.0f}"
        f"{either('vllm:num_requests_running'):6.1f}{either('vllm:num_requests_waiting'):7.1f}"
        f"{either('vllm:kv_cache_usage_perc', 'vllm:gpu_cache_usage_perc'):5.2f}"
        f"{60 * period.rate('vllm:num_preemptions_total'):7.2f}"
        f"{100 * preempted / done if done else 0:6.1f}"
        f"{period.quantile(ttft, 0.5):7.2f}{period.quantile(ttft, 0.95):7.2f}"
        f"{period.quantile(ttft, 0.99):7.2f}"
        f"{period.ratio('vllm:request_queue_time_seconds_sum', 'vllm:request_queue_time_seconds_count'):6.1f}"
        f"{1000 * period.ratio(itl + '_sum', itl + '_count'):7.1f}"
        f"{1000 * decode / tokens if tokens else 0:6.1f}{hits:5.2f}"
        f"{either('DCGM_FI_DEV_GPU_UTIL'):5.0f}{either('DCGM_FI_DEV_SM_CLOCK'):5.0f}"
        f"{either('container_memory_working_set_bytes') / gib:6.1f}"
        f"{either('process_resident_memory_bytes') / gib:5.1f}{either('DCGM_FI_DEV_FB_USED') / 1024:5.0f}"
    )


def picture(name: str, seed: int, hourly: bool) -> list[str]:
    """Rows of one scenario."""
    began = time.perf_counter()
    known = truth(SCENARIOS[name], seed=seed)
    setup = SCENARIOS[name].setup(seed)
    middle_s = setup.onset_s if setup.onset_s else setup.duration_s / 2
    periods: dict[str, Period] = defaultdict(Period)
    summary = Summary()
    for page in simulate(SCENARIOS[name], seed=seed):
        since_s = page.time_s - setup.start_unix_s
        if hourly:
            label = f"h{int(since_s // 3600):02}"
        elif since_s < middle_s:
            label = "before"
        else:
            label = "after" if since_s < middle_s + 2 * 3600 else "late"
        summary.add(page, periods[label])
    took_s = time.perf_counter() - began
    rows = [line(f"{name}-{seed}", label, period) for label, period in periods.items()]
    rows.append(
        f"    {known['label']} {known['kind']} {known['version']}, interval {setup.scrape.interval_s:.0f} s,"
        f" onset {middle_s / 3600:.1f} h of {setup.duration_s / 3600:.1f} h, took {took_s:.1f} s"
    )
    return rows


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--seeds", default="1")
    parser.add_argument("--hourly", action="store_true")
    parser.add_argument("--jobs", type=int, default=1)
    options = parser.parse_args()
    names = options.names or list(SCENARIOS)
    work = [(name, int(seed), options.hourly) for name in names for seed in options.seeds.split(",")]
    print(HEAD)
    with ProcessPoolExecutor(options.jobs) as pool:
        for rows in pool.map(picture, *zip(*work, strict=True)):
            print("\n".join(rows), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
