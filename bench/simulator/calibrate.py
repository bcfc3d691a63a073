"""Model against reality: ``python -m bench.simulator.calibrate TRACES``.

TRACES holds recordings of a real server (folders with trace.om.gz, requests.csv.gz, meta.json,
truth.json). The step-time model is fitted to those labelled healthy. Then every recording's
arrivals are replayed with it at the speed and jitter that its host had (measured from the
recording's inter-token latency), and the table compares what both servers' own metrics say over one window.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from bench.simulator.fitting import WINDOW_LENGTH_S, Fit, Profile, fit_healthy, mean_factor, measure_host, run
from bench.simulator.recordings import WINDOW_S, Recording, measured, recording

SEEDS = (0, 1, 2, 3, 4)
"""The model's numbers are means over these."""
COMPARED = ("gen/s", "run", "wait", "preempt", "ttft50", "ttft95")
SMALL = {"run": 0.5, "wait": 1.0, "preempt": 5.0}
"""Differences that do not matter whatever their ratio."""
TITLES = ("gen. tokens/s", "running", "waiting", "preemptions", "TTFT p50 s", "TTFT p95 s", "ITL mean ms")


def agrees(key: str, there: float, here: float) -> bool:
    """Whether a number of the model is near enough to the real one."""
    gap = abs(here - there)
    return gap <= 0.25 * abs(there) or gap <= SMALL.get(key, 0.0)


def row(name: str, there: dict[str, float], here: dict[str, float], speed: str) -> tuple[str, int]:
    """A line of the table (``real / model``, ``!`` where they disagree) and how many agree."""
    cells, good = [], 0
    for key in (*COMPARED, "itl ms"):
        near = agrees(key, there[key], here[key])
        good += near and key in COMPARED
        cells.append(f"{there[key]:.3g} / {here[key]:.3g}{'' if near or key not in COMPARED else ' !'}")
    holds = "yes" if good == len(COMPARED) else "no"
    return f"| {' | '.join((name, *cells, speed, holds))} |", good


def compare(job: tuple[Recording, Fit, bool]) -> tuple[dict[str, float], dict[str, float], Profile, float]:
    """(real, model, the host's speed, its jitter) of one recording."""
    each, fit, one_speed = job
    fit, profile = measure_host(each, fit, WINDOW_S[1] if one_speed else WINDOW_LENGTH_S)
    runs = [measured(run(each, fit, profile, seed=seed)) for seed in SEEDS]
    model = {key: statistics.fmean(one[key] for one in runs) for key in runs[0]}
    return measured(each.pages), model, profile, fit.step.noise


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("traces", type=Path)
    parser.add_argument("--fit", default="", help="recordings to fit to, with commas (default: healthy ones)")
    parser.add_argument("--one-speed", action="store_true", help="one speed of the host per recording")
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    recordings = [recording(each.parent) for each in sorted(options.traces.glob("*/trace.om.gz"))]
    wanted = options.fit.split(",") if options.fit else []
    chosen = [each for each in recordings if (each.name in wanted if wanted else each.label == "healthy")]
    fit = fit_healthy(chosen, options.jobs)
    step = fit.step
    print(
        f"Fitted to {', '.join(each.name for each in chosen)}: {1e3 * step.base_s:.1f} ms a step,"
        f" {1e3 * step.per_decode_seq_s:.2f} ms a decoding sequence,"
        f" {1e6 * step.per_context_token_s:.2f} us a token of their context,"
        f" {1e6 * step.per_prefill_token_s:.0f} us a prefill token,"
        f" {1e6 * step.per_prefill_pair_s:.2f} us a (query, key) pair,"
        f" front end {1e3 * fit.frontend_s:.1f} ms\n"
    )
    print(f"| recording | {' | '.join(TITLES)} | host: step time (range), jitter | all within 25 % |")
    print("|---|" + "---|" * (len(TITLES) + 2))
    numbers = holding = 0
    with ProcessPoolExecutor(options.jobs) as pool:
        results = pool.map(compare, [(each, fit, options.one_speed) for each in recordings])
        for each, (there, here, profile, jitter) in zip(recordings, results, strict=True):
            factors = [factor for _, factor in profile]
            speed = f"{mean_factor(profile):.2f} ({min(factors):.2f}-{max(factors):.2f}), {jitter:.2f}"
            text, good = row(each.name, there, here, speed)
            numbers += good
            holding += good == len(COMPARED)
            print(text, flush=True)
    print(
        f"\n{holding} of {len(recordings)} recordings hold; "
        f"{numbers} of {len(recordings) * len(COMPARED)} numbers within 25 %, or too close to matter"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
