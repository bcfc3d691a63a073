"""Recording -> acceptance of a fix: did it hold for a day? A pure function, as the diagnosis is.

The criteria are the runbook's. What fails does so after minutes; what passes counts once the history is as
long as the criterion needs, and cannot tell until then.
"""

import math
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from vllmdoctor.case import Limit, number, percent, ratio
from vllmdoctor.engines import frames
from vllmdoctor.errors import NotEnoughData
from vllmdoctor.facts import server_version
from vllmdoctor.frame import Frame, after
from vllmdoctor.model import Gap
from vllmdoctor.model_validation import Compared, Criterion, EngineValidation, Standing, Validation
from vllmdoctor.recording import Recording
from vllmdoctor.rules import get
from vllmdoctor.statistics import FloatArray, Mask, mean, quantile, theil_sen
from vllmdoctor.symptoms import FEWEST_REQUESTS
from vllmdoctor.vitals import Vitals

DAY_S = 86400.0
HOUR_S = 3600.0
GLANCE_S = 120.0  # a moment's figures are chance
ENOUGH = 0.95  # a day asked of a Prometheus is a step short of one
COVERED = 0.8  # so much of the time must have been seen
BLOCKS = 24  # a history is judged piece by piece: hours of a day
FEWEST_BLOCKS = 6  # fewer pieces show no trend
FEWEST_ALIKE = 3  # and fewer of the same demand no usual rate
ENDS = 3  # so many pieces at either end, of which all agree, are no chance
SAME_DEMAND = 0.15  # the runbook's: a demand within 15 % is the same

_PREEMPTIONS = get("kv-fragmentation").limits["preemptions"]
_PREFIX = get("prefix-cache-collapse").limits

LIMITS: Mapping[str, Limit] = {
    "rate": Limit(0.10, "ratio", "over a day a sound server keeps its rate within a tenth", "runbook"),
    "kept": Limit(0.90, "ratio", "a fix must not cost more than a tenth of the rate", "runbook"),
    "preemptions": _PREEMPTIONS,
    "preemptions-rise": Limit(
        0.1, "per minute", "a tenth of what is allowed, gained in the time seen, is a rise", "vllmdoctor"
    ),
    "usage": Limit(0.85, "ratio", "mostly 70 to 85 %: used well, with room for the next prompt", "runbook"),
    "usage-peak": Limit(0.92, "ratio", "above it a long request evicts another", "runbook"),
    "hits": replace(_PREFIX["goal"], source="runbook"),
    "repeats": replace(_PREFIX["before"], why="prompts that repeat show in hits"),
    "first-token": get("head-of-line-blocking").limits["median"],
    "felt": Limit(0.1, "s", "a tenth of a second later is felt", "vllmdoctor"),
}
"""What a fix is held against. `repeats` says to whom `hits` applies; a rise in first tokens must exceed
both `first-token` and `felt`."""

_Op = Literal["<=", "<", ">="]
LOW_USAGE = 0.70  # the runbook's lower end: below it the pool has room, which is no fault
_WORST = (Standing.FAIL, Standing.UNKNOWN, Standing.PASS, Standing.MOOT)


@dataclass(frozen=True, slots=True)
class _Measured:
    """What a criterion measured, before it is asked whether the history was long enough."""

    observed: float
    reason: str = ""
    detail: str = ""
    moot: bool = False
    spared: bool = False  # beyond the limit, and yet no failure (`detail` says why)


def validate(
    recording: Recording,
    *,
    target: str = "",
    before: Recording | None = None,
    before_name: str = "",
    vllm_version: str = "",
) -> Validation:
    """Hold a history against the criteria. NotEnoughData where it holds no vLLM series with two scrapes."""
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "All-NaN|Mean of empty|Degrees of freedom", RuntimeWarning)
        framed = frames(recording)
        if not framed or max(f.end - f.start for f in framed) <= 0:
            hint = "record for a day: vllmdoctor record http://HOST:PORT -o after.rec --for 24h"
            raise NotEnoughData("no vLLM metrics over a length of time to judge", hint=hint)
        earlier = frames(before) if before is not None else ()
        if before is not None and not earlier:
            raise NotEnoughData(f"{before_name or 'the recording before'} holds no vLLM metrics")
        engines = [_engine(recording, f, _matching(f, earlier), vllm_version) for f in framed]
    engines.sort(key=lambda e: (_WORST.index(e.standing), e.instance, e.engine))
    # a target that could not be read is no engine that passes
    unread = [Standing.UNKNOWN for gap in recording.gaps if gap.origin == "targets"]
    return Validation(
        target=target,
        before=before_name,
        standing=_sum_up([*unread, *(e.standing for e in engines)]),
        engines=tuple(engines),
        gaps=(*recording.gaps, *_other_models(framed, earlier, before_name)),
    )


