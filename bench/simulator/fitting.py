"""Fitting the step-time model to healthy recordings, and measuring a host's speed over time.

Both work by replaying: a candidate model serves the recorded arrivals, and the model's own metrics
are held against the recorded ones, so that batching, waiting and idling need no formula.
"""

from __future__ import annotations

import itertools
import math
import statistics
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from bench.simulator.recordings import WINDOW_S, Recording
from bench.simulator.summary import Period, Summary

from vllmdoctor.simulator import Page, StepModel
from vllmdoctor.simulator.fit import fit_step_model
from vllmdoctor.simulator.replay import replay

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from concurrent.futures import Executor

    from numpy.typing import NDArray

    Numbers = NDArray[np.float64]

Profile = list[tuple[float, float]]
"""(from [s], factor on every step's time)."""

ITL = "vllm:inter_token_latency_seconds"
PREFILL = "vllm:request_prefill_time_seconds"
TTFT = "vllm:time_to_first_token_seconds"
QUEUE = "vllm:request_queue_time_seconds"
WINDOW_LENGTH_S = 20.0
"""One factor of the host's speed for so long."""
STALL_S = 1.0
"""A gap between two tokens that only a long prefill makes; a bucket's edge."""
_LE = f'le="{STALL_S}"'
_LEAST_TOKENS = 20.0
_DAMPING = 0.7
_KEYS = (
    "base_s",
    "per_prefill_token_s",
    "per_decode_seq_s",
    "per_context_token_s",
    "per_prefill_pair_s",
)
_STEP = 0.15
_STAY = 0.2
_TURNS = 2
_FIT_SEEDS = (0, 1, 2, 3)
_HOST_SEEDS = (0, 1, 2)
_JITTER = 0.2
"""Used while the coefficients are fitted."""
_JITTERS = (0.05, 0.1, 0.2, 0.3, 0.4, 0.5)


@dataclass(frozen=True)
class Fit:
    """A fitted server: step times, and what the API server adds before the engine."""

    step: StepModel
    frontend_s: float


def run(
    each: Recording, fit: Fit, profile: Profile, *, seed: int = 0, duration_s: float = WINDOW_S[1]
) -> list[Page]:
    """The model's pages for the arrivals of a recording."""
    server = replace(each.server, frontend_s=fit.frontend_s)
    return list(
        replay(
            each.arrivals,
            server,
            fit.step,
            duration_s=duration_s,
            prefix_tokens=each.prefix_tokens,
            slowdown=profile,
            seed=seed,
        )
    )


# --- the host's speed over time ------------------------------------------------------------


@dataclass(frozen=True)
class Gaps:
    """Gaps between tokens that ended in one second of a recording."""

    at_s: float
    seconds: float
    count: float
    stalled: bool
    """Whether one of them was longer than STALL_S."""


def gaps_by_second(pages: Iterable[Page]) -> list[Gaps]:
    """What each second's scrape adds to the inter-token latencies.

    Once requests are preempted, long gaps are their waits, and nothing is called a stall any more.
    """

    def read(page: Page) -> tuple[float, float, float]:
        seconds = count = within = preempted = 0.0
        for key, value in page.values.items():
            name = key.partition("{")[0]
            seconds += value if name == f"{ITL}_sum" else 0.0
            count += value if name == f"{ITL}_count" else 0.0
            within += value if name == f"{ITL}_bucket" and _LE in key else 0.0
            preempted += value if name == "vllm:num_preemptions_total" else 0.0
        return seconds, count, 0.0 if preempted else count - within

    found = []
    for (_, old), (at_s, new) in itertools.pairwise((page.time_s, read(page)) for page in pages):
        found.append(Gaps(at_s, new[0] - old[0], new[1] - old[1], new[2] > old[2]))
    return found


def slower(real: Sequence[Gaps], model: Sequence[Gaps], start_s: float, end_s: float) -> float:
    """How many times longer the real gaps of a period are on average; NaN with next to none.

    Seconds in which either server stalled are left out: a long prefill lengthens the gaps of
    whoever happens to stream, and would outweigh all else.
    """
    stalled = {round(each.at_s) for each in (*real, *model) if each.stalled}

    def mean(gaps: Sequence[Gaps]) -> float:
        kept = [each for each in gaps if start_s <= each.at_s < end_s and round(each.at_s) not in stalled]
        count = sum(each.count for each in kept)
        return sum(each.seconds for each in kept) / count if count > _LEAST_TOKENS else math.nan

    return mean(real) / mean(model)


