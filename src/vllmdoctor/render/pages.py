"""Small pages of other commands: examples, rules, signals, a runbook page, an error.

Plain rows in, text out; rich is loaded when it is called for.
"""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import RenderableType

    from vllmdoctor.model import Report

from vllmdoctor.render.words import harmless, plural

_ROOMY = 96
SEVERITY_STYLES = {"critical": "red", "warning": "yellow", "info": "cyan"}


def examples(
    rows: Iterable[tuple[str, str]],
    *,
    hint: str = "vllmdoctor diagnose example:NAME",
    width: int = 100,
    color: bool = False,
    encoding: str = "utf-8",
) -> str:
    """The bundled recordings or the scenarios: (name, one line), and what to type next."""
    from vllmdoctor.render.sheet import grid, paint, say

    table = grid("left", "wrap")
    for name, about in rows:
        table.add_row(say(name, "bold"), say(about))
    return paint([table, say(""), say(hint, "dim")], width=width, color=color, encoding=encoding)


def remedies(
    rows: Iterable[tuple[str, str]], *, width: int = 100, color: bool = False, encoding: str = "utf-8"
) -> str:
    """The remedies: (slug, one line)."""
    from vllmdoctor.render.sheet import grid, paint, say

    table = grid("left", "wrap")
    for slug, about in rows:
        table.add_row(say(slug, "bold"), say(about))
    hint = say("vllmdoctor explain SLUG", "dim")
    return paint([table, say(""), hint], width=width, color=color, encoding=encoding)


def findings(
    head: str,
    rows: Sequence[tuple[str, str, str, str, str]],
    *,
    width: int = 100,
    color: bool = False,
    encoding: str = "utf-8",
) -> str:
    """Findings of a launch command: (severity's name, slug, argument, what, hint)."""
    from vllmdoctor.render.sheet import grid, heading, indent, line, paint, say

    table = grid("left", "wrap")
    for severity, slug, argument, what, hint in rows:
        text = line(
            (argument, "bold"), f": {what}", (f"; {hint}" if hint else "", "dim"), (f" [{slug}]", "dim")
        )
        table.add_row(say(severity, SEVERITY_STYLES.get(severity, "")), text)
    body = indent(table) if rows else indent(say("nothing to say against it", "green"))
    parts: list[RenderableType] = [heading("ARGUMENTS"), indent(say(head, "dim")), say(""), body]
    return paint(parts, width=width, color=color, encoding=encoding).lstrip("\n")


def plan(report: "Report", *, width: int = 100, color: bool = False, encoding: str = "utf-8") -> str:
    """The headline of a report and its plan alone."""
    from vllmdoctor.model import Verdict
    from vllmdoctor.render.sheet import grid, heading, indent, paint, say
    from vllmdoctor.render.steps import plan as steps
    from vllmdoctor.render.words import VERDICTS

    name, meaning = VERDICTS[report.verdict]
    cause = f"{report.primary}{', ' + report.kind if report.kind else ''}"
    parts: list[RenderableType] = [
        say(f"{name}: {meaning}", "bold"),
        say(report.headline),
        say(f"cause: {cause}", "dim"),
    ]
    parts += steps(report.plan, sick=report.verdict is Verdict.SICK)
    if not report.plan:
        blind = report.verdict is Verdict.BLIND
        parts.append(say("Nothing can be advised yet: look for longer." if blind else "Nothing to change."))
    if report.notes:
        table = grid("left", "wrap")
        for note in report.notes:
            table.add_row(say("·"), say(note))
        parts += [heading("NOTES"), indent(table)]
    return paint(parts, width=width, color=color, encoding=encoding)


def written(
    rows: Sequence[tuple[str, str]], *, width: int = 100, color: bool = False, encoding: str = "utf-8"
) -> str:
    """Files that were written: (path, what it is)."""
    from vllmdoctor.render.sheet import grid, heading, indent, paint, say

    table = grid("left", "wrap")
    for path, what in rows:
        table.add_row(say(path, "bold"), say(what))
    return paint(
        [heading("WRITTEN", "nothing was applied: read README.md"), indent(table)],
        width=width,
        color=color,
        encoding=encoding,
    )


