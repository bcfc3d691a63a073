"""Predictions for servers that no constant was fitted on: simulated ones, with one setting changed.

    python -m bench.remedies.simulated [SEED...]

Each history is simulated twice from the same seed, as it is and with the change, and cut to the two
hours after the trouble began. The prediction is made from the first alone.
"""

import math
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from vllmdoctor.diagnosis import diagnose
from vllmdoctor.model import Prediction, Report
from vllmdoctor.prescribe import measured
from vllmdoctor.remedies import figures, predict
from vllmdoctor.remedies.ask import Ask
from vllmdoctor.simulator import SCENARIOS, Server, Setup, simulate, write_openmetrics
from vllmdoctor.sources import Window, gather_targets

HOURS = 2.0


@dataclass(frozen=True)
class Change:
    """One setting of a scenario's server, and what is predicted for it."""

    name: str
    scenario: str
    server: Callable[[Server], Server]
    predicted: Callable[[Ask, Server], tuple[Prediction, ...]]


def _pool(factor: float) -> Callable[[Server], Server]:
    return lambda s: replace(s, num_gpu_blocks=int(s.num_gpu_blocks * factor))


def _threshold(s: Server) -> Server:
    return replace(s, long_prefill_token_threshold=512)


def _budget(s: Server) -> Server:
    return replace(s, max_num_batched_tokens=max(s.max_num_seqs, 2048))


CHANGES = (
    Change("pool x 1.5", "overload-kv-step", _pool(1.5), lambda a, _: predict.larger_pool(a, 1.5)),
    Change("pool x 4", "overload-kv-step", _pool(4), lambda a, _: predict.larger_pool(a, 4)),
    Change("pool x 2", "overload-longer-outputs", _pool(2), lambda a, _: predict.larger_pool(a, 2)),
    Change("threshold 512", "hol-long-steps", _threshold, lambda a, _: predict.sliced_prompts(a)),
    Change("budget 2048", "hol-long-steps", _budget, lambda a, _: predict.shorter_steps(a)),
)


def shortened(setup: Setup) -> Setup:
    """From half an hour before the trouble to two hours after it."""
    onset = setup.onset_s or 0.0
    return replace(setup, duration_s=onset + HOURS * 3600, scrape=replace(setup.scrape, gaps=()))


def judged(setup: Setup, seed: int) -> tuple[Report, dict[str, float], Ask | None]:
    """The report, the three measures now, and the ask of the first finding."""
    from vllmdoctor import diagnosis
    from vllmdoctor.prescribe import plan_for

    seen = []
    original = plan_for

    def remembering(findings, case, *rest, **more):  # type: ignore[no-untyped-def]
        seen.append((findings, case))
        return original(findings, case, *rest, **more)

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "history.om.gz"
        write_openmetrics(simulate(setup, seed=seed), path)
        recording = gather_targets([str(path)], Window(duration_s=60, interval_s=5))
    start = recording.end - (HOURS - 0.5) * 3600
    vars(diagnosis)["plan_for"] = remembering
    try:
        report = diagnose(recording.window(start, recording.end), vllm_version=setup.era.text)
    finally:
        vars(diagnosis)["plan_for"] = original
    findings, case = seen[0]
    values = measured(case)
    now = {
        predict.PREEMPTIONS: float(values["preemptions_per_minute"]),
        predict.WAITING: float(values["waiting_mean"]),
        predict.TTFT: float(values["ttft_p95"]),
    }
    known = figures(case.facts.values(), values)
    return report, now, Ask(known, None, findings[0]) if findings else None


def lines(seed: int) -> Iterator[tuple[str, bool]]:
    """What is predicted and what comes, for each change and measure."""
    for change in CHANGES:
        setup = shortened(SCENARIOS[change.scenario].setup(seed))
        report, before, ask = judged(setup, seed)
        if ask is None:
            yield f"{change.scenario}-{seed}: nothing found ({report.verdict})", True
            continue
        _, after, _ = judged(replace(setup, server=change.server(setup.server)), seed)
        for each in change.predicted(ask, setup.server):
            then = after[each.measure]
            right = math.isnan(each.low) or each.low * 0.95 - 0.1 <= then <= each.high * 1.05 + 0.1
            yield (
                (
                    f"{change.scenario}-{seed:<3} {change.name:14} {each.measure:24} "
                    f"{before[each.measure]:9.2f} -> {each.low:9.2f} to {each.high:9.2f}, came {then:9.2f} "
                    + ("within" if right else "OUTSIDE")
                ),
                right,
            )


def main(seeds: list[int]) -> None:
    """Print every line and the share that was right."""
    told = []
    for seed in seeds:
        for line, right in lines(seed):
            print(line, flush=True)
            told.append(right)
    print(f"{sum(told)} of {len(told)} within ({sum(told) / max(1, len(told)):.0%})")


if __name__ == "__main__":
    main([int(word) for word in sys.argv[1:]] or [1, 2])
