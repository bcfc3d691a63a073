"""The head of a report: the verdict in one box, and what was looked at."""

import math

from rich.console import RenderableType
from rich.text import Text

from vllmdoctor.model import EngineReport, Outcome, Report, Symptom, Verdict
from vllmdoctor.render.quantity import change, clock, duration, quantity
from vllmdoctor.render.sheet import boxed, grid, indent, line, pairs, say, stack
from vllmdoctor.render.steps import flag_line
from vllmdoctor.render.words import COLORS, cause_of, confidence, coverage, plural, verdict_words

_FEW = 3  # so many engines are seen at a glance; more are counted first
_LISTED = 12
_PLACES = 5
_NO_CAUSE = {
    Verdict.HEALTHY: "nothing found",
    Verdict.UNEXPLAINED: "no cause found",
    Verdict.BLIND: "too little seen",
}


def headline(report: Report) -> RenderableType:
    """The box: verdict, one sentence, cause, certainty, since when, how much, what to do first."""
    color = COLORS[report.verdict]
    name, meaning = verdict_words(report.verdict, report.engines[:1])
    parts: list[RenderableType] = [line((f"{name}", f"bold {color}"), f": {meaning}")]
    if report.headline:
        parts += [Text(), say(report.headline, "bold")]
    rows = _rows(report)
    if rows:
        parts += [Text(), pairs(rows)]
    return boxed(stack(parts), color)


def looked_at(report: Report) -> RenderableType:
    """Which server, which version, which time."""
    server = [("target", line(report.target or "-"))]
    models = sorted({e.model for e in report.engines if e.model})
    if models:
        server.append(("model", line(", ".join(models))))
    told = report.version_origin
    origin = f" ({told})" if told.startswith("inferred") else f" (from {told})" if told else ""
    server.append(("version", line(f"vLLM {report.version}{origin}" if report.version else "not known")))
    server.append(("seen", line(_window(report))))
    return indent(pairs(server))


def engines(report: Report, *, verbose: bool = False) -> RenderableType:
    """What the fleet has, counted; then one line for each engine, worst first as the report has them."""
    counted = grid("left", "wrap")
    groups: dict[tuple[str, str, str], list[str]] = {}
    for engine in report.engines:
        name, _ = verdict_words(engine.verdict, (engine,))
        cause = cause_of(engine) or _NO_CAUSE.get(engine.verdict, "")
        groups.setdefault((name.lower(), COLORS[engine.verdict], cause), []).append(_place(engine))
    for (name, color, cause), places in groups.items():
        shown = ", ".join(places[:_PLACES]) + (", ..." if len(places) > _PLACES else "")
        counted.add_row(
            say(f"{len(places)} of {len(report.engines)} {name}", color), line(cause, (f"  {shown}", "dim"))
        )
    table = grid("left", "wrap", "left", "left")
    several = len({e.model for e in report.engines}) > 1
    listed = report.engines if verbose else report.engines[:_LISTED]
    for engine in listed:
        name, _ = verdict_words(engine.verdict, (engine,))
        cause = _slug_and_kind(cause_of(engine), engine.kind)
        table.add_row(
            say(name.lower(), COLORS[engine.verdict]),
            line(
                f"engine {engine.engine or '-'}",
                (f"  {engine.instance}", "dim"),
                (f"  {engine.model}" if several else "", "dim"),
            ),
            line(cause or _NO_CAUSE.get(engine.verdict, "")),
            say(confidence(engine.confidence) if cause else "", "dim"),
        )
    parts: list[RenderableType] = [table]
    if len(report.engines) > _FEW:
        parts = [counted, Text(), table]
    if len(listed) < len(report.engines):
        more = plural(len(report.engines) - len(listed), "more engine")
        parts.append(line((f"... {more}: -v lists all, and so does JSON", "dim")))
    return indent(stack(parts))


def _place(engine: EngineReport) -> str:
    return engine.instance if engine.engine in ("", "0") else f"{engine.instance} engine {engine.engine}"


def _rows(report: Report) -> list[tuple[str, Text]]:
    engine = report.engines[0] if report.engines else None
    rows: list[tuple[str, Text]] = []
    cause, healthy = cause_of(report), report.verdict is Verdict.HEALTHY
    if cause:
        slug = _slug_and_kind(cause, report.kind)
        title = _title(engine, cause)
        rows.append(
            ("finding" if healthy else "cause", line(title, (f" [{slug}]", "dim")) if title else line(slug))
        )
    if cause or healthy:
        sure = [confidence(report.confidence)] if report.confidence > 0 else []
        far = [f"as far as {coverage(*report.coverage)} could see"] if healthy else []
        rows.append(("certainty", line(", ".join([*sure, *far]) or "-")))
    elif report.verdict is Verdict.BLIND:
        rows.append(("could look", line(coverage(*report.coverage))))
    unread = [gap for gap in report.gaps if gap.origin == "targets"]
    if unread:
        more = f" and {plural(len(unread) - 1, 'other target')}" if len(unread) > 1 else ""
        rows.append(("not read", line((f"{unread[0].what}{more}", "bold"))))
    if report.verdict in (Verdict.SICK, Verdict.UNEXPLAINED) or (cause and report.onset is not None):
        rows.append(("since", line(_since(report))))
    slow = [s for s in engine.symptoms if s.slow] if engine else []
    rows += [("how much" if i == 0 else "", line(_how_much(s))) for i, s in enumerate(slow[:2])]
    helping = [s for s in report.plan if s.verdict == "helps" and not (healthy and s.restart)]
    first = next((s for s in helping if cause in s.treats), None) or next(iter(helping), None)
    if first:
        flags = flag_line(first)
        rows.append(("do first", line(first.title or first.action, (f"  {flags}", "bold") if flags else "")))
    return rows


def _title(engine: EngineReport | None, slug: str) -> str:
    outcomes: tuple[Outcome, ...] = engine.outcomes if engine else ()
    return next((o.title for o in outcomes if o.slug == slug), "")


def _slug_and_kind(slug: str, kind: str) -> str:
    return f"{slug}, {kind}" if slug and kind else slug


def _since(report: Report) -> str:
    onset = report.onset
    if onset is None or math.isnan(onset):
        return "its beginning could not be dated"
    if onset <= report.start:
        return f"before the data begins ({clock(report.start)} UTC)"
    return f"{clock(onset)} UTC, {duration(report.end - onset)} before the end of the data"


def _how_much(symptom: Symptom) -> str:
    before = "" if math.isnan(symptom.before) else f"{quantity(symptom.before, symptom.unit)} -> "
    text = f"{symptom.title}: {before}{quantity(symptom.now, symptom.unit)}"
    if math.isfinite(symptom.ratio):
        text += f" ({change(symptom.ratio)})"
    slope = symptom.slope_per_hour
    if slope is not None and math.isfinite(slope) and slope:
        text += f", {'rising' if slope > 0 else 'falling'} {quantity(abs(slope), 'ratio')} per hour"
    return text


def _window(report: Report) -> str:
    length = duration(report.end - report.start)
    text = f"{clock(report.start)} to {clock(report.end, report.start)} UTC ({length}), "
    text += plural(report.scrapes, "scrape")
    if report.scrapes > 1 and report.interval > 0:
        text += f", one every {quantity(report.interval, 's')}"
    return text
