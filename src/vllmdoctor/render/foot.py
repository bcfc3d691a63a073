"""The foot of a report: what could not be seen, notes about the data, and what to type next."""

from collections.abc import Sequence

from rich.console import RenderableType
from rich.text import Text

from vllmdoctor.model import Event, Gap, Report, Verdict
from vllmdoctor.render.quantity import clock
from vllmdoctor.render.sheet import Look, grid, heading, indent, line, say
from vllmdoctor.render.words import cause_of, coverage, plural

_MOST = 8


def gaps(found: Sequence[Gap], look: Look) -> list[RenderableType]:
    """What could not be read or judged, why, and what to do about it."""
    if not found:
        return []
    shown = found if look.verbose else found[:_MOST]
    parts = [heading("WHAT COULD NOT BE SEEN")]
    parts += [indent(_bullet("?", _gap(g))) for g in shown]
    return parts + _more(len(found) - len(shown), "gap")


def notes(report: Report, look: Look) -> list[RenderableType]:
    """Findings about the data itself, and what happened meanwhile."""
    if not report.notes and not report.events:
        return []
    parts = [heading("NOTES")]
    told = report.notes if look.verbose else report.notes[:_MOST]
    parts += [indent(_bullet("·", line(n))) for n in told]
    parts += _more(len(report.notes) - len(told), "note")
    happened = report.events if look.verbose else _latest(report.events)
    parts += [indent(_bullet("·", _event(e, report))) for e in happened]
    return parts + _more(len(report.events) - len(happened), "earlier event")


def footer(report: Report, look: Look) -> list[RenderableType]:
    """How much could be looked at, and the next commands."""
    page = report.primary or report.verdict.value
    table = grid("left", "wrap")
    about = "how to confirm it, when it is a false alarm, how to treat it"
    if not cause_of(report):
        about = "what this verdict means, and what to do now"
    table.add_row(say(f"vllmdoctor explain {page}", "bold"), say(about, "dim"))
    if not look.verbose:
        table.add_row(say("... -v", "bold"), say("this report with every comparison of every rule", "dim"))
    if report.verdict is not Verdict.HEALTHY:
        table.add_row(
            say("... --save FILE", "bold"), say("keep this evidence before a restart destroys it", "dim")
        )
    looked, rules = report.coverage
    rest = (
        ""
        if looked >= rules
        else f" {plural(rules - looked, 'rule')} could not tell: see above for what is missing."
    )
    return [
        heading("NEXT"),
        indent(line(f"{coverage(looked, rules)} could look.{rest}")),
        indent(table),
    ]


def settings(report: Report) -> list[RenderableType]:
    """What was known of the servers' settings, and from where."""
    facts = sorted({(f.instance, f.key, str(f.value), f.origin) for e in report.engines for f in e.facts})
    if not facts:
        return []
    table = grid("wrap", "wrap", "wrap")
    for instance, key, value, origin in facts:
        table.add_row(say(key), say(value), say(" · ".join(t for t in (origin, instance) if t), "dim"))
    return [heading("SETTINGS"), indent(table)]


def _gap(gap: Gap) -> Text:
    what = line(
        (gap.what, "bold"),
        f": {gap.why}" if gap.why else "",
        (f" ({gap.origin})" if gap.origin else "", "dim"),
    )
    return Text("\n").join([what, line("-> ", gap.hint)]) if gap.hint else what


def _event(event: Event, report: Report) -> Text:
    where = f" ({event.instance})" if event.instance and len(report.engines) > 1 else ""
    text = f"{event.kind}: {event.text}" if event.text else event.kind
    return line((f"{clock(event.time, report.start)} ", "bold"), text, (where, "dim"))


def _latest(events: Sequence[Event]) -> Sequence[Event]:
    return events[-_MOST:]


def _more(count: int, noun: str) -> list[RenderableType]:
    return [indent(say(f"  and {plural(count, noun)} more: -v", "dim"))] if count > 0 else []


def _bullet(mark: str, text: Text) -> RenderableType:
    table = grid("left", "wrap")
    table.add_row(say(mark, "dim"), text)
    return table