def measure_speed(
    each: Recording,
    fit: Fit,
    length_s: float = WINDOW_LENGTH_S,
    rounds: int = 4,
    start: Profile | None = None,
) -> Profile:
    """How much slower than ``fit`` the recording's host was, window by window.

    The one thing compared is the mean inter-token latency: one factor for the whole recording
    first, then one for each window, until the replay's latencies are the recorded ones. Windows
    with next to no tokens keep the whole recording's factor. The last window may be up to half a
    window longer or shorter than the others.
    """
    real = gaps_by_second(each.pages)
    count = max(1, round(WINDOW_S[1] / length_s))
    edges = [index * length_s for index in range(count)] + [WINDOW_S[1]]
    factors = [factor for _, factor in start] if start else [1.0] * count
    for turn in range(rounds):
        profile = _profile(factors, length_s)
        model = [gap for seed in _HOST_SEEDS for gap in gaps_by_second(run(each, fit, profile, seed=seed))]
        if not turn and not start:
            factors = [slower(real, model, 0.0, WINDOW_S[1])] * count
            continue
        for index, (begin_s, end_s) in enumerate(itertools.pairwise(edges)):
            ratio = slower(real, model, begin_s, end_s)
            if ratio == ratio:
                factors[index] *= min(2.0, max(0.5, ratio)) ** _DAMPING
    return _profile(factors, length_s)


def _profile(factors: Iterable[float], length_s: float) -> Profile:
    return [(index * length_s, factor) for index, factor in enumerate(factors)]


def measure_host(each: Recording, fit: Fit, length_s: float = WINDOW_LENGTH_S) -> tuple[Fit, Profile]:
    """Speed over time and jitter of the recording's host.

    The jitter is what makes the slowest 1 % of the inter-token latencies as slow as they were.
    Factors of a mean of one: more of it does not make the host slower.
    """
    profile = measure_speed(each, fit, length_s)
    real = _period(each.pages).quantile(ITL, 0.99)
    best: tuple[float, Fit, Profile] | None = None
    for noise in _JITTERS:
        tried = replace(fit, step=replace(fit.step, noise=noise))
        level = math.exp(0.5 * (fit.step.noise**2 - noise**2))
        moved = [(start, factor * level) for start, factor in profile]
        quantiles = [_period(run(each, tried, moved, seed=seed)).quantile(ITL, 0.99) for seed in _FIT_SEEDS]
        distance = abs(math.log(real / statistics.fmean(quantiles)))
        if best is None or distance < best[0]:
            best = distance, tried, moved
    assert best
    return best[1], measure_speed(each, best[1], length_s, start=best[2])


# --- the step-time model -------------------------------------------------------------------


def _period(pages: Iterable[Page]) -> Period:
    period, summary, outside = Period(), Summary(), Period()
    for page in pages:
        summary.add(page, period if WINDOW_S[0] <= page.time_s <= WINDOW_S[1] else outside)
    return period


def _fitted_numbers(pages: Iterable[Page]) -> list[float]:
    """What the coefficients are fitted to: logs of prefill time, inter-token latency, steps."""
    period = _period(pages)
    return [
        math.log(period.ratio(f"{PREFILL}_sum", f"{PREFILL}_count")),
        math.log(period.ratio(f"{ITL}_sum", f"{ITL}_count")),
        math.log(period.counters["vllm:iteration_tokens_total_count"]),
        math.log(period.quantile(ITL, 0.5)),
    ]


_WEIGHTS = np.array([1.0, 1.0, 2.0, 1.0])


def _numbers_of(job: tuple[Recording, Fit, Profile, int]) -> list[float]:
    each, fit, profile, seed = job
    return _fitted_numbers(run(each, fit, profile, seed=seed))


def _speed_of(job: tuple[Recording, Fit]) -> Profile:
    return measure_speed(*job)


def _lacking_of(job: tuple[Recording, Fit]) -> float:
    """What the model's mean TTFT lacks before the prefill [s]."""
    each, fit = job

    def before_prefill(period: Period) -> float:
        return (
            period.ratio(f"{TTFT}_sum", f"{TTFT}_count")
            - period.ratio(f"{PREFILL}_sum", f"{PREFILL}_count")
            - period.ratio(f"{QUEUE}_sum", f"{QUEUE}_count")
        )

    model = run(each, fit, measure_speed(each, fit))
    return before_prefill(_period(each.pages)) - before_prefill(_period(model))


