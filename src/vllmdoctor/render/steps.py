"""The plan: numbered steps with their flag, and well-known advice that is wrong here."""

import math
from collections.abc import Sequence

from rich.console import RenderableType
from rich.text import Text

from vllmdoctor.model import Effort, Step
from vllmdoctor.render.quantity import quantity
from vllmdoctor.render.sheet import grid, heading, indent, line, pairs, say
from vllmdoctor.render.words import EFFORTS, REMEDIES

_OUT = ("removed", "none")
_ON = ("on", "true", "yes")
_OFF = ("off", "false", "no")


def plan(steps: Sequence[Step], *, sick: bool) -> list[RenderableType]:
    """What to do in this order, then what not to do."""
    useful = [s for s in steps if s.verdict in ("helps", "unknown")]
    useless = [s for s in steps if s.verdict in ("moot", "harmful")]
    parts: list[RenderableType] = []
    if useful or sick:
        parts.append(heading("WHAT TO DO"))
    if sick and not useful:
        parts.append(indent(line("No remedy could be computed for this.")))
    for number, step in enumerate(useful, 1):
        parts += [*([Text()] if number > 1 else []), *_step(number, step)]
    if useless:
        parts += [heading("DO NOT", "well-known advice that is wrong here"), indent(_wrong(useless))]
    return parts


def flag_line(step: Step) -> str:
    """What to put on the server's command line, ready to copy: "--max-num-seqs 4"; "" if there is none.

    Switches are written as switches: `after` "on" gives `--flag`, "off" gives `--no-flag`.
    """
    if not step.flag or (step.before and not step.after) or step.after in _OUT:
        return ""
    if step.after.lower() in _OFF and step.flag.startswith("--"):
        return f"--no-{step.flag[2:]}"
    return step.flag if step.after.lower() in _ON else f"{step.flag} {step.after}".strip()


def _step(number: int, step: Step) -> list[RenderableType]:
    tags = ", ".join(t for t in (REMEDIES[step.verdict], _effort(step)) if t)
    title = grid("left", "wrap")
    title.add_row(
        say(f"{number:>2}.", "bold"), line((step.title or step.slug, "bold"), (f"  ({tags})", "dim"))
    )
    parts: list[RenderableType] = [indent(title, 1)]
    body: list[tuple[str, Text]] = []
    if step.action and step.action != step.title:
        body.append(("do", line(step.action)))
    if step.flag:
        body.append(("change", line(_change(step))))
    if body:
        parts.append(indent(pairs(body), 6))
    copy = flag_line(step)
    if copy:
        parts.append(Text())
        parts.append(indent(say(copy, "bold green"), 10))
        parts.append(Text())
    rows = (
        ("why", step.why),
        ("arithmetic", step.formula),
        ("effect", step.effect),
        ("expected", _expected(step)),
        ("price", step.tradeoff),
        ("verify", step.verify),
        ("unknown", ", ".join(step.missing)),
    )
    parts.append(indent(pairs((label, line(text)) for label, text in rows if text), 6))
    return parts


def _expected(step: Step) -> str:
    """The predictions, each from what it is now to an interval; those that cannot be made are left out."""
    told = []
    for p in step.predictions:
        if math.isnan(p.low) or math.isnan(p.high):
            continue
        now, low, high = (quantity(x, p.unit) for x in (p.now, p.low, p.high))
        unit = f" {p.unit}"
        if high.endswith(unit):  # once is enough
            now, low = now.removesuffix(unit), low.removesuffix(unit)
        to = high if low == high else f"at most {high}" if p.low == 0 else f"{low} to {high}"
        told.append(f"{p.measure} {now} -> {to}")
    return "; ".join(told)


def _change(step: Step) -> str:
    if step.before and step.after in _OUT:
        return f"remove {step.flag} (now {step.before})"
    if not step.after:
        return f"{step.flag}: the new value cannot be computed yet, see unknown"
    if step.before:
        return f"{step.flag} from {step.before} to {step.after}; the server's new argument:"
    return "the server's new argument:"


def _effort(step: Step) -> str:
    if step.effort is Effort.LIVE:
        return EFFORTS[Effort.RESTART if step.restart else Effort.LIVE]
    if step.effort is Effort.CAPACITY:
        return EFFORTS[step.effort] + (", restart" if step.restart else ", no restart")
    return EFFORTS[step.effort if step.restart else Effort.LIVE]


def _wrong(steps: Sequence[Step]) -> RenderableType:
    table = grid("left", "wrap")
    for step in steps:
        harmful = step.verdict == "harmful"
        mark = say(f"{'✗' if harmful else '-'} {REMEDIES[step.verdict]}", "red" if harmful else "dim")
        table.add_row(mark, line((step.title or step.slug, "bold"), f": {step.why}" if step.why else ""))
    return table
