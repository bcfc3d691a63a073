"""Is it slow at all, against what, and since when: before and apart from why.

Every comparison is made at equal load: demand that falls must not look like a fault, and latency
that rises with a bigger batch must not either. Sources of the limits: the degradation runbook
(0.70 for 1 h against 8 h earlier; 0.80 for the alert) and its latency comparison.
"""

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from vllmdoctor.case import Limit, Windows, ratio
from vllmdoctor.model import Symptom
from vllmdoctor.statistics import FloatArray, Mask, finite, mean
from vllmdoctor.vitals import Vitals
from vllmdoctor.windows import Signs

RUNBOOK = "runbook"
THROUGHPUT = Limit(
    0.80, "ratio", "the runbook alerts when 30 minutes fall below 0.8 of the rate before", RUNBOOK
)
LATENCY = Limit(1.5, "ratio", "a latency half as long again is felt by users", "guidance")
UNDATED = Limit(
    3.0, "ratio", "without a moment at which it changed, only a gross difference counts", "vllmdoctor"
)
DECODE = Limit(1.3, "ratio", "a decode step takes the same time for the same batch", "degradation guide")
LONGER = Limit(2.0, "ratio", "twice the context for each token, in requests that only grow", "vllmdoctor")
QUEUE_S = Limit(1.0, "s", "a second in the queue is what interactive users notice", "guidance")
PACE = Limit(1.0, "tokens/s", "slower than a person reads by far, on any hardware", "measured cases")
DECLINE = Limit(
    0.70, "ratio", "the runbook's decline: the last hour against the same hour 8 h earlier", RUNBOOK
)
RUNBOOK_WINDOWS = (
    ("hour", 3600.0, 8 * 3600.0, DECLINE),
    ("half-hour", 1800.0, 6 * 3600.0, THROUGHPUT),
)
FEWEST_REQUESTS = 100.0  # below this a window's rate swings by chance
FELT_ITL, FELT_TTFT = 1.1, 1.2  # the least by which tokens or first tokens tell of less speed
OFTEN = 0.25  # a new queue is one that waits in a quarter of the scrapes
STANDING = Limit(0.6, "ratio", "bursts drain; a queue that stands does not", "vllmdoctor")


def symptoms(vitals: Vitals, found: Signs, compared: Windows) -> tuple[Symptom, ...]:
    """The questions of "is it slow?", answered for the two windows."""
    now, before = compared.now, compared.before
    out = [
        _throughput(vitals, compared, found),
        _symptom(
            "itl", "time per output token at equal load", found.itl, compared, "", DECODE, vitals, found
        ),
        _latency("ttft", "time to first token (mean)", vitals, compared, found),
        _tail(vitals, compared, found),
        _queue(vitals, compared, found),
        _pace(vitals, compared, found),
    ]
    out += [s for s in (_runbook(vitals, compared.baseline, *w) for w in RUNBOOK_WINDOWS) if s is not None]
    for name, title, series, unit in (
        ("demand", "arriving requests", vitals.arrivals, "1/s"),
        ("rate", "generation rate", vitals.generation, "tokens/s"),
    ):
        a, b = mean(series, now), mean(series, before)
        out.append(Symptom(name, title, a, b, unit, ratio(a, b), math.nan, "", compared.baseline, None))
    return tuple(_felt(out, vitals, compared))


def _felt(out: list[Symptom], vitals: Vitals, compared: Windows) -> list[Symptom]:
    """A lower rate is slowness only where somebody waits for it.

    Rate = running / time per token: a server that got slower shows it in its tokens, its first tokens
    or its queue. Where those are known and unchanged, the load of the window was only another.
    """
    by = {s.name: s for s in out}
    itl, ttft = by["itl"].ratio, by["ttft"].ratio
    known = not (math.isnan(itl) and math.isnan(ttft))
    stands = vitals.waiting_share(compared.now) >= STANDING.value
    if not known or itl >= FELT_ITL or ttft >= FELT_TTFT or by["queue"].slow or stands:
        return out
    why = "tokens, first tokens and queue are as before: less work, not less speed"
    rates = ("throughput", *(name for name, *_ in RUNBOOK_WINDOWS))
    return [replace(s, slow=False, detail=why) if s.name in rates and s.slow else s for s in out]