def _other_models(framed: Sequence[Frame], earlier: Sequence[Frame], name: str) -> Iterator[Gap]:
    """A model that is compared with another one: a new model, or the wrong file."""
    pairs = {(f.model, past.model) for f in framed if (past := _matching(f, earlier)) is not None}
    for now, then in sorted(pairs):
        if now != then:
            yield Gap(
                name,
                f"{now} before",
                f"it is compared with another model, {then}",
                "is --before the recording you meant?",
            )


def _matching(frame: Frame, earlier: Sequence[Frame]) -> Frame | None:
    """The same engine before, or the first one."""
    same = [f for f in earlier if (f.model, f.engine) == (frame.model, frame.engine)]
    return next(iter([*same, *earlier]), None)


def _sum_up(standings: Sequence[Standing]) -> Standing:
    return next((s for s in _WORST[:-1] if s in standings), Standing.UNKNOWN)


def _engine(recording: Recording, frame: Frame, earlier: Frame | None, given: str) -> EngineValidation:
    vitals = Vitals(frame)
    past = Vitals(earlier) if earlier is not None else None
    kept = _kept(frame, earlier)
    covered = float(np.nansum(frame.observed))
    criteria = tuple(_criteria(vitals, past, kept, covered))
    return EngineValidation(
        engine=frame.engine,
        instance=frame.instance,
        model=frame.model,
        version=server_version(recording, frame, given).words,
        start=frame.start,
        end=frame.end,
        covered_s=covered,
        restarts=len(frame.restarts),
        standing=_sum_up([c.standing for c in criteria]),
        criteria=criteria,
        compared=tuple(_compared(vitals, past, kept)) if past is not None else (),
    )


# --- the criteria ------------------------------------------------------------------------------


def _criteria(vitals: Vitals, past: Vitals | None, kept: float, covered: float) -> Iterator[Criterion]:
    def judged(name: str, title: str, op: _Op, seen: _Measured, needs: float) -> Criterion:
        return _judged(name, title, op, LIMITS[name], seen, needs, vitals.frame, covered)

    few = _too_little(vitals)

    def measured(measure: Callable[[], _Measured]) -> _Measured:
        return _Measured(math.nan, few) if few else measure()

    yield judged(
        "rate", "rate, spread at equal load", "<=",
        measured(lambda: _steadiness(vitals)), DAY_S,
    )  # fmt: skip
    if past is not None:
        seen = _Measured(kept, "" if math.isfinite(kept) else "the load was never the same")
        yield judged("kept", "rate at equal load / before", ">=", measured(lambda: seen), HOUR_S)
    yield judged("preemptions", "preemptions", "<", measured(lambda: _preemptions(vitals)), DAY_S)
    yield judged(
        "preemptions-rise", "rise of preemptions", "<=",
        measured(lambda: _rise(vitals, 60 * vitals.preemptions, "preemptions")), DAY_S,
    )  # fmt: skip
    yield judged("usage", "KV usage (p50)", "<=", measured(lambda: _usage(vitals)), DAY_S)
    yield judged("usage-peak", "KV usage (p95)", "<=", measured(lambda: _usage_peak(vitals)), DAY_S)
    yield judged("hits", "prefix cache hit ratio", ">=", measured(lambda: _hits(vitals, past)), HOUR_S)
    yield judged(
        "first-token", "TTFT (p50), end / start", "<=",
        measured(lambda: _first_token(vitals)), DAY_S,
    )  # fmt: skip


def _judged(
    name: str,
    title: str,
    op: _Op,
    limit: Limit,
    seen: _Measured,
    needs: float,
    frame: Frame,
    covered: float,
) -> Criterion:
    """The answer to a criterion: a failure at once, a pass once the history is long enough."""
    short = frame.end - frame.start < ENOUGH * needs or covered < COVERED * ENOUGH * needs
    value, reason = seen.observed, seen.reason
    holds = {"<=": value <= limit.value, "<": value < limit.value, ">=": value >= limit.value}[op]
    if seen.moot:
        standing = Standing.MOOT
    elif math.isnan(value):
        standing = Standing.UNKNOWN
    elif not (holds or seen.spared) and frame.end - frame.start < GLANCE_S:
        standing, reason = Standing.UNKNOWN, "does not hold, in too short a glance to tell"
    elif not (holds or seen.spared):
        standing = Standing.FAIL
    elif short:
        standing, reason = Standing.UNKNOWN, f"holds so far, and takes {needs / HOUR_S:g} h to tell"
    else:
        standing = Standing.PASS
    return Criterion(
        name=name,
        title=title,
        standing=standing,
        observed=value,
        op=op,
        limit=limit.value,
        unit=limit.unit,
        why=limit.why,
        source=limit.source,
        needs_s=needs,
        short=short,
        detail=seen.detail,
        reason=reason,
    )


