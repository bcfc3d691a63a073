"""A plan as files to look at and apply by hand: nothing here talks to a cluster.

`artefacts` makes the files, `write` puts them into a folder and never over anything that is there.
"""

from collections.abc import Sequence
from pathlib import Path

from vllmdoctor.errors import FileExists, UnknownName, UsageError
from vllmdoctor.flags import Release
from vllmdoctor.launch import Launch
from vllmdoctor.launch_edit import words_for
from vllmdoctor.manifests.alerts import alerts
from vllmdoctor.manifests.chart import values
from vllmdoctor.manifests.files import File
from vllmdoctor.manifests.patches import changes
from vllmdoctor.manifests.place import Place, place_of
from vllmdoctor.manifests.readme import readme
from vllmdoctor.manifests.restart import restart
from vllmdoctor.manifests.routing import by_length
from vllmdoctor.manifests.scaling import autoscaling
from vllmdoctor.model import Step

__all__ = ["File", "Place", "artefacts", "place_of", "taken", "write"]

# set in the environment, harmless where they do not apply
ENVIRONMENT = ("expandable-segments", "prefix-cache-retention")


def taken(plan: Sequence[Step], chosen: Sequence[str] = ()) -> tuple[Step, ...]:
    """The steps to write files for: those chosen, else all of use but only the best change of arguments.

    One argument is changed at a time, so that its effect can be told. Raises UnknownName for a step
    that the plan does not hold as useful.
    """
    useful = [s for s in plan if s.verdict in ("helps", "unknown")]
    if chosen:
        for slug in chosen:
            if slug not in {s.slug for s in useful}:
                raise UnknownName("step of use in this plan", slug, [s.slug for s in useful])
        return tuple(s for s in useful if s.slug in chosen)
    first = next((s.slug for s in useful if s.flag and s.verdict == "helps" and words_for(s) is not None), "")
    return tuple(
        s
        for s in useful
        if s.slug == first or (not s.flag and (s.verdict == "helps" or s.slug in ENVIRONMENT))
    )


def artefacts(
    steps: Sequence[Step], launch: Launch | None, place: Place, release: Release, plan: Sequence[Step] = ()
) -> tuple[File, ...]:
    """The files for these steps, README.md last; `plan` is the whole of it, for the README."""
    files: list[File] = list(changes(steps, launch, place))
    chart = values(steps, launch, place)
    if chart is not None:
        files.append(chart)
    for step in steps:
        if step.slug == "rolling-restart":
            files += restart(step, place)
        elif step.slug == "split-traffic-by-length":
            files += by_length(step, place)
        elif step.slug == "add-replica":
            files += autoscaling(step, place, release)
    told = alerts({cause for s in steps for cause in s.treats}, place, release)
    if told is not None and steps:
        files.append(told)
    return (*files, readme(files, steps, plan or steps, place, release))


def write(files: Sequence[File], folder: Path) -> tuple[Path, ...]:
    """Write the files; the folder is made. Raises FileExists before anything is written."""
    if folder.exists() and not folder.is_dir():
        raise FileExists(f"{folder} is no folder", hint="choose another name; nothing is ever overwritten")
    paths = [folder / file.name for file in files]
    for path in paths:
        if path.exists():
            raise FileExists(f"{path} exists", hint="choose an empty folder; nothing is ever overwritten")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for file, path in zip(files, paths, strict=True):
            with path.open("x", encoding="utf-8") as out:
                out.write(file.text)
    except OSError as error:
        raise UsageError(f"{folder} could not be written: {error.strerror or error}") from error
    return tuple(paths)