def first_guess(recordings: Sequence[Recording]) -> Numbers:
    """Logs of the coefficients to start the search from: straight lines through busy stretches.

    They cannot tell the parts of a prefill's time apart, so it is divided as its arithmetic is. A
    decoding sequence's attention to its context costs what a prefill's does, to begin with.
    """
    busy = [interval for each in recordings for interval in each.busy]
    line = fit_step_model(busy)
    tokens, pairs = sum(each.prefill_tokens for each in busy), sum(each.prefill_pairs for each in busy)
    prefill_s = line.per_prefill_token_s * tokens + line.per_prefill_pair_s * pairs
    pair_cost = recordings[0].pair_cost
    token_s = prefill_s / (tokens + pair_cost * pairs)
    decode_s = max(line.per_decode_seq_s, 0.01 * line.base_s)
    return np.log([line.base_s, token_s, decode_s, pair_cost * token_s, pair_cost * token_s])


def _improve(x: Numbers, recordings: Sequence[Recording], base: Fit, pool: Executor) -> Numbers:
    """Three Gauss-Newton steps in the logs of the coefficients and of a speed for each recording."""
    runs, keys = len(recordings), len(_KEYS)
    profiles = list(pool.map(_speed_of, [(each, _with(base, x)) for each in recordings]))
    real = np.array([_fitted_numbers(each.pages) for each in recordings])
    speed = np.zeros(runs)
    for _ in range(3):
        jobs = []
        for index, each in enumerate(recordings):
            for change in range(keys + 2):
                moved, factor = x.copy(), speed[index]
                if 1 <= change <= keys:
                    moved[change - 1] += _STEP
                elif change:
                    factor += _STEP
                profile = [(start, old * math.exp(factor)) for start, old in profiles[index]]
                jobs += [(each, _with(base, moved), profile, seed) for seed in _FIT_SEEDS]
        found = np.array(list(pool.map(_numbers_of, jobs)))
        found = found.reshape(runs, keys + 2, len(_FIT_SEEDS), -1).mean(axis=2)
        slopes = (found[:, 1:] - found[:, :1]) / _STEP
        size = real.shape[1]
        rows = np.zeros((runs * size, keys + runs))
        for index in range(runs):
            lines = slice(index * size, (index + 1) * size)
            rows[lines, :keys] = (slopes[index, :keys] * _WEIGHTS).T
            rows[lines, keys + index] = slopes[index, keys] * _WEIGHTS
        wanted = ((real - found[:, 0]) * _WEIGHTS).ravel()
        # Damped, and with speeds that average to one: model and speeds share a common factor.
        mean = np.concatenate([np.zeros(keys), np.full(runs, 10.0)])
        left = np.vstack([rows, _STAY * np.eye(keys + runs), mean])
        right = np.concatenate([wanted, np.zeros(keys + runs), [-10.0 * speed.sum()]])
        move = np.clip(np.linalg.lstsq(left, right, rcond=None)[0], -0.5, 0.5)
        x, speed = x + move[:keys], speed + move[keys:]
    return x


def _with(base: Fit, x: Numbers) -> Fit:
    values = {key: float(value) for key, value in zip(_KEYS, np.exp(x), strict=True)}
    return replace(base, step=replace(base.step, **values))


def fit_healthy(recordings: Sequence[Recording], jobs: int) -> Fit:
    """Coefficients and front-end time, from healthy recordings alone."""
    x = first_guess(recordings)
    fit = Fit(StepModel(noise=_JITTER), 0.006)
    with ProcessPoolExecutor(jobs) as pool:
        for turn in range(_TURNS):
            x = _improve(x, recordings, fit, pool)
            fit = _with(fit, x)
            if turn == _TURNS - 1:
                break
            lacking_s = statistics.median(pool.map(_lacking_of, [(each, fit) for each in recordings]))
            fit = replace(fit, frontend_s=max(0.0, fit.frontend_s + lacking_s))
    return fit


def mean_factor(profile: Profile) -> float:
    """Mean of a profile's factors."""
    return sum(factor for _, factor in profile) / len(profile)
