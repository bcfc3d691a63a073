"""What a remedy is asked, the arithmetic several remedies share, and how a step is written."""

import math
import re
from collections.abc import Callable
from dataclasses import dataclass

from vllmdoctor.flags import Release, flag
from vllmdoctor.model import Effort, Outcome, Prediction, RemedyVerdict, Step
from vllmdoctor.remedies.figures import Figures

GIB = 1024.0**3
HEADROOM = 1.3  # a larger batch has longer steps, so more run at once than at the present pace
MARGIN = 0.95  # a pool is planned to be this full at the peak, not wholly full


@dataclass(frozen=True, slots=True)
class Ask:
    """The patient: figures, release, and the finding that is to be treated."""

    figures: Figures
    release: Release
    finding: Outcome

    def number(self, name: str) -> float:
        """A figure; NaN when it is missing."""
        return self.figures.number(name)

    def missing(self, *names: str) -> tuple[str, ...]:
        """Which of these figures are missing, each with how to get it."""
        return self.figures.missing(*names)

    @property
    def cause(self) -> str:
        """The slug of the finding."""
        return self.finding.slug

    def in_force(self, name: str) -> str | None:
        """The value of an argument: as given, else its default; None when neither is known."""
        key = name.removeprefix("--").replace("-", "_")
        given = self.figures.facts.get(key)
        if given is not None:
            return plain(given.value) if not isinstance(given.value, str) else given.value
        return flag(name).default_in(self.release)

    @property
    def pool_is_full(self) -> bool | None:
        """Whether requests fight for KV blocks; None when it was not seen."""
        usage, preempted = self.number("kv_usage_p95"), self.number("preemptions_per_minute")
        if self.finding.kind == "kv-bound" or self.cause == "kv-fragmentation" or preempted >= 1:
            return True
        return None if math.isnan(usage) else usage >= 0.95


def floor(value: float) -> float:
    """The whole number at or below; NaN and infinity stay what they are."""
    return math.floor(value) if math.isfinite(value) else value


def ceil(value: float) -> float:
    """The whole number at or above; NaN and infinity stay what they are."""
    return math.ceil(value) if math.isfinite(value) else value


Remedy = Callable[[Ask], Step | None]


def sequences_that_fit(ask: Ask) -> float:
    """How many requests of mean length the pool holds when each has grown to its end."""
    full = ask.number("mean_prompt") + ask.number("mean_output")
    return floor(ask.number("pool_tokens") / full) if full > 0 else math.nan


def running_needed(ask: Ask) -> float:
    """Requests that must run at once to keep up: Little's law at the present time per request."""
    done, offered = ask.number("completion_rate"), ask.number("arrival_rate")
    if not done > 0:
        return math.nan
    return ask.number("running_mean") * max(1.0, offered / done) if offered > 0 else math.nan


def peak(mean: float) -> float:
    """The peak of a count with that mean, two standard deviations up (arrivals are random)."""
    return mean + 2 * math.sqrt(mean)


def pool_needed(ask: Ask) -> float:
    """KV tokens for the load that is offered: the peak number of requests, each half grown."""
    resident = ask.number("mean_prompt") + ask.number("mean_output") / 2
    needed = running_needed(ask)
    return peak(needed) * resident / MARGIN if needed >= 0 else math.nan


def pool_formula(ask: Ask) -> str:
    """The arithmetic of `pool_needed`, with its numbers; "" when some are missing."""
    needed = running_needed(ask)
    tokens = pool_needed(ask)
    if math.isnan(tokens):
        return ""
    return (
        f"to keep up {plain(needed, 1)} must run (peak {plain(peak(needed), 1)}) x "
        f"({plain(ask.number('mean_prompt'))} + {plain(ask.number('mean_output'))}/2) tokens / {MARGIN} "
        f"= {plain(tokens)} tokens; pool "
        + (plain(ask.number("pool_tokens")) if ask.number("pool_tokens") > 0 else "not known")
    )


def gain_bound(ask: Ask, pool_ratio: float) -> str:
    """What a larger pool can bring, as an interval: no more than the pool, no more than the demand."""
    done, offered = ask.number("completion_rate"), ask.number("arrival_rate")
    bounds = [b for b in (pool_ratio, offered / done if done > 0 else math.nan) if 0 < b < math.inf]
    if not bounds:
        return "cannot be predicted because arrivals and completions are not known"
    top = max(1.0, min(bounds))
    return (
        f"fewer preemptions per request; completions x 1.0-{top:.1f} "
        "(at most the pool's growth and the demand), less where compute is the next limit"
    )


def power_of_two(value: float) -> int:
    """The smallest power of two that is not below `value`."""
    return 1 << max(0, math.ceil(math.log2(max(1.0, value))))


def plain(value: float, digits: int = 0) -> str:
    """A number as people write it: 2,048 or 4.7 or 0.92; "?" for NaN."""
    if isinstance(value, bool):
        return str(value)
    if math.isnan(value):
        return "?"
    if digits == 0 and abs(value) < 10 and value != round(value):
        return f"{value:.3g}"
    return f"{value:,.{digits}f}"


# an arithmetic with a number that is none says nothing
_NONSENSE = re.compile(r"(?<![\w-])-?(?:nan|inf)\b|\?")


def step(
    slug: str,
    title: str,
    ask: Ask,
    *,
    action: str,
    why: str,
    verdict: RemedyVerdict = "helps",
    effort: Effort = Effort.RESTART,
    flag_name: str = "",
    before: str = "",
    after: str = "",
    formula: str = "",
    effect: str = "",
    tradeoff: str = "",
    verify: str = "",
    restart: bool | None = None,
    missing: tuple[str, ...] = (),
    predictions: tuple[Prediction, ...] = (),
) -> Step | None:
    """A step; None when its argument is unknown to the release or does nothing there."""
    if flag_name and not flag(flag_name).works_in(ask.release):
        return None
    return Step(
        slug=slug,
        title=title,
        action=action,
        verdict=verdict,
        why=why,
        effort=effort,
        treats=(ask.cause,),
        flag=flag_name,
        before=before,
        after=after,
        formula="" if _NONSENSE.search(formula) else formula,
        effect=effect,
        tradeoff=tradeoff,
        verify=verify,
        restart=effort is Effort.RESTART if restart is None else restart,
        missing=missing,
        predictions=predictions,
    )


def dismissed(
    slug: str, title: str, ask: Ask, verdict: RemedyVerdict, why: str, *, formula: str = ""
) -> Step:
    """A step for advice that is well known and useless or harmful here: it names no argument to set."""
    return Step(
        slug=slug,
        title=title,
        action="Do not do this here." if verdict == "harmful" else "Nothing to do.",
        verdict=verdict,
        why=why,
        effort=Effort.LIVE,
        treats=(ask.cause,),
        formula=formula,
        restart=False,
    )
