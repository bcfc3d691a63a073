"""Fill the generated parts of README.md, docs/ and runbooks/ from the code.

A part stands between `<!-- generated:KIND ARGUMENT -->` and `<!-- /generated -->`. `write` rewrites the
parts, `check` changes nothing, names the stale pages and exits 1. A kind is a function of this file (KINDS).
"""

import os
import re
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from vllmdoctor import errors, symptoms, validation
from vllmdoctor.alerts import FORMS, SILENT_CAUSES, limit_of
from vllmdoctor.alerts.records import WHAT
from vllmdoctor.case import Limit
from vllmdoctor.exporting.families import FAMILIES
from vllmdoctor.render.quantity import quantity
from vllmdoctor.rules import all_rules, get
from vllmdoctor.signals import SIGNALS, Signal

ROOT = Path(__file__).resolve().parents[1]
PART = re.compile(
    r"(?P<open><!-- generated:(?P<kind>[a-z-]+) ?(?P<argument>[^\n]*?) -->\n)"
    r"(?P<body>.*?)(?P<close><!-- /generated -->)",
    re.DOTALL,
)
# Whatever makes output depend on the terminal, the machine or the place it is run at.
TERMINAL = {
    "NO_COLOR": "1",
    "COLUMNS": "100",
    "TERM": "dumb",
    "TZ": "UTC",
    "LC_ALL": "C.UTF-8",
    "PYTHONUTF8": "1",
}
SWAYING = ("FORCE_COLOR", "CLICOLOR_FORCE", "PY_COLORS", "GITHUB_ACTIONS", "CI", "LINES", "TERMINAL_WIDTH")


def pages() -> list[Path]:
    """Every page that may have generated parts."""
    found = [
        ROOT / "README.md",
        ROOT / "CONTRIBUTING.md",
        *(ROOT / "docs").glob("*.md"),
        *(ROOT / "runbooks").glob("*.md"),
    ]
    return sorted(path for path in found if path.exists() and path.stem != "_template")


