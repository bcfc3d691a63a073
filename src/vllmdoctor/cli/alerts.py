"""`alerts`: write Prometheus rules for the servers at hand."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from vllmdoctor.cli.judging import release_of, window_of
from vllmdoctor.cli.options import VllmVersion
from vllmdoctor.cli.terminal import check_new, say
from vllmdoctor.errors import UsageError

if TYPE_CHECKING:
    from vllmdoctor.flags import Release
    from vllmdoctor.promql import Spelling


def alerts(
    targets: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[TARGET]...",
            help="servers or recordings whose metric names to use; without one, those of all releases",
        ),
    ] = None,
    vllm_version: VllmVersion = "",
    match: Annotated[
        str,
        typer.Option("--match", help='label matchers, as in namespace="inference"', metavar="MATCHERS"),
    ] = "",
    limits: Annotated[
        list[str] | None,
        typer.Option("--set", help="a limit of a cause; may be repeated", metavar="CAUSE.LIMIT=VALUE"),
    ] = None,
    existing: Annotated[
        str,
        typer.Option(
            "--existing", help="check rules or a Grafana dashboard that you have, instead", metavar="FILE"
        ),
    ] = "",
    scrape: Annotated[
        str,
        typer.Option(
            "--scrape-interval", help="with --existing: time between two scrapes", metavar="DURATION"
        ),
    ] = "15s",
    fail_on: Annotated[
        str, typer.Option("--fail-on", help="with --existing: never, info, warning, critical")
    ] = "never",
    fmt: Annotated[
        str,
        typer.Option(
            "--format",
            "-f",
            help="rules, prometheusrule or vmrule [rules]; text or json [text] of --existing",
            metavar="FORMAT",
        ),
    ] = "",
    runbooks: Annotated[
        str, typer.Option("--runbooks", help="where the runbook pages are served", metavar="URL")
    ] = "runbooks/",
    output: Annotated[str, typer.Option("--output", "-o", help="write into a new file", metavar="FILE")] = "",
) -> None:
    """Write Prometheus rules: recordings, and an alert for each cause that metrics show. Or check yours."""
    given = release_of(vllm_version)
    if existing:
        from vllmdoctor.cli.existing import judge_existing

        if targets or match or limits:
            raise UsageError("--existing is checked as it is", hint="leave out targets, --match and --set")
        check_new(output)
        judge_existing(existing, given, scrape=scrape, fmt=fmt or "text", fail_on=fail_on, output=output)
    if scrape != "15s" or fail_on != "never":
        raise UsageError(
            "--scrape-interval and --fail-on are for --existing", hint="name a file: --existing rules.yaml"
        )
    from vllmdoctor.alerts import LIMITS, Basis, rules_for, settings
    from vllmdoctor.alerts.forms import check_format, text
    from vllmdoctor.promql import Metrics, matchers_of, names_for

    fmt = fmt or "rules"
    release: Release = given
    check_format(fmt)
    check_new(output)
    chosen, changed = matchers_of(match), settings(limits or (), LIMITS)
    _check_matchers(chosen)
    if targets and vllm_version:
        raise UsageError("a target says its own names", hint="leave out --vllm-version, or the target")
    if targets:
        names, whose, release = _names_of(targets)
    else:
        names, whose = names_for(release), f"vLLM {release}" if release else "every release of vLLM"
    rules = rules_for(Basis(Metrics(names, chosen), changed))
    written = text(rules, fmt, whose, release, runbooks if runbooks.endswith("/") else f"{runbooks}/")
    if not output:
        sys.stdout.write(written)
        return
    try:
        with Path(output).open("x", encoding="utf-8") as file:
            file.write(written)
    except OSError as error:
        raise UsageError(f"cannot write {output}: {(error.strerror or str(error)).lower()}") from None
    say(f"{len(rules.alerts)} alerts and {len(rules.records)} recordings written to {output}")


def _check_matchers(chosen: tuple[str, ...]) -> None:
    """UsageError for what Prometheus would refuse: a second name, or a regular expression that is none."""
    from vllmdoctor.promlint.parse import Unreadable, parse

    try:
        parse(f"up{{{','.join(chosen)}}}")
    except (Unreadable, UnicodeEncodeError) as error:
        raise UsageError(f"not a label matcher: {','.join(chosen)!r}: {error}") from None


def _names_of(targets: list[str]) -> "tuple[Spelling, str, Release]":
    """The names that servers or recordings show, whose they are, and the release where it is one.

    A target that could not be read is told: its names are not among them.
    """
    from vllmdoctor.engines import frames
    from vllmdoctor.facts import server_version
    from vllmdoctor.promql import names_on
    from vllmdoctor.sources import gather_targets, without_login
    from vllmdoctor.sources.observe import failure_of

    recording = gather_targets(targets, window_of("1s", "1s"))
    pages = [{series.partition("{")[0] for series in of} for of in recording.columns.values()]
    release = None
    for frame in frames(recording):
        release = server_version(recording, frame, "").release
    told = [*map(failure_of, recording.gaps), *map(failure_of, recording.events)]
    missed = dict.fromkeys(what for what in told if what)
    for what in missed:
        say(f"{what}: its names are not in these rules")
    whose = " ".join(map(without_login, targets))
    return names_on(pages), f"{whose} (not read: {'; '.join(missed)})" if missed else whose, release
