"""Is it slow: the table of symptoms, and the lines for the eye."""

import math

from rich.console import RenderableType
from rich.text import Text

from vllmdoctor.model import EngineReport, Symptom, Trend
from vllmdoctor.render.quantity import NOT_SEEN, change, clock, extent, quantity
from vllmdoctor.render.sheet import Look, grid, heading, indent, line, row, say, widest
from vllmdoctor.render.sparkline import axis, column_of, sparkline

_TRENDS = 6
_LABEL = 24
_NUMBERS = (2, 3, 4, 5)


def symptoms(engine: EngineReport, compared: str, look: Look) -> list[RenderableType]:
    """The table of now against before, with its baseline named."""
    judged = engine.symptoms
    if not judged:
        return [heading("IS IT SLOW?", "cannot tell"), indent(line("There was nothing to compare with."))]
    baselines = list(dict.fromkeys(s.baseline for s in judged if s.baseline))
    parts: list[RenderableType] = [heading("IS IT SLOW?", _answer(engine))]
    if compared:
        parts.append(indent(line(("compared: ", "dim"), compared)))
    if len(baselines) == 1 and baselines[0] not in compared:
        parts.append(indent(line(("before:   ", "dim"), baselines[0])))
    rows = [(Text(), Text(), *(say(t, "dim") for t in ("before", "now", "change", "slow when")))]
    rows += [_row(symptom) for symptom in judged]
    columns = list(zip(*rows, strict=True))
    narrow = [widest(column, 15) for column in columns]
    narrow[1] = widest(columns[1], max(12, look.width - sum(narrow) + narrow[1] - 12))
    parts += [Text(), indent(row(rows[0], narrow, _NUMBERS))]
    for symptom, cells in zip(judged, rows[1:], strict=True):
        parts.append(indent(row(cells, narrow, _NUMBERS)))
        notes = []
        if len(baselines) > 1 and symptom.baseline:
            notes.append(f"before: {symptom.baseline}")
        if symptom.detail:
            notes.append(symptom.detail)
        parts += [indent(say(note, "dim"), narrow[0] + 6) for note in notes]
    return parts


def trends(engine: EngineReport, look: Look) -> list[RenderableType]:
    """One sparkline for each trend on one time axis, with the beginning of the trouble marked below."""
    shown = [t for t in engine.trends if t.points][: None if look.verbose else _TRENDS]
    if not shown:
        return []
    start, end = axis(shown)
    names = [say(t.title or t.signal) for t in shown]
    ends = [say(_ends(t), "dim") for t in shown]
    # The plot gets what the words beside it leave.
    columns = max(8, look.width - widest(names, _LABEL) - widest(ends, _LABEL) - 8)
    table = grid("wrap", "left", "wrap")
    for trend, name, extremes in zip(shown, names, ends, strict=True):
        table.add_row(name, say(sparkline(trend, start, end, columns), "cyan"), extremes)
    onset = engine.onset if engine.onset is not None else math.nan
    column = column_of(onset, start, end, columns)
    if column is not None:
        table.add_row("", _marker(column, columns, f"since {clock(onset)[-8:]}"), "")
    if start < end:
        first, last = clock(start)[-8:], clock(end)[-8:]
        table.add_row("", say(first + last.rjust(columns - len(first)), "dim"), say("UTC", "dim"))
    return [Text(), indent(table)]


def _ends(trend: Trend) -> str:
    seen = [p for p in trend.points if not math.isnan(p)]
    return extent(min(seen), max(seen), trend.unit) if seen else NOT_SEEN


def _marker(column: int, columns: int, note: str) -> Text:
    if column + len(note) + 2 <= columns:
        return line(" " * column, ("▲", "bold"), f" {note}")
    if len(note) + 1 <= column:
        return line(" " * (column - len(note) - 1), f"{note} ", ("▲", "bold"))
    return line(" " * column, ("▲", "bold"))


def _row(symptom: Symptom) -> tuple[Text, ...]:
    return (
        _mark(symptom.slow) if symptom.op else say("· to know", "dim"),
        line(symptom.title or symptom.name),
        _value(symptom.before, symptom.unit),
        _value(symptom.now, symptom.unit),
        say(change(symptom.ratio), "bold" if symptom.slow else ""),
        say(_limit(symptom), "dim"),
    )


def _mark(slow: bool | None) -> Text:
    if slow is None:
        return say("? cannot tell", "dim")
    return say("✗ slow", "bold red") if slow else say("✓ fine", "green")


def _answer(engine: EngineReport) -> str:
    if any(s.slow for s in engine.symptoms):
        return "yes"
    if any(o.felt for o in engine.findings) and all(s.slow is None for s in engine.symptoms):
        return "yes: see WHY"
    if any(o.felt for o in engine.findings):
        return "yes, though not slower than before: see WHY"
    return "cannot tell" if all(s.slow is None for s in engine.symptoms) else "no"


def _value(value: float, unit: str) -> Text:
    return say(quantity(value, unit), "dim" if math.isnan(value) else "")


def _limit(symptom: Symptom) -> str:
    if not symptom.op or math.isnan(symptom.limit):
        return "-"
    return (
        f"{symptom.op} {quantity(symptom.limit, symptom.unit) if symptom.absolute else change(symptom.limit)}"
    )
