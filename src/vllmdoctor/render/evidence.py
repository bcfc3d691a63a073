"""Why: the evidence of each finding, and in one line each why it is none of the others."""

import math
from collections.abc import Iterable, Sequence

from rich.console import RenderableType
from rich.text import Text

from vllmdoctor.model import EngineReport, Evidence, Outcome, Status
from vllmdoctor.render.quantity import clock, quantity, short_of, span
from vllmdoctor.render.sheet import Look, heading, indent, line, row, say, widest
from vllmdoctor.render.words import ROLES, SEVERITY_COLORS, confidence

_FROM = "limit from"
_NAME = 32


def findings(engine: EngineReport, look: Look) -> list[RenderableType]:
    """Each finding with its sentence and every comparison it rests on."""
    parts: list[RenderableType] = []
    # the primary one first, the rest in their order
    ordered = sorted(engine.findings, key=lambda found: found.slug != engine.primary)
    for index, finding in enumerate(ordered):
        name = f"{finding.slug}, {finding.kind}" if finding.kind else finding.slug
        severity = finding.severity.name.lower()
        title = "WHY?" if index == 0 else "ALSO FOUND"
        parts.append(heading(title, f"{name}: {severity}, {confidence(finding.confidence)}"))
        for sentence, style in _sentences(finding, engine):
            parts.append(indent(say(sentence, style)))
        if finding.evidence:
            color = SEVERITY_COLORS[finding.severity]
            parts += [Text(), *map(indent, comparisons(finding.evidence, look.width - 2, color))]
    return parts


def comparisons(evidence: Sequence[Evidence], width: int, color: str = "") -> list[RenderableType]:
    """Measured value, limit, met or not, and where the limit comes from; grouped by what it decides."""
    marks = [_mark(e, color) for e in evidence]
    names = [line(e.what) for e in evidence]
    values = [(_measured(e), _limit(e)) for e in evidence]
    sources = [say(e.source, "dim") for e in evidence]
    titles = [say(title, "italic") for title in ROLES.values()]
    first = widest(marks, width)
    last = (
        max(8, widest((m for m, _ in values), width // 4)),
        max(5, widest((t for _, t in values), width // 5)),
    )
    left = width - first - sum(last) - 6
    beside = widest([*sources, say(_FROM)], width) + 2
    # Short sources stand in a column of their own, long ones below what they are the source of.
    inline = left - beside >= _NAME and any(sources)
    widths = (first, widest([*names, *titles], left - beside * inline), *last, *([beside - 2] * inline))
    parts: list[RenderableType] = []
    for role, title in ROLES.items():
        if not any(e.role == role for e in evidence):
            continue
        heads = () if parts else (say("measured", "dim"), say("limit", "dim"), *[say(_FROM, "dim")] * inline)
        parts.append(row((Text(), say(title, "italic"), *heads), widths, (2, 3)))
        for i, each in enumerate(evidence):
            if each.role == role:
                cells = (marks[i], names[i], *values[i], *[sources[i]] * inline)
                parts.append(row(cells, widths, (2, 3)))
                below = f"{_FROM}: {each.source}" if each.source and each.op and not inline else ""
                notes = (below or ("" if inline else each.source), each.detail)
                parts += [indent(say(note, "dim"), first + 4) for note in notes if note]
    return parts


def others(engine: EngineReport, look: Look, *, brief: bool) -> list[RenderableType]:
    """The causes that did not fire: a line each with the deciding number, or (`brief`) their names."""
    clear = [o for o in engine.outcomes if o.status is Status.CLEAR]
    unknown = [o for o in engine.outcomes if o.status is Status.UNKNOWN]
    if not clear and not unknown:
        return []
    parts = [heading("WHAT WAS LOOKED FOR" if brief else "WHY NOT THE OTHERS?")]
    if brief and not look.verbose:
        if clear:
            parts.append(indent(line(("not found: ", "dim"), ", ".join(o.slug for o in clear))))
        parts += [indent(line((f"{o.slug}: ", "dim"), f"cannot tell, {_missing(o)}")) for o in unknown]
        return parts
    # One line each: the words give way before the numbers do.
    slugs = widest([say(o.slug) for o in (*clear, *unknown)], 24)
    for outcome in (*clear, *unknown):
        known = outcome.status is Status.CLEAR
        mark = say("- no", "dim") if known else say("? cannot tell", "yellow")
        widths = (mark.cell_len, slugs, look.width - mark.cell_len - slugs - 7)
        reason = _deciding(outcome, widths[2]) if known else say(_missing(outcome))
        parts.append(indent(row((mark, _shortened(outcome.slug, slugs), reason), widths)))
        if look.verbose and outcome.evidence:
            parts += [indent(c, 6) for c in comparisons(outcome.evidence, look.width - 6)]
    return parts


def _sentences(finding: Outcome, engine: EngineReport) -> Iterable[tuple[str, str]]:
    if finding.title:
        yield finding.title, "bold"
    if finding.summary:
        yield finding.summary, ""
    if finding.explained_by:
        yield f"This is a consequence of {finding.explained_by}.", ""
    if finding.share is not None and math.isfinite(finding.share):
        yield f"It explains {quantity(finding.share, 'ratio')} of the decline.", ""
    if finding.onset is not None and finding.onset != engine.onset:
        yield f"Since {clock(finding.onset)} UTC.", "dim"


def _mark(each: Evidence, color: str) -> Text:
    if each.op == "":
        return say("· seen" if not math.isnan(each.observed) else "? not seen", "dim")
    match each.met:
        case None:
            return say("? not seen", "dim")
        case True:
            return say("✓ met", f"bold {color}".strip())
        case _:
            return say("✗ not met", "")


def _measured(each: Evidence) -> Text:
    text = line(quantity(each.observed, each.unit))
    if each.interval and not math.isnan(each.observed):
        text.append_text(say(f" ({span(*each.interval, each.unit)})", "dim"))
    return text


def _limit(each: Evidence) -> Text:
    known = each.op and not math.isnan(each.limit)
    return say(f"{each.op} {quantity(each.limit, each.unit)}" if known else "-")


def _deciding(outcome: Outcome, width: int) -> Text:
    """The comparison that cleared the cause: a required one not met, else one that speaks against it."""
    refuted = [e for e in outcome.evidence if e.role == "required" and e.met is False]
    contrary = [e for e in outcome.evidence if e.role == "against" and e.met]
    if refuted:
        each, verb = refuted[0], "needs"
    elif contrary:
        each, verb = contrary[0], "against it when"
    else:
        return _shortened(outcome.summary or outcome.reason or "no sign of it", width)
    limit = quantity(each.limit, each.unit)
    measured = quantity(each.observed, each.unit)
    if each.unit != "ratio":  # "1 against -15 %" would be misread
        measured = short_of(measured, limit)
    numbers = f": {measured}, {verb} {each.op} {limit}"
    return _shortened(each.what, max(8, width - len(numbers))) + say(numbers)


def _missing(outcome: Outcome) -> str:
    unseen = [e.what for e in outcome.evidence if e.role == "required" and e.met is None and e.op]
    return outcome.reason or (f"not seen: {', '.join(unseen)}" if unseen else "too little was seen")


def _shortened(text: str, width: int) -> Text:
    whole = say(text)
    whole.truncate(max(1, width), overflow="ellipsis")
    return whole