def servers(
    rows: Iterable[tuple[str, str, str, str, str, str]],
    *,
    width: int = 100,
    color: bool = False,
    encoding: str = "utf-8",
) -> str:
    """Servers in a cluster: (namespace, name, pods that run / all, version, model, trouble)."""
    from vllmdoctor.render.sheet import grid, heading, indent, paint, say

    rows = list(rows)
    places = {row[0] for row in rows}
    alone = len(places) == 1  # then it stands in the heading, and its column is left to the names
    table = grid(*(() if alone else ("left",)), "left", "right", "left", "wrap")
    titles = ("namespace", "server", "pods", "version", "model")[alone:]
    table.add_row(*(say(title, "dim") for title in titles))
    for namespace, name, pods, version, model, trouble in rows:
        cells = (
            say(namespace),
            say(name, "bold"),
            say(pods, "red" if trouble else ""),
            say(version or "?"),
            say(model or "?"),
        )
        table.add_row(*cells[alone:])
    troubles = grid("left", "wrap")
    for _, name, _, _, _, trouble in rows:
        if trouble:
            troubles.add_row(say(name, "bold"), say(trouble, "red"))
    count = f"{len(rows)} vLLM server{'s'[: len(rows) != 1]}"
    count += f" in namespace {places.pop()}" if alone else ""
    parts = [heading("SERVERS", count), indent(table)]
    if any(row[-1] for row in rows):
        parts += [heading("NOT RUNNING"), indent(troubles)]
    return paint(parts, width=width, color=color, encoding=encoding)


def features(
    rows: Iterable[tuple[str, str, str, str]],
    *,
    width: int = 100,
    color: bool = False,
    encoding: str = "utf-8",
) -> str:
    """What is read in a cluster: (feature, whether without being asked for, what it is, its rights)."""
    from vllmdoctor.render.sheet import grid, paint, say

    table = grid("left", "left", "wrap")
    for name, when, what, rights in rows:
        table.add_row(say(name, "bold"), say(when), say(what))
        table.add_row("", "", say(rights, "dim"))
    return paint([table], width=width, color=color, encoding=encoding)


def rules(
    rows: Iterable[tuple[str, str, str]], *, width: int = 100, color: bool = False, encoding: str = "utf-8"
) -> str:
    """The causes that are looked for: (slug, severity's name, one line)."""
    from vllmdoctor.render.sheet import grid, paint, say

    table = grid("left", "left", "wrap")
    for slug, severity, about in rows:
        table.add_row(say(slug, "bold"), say(severity, SEVERITY_STYLES.get(severity, "")), say(about))
    return paint([table], width=width, color=color, encoding=encoding)


def signals(
    found: Sequence[tuple[str, str, str]],
    absent: Sequence[tuple[str, str]] = (),
    unclaimed: Sequence[str] = (),
    notes: Sequence[str] = (),
    *,
    width: int = 100,
    color: bool = False,
    encoding: str = "utf-8",
) -> str:
    """The signals of a server: found (signal, the name it was found under, what it is), absent (signal, why),
    series of vLLM that no signal claims, and notes on renamed ones."""
    from vllmdoctor.render.sheet import grid, heading, indent, paint, say

    parts: list[RenderableType] = []
    if found:
        # A name must stay whole to be copied; on a narrow page the explanation goes.
        roomy = width >= _ROOMY
        table = grid("left", "left" if roomy else "wrap", *(("wrap",) if roomy else ()))
        for signal, name, about in found:
            table.add_row(say(signal, "bold"), say(name), *((say(about, "dim"),) if roomy else ()))
        parts += [heading("SIGNALS", plural(len(found), "found name")), indent(table)]
    if absent:
        table = grid("left", "wrap")
        for signal, why in absent:
            table.add_row(say(signal), say(why, "dim"))
        parts += [heading("ABSENT", "absence is never read as 0"), indent(table)]
    if unclaimed:
        parts.append(heading("UNCLAIMED", "metrics of vLLM that nothing here reads"))
        parts += [indent(say(name)) for name in unclaimed]
    if notes:
        parts.append(heading("NOTES"))
        parts += [indent(say(note)) for note in notes]
    return paint(parts, width=width, color=color, encoding=encoding).lstrip("\n")


def runbook(markdown: str, *, width: int = 100, color: bool = False, encoding: str = "utf-8") -> str:
    """A page of the runbook, laid out for the terminal; links are shown in full, to be copied."""
    from rich.markdown import Markdown

    from vllmdoctor.render.sheet import paint

    text = "\n".join(harmless(each) for each in markdown.splitlines())
    page = Markdown(text, hyperlinks=False, code_theme="ansi_dark", justify="left")
    return paint([page], width=min(width, 100), color=color, encoding=encoding)


def error(message: str, hint: str = "", *, color: bool = False, encoding: str = "utf-8") -> str:
    """One line of what is wrong, and one of what to do; without rich, so that failing is fast."""
    bold, red, plain = ("\x1b[1m", "\x1b[1;31m", "\x1b[0m") if color else ("", "", "")
    lines = [f"{red}vllmdoctor:{plain} {harmless(message)}"]
    if hint:
        lines.append(f"  {bold}hint:{plain} {harmless(hint)}")
    return ("\n".join(lines) + "\n").encode(encoding, "backslashreplace").decode(encoding)