def _runbook(
    vitals: Vitals, baseline: str, name: str, length: float, back: float, limit: Limit
) -> Symptom | None:
    """The runbook's own comparison at equal load; None when the history does not reach so far back.

    It needs requests to speak of: a handful of them swings by itself.
    """
    frame = vitals.frame
    if frame.seam is not None or frame.end - frame.start < back + length:
        return None
    age = frame.end - frame.times
    now = (age <= length) & vitals.active
    before = (age > back) & (age <= back + length) & vitals.active
    if min(_finished(vitals, now), _finished(vitals, before)) < FEWEST_REQUESTS:
        return None
    a, b = vitals.throughput(now), vitals.throughput(before)
    r = ratio(a, b)
    span, ago = f"{length / 3600:g} h" if length >= 3600 else f"{length / 60:g} min", f"{back / 3600:g} h"
    title = f"generation rate at equal load, last {span} / {ago} earlier"
    slow = None if math.isnan(r) else r < limit.value
    return Symptom(name, title, a, b, "", r, limit.value, "<", baseline, slow)


def _finished(vitals: Vitals, mask: Mask) -> float:
    return float(np.nansum(vitals.finished[mask])) * vitals.frame.step


def _throughput(vitals: Vitals, compared: Windows, found: Signs) -> Symptom:
    now, before = vitals.throughput(compared.now), vitals.throughput(compared.before)
    r = ratio(now, before)
    slow = None if math.isnan(r) else r < THROUGHPUT.value
    if slow and _longer_contexts(vitals, compared):
        slow = None  # a token takes longer when more context is read for it
    return _finish(
        "throughput",
        "generation rate at equal load",
        now,
        before,
        "",
        r,
        THROUGHPUT,
        "<",
        compared,
        slow,
        vitals,
        found,
    )


def _longer_contexts(vitals: Vitals, compared: Windows) -> bool:
    """Whether requests hold so much more of the pool than before that each token costs more.

    Only where the requests' lengths are unknown, as in a log, and nobody waits.
    """
    if vitals.frame.has("prompt_length") or mean(vitals.waiting, compared.now) > 0:
        return False
    with np.errstate(invalid="ignore", divide="ignore"):
        each = np.where(vitals.running >= 0.5, vitals.usage / vitals.running, np.nan)
    return ratio(mean(each, compared.now), mean(each, compared.before)) >= LONGER.value


def _highest_before(compared: Windows, measure: Callable[[Mask], float]) -> float:
    """The highest value in earlier windows as long as "now", up to the onset; NaN with fewer than three.

    Traffic that comes in bursts has slow hours by nature: only what exceeds them is a decline.
    """
    length = int(compared.now.sum())
    end = int(np.flatnonzero(compared.now)[0]) if length else 0
    if compared.onset is not None and compared.before.any():
        end = int(np.flatnonzero(compared.before)[-1]) + 1
    values = []
    for start in range(end - length, -1, -length) if length else ():
        mask = np.zeros(compared.now.size, np.bool_)
        mask[start : start + length] = True
        values.append(measure(mask))
    known = [x for x in values if not math.isnan(x)]
    return max(known) if len(known) >= 3 else math.nan


def _mostly_later(vitals: Vitals, compared: Windows) -> bool:
    """Whether first tokens came later in most of the window now: one burst that drained is no decline."""
    histogram = vitals.frame.histogram("ttft")
    if histogram is None:
        return True
    each = finite(histogram.mean[compared.now])
    before = vitals.mean("ttft", compared.before)
    return bool(each.size and (each > LATENCY.value * before).mean() >= 0.5)


def _tail(vitals: Vitals, compared: Windows, found: Signs) -> Symptom:
    """TTFT p95 now and before."""
    now, before = (
        vitals.quantile("ttft", 0.95, compared.now)[0],
        vitals.quantile("ttft", 0.95, compared.before)[0],
    )
    r = ratio(now, before)
    # two gates again, and beyond what the traffic's own slow hours were
    usual = _highest_before(compared, lambda mask: vitals.quantile("ttft", 0.95, mask)[0])
    limit = LATENCY if compared.onset is not None else UNDATED
    far = r > limit.value and now - before > 0.5
    far = far and (limit is LATENCY or _mostly_later(vitals, compared))
    slow = None if math.isnan(r) else bool(far and not now <= 1.1 * usual)
    why = _as_before(far, slow)
    return _finish(
        "tail",
        "time to first token (p95)",
        now,
        before,
        "s",
        r,
        limit,
        ">",
        compared,
        slow,
        vitals,
        found,
        why,
    )


