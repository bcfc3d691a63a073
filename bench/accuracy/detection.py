"""When the runbook's alert would fire, and when the doctor would have named the cause."""

import math

import numpy as np
from bench.accuracy.truth import Truth

from vllmdoctor.diagnosis import diagnose
from vllmdoctor.engines import frames
from vllmdoctor.errors import NotEnoughData
from vllmdoctor.frame import Frame
from vllmdoctor.model import Verdict
from vllmdoctor.recording import FloatArray, Recording

GRID_S = 60.0
WINDOW_S, BACK_S, FOR_S, FALL = 1800.0, 6 * 3600.0, 900.0, 0.8
LOOK_S = 600.0
HOUR_S = 3600.0
ALARMS = (Verdict.SICK, Verdict.UNEXPLAINED, Verdict.AT_RISK)


def alert(recording: Recording, since: float) -> float | None:
    """When the runbook's alert fires first at or after `since` (unix s); None: never.

    The generation rate of the whole fleet over 30 min, below 0.8 of that 6 h earlier, for 15 min.
    """
    times = np.arange(recording.start, recording.end, GRID_S)
    total = np.sum([_rate(f, times) for f in frames(recording)], axis=0)
    sums = np.concatenate([[0.0], np.cumsum(np.nan_to_num(total))])
    seen = np.concatenate([[0.0], np.cumsum(np.isfinite(total))])
    width, back = round(WINDOW_S / GRID_S), round(BACK_S / GRID_S)
    ends = np.arange(width, times.size + 1)
    with np.errstate(invalid="ignore", divide="ignore"):
        means = (sums[ends] - sums[ends - width]) / (seen[ends] - seen[ends - width])
        low = np.concatenate([np.zeros(min(back, means.size), np.bool_), means[back:] < FALL * means[:-back]])
    run = 0
    for at, is_low in enumerate(low):
        run = run + 1 if is_low else 0
        time = float(times[ends[at] - 1])
        if run > FOR_S / GRID_S and time >= since:
            return time
    return None


def found(recording: Recording, truth: Truth, since: float) -> float | None:
    """When the doctor, asked every 10 min from `since` on, first names a true cause twice in a row."""
    first: float | None = None
    at = since + LOOK_S
    while at < recording.end + LOOK_S:
        if _is_right(recording.window(recording.start, at), truth):
            if first is not None or at >= recording.end:
                return first or min(at, recording.end)
            first = at
        else:
            first = None
        at += LOOK_S
    return first


def false_alarms(recording: Recording, truth: Truth) -> tuple[int, tuple[str, ...]]:
    """(looks, false answers): asked once an hour while nothing was wrong yet.

    Of a fine server that is all the time, of a faulty one until its cause begins. A false answer says
    that the server is slow or in danger, and names no cause that is true of this history.
    """
    end = recording.end if truth.well else truth.onset
    answers: list[str] = []
    at, looks = recording.start + HOUR_S, 0
    while end is not None and at < end:
        report = diagnose(recording.window(recording.start, at))
        looks += 1
        if report.verdict in ALARMS and not truth.is_right(report.primary, report.kind):
            answers.append(report.primary)
        at += HOUR_S
    return looks, tuple(answers)


def _is_right(recording: Recording, truth: Truth) -> bool:
    try:
        report = diagnose(recording)
    except NotEnoughData:
        return False
    return truth.is_right(report.primary, report.kind)


def _rate(frame: Frame, times: FloatArray) -> FloatArray:
    """Tokens per second on another grid; 0 once the engine is gone, NaN in holes."""
    rate = frame.rate("generation_tokens")
    index = np.floor((times - frame.start) / frame.step).astype(int)
    inside = (index >= 0) & (index < rate.size)
    out = np.where(inside, rate[np.clip(index, 0, rate.size - 1)], 0.0)
    return np.asarray(out, np.float64)


def minutes(later: float | None, earlier: float | None) -> float:
    """From one moment to another in minutes; NaN when either is unknown."""
    return math.nan if later is None or earlier is None else (later - earlier) / 60
