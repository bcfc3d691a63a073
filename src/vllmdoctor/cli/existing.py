"""`alerts --existing`: what is wrong in rules and dashboards that somebody has."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from vllmdoctor.cli.options import FAIL_ON
from vllmdoctor.cli.terminal import look, say
from vllmdoctor.errors import EXIT_DONE, EXIT_FOUND, UnknownName, UsageError

if TYPE_CHECKING:
    from vllmdoctor.release import Version


def judge_existing(
    path: str, release: "Version | None", *, scrape: str, fmt: str, fail_on: str, output: str
) -> None:
    """Print the findings of a file, write it corrected where a name is given, and exit as asked."""
    from vllmdoctor.promlint import as_json, blocks, head, lint_file, lint_text
    from vllmdoctor.render.expressions import expressions
    from vllmdoctor.units import parse_duration

    if fail_on not in FAIL_ON:
        raise UnknownName("severity", fail_on, FAIL_ON)
    if fmt not in ("text", "json"):
        raise UnknownName("format", fmt, ("text", "json"))
    every = parse_duration(scrape)
    if path == "-":
        linted = lint_text(sys.stdin.read(), "standard input", release, every)
    else:
        linted = lint_file(path, release, every)
    page = look()
    if fmt == "json":
        sys.stdout.write(as_json(linted))
    else:
        sys.stdout.write(expressions(head(linted), blocks(linted, page["width"]), **page))
    if output:
        try:
            with Path(output).open("x", encoding="utf-8") as file:
                file.write(linted.corrected)
        except OSError as error:
            raise UsageError(f"cannot write {output}: {(error.strerror or str(error)).lower()}") from None
        say(f"corrected file written to {output}")
    limit = FAIL_ON.index(fail_on)
    raise typer.Exit(EXIT_FOUND if limit and linted.worst >= limit else EXIT_DONE)
