"""A validation as text, as Markdown for a ticket, and as JSON (schema "vllmdoctor/validation/1", in SI)."""

import dataclasses
import json
import math
from collections.abc import Iterator

from rich.console import RenderableType
from rich.text import Text

from vllmdoctor.model_validation import Criterion, EngineValidation, Standing, Validation
from vllmdoctor.render import foot
from vllmdoctor.render.machine import plain
from vllmdoctor.render.quantity import change, clock, duration, quantity
from vllmdoctor.render.sheet import Look, boxed, heading, indent, line, paint, pairs, row, say, stack, widest
from vllmdoctor.render.words import harmless, plural

SCHEMA = "vllmdoctor/validation/1"
_ROOMY = 96
_FEW = 3  # of more engines, those that pass are only named
WORDS = {
    Standing.PASS: ("PASS", "every criterion that applies holds"),
    Standing.FAIL: ("FAIL", "a criterion does not hold"),
    Standing.UNKNOWN: ("CANNOT TELL", "nothing fails, and not everything could be judged"),
}
MARKS = {
    Standing.PASS: ("✓ pass", "green"),
    Standing.FAIL: ("✗ fail", "bold red"),
    Standing.UNKNOWN: ("? cannot tell", "yellow"),
    Standing.MOOT: ("· n/a", "dim"),
}
COLORS = {Standing.PASS: "green", Standing.FAIL: "red", Standing.UNKNOWN: "blue"}


def machine(found: Validation) -> str:
    """`found` as indented JSON; NaN is null."""
    told = {f.name: plain(getattr(found, f.name)) for f in dataclasses.fields(found)}
    return json.dumps({"schema": SCHEMA, **told}, indent=1, allow_nan=False) + "\n"


def text(found: Validation, *, width: int = 100, color: bool = False, encoding: str = "utf-8") -> str:
    """`found` for people."""
    name, meaning = WORDS[found.standing]
    worst = found.engines[0]
    shade = COLORS[found.standing]
    box = [line((name, f"bold {shade}"), f": {meaning}"), Text(), say(_counts(found), "bold")]
    parts: list[RenderableType] = [boxed(stack(box), shade), indent(pairs(_seen(found, worst)))]
    told, passed = found.engines, []
    if len(found.engines) > _FEW:
        told = tuple(e for e in found.engines if e.standing is not Standing.PASS)
        passed = [e for e in found.engines if e.standing is Standing.PASS]
    for engine in told:
        title = _place(engine) if len(found.engines) > 1 else ""
        parts += [heading("CRITERIA", title), *_criteria(engine, width)]
        parts += _compared(engine, found.before, width)
    if passed:
        parts.append(heading("PASS", plural(len(passed), "engine")))
        parts += [indent(line(("✓ ", "green"), _place(engine))) for engine in passed]
    parts += foot.gaps(found.gaps, Look(width))
    return paint(parts, width=width, color=color, encoding=encoding)


def markdown(found: Validation) -> str:
    """`found` as Markdown tables, for a ticket or a change record."""
    name, meaning = WORDS[found.standing]
    out = [f"**{name}**: {meaning}. {_counts(found)}", ""]
    for engine in found.engines:
        out += [f"{_cell(_place(engine))}, {_window(engine)}", ""]
        out += ["| | criterion | measured | limit | source | remark |", "|---|---|---|---|---|---|"]
        for c in engine.criteria:
            cells = (MARKS[c.standing][0], c.title, _measured(c), _limit(c), c.source, _remark(c))
            out.append(f"| {' | '.join(map(_cell, cells))} |")
        out.append("")
        if engine.compared:
            out += [f"| | before ({_cell(found.before)}) | since | change |", "|---|---|---|---|"]
            for x in engine.compared:
                values = (x.title, quantity(x.before, x.unit), quantity(x.now, x.unit), change(x.ratio))
                out.append(f"| {' | '.join(map(_cell, values))} |")
            out.append("")
    out += [f"- not seen: {_cell(gap.what)}: {_cell(gap.why)}" for gap in found.gaps]
    return "\n".join(out).rstrip("\n") + "\n"


def _place(engine: EngineValidation) -> str:
    return f"engine {engine.engine}, {engine.instance}"


