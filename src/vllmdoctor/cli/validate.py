"""`validate`: did a fix hold?"""

import sys
from typing import Annotated

import typer

from vllmdoctor.cli.clusters import Asked, for_clusters, listed_instead
from vllmdoctor.cli.judging import check_version, history_of, kept_before, watcher_for, window_of
from vllmdoctor.cli.options import (
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
from vllmdoctor.cli.terminal import look
from vllmdoctor.errors import EXIT_BLIND, EXIT_DONE, EXIT_FOUND, UnknownName

FORMATS = ("text", "json", "markdown")


@for_clusters
def validate(
    words: Targets = None,
    before: Annotated[
        str, typer.Option("--before", help="a recording made before the fix, to compare with", metavar="FILE")
    ] = "",
    duration: For = "60s",
    every: Every = "5s",
    match: Match = "",
    span: Span = "",
    at: At = "",
    metric_prefix: MetricPrefix = "",
    max_points: MaxPoints = None,
    vllm_version: VllmVersion = "",
    fmt: Annotated[
        str, typer.Option("--format", "-f", help="text, json or markdown", metavar="FORMAT")
    ] = "text",
    *,
    asked: Asked,
) -> None:
    """Say whether a fix holds: the runbook's criteria over a day, each pass, fail or cannot tell."""
    if fmt not in FORMATS:
        raise UnknownName("format", fmt, FORMATS)
    check_version(vllm_version)
    from vllmdoctor.sources import gather_targets, without_login

    targets = asked.targets(words)
    if listed_instead(targets, asked.cluster):
        return
    window = window_of(
        duration, every, history_of(targets, match, span, at, metric_prefix, max_points), asked.cluster
    )
    earlier = kept_before(before, "--before", window)
    recording = gather_targets(targets, window, watcher_for(targets, vllm_version))
    from vllmdoctor.model_validation import Standing
    from vllmdoctor.render import validation as page
    from vllmdoctor.validation import validate as judge

    found = judge(
        recording,
        target=" ".join(map(without_login, targets)),
        before=earlier,
        before_name=before,
        vllm_version=vllm_version,
    )
    match fmt:
        case "json":
            sys.stdout.write(page.machine(found))
        case "markdown":
            sys.stdout.write(page.markdown(found))
        case _:
            sys.stdout.write(page.text(found, **look()))
    codes = {Standing.PASS: EXIT_DONE, Standing.FAIL: EXIT_FOUND}
    raise typer.Exit(codes.get(found.standing, EXIT_BLIND))