def _symptom(
    name: str,
    title: str,
    series: FloatArray,
    compared: Windows,
    unit: str,
    limit: Limit,
    vitals: Vitals,
    found: Signs,
) -> Symptom:
    now, before = mean(series, compared.now), mean(series, compared.before)
    r = ratio(now, before)
    slow = None if math.isnan(r) else r > limit.value
    return _finish(name, title, now, before, unit, r, limit, ">", compared, slow, vitals, found)


def _latency(name: str, title: str, vitals: Vitals, compared: Windows, found: Signs) -> Symptom:
    now, before = vitals.mean("ttft", compared.now), vitals.mean("ttft", compared.before)
    r = ratio(now, before)
    # two gates: half as long again, and long enough for a person to notice
    usual = _highest_before(compared, lambda mask: vitals.mean("ttft", mask))
    limit = LATENCY if compared.onset is not None else UNDATED
    far = r > limit.value and now - before > 0.1
    far = far and (limit is LATENCY or _mostly_later(vitals, compared))
    slow = None if math.isnan(r) else bool(far and not now <= 1.1 * usual)
    return _finish(
        name, title, now, before, "s", r, limit, ">", compared, slow, vitals, found, _as_before(far, slow)
    )


def _as_before(far: bool, slow: bool | None) -> str:
    return "other hours of this history were as slow" if far and not slow else ""


def _queue(vitals: Vitals, compared: Windows, found: Signs) -> Symptom:
    now, before = _queued(vitals, compared.now), _queued(vitals, compared.before)
    slow, detail = None, ""
    if not math.isnan(now):
        # a queue that was always there for moments is the traffic's; one that stands, or is new, is not
        waits = vitals.waiting_share(compared.now)
        stands = waits >= STANDING.value
        usual = _highest_before(compared, lambda mask: _queued(vitals, mask))
        new = ratio(now, before) > LATENCY.value and not now <= 1.1 * usual and waits >= OFTEN
        slow = bool(now > QUEUE_S.value and (stands or new))
        if now > QUEUE_S.value and not slow:
            detail = "it drains again and again, as it did before"
    return _finish(
        "queue",
        "time in the queue",
        now,
        before,
        "s",
        ratio(now, before),
        QUEUE_S,
        ">",
        compared,
        slow,
        vitals,
        found,
        detail,
    )


def _pace(vitals: Vitals, compared: Windows, found: Signs) -> Symptom:
    """Tokens per second that each running request gets: slow by any measure below one."""
    now, before = (
        mean(vitals.generation, mask) / running
        if (running := mean(vitals.running, mask)) >= 0.5
        else math.nan
        for mask in (compared.now, compared.before)
    )
    # a pace above it says nothing of a decline: it is then shown, and judges nothing
    slow = True if now < PACE.value else None
    return _finish(
        "pace",
        "generation rate of each running request",
        now,
        before,
        "tokens/s",
        ratio(now, before),
        PACE,
        "<" if slow else "",
        compared,
        slow,
        vitals,
        found,
    )


def _queued(vitals: Vitals, mask: Mask) -> float:
    """Seconds in the queue: what finished requests had, or what those that still wait will have.

    The latter by Little's law: requests waiting over requests finished per second.
    """
    served = mean(vitals.finished, mask)
    little = mean(vitals.waiting, mask) / served if served > 0 else math.nan
    known = [x for x in (vitals.mean("queue_time", mask), little) if not math.isnan(x)]
    return max(known, default=math.nan)


def _finish(
    name: str,
    title: str,
    now: float,
    before: float,
    unit: str,
    r: float,
    limit: Limit,
    op: str,
    compared: Windows,
    slow: bool | None,
    vitals: Vitals,
    found: Signs,
    detail: str = "",
) -> Symptom:
    moved = found.changes.get({"queue": "waiting"}.get(name, name))
    onset = slope = None
    if moved is not None and slow:
        onset = float(vitals.frame.start + moved.index * vitals.frame.step)
        hours = (vitals.frame.end - onset) / 3600
        if name == "throughput" and moved.shape == "ramp" and hours > 0.25:
            slope = (moved.ratio - 1) / hours
    return Symptom(
        name,
        title,
        now,
        before,
        unit,
        r,
        limit.value,
        op,  # type: ignore[arg-type]
        compared.baseline,
        slow,
        onset,
        slope,
        detail,
        absolute=limit in (QUEUE_S, PACE),
    )


def is_slow(found: tuple[Symptom, ...]) -> bool | None:
    """True when any symptom is slow, False when those that could be judged are not, else None."""
    judged = [s.slow for s in found if s.slow is not None]
    return any(judged) if judged else None