def _cell(words: str) -> str:
    return harmless(words).replace("|", "\\|")


def _counts(found: Validation) -> str:
    """How many criteria say what: "5 pass, 1 fails, 1 cannot tell"."""
    all_of = [c.standing for e in found.engines for c in e.criteria]
    told = []
    for standing, one, more in (
        (Standing.FAIL, "fails", "fail"),
        (Standing.UNKNOWN, "cannot tell", "cannot tell"),
        (Standing.PASS, "passes", "pass"),
        (Standing.MOOT, "does not apply", "do not apply"),
    ):
        count = all_of.count(standing)
        if count:
            told.append(f"{count} {one if count == 1 else more}")
    over = f" over {plural(len(found.engines), 'engine')}" if len(found.engines) > 1 else ""
    return f"Of {plural(len(all_of), 'criterion').replace('criterions', 'criteria')}{over}: {', '.join(told)}"


def _seen(found: Validation, engine: EngineValidation) -> Iterator[tuple[str, Text]]:
    yield "target", line(found.target or "-")
    if engine.model:
        yield "model", line(engine.model)
    yield "version", line(f"vLLM {engine.version}" if engine.version else "not known")
    yield "seen", line(_window(engine))
    if engine.restarts:
        yield "restarts", line(plural(engine.restarts, "restart"), " in this time")
    if found.before:
        yield "before", line(found.before)
    short = [c for c in engine.criteria if c.short and c.standing is Standing.UNKNOWN]
    if short:
        needs = duration(max(c.needs_s for c in short))
        yield "too short", line((f"for {plural(len(short), 'line')} below, which take {needs}", "yellow"))


def _window(engine: EngineValidation) -> str:
    length = duration(engine.end - engine.start)
    covered = engine.covered_s / (engine.end - engine.start) if engine.end > engine.start else math.nan
    part = f", {quantity(covered, 'ratio')} of it covered" if covered < 0.99 else ""
    return f"{clock(engine.start)} to {clock(engine.end, engine.start)} UTC ({length}{part})"


def _criteria(engine: EngineValidation, width: int) -> list[RenderableType]:
    beside = width >= _ROOMY  # else where a limit is from stands below it
    heads = ("", "", "measured", "limit", *["limit from"] * beside)
    rows = [tuple(say(t, "dim") for t in heads)]
    for c in engine.criteria:
        source = [say(c.source, "dim")] * beside
        rows.append((say(*MARKS[c.standing]), say(c.title), say(_measured(c)), say(_limit(c)), *source))
    widths = [widest(column, 30) for column in zip(*rows, strict=True)]
    parts: list[RenderableType] = [indent(row(rows[0], widths, (2, 3)))]
    for criterion, cells in zip(engine.criteria, rows[1:], strict=True):
        parts.append(indent(row(cells, widths, (2, 3))))
        remark = _remark(criterion)
        if not beside:
            remark = (
                f"{remark}; limit from: {criterion.source}" if remark else f"limit from: {criterion.source}"
            )
        if remark:
            parts.append(indent(say(remark, "dim"), widths[0] + 6))
    return parts


def _measured(criterion: Criterion) -> str:
    return quantity(criterion.observed, criterion.unit)


def _limit(criterion: Criterion) -> str:
    return f"{criterion.op} {quantity(criterion.limit, criterion.unit)}"


def _remark(criterion: Criterion) -> str:
    why = criterion.why if criterion.standing is Standing.FAIL else ""
    return "; ".join(words for words in (criterion.reason, criterion.detail, why) if words)


def _compared(engine: EngineValidation, before: str, width: int) -> list[RenderableType]:
    if not engine.compared:
        return []
    rows = [tuple(say(t, "dim") for t in ("", "before", "since", "change"))] + [
        (say(x.title), say(quantity(x.before, x.unit)), say(quantity(x.now, x.unit)), say(change(x.ratio)))
        for x in engine.compared
    ]
    columns = list(zip(*rows, strict=True))
    widths = [widest(column, 20) for column in columns]
    widths[0] = widest(columns[0], max(12, width - 2 - 6 - sum(widths) + widths[0]))
    table = [indent(row(cells, widths, (1, 2, 3))) for cells in rows]
    return [heading("BEFORE AND AFTER", before), *table]
