"""`dashboard`: a Grafana dashboard that leads through a diagnosis."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from vllmdoctor.cli.judging import release_of
from vllmdoctor.cli.options import VllmVersion
from vllmdoctor.cli.terminal import check_new, say
from vllmdoctor.errors import UnknownName, UsageError

SERVERS = ("pod", "instance")


def dashboard(
    vllm_version: VllmVersion = "",
    server: Annotated[
        str,
        typer.Option(
            "--server-label",
            help="the label that names a server: pod, or instance without Kubernetes",
            metavar="LABEL",
        ),
    ] = "pod",
    runbooks: Annotated[
        str,
        typer.Option(
            "--runbooks", help="where the runbook pages are read, for the panels' links", metavar="URL"
        ),
    ] = "",
    output: Annotated[
        str, typer.Option("--output", "-o", help="write it here; nothing is overwritten", metavar="FILE")
    ] = "",
) -> None:
    """Write a Grafana dashboard (JSON): is it slow, why, and is it the machine. Needs no server."""
    from vllmdoctor.dashboard import dashboard as made

    if server not in SERVERS:
        raise UnknownName("server label", server, SERVERS)
    if runbooks and not runbooks.startswith(("http://", "https://")):
        raise UsageError(f"not an address: {runbooks}", hint="--runbooks https://wiki.example/runbooks/")
    release = release_of(vllm_version)
    check_new(output)
    text = made(
        release,
        server=server,
        runbooks=runbooks and runbooks.rstrip("/") + "/",
    )
    if not output:
        sys.stdout.write(text)
        return
    try:
        Path(output).write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"cannot write {output}: {(error.strerror or str(error)).lower()}") from None
    say(f"dashboard written to {output}: Grafana, Dashboards, New, Import")