def _too_little(vitals: Vitals) -> str:
    """Why nothing can be said of an engine at all: it had no work, or next to none."""
    if not vitals.active.any():
        return "it had no work, or none that was seen"
    done = float(np.nansum(vitals.finished * vitals.frame.observed))
    if np.isfinite(vitals.finished).any() and done < FEWEST_REQUESTS:
        return f"{number(done)} requests finished, {FEWEST_REQUESTS:g} tell something"
    return ""


def _blocks(vitals: Vitals) -> list[Mask]:
    """The history in equal pieces: hours, or less where it is shorter than a day."""
    index = np.arange(vitals.frame.size)
    count = min(BLOCKS, max(1, vitals.frame.size // 4))
    length = max(round(HOUR_S / vitals.frame.step), math.ceil(index.size / BLOCKS))
    if index.size < FEWEST_BLOCKS * length:
        length = math.ceil(index.size / min(count, FEWEST_BLOCKS))
    found = [(index >= a) & (index < a + length) & vitals.seen for a in range(0, index.size, length)]
    return [b for b in found if b.sum() >= length / 2]


def _steadiness(vitals: Vitals) -> _Measured:
    """How far a piece of the history lies from the median of those with the same demand."""
    known = np.isfinite(vitals.finished).any()
    done = vitals.finished * vitals.frame.observed
    # a handful of requests swings by itself
    blocks = [b for b in _blocks(vitals) if not known or np.nansum(done[b]) >= FEWEST_REQUESTS]
    rates = np.array([vitals.throughput(b & vitals.active) for b in blocks])
    demand = np.array([mean(vitals.arrivals, b) for b in blocks])
    off = []
    for rate, asked in zip(rates, demand, strict=True):
        alike = np.abs(demand / asked - 1) <= SAME_DEMAND if np.isfinite(asked) else np.isnan(demand)
        if math.isfinite(rate) and np.isfinite(rates[alike]).sum() >= FEWEST_ALIKE:
            off.append(rate / float(np.nanmedian(rates[alike])) - 1)
    if len(off) < FEWEST_BLOCKS:
        return _Measured(math.nan, f"{len(off)} of its pieces can be compared, {FEWEST_BLOCKS} are wanted")
    furthest = max(off, key=abs)
    return _Measured(abs(furthest), detail=f"{'below' if furthest < 0 else 'above'} hours of the same demand")


def _preemptions(vitals: Vitals) -> _Measured:
    value = 60 * mean(vitals.preemptions, vitals.seen)
    return _Measured(value, "" if math.isfinite(value) else "preemptions were not seen")


def _rise(vitals: Vitals, values: FloatArray, what: str) -> _Measured:
    """What a series gained in the time seen, as far as its scatter supports that it did."""
    blocks = _blocks(vitals)
    levels = [mean(values, b) for b in blocks]
    gained = _gain(levels, blocks, vitals, what)
    if math.isnan(gained.observed):
        return gained
    return replace(gained, observed=max(gained.observed, _step(levels)[1]))


def _gain(levels: Sequence[float], blocks: Sequence[Mask], vitals: Vitals, what: str) -> _Measured:
    times = np.array([float(vitals.frame.times[b].mean()) for b in blocks])
    y = np.array(levels, dtype=np.float64)
    if np.isfinite(y).sum() < FEWEST_BLOCKS:
        return _Measured(
            math.nan, f"{what} were seen in {int(np.isfinite(y).sum())} pieces, {FEWEST_BLOCKS} tell"
        )
    _, low, _ = theil_sen(times, y)
    return _Measured(max(0.0, low * (vitals.frame.end - vitals.frame.start)))


def _step(levels: Sequence[float]) -> tuple[float, float]:
    """The most in the first pieces, and what each of the last has above it.

    A line through a step that came early is flat: most of its pieces lie on one side.
    """
    seen = np.array([level for level in levels if math.isfinite(level)])
    began = float(seen[:ENDS].max())
    return began, max(0.0, float(seen[-ENDS:].min()) - began)


def _usage(vitals: Vitals) -> _Measured:
    value = quantile(vitals.usage, 0.5, vitals.active & vitals.seen)
    if math.isnan(value):
        return _Measured(value, "KV usage was not seen")
    low = f"below {percent(LOW_USAGE)}: room to spare" if value < LOW_USAGE else ""
    return _Measured(value, detail=low)


def _usage_peak(vitals: Vitals) -> _Measured:
    times, usage = vitals.frame.raw("kv_cache_usage")
    value = quantile(usage, 0.95, vitals.inside(times, vitals.active & vitals.seen))
    if math.isnan(value):
        return _Measured(value, "KV usage was not seen")
    calm = value > LIMITS["usage-peak"].value and not np.nansum(vitals.preemptions) > 0
    return _Measured(value, detail="full without one preemption: it lacks a reserve, no more" if calm else "")


def _hits(vitals: Vitals, past: Vitals | None) -> _Measured:
    now, then = _hit_ratio(vitals), _hit_ratio(past) if past is not None else math.nan
    if math.isnan(now):
        off = vitals.frame.labels("cache_config").get("enable_prefix_caching") == "False"
        return _Measured(now, "prefix caching is off" if off else "no prompt was looked up", moot=True)
    if max(now, 0.0 if math.isnan(then) else then) < LIMITS["repeats"].value:
        return _Measured(now, "prompts hardly repeat, as far as hits tell", moot=True)
    return _Measured(now)


def _hit_ratio(vitals: Vitals) -> float:
    queries, hits = vitals.frame.rate("prefix_cache_queries"), vitals.frame.rate("prefix_cache_hits")
    known = np.isfinite(queries) & np.isfinite(hits)
    return ratio(float(hits[known].sum()), float(queries[known].sum()))


def _first_token(vitals: Vitals) -> _Measured:
    if vitals.frame.histogram("ttft") is None:
        return _Measured(math.nan, "times to first tokens were not seen")
    blocks = _blocks(vitals)
    levels = [vitals.quantile("ttft", 0.5, b)[0] for b in blocks]
    gained = _gain(levels, blocks, vitals, "first tokens")
    if math.isnan(gained.observed):
        return gained
    # the line through the levels, but no lower than the lowest of them
    began = max(float(np.nanmedian(levels)) - gained.observed / 2, float(np.nanmin(levels)))
    risen = ratio(began + gained.observed, began)
    stood, step = _step(levels)
    if step > gained.observed:
        began, gained = stood, replace(gained, observed=step)
        risen = ratio(began + step, began)
    felt = LIMITS["felt"].value
    if risen > LIMITS["first-token"].value and gained.observed < felt:
        return _Measured(risen, detail=f"by less than {felt:g} s: nobody feels it", spared=True)
    return replace(gained, observed=risen)


# --- before and after --------------------------------------------------------------------------


def _kept(frame: Frame, earlier: Frame | None) -> float:
    """The generation rate over that before, at equal load; NaN without a before."""
    if earlier is None:
        return math.nan
    joined = after(frame, earlier)
    vitals = Vitals(joined)
    seam = joined.seam if joined.seam is not None else joined.start
    return ratio(
        vitals.throughput((joined.times >= seam) & vitals.active),
        vitals.throughput((joined.times < seam) & vitals.active),
    )


def _compared(vitals: Vitals, past: Vitals, kept: float) -> Iterator[Compared]:
    yield Compared(
        "kept", "generation rate at equal load", 1.0 if math.isfinite(kept) else kept, kept, kept, "x"
    )
    measures: tuple[tuple[str, str, str, Callable[[Vitals], float]], ...] = (
        ("generation", "generation rate", "tokens/s", lambda v: mean(v.generation, v.seen)),
        ("arrivals", "arriving requests", "1/s", lambda v: mean(v.arrivals, v.seen)),
        ("preemptions", "preemptions", "per minute", lambda v: _preemptions(v).observed),
        ("waiting", "requests waiting (mean)", "requests", lambda v: mean(v.waiting, v.seen)),
        ("queue", "time in the queue (mean)", "s", lambda v: v.mean("queue_time", v.seen)),
        ("usage", "KV usage (p50)", "ratio", lambda v: _usage(v).observed),
        ("usage-peak", "KV usage (p95)", "ratio", lambda v: _usage_peak(v).observed),
        ("hits", "prefix cache hit ratio", "ratio", _hit_ratio),
        ("ttft", "time to first token (p50)", "s", lambda v: v.quantile("ttft", 0.5, v.seen)[0]),
        ("ttft-tail", "time to first token (p95)", "s", lambda v: v.quantile("ttft", 0.95, v.seen)[0]),
        ("itl", "time between tokens (mean)", "s", lambda v: v.mean("itl", v.seen)),
    )
    for name, title, unit, measure in measures:
        a, b = measure(past), measure(vitals)
        yield Compared(name, title, a, b, math.inf if a == 0 and b > 0 else ratio(b, a), unit)
