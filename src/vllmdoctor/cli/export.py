"""`export`: diagnose on a schedule, as metrics for Prometheus."""

import sys
from typing import Annotated

import typer

from vllmdoctor.cli.judging import check_version, history_of
from vllmdoctor.cli.options import Match, MaxPoints, MetricPrefix, VllmVersion
from vllmdoctor.cli.terminal import say
from vllmdoctor.errors import UsageError


def export(
    targets: Annotated[
        list[str],
        typer.Argument(
            metavar="TARGET...",
            help="http(s)://HOST:PORT, or prom+http(s)://HOST:PORT (a Prometheus), and beside them nvml: and "
            "host:. Several make one case.",
            show_default=False,
        ),
    ],
    listen: Annotated[
        str, typer.Option("--listen", help="where /metrics is served", metavar="HOST:PORT")
    ] = "127.0.0.1:9810",
    every: Annotated[
        str, typer.Option("--every", help="time between two scrapes of a live server", metavar="DURATION")
    ] = "15s",
    diagnose_every: Annotated[
        str, typer.Option("--diagnose-every", help="time between two diagnoses", metavar="DURATION")
    ] = "60s",
    keep: Annotated[
        str,
        typer.Option(
            "--keep", help="how much history is judged, and kept of live servers", metavar="DURATION"
        ),
    ] = "10h",
    web_config: Annotated[
        str,
        typer.Option(
            "--web.config.file", help="TLS and users, as Prometheus' own exporters take them", metavar="FILE"
        ),
    ] = "",
    once: Annotated[bool, typer.Option("--once", help="diagnose once, print the metrics and end")] = False,
    textfile: Annotated[
        str,
        typer.Option("--textfile", help="with --once: a file for node_exporter to read", metavar="FILE.prom"),
    ] = "",
    match: Match = "",
    metric_prefix: MetricPrefix = "",
    max_points: MaxPoints = None,
    vllm_version: VllmVersion = "",
) -> None:
    """Diagnose again and again, and serve what is found as metrics for Prometheus."""
    from pathlib import Path

    if textfile and not once:
        raise UsageError("--textfile goes with --once", hint="a running exporter is scraped: --listen")
    if once and web_config:
        raise UsageError("--once serves nothing, so --web.config.file has no meaning")
    check_version(vllm_version)
    if textfile:
        from vllmdoctor.exporting.textfile import check_textfile

        check_textfile(Path(textfile))
    from vllmdoctor.exporting.settings import Settings
    from vllmdoctor.exporting.web import parse_listen
    from vllmdoctor.exporting.webconfig import read_web_config
    from vllmdoctor.units import parse_duration

    span = keep if any(target.startswith("prom+") for target in targets) else ""
    settings = Settings(
        every_s=parse_duration(every),
        diagnose_every_s=parse_duration(diagnose_every),
        keep_s=parse_duration(keep),
        prometheus=history_of(targets, match, span, "", metric_prefix, max_points),
        vllm_version=vllm_version,
    )
    parse_listen(listen)
    config = read_web_config(Path(web_config)) if web_config else None
    if not once:
        from vllmdoctor.exporting.ending import told_to_end

        with told_to_end() as over:  # before the seconds that loading the rest may take
            from vllmdoctor.exporting.commands import serve

            serve(targets, settings, listen, config, over, say)
        return
    from vllmdoctor.exporting.commands import export_once

    page, blind = export_once(targets, settings, say)
    if textfile:
        from vllmdoctor.exporting.textfile import write_textfile

        write_textfile(Path(textfile), page)
    else:
        sys.stdout.write(page.decode())
    if blind is not None:
        raise blind
