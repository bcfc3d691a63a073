"""The words of a gate: each measure's numbers as people read them, the same in every format."""

import math
from collections.abc import Mapping

from vllmdoctor.model_gate import Change, Gate, Judgement, Measure, Side
from vllmdoctor.render.quantity import NOT_SEEN, change, duration, number, quantity, span
from vllmdoctor.render.words import harmless, plural

NAMES: Mapping[Judgement, str] = {
    Judgement.PASS: "PASS",
    Judgement.IMPROVED: "PASS, IMPROVED",
    Judgement.REGRESSED: "REGRESSED",
    Judgement.INCONCLUSIVE: "INCONCLUSIVE",
}
COLORS: Mapping[Judgement, str] = {
    Judgement.PASS: "green",
    Judgement.IMPROVED: "green",
    Judgement.REGRESSED: "red",
    Judgement.INCONCLUSIVE: "yellow",
}
SIGNS: Mapping[Judgement, str] = {
    Judgement.PASS: "✓",
    Judgement.IMPROVED: "✓",
    Judgement.REGRESSED: "✗",
    Judgement.INCONCLUSIVE: "?",
}


def difference(measure: Measure) -> str:
    """Candidate against baseline: "-26 %", or "-2.1 points" of a share."""
    if measure.share:
        return points(measure.candidate - measure.baseline)
    return change(measure.ratio)


def interval(measure: Measure) -> str:
    """Where the true change lies: "-40 % to -9 %"."""
    if math.isnan(measure.low) or math.isnan(measure.high):
        return "-"
    if measure.low == measure.high:
        return change(measure.low)
    return f"{change(measure.low)} to {change(measure.high)}"


def allowed(measure: Measure) -> str:
    """How much worse it may get."""
    if measure.share:
        return points(measure.tolerance) if measure.tolerance else "no drop"
    return change(measure.tolerance)


def shown(measure: Measure) -> str:
    """The smallest worsening that the data would have shown."""
    if math.isnan(measure.detectable):
        return "-"
    return points(measure.detectable) if measure.share else change(measure.detectable)


def spread(measure: Measure) -> list[str]:
    """How far the true change may lie from the measured one, and what would have been seen."""
    found = []
    if not math.isnan(measure.low) and measure.low != measure.high:
        found.append(f"the true change lies within {interval(measure)}")
    if not math.isnan(measure.detectable):
        found.append(f"this data would have shown {shown(measure)}")
    return ["; ".join(found)] if found else []


def points(value: float) -> str:
    """A difference of shares in percentage points."""
    if math.isnan(value):
        return "-"
    return "same" if value == 0 else f"{100 * value:+.3g} points"


def notes(measure: Measure) -> list[str]:
    """How it was compared, and why it ended so."""
    found = [measure.basis] if measure.basis else []
    if measure.buckets and not any(math.isnan(x) for pair in measure.buckets for x in pair):
        before, now = (span(*pair, measure.unit) for pair in measure.buckets)
        found.append(f"p95 lies in {before}" + (f", now in {now}" if now != before else " on both sides"))
    if measure.why:
        found.append(measure.why)
    if not measure.weighs:
        found.append("more tokens come out and whole requests end sooner, so this holds up nothing")
    return found


def told(side: Side) -> str:
    """What a side is, on one line."""
    parts = [harmless(" ".join(side.targets))]
    length = side.end - side.start
    size = plural(int(side.requests), "request") if math.isfinite(side.requests) else side.kind
    parts.append(
        f"({size}"
        + (f", {plural(side.runs, 'run')}" if side.runs > 1 else "")
        + (f", {duration(length)})" if length > 0 else ")")
    )
    if side.version:
        parts.append(
            f"vLLM {harmless(side.version)}" if side.version[:1].isdigit() else harmless(side.version)
        )
    return " ".join(parts)


def changed(one: Change) -> str:
    """A changed setting: "max_num_seqs 256 -> 64"."""
    return f"{harmless(one.baseline) or 'not told'} -> {harmless(one.candidate) or 'not told'}"


def sentence(measure: Measure) -> str:
    """A measure as one sentence for an annotation."""
    values = f"{quantity(measure.baseline, measure.unit)} -> {quantity(measure.candidate, measure.unit)}"
    if math.isnan(measure.ratio) and not measure.share:
        values = f"{NOT_SEEN} on one side" if math.isnan(measure.baseline + measure.candidate) else values
    text = f"{values} ({difference(measure)}; allowed {allowed(measure)}"
    if not math.isnan(measure.low):
        text += f"; the true change lies within {interval(measure)}"
    if not math.isnan(measure.detectable):
        text += f"; would have shown {shown(measure)}"
    return "; ".join([text + ")", *notes(measure)])


def certainty(gate: Gate) -> str:
    """What the gate promises."""
    return f"two equal servers fail at most {number(100 * gate.false_alarm)} % of such gates"
