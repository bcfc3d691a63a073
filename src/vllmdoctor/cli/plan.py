"""`plan`: say what to change, as text and as files."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from vllmdoctor.cli.judging import (
    check_version,
    exit_code,
    judged,
    kept_before,
    launch_given,
    watcher_for,
    window_of,
)
from vllmdoctor.cli.options import Args, ArgsFile, Every, For, Targets, VllmVersion
from vllmdoctor.cli.terminal import look


def plan(
    targets: Targets,
    folder: Annotated[
        str, typer.Option("--write", help="write the plan as files into this folder", metavar="DIR")
    ] = "",
    take: Annotated[
        list[str] | None,
        typer.Option("--take", help="a step to write files for; may be repeated", metavar="SLUG"),
    ] = None,
    args: Args = "",
    args_file: ArgsFile = "",
    namespace: Annotated[str, typer.Option("--namespace", help="of the workload", metavar="NAME")] = "",
    deployment: Annotated[str, typer.Option("--deployment", help="the workload", metavar="NAME")] = "",
    container: Annotated[str, typer.Option("--container", help="that runs vLLM", metavar="NAME")] = "",
    label: Annotated[
        str, typer.Option("--label", help="labels that select the pods", metavar="KEY=VALUE,...")
    ] = "",
    replicas: Annotated[int, typer.Option("--replicas", help="that run now", metavar="N", min=0)] = 0,
    service: Annotated[str, typer.Option("--service", help="in front of the pods", metavar="NAME")] = "",
    gateway: Annotated[str, typer.Option("--gateway", help="of the Gateway API", metavar="NAME")] = "",
    prometheus: Annotated[
        str, typer.Option("--prometheus", help="as the cluster sees it", metavar="URL")
    ] = "",
    duration: For = "60s",
    every: Every = "5s",
    baseline: Annotated[
        str,
        typer.Option(
            "--baseline", help="a recording of the server in health, to compare with", metavar="FILE"
        ),
    ] = "",
    vllm_version: VllmVersion = "",
) -> None:
    """Say what to change on a server, computed for it; with --write, as files. Applies nothing."""
    from vllmdoctor.launch_report import release_of
    from vllmdoctor.manifests import artefacts, place_of, taken, write
    from vllmdoctor.render.pages import plan as page
    from vllmdoctor.render.pages import written
    from vllmdoctor.sources import gather_targets

    check_version(vllm_version)
    launch = launch_given(args, args_file)
    place = place_of(
        launch,
        namespace=namespace,
        deployment=deployment,
        container=container,
        service=service,
        gateway=gateway,
        prometheus=prometheus,
        label=label,
        replicas=replicas,
    )
    window = window_of(duration, every)
    before = kept_before(baseline, "--baseline", window)
    recording = gather_targets(targets, window, watcher_for(targets, vllm_version))
    report = judged(recording, targets, before, baseline, vllm_version, launch)
    sys.stdout.write(page(report, **look()))
    if folder:
        steps = taken(report.plan, take or ())
        files = artefacts(steps, launch, place, release_of(report), report.plan)
        paths = write(files, Path(folder))
        rows = [(str(path), file.what) for path, file in zip(paths, files, strict=True)]
        sys.stdout.write(written(rows, **look()))
    raise typer.Exit(exit_code(report, "never"))