def shell(command: str, folder: Path) -> str:
    """What a person sees who runs a command in `folder`: both streams, 100 columns, no colour."""
    environment = {k: v for k, v in os.environ.items() if k not in SWAYING} | TERMINAL
    environment["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{environment.get('PATH', '')}"
    done = subprocess.run(  # noqa: S603  (the commands are those of our own pages)
        ["bash", "-c", command],  # noqa: S607
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        timeout=120,
        check=False,
    )
    return "\n".join(line.rstrip() for line in done.stdout.splitlines())


def table(head: Sequence[str], rows: Iterator[Sequence[str]]) -> str:
    """A Markdown table; a bar inside a cell is escaped."""
    lines = [[cell.replace("|", "\\|").replace("\n", " ") for cell in row] for row in (head, *rows)]
    drawn = ["| " + " | ".join(line) + " |" for line in lines]
    return "\n".join([drawn[0], "|" + "---|" * len(head), *drawn[1:]])


# --- the kinds ---------------------------------------------------------------------------------


def console(argument: str) -> str:
    """A command and what it prints."""
    with tempfile.TemporaryDirectory() as folder:
        said = shell(argument, Path(folder))
    if "Traceback (most recent call last)" in said:
        sys.exit(f"a bug must not get into the pages: {argument}\n{said}")
    return f"```console\n$ {argument}\n{said}\n```"


def opening(argument: str) -> str:
    """`LINE: COMMAND`: what a command prints before the first line that begins with LINE, then `...`."""
    line, command = argument.split(": ", 1)
    head, found, _ = console(command).partition(f"\n{line}")
    return f"{head}\n...\n```" if found else head


def rule(argument: str) -> str:
    """The card of one rule, for its runbook page."""
    one = get(argument)
    lines = [
        f"- **Sees**: {one.summary} ({one.severity.name.lower()}).",
        f'- **Needs** {" · ".join(_either(s) for s in one.signals)}. Without, the answer is "cannot tell".',
    ]
    if one.helpful:
        lines.append(f"- **Helped by** {' · '.join(_either(s) for s in one.helpful)}.")
    if one.explains:
        lines.append(
            f"- **Explains** {' · '.join(f'[{s}]({s}.md)' for s in one.explains)} when found together."
        )
    for kind, remedies in one.remedies.items():
        of_kind = f" ({kind})" if kind else ""
        lines.append(f"- **Remedies{of_kind}** {' · '.join(f'`{r}`' for r in remedies)}.")
    if one.limits:
        lines.append("\n" + _limits(one.limits))
    return "\n".join(lines)


def rules(argument: str) -> str:
    """One line for each rule; the argument is the way from the page to the runbooks."""
    return table(
        ("cause", "what is seen", "severity"),
        ((f"[{r.slug}]({argument}{r.slug}.md)", r.summary, r.severity.name.lower()) for r in all_rules()),
    )


def limits(_: str) -> str:
    """Every limit of every rule, and those of the symptoms."""
    slow = {k.lower().removesuffix("_s"): v for k, v in vars(symptoms).items() if isinstance(v, Limit)}
    parts = ["### Is it slow?", _limits(slow), "### Did the fix hold?", _limits(validation.LIMITS)]
    for one in all_rules():
        if one.limits:
            parts += [f"### {one.slug}", _limits(one.limits)]
    return "\n\n".join(parts)


def layers(_: str) -> str:
    """The layers that import-linter checks, highest first."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"][
        "contracts"
    ]
    (stack,) = (contract["layers"] for contract in contracts if contract["type"] == "layers")
    shown = (" · ".join(f"`{part.strip(' ()')}`" for part in line.split("|")) for line in stack)
    return "\n".join(f"{number}. {line}" for number, line in enumerate(shown, 1))


def signals(_: str) -> str:
    """The table of signals, with every name each has had."""
    return table(
        ("signal", "kind", "unit", "what", "names, newest first", "beware"),
        ((f"`{s.name}`", s.kind, s.unit, s.what, _names(s), s.note or s.needs) for s in SIGNALS.values()),
    )


def exported(_: str) -> str:
    """Every metric that `vllmdoctor export` serves."""
    return table(
        ("metric", "labels", "says"),
        ((f"`{f.name}`", ", ".join(f"`{label}`" for label in f.labels), f.told) for f in FAMILIES),
    )


def exit_codes(_: str) -> str:
    """Every error with its exit code, from the errors themselves."""

    def below(kind: type[errors.VllmDoctorError], depth: int) -> Iterator[tuple[str, str, str]]:
        said = (kind.__doc__ or "").split("\n", 1)[0]
        yield f"{'· ' * depth}`{kind.__name__}`", str(kind.exit_code), said
        for child in kind.__subclasses__():
            if child.__module__ == errors.__name__:
                yield from below(child, depth + 1)

    return table(("error", "exit", "what it says"), below(errors.VllmDoctorError, 0))


def commands(_: str) -> str:
    """Every command with its arguments and options, read from the command line itself."""
    from typer.main import get_command

    from vllmdoctor import cli

    tree: Any = get_command(cli.app)
    parts = []
    for name, command in sorted(tree.commands.items()):
        if command.hidden:
            continue
        shown = [p for p in command.params if not getattr(p, "hidden", False) and p.name != "help"]
        words = [_word(p) for p in shown if p.param_type_name == "argument"]
        lines = [f"### {name}", "```text\n" + " ".join(("vllmdoctor", name, "[OPTIONS]", *words)) + "\n```"]
        lines.append("\n".join(line.strip() for line in (command.help or "").splitlines()).strip())
        if shown:
            lines.append(
                table(("", "default", ""), ((f"`{_word(p)}`", _default(p), p.help or "") for p in shown))
            )
        parts.append("\n\n".join(lines))
    return "\n\n".join(parts)


def alerts(argument: str) -> str:
    """Every alert that can be written; the argument is the way from the page to the runbooks."""
    rows = (
        (
            f"`{form.name}`",
            f"[{form.cause}]({argument}{form.cause}.md)",
            form.severity,
            form.means,
            "<br>".join(_limit_of(key, form.cause) for key in form.limits),
            form.wait if form.wait != "0m" else "",
        )
        for form in FORMS
    )
    return table(("alert", "cause", "severity", "fires on", "limits", "for"), rows)


def silent_causes(argument: str) -> str:
    """The causes without an alert, and why."""
    return "\n".join(f"- [{slug}]({argument}{slug}.md): {why}" for slug, why in SILENT_CAUSES.items())


def recordings(_: str) -> str:
    """Every recording, and what it is."""
    return table(("recording", "what"), ((f"`{name}`", what) for name, what in WHAT.items()))


KINDS: Mapping[str, Callable[[str], str]] = {
    "alerts": alerts,
    "console": console,
    "commands": commands,
    "exit-codes": exit_codes,
    "exported": exported,
    "layers": layers,
    "limits": limits,
    "opening": opening,
    "recordings": recordings,
    "rule": rule,
    "rules": rules,
    "signals": signals,
    "silent-causes": silent_causes,
}


def _limit_of(key: str, cause: str) -> str:
    shown = key.removeprefix(f"{cause}.")
    return f"`{shown}` {quantity(limit_of(key).value, limit_of(key).unit)}"


def _either(needed: str | tuple[str, ...]) -> str:
    return f"`{needed}`" if isinstance(needed, str) else " or ".join(f"`{n}`" for n in needed)


def _limits(named: Mapping[str, Limit]) -> str:
    return table(
        ("limit", "value", "why", "source"),
        ((f"`{name}`", quantity(v.value, v.unit), v.why, v.source) for name, v in named.items()),
    )


def _names(signal: Signal) -> str:
    def told(name: Any) -> str:
        labels = ",".join(f'{k}="{v}"' for k, v in name.labels)
        span = (
            f" ({name.since or ''}-{name.until or ''})"
            if name.until
            else f" ({name.since}+)"
            if name.since
            else ""
        )
        return f"`{name.text}{'{' + labels + '}' if labels else ''}`{span}"

    return "<br>".join(told(name) for name in signal.names)


def _word(parameter: Any) -> str:
    if parameter.param_type_name == "argument":
        word = parameter.metavar or parameter.name.upper()
        word = word if parameter.required else f"[{word}]"
        return f"{word}..." if parameter.nargs == -1 and not word.endswith("...") else word
    flags = ", ".join((*parameter.opts, *parameter.secondary_opts))
    return flags if parameter.is_flag else f"{flags} {parameter.metavar or parameter.name.upper()}"


def _default(parameter: Any) -> str:
    value = parameter.default
    if parameter.required or value in (None, False, (), "") or callable(value):
        return "required" if parameter.required else ""
    return f"`{getattr(value, 'value', value)}`"


# --- write and check ---------------------------------------------------------------------------


def filled(text: str) -> str:
    """The page with its generated parts as the code wants them."""

    def fill(part: re.Match[str]) -> str:
        body = KINDS[part["kind"]](part["argument"])
        # A Markdown table or list needs an empty line around it, inside HTML comments as well.
        return f"{part['open']}\n{body}\n\n{part['close']}"

    return PART.sub(fill, text)


def main(arguments: Sequence[str]) -> int:
    """`write` or `check`; the exit code is 0 when nothing is, or stays, stale."""
    if list(arguments) not in (["write"], ["check"]):
        sys.stderr.write("usage: script/generate write|check\n")
        return errors.EXIT_MISUSED
    stale = []
    for path in pages():
        text = path.read_text(encoding="utf-8")
        wanted = filled(text)
        if wanted != text:
            stale.append(path.relative_to(ROOT))
            if arguments[0] == "write":
                path.write_text(wanted, encoding="utf-8")
    for path in stale:
        sys.stderr.write(f"{'wrote' if arguments[0] == 'write' else 'stale'}: {path}\n")
    if stale and arguments[0] == "check":
        sys.stderr.write("  hint: script/generate write\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
