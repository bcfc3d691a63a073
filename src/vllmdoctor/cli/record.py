"""`record` and `convert`: keep what a server shows, and hand it on."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from vllmdoctor.cli.clusters import Asked, for_clusters
from vllmdoctor.cli.judging import history_of
from vllmdoctor.cli.options import At, Every, For, Match, MaxPoints, MetricPrefix, Span, Targets
from vllmdoctor.cli.terminal import say


@for_clusters
def record(
    output: Annotated[str, typer.Option("--output", "-o", help="the recording to write", metavar="FILE")],
    words: Targets = None,
    duration: For = "8h",
    every: Every = "15s",
    match: Match = "",
    span: Span = "",
    at: At = "",
    metric_prefix: MetricPrefix = "",
    max_points: MaxPoints = None,
    append: Annotated[bool, typer.Option("--append", help="go on with a recording that exists")] = False,
    redact: Annotated[
        bool, typer.Option("--redact", help="replace model, pod and host names by aliases")
    ] = False,
    max_size: Annotated[
        str, typer.Option("--max-size", help="start a new part at this size", metavar="SIZE")
    ] = "256MiB",
    *,
    asked: Asked,
) -> None:
    """Keep a server's metrics in a file: the history that diagnose needs where there is no Prometheus."""
    from vllmdoctor.commands_record import record_targets
    from vllmdoctor.units import parse_duration, parse_size
    from vllmdoctor.watching import recorder

    targets = asked.targets(words)
    done = record_targets(
        targets,
        Path(output),
        duration_s=parse_duration(duration),
        interval_s=parse_duration(every),
        append=append,
        redact=redact,
        max_bytes=parse_size(max_size),
        on_progress=recorder(sys.stderr),
        history=history_of(targets, match, span, at, metric_prefix, max_points),
        cluster=asked.watching,
    )
    parts = f" in {done.parts} parts, the last" if done.parts > 1 else ""
    say(f"{done.scrapes} scrapes recorded{parts} in {done.path} ({done.size_bytes / 2**20:.2f} MiB)")
    say(f"judge it with: vllmdoctor diagnose {output}")


def convert(
    source: Annotated[
        str, typer.Argument(metavar="FILE", help="a recording or metrics text", show_default=False)
    ],
    output: Annotated[
        str, typer.Option("--output", "-o", help="the OpenMetrics file to write", metavar="FILE")
    ],
) -> None:
    """Write a recording as OpenMetrics text, for `promtool tsdb create-blocks-from openmetrics`."""
    from vllmdoctor.commands_record import convert as write

    done = write(source, Path(output))
    say(f"{done.samples} samples of {done.series} series written to {output}")
    if done.left_out:
        say(f"{done.left_out} facts, events and gaps have no place in OpenMetrics and were left out")
