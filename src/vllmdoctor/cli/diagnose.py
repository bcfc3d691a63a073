"""`diagnose`: judge a server."""

import sys
from typing import Annotated

import typer

from vllmdoctor.cli.clusters import Asked, for_clusters, listed_instead
from vllmdoctor.cli.judging import (
    check_version,
    exit_code,
    history_of,
    judged,
    keep,
    kept_before,
    launch_given,
    watcher_for,
    window_of,
)
from vllmdoctor.cli.options import (
    FAIL_ON,
    Args,
    ArgsFile,
    At,
    Every,
    For,
    Match,
    MaxPoints,
    MetricPrefix,
    Span,
    Targets,
    VllmVersion,
)
from vllmdoctor.cli.terminal import check_new, color, width, write_report
from vllmdoctor.errors import UnknownName


@for_clusters
def diagnose(
    words: Targets = None,
    duration: For = "60s",
    every: Every = "5s",
    match: Match = "",
    span: Span = "",
    at: At = "",
    metric_prefix: MetricPrefix = "",
    max_points: MaxPoints = None,
    baseline: Annotated[
        str,
        typer.Option(
            "--baseline", help="a recording of the server in health, to compare with", metavar="FILE"
        ),
    ] = "",
    vllm_version: VllmVersion = "",
    args: Args = "",
    args_file: ArgsFile = "",
    fmt: Annotated[str, typer.Option("--format", "-f", help="text or json", metavar="FORMAT")] = "",
    output: Annotated[
        str,
        typer.Option(
            "--output", "-o", help="write the report here; its ending picks the format", metavar="FILE"
        ),
    ] = "",
    save: Annotated[
        str, typer.Option("--save", help="keep what was read as a recording", metavar="FILE")
    ] = "",
    fail_on: Annotated[
        str, typer.Option("--fail-on", help="exit 1 on a finding this severe: never, info, warning, critical")
    ] = "never",
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="show every comparison of every rule")
    ] = False,
    *,
    asked: Asked,
) -> None:
    """Judge a server: is it slow, since when, why, and what to change."""
    from vllmdoctor.render import format_for, render
    from vllmdoctor.sources import gather_targets

    if fail_on not in FAIL_ON:
        raise UnknownName("severity", fail_on, FAIL_ON)
    chosen = fmt or (format_for(output) if output else "text")
    if chosen not in ("text", "json"):
        raise UnknownName("format", chosen, ("text", "json"))
    check_version(vllm_version)
    check_new(output, save)
    targets = asked.targets(words)
    if listed_instead(targets, asked.cluster):
        return
    launch = launch_given(args, args_file)
    window = window_of(
        duration, every, history_of(targets, match, span, at, metric_prefix, max_points), asked.cluster
    )
    before = kept_before(baseline, "--baseline", window)
    recording = gather_targets(targets, window, watcher_for(targets, vllm_version))
    if save:
        keep(recording, save)
    report = judged(recording, targets, before, baseline, vllm_version, launch)
    text = render(
        report,
        chosen,
        width=width(output),
        color=not output and color(),
        verbose=verbose,
        encoding="utf-8" if output else (sys.stdout.encoding or "utf-8"),
    )
    if output:
        write_report(output, text)
    else:
        sys.stdout.write(text)
    raise typer.Exit(exit_code(report, fail_on))
