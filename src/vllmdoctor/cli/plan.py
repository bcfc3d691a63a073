"""`plan`: say what to change, as text and as files."""

import re
import sys
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated

import typer

from vllmdoctor.cli.clusters import Asked, deployed, for_clusters, listed_instead
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

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from vllmdoctor.manifests import File
    from vllmdoctor.model import Report


@for_clusters
def plan(
    words: Targets = None,
    folder: Annotated[
        str, typer.Option("--write", help="write the plan as files into this folder", metavar="DIR")
    ] = "",
    take: Annotated[
        list[str] | None,
        typer.Option("--take", help="a step to write files for; may be repeated", metavar="SLUG"),
    ] = None,
    args: Args = "",
    args_file: ArgsFile = "",
    deployment: Annotated[str, typer.Option("--deployment", help="the workload", metavar="NAME")] = "",
    label: Annotated[
        str, typer.Option("--label", help="labels that select the pods", metavar="KEY=VALUE,...")
    ] = "",
    replicas: Annotated[int, typer.Option("--replicas", help="that run now", metavar="N", min=0)] = 0,
    service: Annotated[str, typer.Option("--service", help="in front of the pods", metavar="NAME")] = "",
    gateway: Annotated[str, typer.Option("--gateway", help="of the Gateway API", metavar="NAME")] = "",
    duration: For = "60s",
    every: Every = "5s",
    baseline: Annotated[
        str,
        typer.Option(
            "--baseline", help="a recording of the server in health, to compare with", metavar="FILE"
        ),
    ] = "",
    vllm_version: VllmVersion = "",
    *,
    asked: Asked,
) -> None:
    """Say what to change on a server, computed for it; with --write, as files. Applies nothing."""
    from vllmdoctor.launch_report import release_of
    from vllmdoctor.manifests import artefacts, place_of, taken, write
    from vllmdoctor.render.pages import plan as page
    from vllmdoctor.render.pages import written
    from vllmdoctor.sources import gather_targets

    check_version(vllm_version)
    launch = launch_given(args, args_file)
    targets = asked.targets(words, workload=True)
    if listed_instead(targets, asked.cluster):
        return
    launch, around = deployed(targets, asked.cluster, launch)
    place = place_of(
        launch,
        namespace=asked.namespace,
        deployment=deployment,
        container=asked.cluster.container,
        service=service or around[0],
        gateway=gateway,
        prometheus=around[1],
        label=label,
        replicas=replicas,
    )
    window = window_of(duration, every, cluster=asked.cluster)
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
        sys.stdout.write(to_copy(files, paths, asked.cluster.access.context))
        sys.stdout.writelines(f"  Beware: {each}\n" for each in cautions(report, files))
    raise typer.Exit(exit_code(report, "never"))


def cautions(report: "Report", files: "Sequence[File]") -> "Iterator[str]":
    """What in the cluster works against the files: an autoscaler, an operator that makes the workload."""
    scalers = {str(f.value) for e in report.engines for f in e.facts if f.key == "autoscaler"} - {"none"}
    meddling = [f.name for f in files if f.name in ("hpa.yaml", "scaledobject.yaml", "patch-replicas.yaml")]
    if scalers and meddling:
        names = ", ".join(sorted(scalers))
        yield f"{names} scales it already. Raise its maximum instead of {', '.join(meddling)}."
    from vllmdoctor.kube.nouns import KEPT

    for gap in report.gaps:
        if gap.what.startswith(KEPT):
            yield f"{gap.why}: {gap.hint}."


def to_copy(files: "Sequence[File]", paths: "Sequence[Path]", context: str) -> str:
    """The commands that show and apply each file, to be copied: they are never wrapped."""
    kubectl = f"kubectl --context {quote(context)}" if context else "kubectl"
    lines = []
    for file, path in zip(files, paths, strict=True):
        for command in filter(None, (file.look, file.apply)):
            if command.startswith("kubectl"):
                named = command.replace(f" {file.name}", f" {quote(str(path))}")
                lines.append(re.sub(r"\bkubectl\b", lambda _: kubectl, named))
    return "".join(f"  {line}\n" for line in lines) + "\n" if lines else ""
