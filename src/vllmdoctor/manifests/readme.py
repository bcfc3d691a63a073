"""The page beside the files: what each is, how to look at it, how to apply it, what to beware of."""

from collections.abc import Sequence

from vllmdoctor.flags import Release
from vllmdoctor.launch_yaml import dump_all
from vllmdoctor.manifests.files import File
from vllmdoctor.manifests.place import UNKNOWN, Place
from vllmdoctor.manifests.scaling import adapter_rules
from vllmdoctor.model import Step


def readme(
    files: Sequence[File], steps: Sequence[Step], plan: Sequence[Step], place: Place, release: Release
) -> File:
    """README.md of a written plan."""
    parts = [
        f"# Plan for {place.resource} in namespace {place.namespace}",
        "Written by vllmdoctor. **Nothing was applied.** Look at each file, then apply one change at a "
        "time and "
        "compare a recording made afterwards with one made before.",
        *_warnings(files, place),
        *_placeholders(files),
        *(_file(file) for file in files),
        *_steps(steps, plan),
    ]
    if any(f.name == "hpa.yaml" for f in files):
        parts.append(
            "## Rules for prometheus-adapter\n\nMerge into its values, so that the HPA finds its "
            "metrics:\n\n```yaml\n" + dump_all([adapter_rules(release)]) + "```"
        )
    return File("README.md", "\n\n".join(parts) + "\n", "What to do with these files")


def _warnings(files: Sequence[File], place: Place) -> list[str]:
    lines = list(dict.fromkeys(f"- {f.warning}." for f in files if f.warning))
    if place.replicas == 1 and any(f.name.startswith("patch-") for f in files):
        lines.insert(
            0,
            "- a single replica runs: every change that restarts it is an outage until the model is loaded.",
        )
    return ["## Beware\n\n" + "\n".join(lines)] if lines else []


def _placeholders(files: Sequence[File]) -> list[str]:
    if not any(UNKNOWN in f.text for f in files):
        return []
    return [
        f"## To be filled in\n\nNames that were not known stand as `{UNKNOWN}-...`. Find them with\n\n```sh\n"
        f"grep -n {UNKNOWN} *\n```\n\nor let `vllmdoctor plan` fill them in: `--args-file "
        f"deployment.yaml`, or "
        "`--namespace`, `--deployment`, `--container`, `--label`, `--service`, `--gateway`, `--prometheus`."
    ]


def _file(file: File) -> str:
    lines = [f"## {file.name}", file.what + "."]
    commands = [c for c in (file.look, file.apply) if c]
    if commands:
        lines.append("```sh\n" + "\n".join(commands) + "\n```")
    if file.warning:
        lines.append(f"Beware: {file.warning}.")
    return "\n\n".join(lines)


def _steps(steps: Sequence[Step], plan: Sequence[Step]) -> list[str]:
    done = {s.slug for s in steps}
    rest = [s for s in plan if s.verdict in ("helps", "unknown") and s.slug not in done]
    lines = [f"- **{s.title}**: {s.action} Verify: {s.verify or 'as the report says'}." for s in steps]
    parts = ["## The steps\n\n" + "\n".join(lines)] if lines else []
    if rest:
        told = [f"- {s.title} (`--take {s.slug}`): {s.action}" for s in rest]
        parts.append(
            "## Not in these files\n\nTry these when the first did not suffice:\n\n" + "\n".join(told)
        )
    return parts
