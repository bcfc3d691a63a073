"""A gate for the terminal: the verdict, the measures, what changed and the likely reason."""

from collections.abc import Sequence

from rich.console import RenderableType
from rich.text import Text

from vllmdoctor.model_gate import Gate, Judgement, Measure
from vllmdoctor.render.gate import words
from vllmdoctor.render.quantity import quantity
from vllmdoctor.render.sheet import boxed, grid, heading, indent, line, paint, pairs, row, say, stack, widest

_STYLES = {Judgement.REGRESSED: "bold red", Judgement.INCONCLUSIVE: "yellow"}
_SAID = {
    Judgement.PASS: "pass",
    Judgement.IMPROVED: "better",
    Judgement.REGRESSED: "regressed",
    Judgement.INCONCLUSIVE: "cannot tell",
}
_NUMBERS = (2, 3, 4, 5)
_SHORTEST = 10  # columns for the titles of the measures


def render(gate: Gate, *, width: int = 100, color: bool = False, encoding: str = "utf-8") -> str:
    """`gate` as text of at most `width` columns."""
    parts: list[RenderableType] = [_box(gate), indent(pairs(_sides(gate)))]
    parts += _measures(gate, width)
    parts += _context(gate)
    parts += _changes(gate)
    parts += _causes(gate)
    if gate.notes:
        table = grid("left", "wrap")
        for note in gate.notes:
            table.add_row(say("·"), say(note))
        parts += [heading("NOTES"), indent(table)]
    return paint(parts, width=width, color=color, encoding=encoding)


def _box(gate: Gate) -> RenderableType:
    color = words.COLORS[gate.judgement]
    return boxed(stack([line((words.NAMES[gate.judgement], f"bold {color}"), f": {gate.headline}")]), color)


def _sides(gate: Gate) -> list[tuple[str, Text]]:
    rows = [("baseline", say(words.told(gate.baseline))), ("candidate", say(words.told(gate.candidate)))]
    about = ", ".join(f"{k.replace('_', ' ')} {v}" for k, v in gate.baseline.about.items())
    if about:
        rows.insert(1, ("", say(about, "dim")))
    if gate.candidate.model:
        rows.append(("model", say(gate.candidate.model)))
    return rows


def _measures(gate: Gate, width: int) -> list[RenderableType]:
    titles = ("baseline", "candidate", "change", "allowed")
    rows = [(Text(), Text(), *(say(t, "dim") for t in titles))]
    rows += [_row(m) for m in gate.measures]
    widths, left = _widths(rows, width)
    if left < widest([row[1] for row in rows], width):  # a title that is broken up is worse than a bare sign
        rows = [(cells[0][:1], *cells[1:]) for cells in rows]
        widths, left = _widths(rows, width)
    parts: list[RenderableType] = [
        heading("COMPARED", words.certainty(gate)),
        indent(row(rows[0], widths, _NUMBERS)),
    ]
    for measure, cells in zip(gate.measures, rows[1:], strict=True):
        parts.append(indent(row(cells, widths, _NUMBERS)))
        parts += [
            indent(say(text, "dim"), widths[0] + 6)
            for text in (*words.spread(measure), *words.notes(measure))
        ]
    return parts


def _widths(rows: Sequence[tuple[Text, ...]], width: int) -> tuple[list[int], int]:
    """Of each column, and what is left for the titles."""
    columns = list(zip(*rows, strict=True))
    widths, left = [0], 0
    for most in (14, 9):  # on a very narrow page the units go below the numbers
        widths = [widest(column, most) for column in columns]
        left = width - sum(widths) + widths[1] - 2 * len(widths) - 2
        if left >= _SHORTEST:
            break
    widths[1] = widest(columns[1], max(_SHORTEST, left))
    return widths, left


def _row(measure: Measure) -> tuple[Text, ...]:
    style = _STYLES.get(measure.judgement, "green") if measure.weighs else "dim"
    return (
        say(f"{words.SIGNS[measure.judgement]} {_SAID[measure.judgement]}", style),
        say(measure.title),
        say(quantity(measure.baseline, measure.unit)),
        say(quantity(measure.candidate, measure.unit)),
        say(words.difference(measure), "bold" if measure.judgement is Judgement.REGRESSED else ""),
        say(words.allowed(measure), "dim"),
    )


def _context(gate: Gate) -> list[RenderableType]:
    if not gate.context:
        return []
    table = grid("left", "right", "right")
    table.add_row("", say("baseline", "dim"), say("candidate", "dim"))
    for one in gate.context:
        table.add_row(
            say(one.title), say(quantity(one.baseline, one.unit)), say(quantity(one.candidate, one.unit))
        )
    return [heading("TO KNOW", "not judged"), indent(table)]


def _changes(gate: Gate) -> list[RenderableType]:
    if not gate.changes:
        return []
    table = grid("left", "wrap")
    for one in gate.changes:
        table.add_row(say(one.key, "bold"), say(words.changed(one)))
    return [heading("WHAT ELSE CHANGED"), indent(table)]


def _causes(gate: Gate) -> list[RenderableType]:
    if not gate.causes:
        return []
    parts: list[RenderableType] = [heading("LIKELY WHY", "what the diagnosis of the candidate finds")]
    for cause in gate.causes:
        mark = "" if cause.new else "  also in the baseline"
        parts.append(indent(line((cause.title, "bold"), (f" [{cause.slug}]", "dim"), (mark, "dim"))))
        if cause.summary:
            parts.append(indent(say(cause.summary), 4))
        parts.append(indent(say(f"vllmdoctor explain {cause.slug}", "dim"), 4))
    return parts
