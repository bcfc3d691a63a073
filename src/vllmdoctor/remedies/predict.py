"""What a remedy will change, in numbers: intervals from the figures and from pairs that were measured.

Each function takes what the remedy sets as an argument, so that a prediction can be made for any
value and held against a recording of a server that runs with it. The factors that are no arithmetic
stand as constants, each with the measured pair it comes from.
"""

import math

from vllmdoctor.model import Prediction
from vllmdoctor.remedies.ask import HEADROOM, Ask, pool_needed, running_needed

PREEMPTIONS, WAITING, TTFT = "preemptions", "requests waiting (mean)", "TTFT p95"

# A pool eight times as large, with demand above what the GPU can compute: preemptions fell to 0.43,
# the queue to 0.07 and TTFT p95 to 0.12 of what they were; with demand below it all went to 0.
ENOUGH = 0.5
# A cap at what the pool holds: preemptions fell to 0.04, queue and TTFT stayed at 1.10 and 1.00.
CAPPED = 0.25
SAME = (0.8, 1.3)
# A reserve of free blocks, one published test: TTFT up by 70 %.
RESERVED = 1.8
# Slicing long prompts: TTFT p95 fell to 0.49; a smaller budget left it at 1.02.
SLICED = 0.9


def _between(measure: str, unit: str, now: float, low: float, high: float, why_not: str) -> Prediction:
    if math.isnan(now) or math.isnan(low) or math.isnan(high) or math.isinf(high) or now < 0:
        return Prediction(measure, unit, now if math.isfinite(now) else math.nan, math.nan, math.nan, why_not)
    return Prediction(measure, unit, now, max(0.0, min(low, high)), max(low, high, 0.0))


def _three(
    ask: Ask, preempted: tuple[float, float], waiting: tuple[float, float], ttft: tuple[float, float]
) -> tuple[Prediction, ...]:
    """The three measures of an overload, each between two shares of what it is now."""
    figures = (
        (PREEMPTIONS, "per minute", ask.number("preemptions_per_minute"), preempted),
        (WAITING, "requests", ask.number("waiting_mean"), waiting),
        (TTFT, "s", ask.number("ttft_p95"), ttft),
    )
    return tuple(
        _between(measure, unit, now, low * now, high * now, f"{measure} now, or how much changes: not known")
        for measure, unit, now, (low, high) in figures
    )


def larger_pool(ask: Ask, ratio: float) -> tuple[Prediction, ...]:
    """A pool `ratio` times as large: half of the trouble at most stays where it holds the demand.

    Where it does not, more requests run at once and are preempted as often each: preemptions per
    minute may rise with the pool, though the queue does not.
    """
    pool, needed = ask.number("pool_tokens"), pool_needed(ask)
    enough = ratio * pool >= 0.999 * HEADROOM * needed or (math.isnan(needed) and ratio >= 4)
    if enough:
        return _three(ask, (0.0, ENOUGH), (0.0, ENOUGH), (0.0, ENOUGH))
    return _three(ask, (0.0, max(1.0, ratio)), (0.0, 1.0), (0.0, 1.0))


def capped_batch(ask: Ask) -> tuple[Prediction, ...]:
    """No more requests at once than the pool holds: the waste stops, the queue stays."""
    return _three(ask, (0.0, CAPPED), SAME, SAME)


def reserve(ask: Ask) -> tuple[Prediction, ...]:
    """Some blocks kept free at admission."""
    return _three(ask, (0.0, 1.0), (0.8, RESERVED), (0.8, RESERVED))


def more_slots(ask: Ask, slots: float) -> tuple[Prediction, ...]:
    """More requests at once, within what the pool holds."""
    now, needed = ask.number("max_num_seqs"), running_needed(ask)
    top = ENOUGH if slots >= needed and slots > now else 1.0
    preempted = ask.number("preemptions_per_minute")
    return (
        _between(PREEMPTIONS, "per minute", preempted, 0.0, preempted + 1.0, "preemptions now: not known"),
        *_three(ask, (0.0, 1.0), (0.0, top), (0.0, top))[1:],
    )


def more_servers(ask: Ask, factor: float) -> tuple[Prediction, ...]:
    """`factor` times the capacity: the queue drains where that is above the demand."""
    done, offered = ask.number("completion_rate"), ask.number("arrival_rate")
    top = ENOUGH if factor * done >= offered else 1.0
    return _three(ask, (0.0, top), (0.0, top), (0.0, top))


def _hidden_queue(ask: Ask) -> float:
    """Requests that wait before the scheduler sees them: Little's law on the excess of the mean TTFT."""
    return ask.number("arrival_rate") * max(0.0, ask.number("ttft_mean") - ask.number("ttft_p50"))


def _blocking(ask: Ask, waiting_more: float, low: float, high: float) -> tuple[Prediction, ...]:
    preempted, waiting = ask.number("preemptions_per_minute"), ask.number("waiting_mean")
    return (
        _between(PREEMPTIONS, "per minute", preempted, 0.0, preempted, "preemptions now: not known"),
        _between(
            WAITING,
            "requests",
            waiting,
            0.0,
            waiting + waiting_more,
            "the queue or its hidden part: not known",
        ),
        _between(TTFT, "s", ask.number("ttft_p95"), low, high, "TTFT now: not known"),
    )


def sliced_prompts(ask: Ask) -> tuple[Prediction, ...]:
    """Long prompts take a slice of each step: TTFT p95 falls, at best to the median."""
    return _blocking(ask, 0.1, ask.number("ttft_p50"), SLICED * ask.number("ttft_p95"))


def shorter_steps(ask: Ask) -> tuple[Prediction, ...]:
    """A smaller budget: TTFT stays; a queue that the long steps hid comes to be seen."""
    low, high = SAME
    return _blocking(ask, 2 * _hidden_queue(ask), low * ask.number("ttft_p95"), high * ask.number("ttft_p95"))


def cached_prefixes(ask: Ask, share: float) -> tuple[Prediction, ...]:
    """A share of the prompt tokens is not computed again."""
    if not 0 <= share <= 1:
        why = "the share of prompt tokens that repeat is not known"
        return tuple(
            Prediction(p.measure, p.unit, p.now, math.nan, math.nan, why)
            for p in _three(ask, (0.0, 1.0), (0.0, 1.0), (0.0, 1.0))
        )
    return _three(ask, (0.0, 1.0), (0.0, 1.0), (1 - share, 1 - share / 2))


def bounded_queue(ask: Ask, bound: float, patience_s: float) -> tuple[Prediction, ...]:
    """No more than `bound` requests wait: the rest is refused."""
    waiting, ttft = ask.number("waiting_mean"), ask.number("ttft_p95")
    return (
        _between(WAITING, "requests", waiting, 0.0, min(bound, waiting), "completions now: not known"),
        _between(TTFT, "s", ttft, 0.0, min(2 * patience_s, ttft), "TTFT now: not known"),
    )
