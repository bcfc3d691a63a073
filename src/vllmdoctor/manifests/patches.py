"""Changes of the workload itself: its arguments, image, environment, resources and replicas."""

import json
import re
import shlex
from collections.abc import Iterator, Sequence

from vllmdoctor.launch import Launch
from vllmdoctor.launch_edit import edited, words_for
from vllmdoctor.manifests.files import Document, File, patch
from vllmdoctor.manifests.place import Place
from vllmdoctor.model import Step

_ENVIRONMENT = re.compile(r"\b([A-Z][A-Z0-9_]{4,})=(\S+?)(?=[\s,;.]|$)")
IMAGE = "vllm/vllm-openai"
RESTARTS = "the pods restart; requests that run are lost unless they are drained"


def changes(steps: Sequence[Step], launch: Launch | None, place: Place) -> Iterator[File]:
    """The files for the steps that change the workload."""
    set_ = [
        s for s in steps if s.flag and (words_for(s) is not None or s.after.startswith("num_speculative"))
    ]
    if set_:
        yield _command(set_, launch)
        yield _arguments(set_, launch, place)
    for step in steps:
        if step.slug == "upgrade" and re.match(r"\d", step.after):
            yield _image(step, place)
        elif step.slug == "raise-memory-limit" and step.after:
            body: Document = {"name": place.container, "resources": {"limits": {"memory": step.after}}}
            yield _container("patch-memory.yaml", f"Memory limit {step.after}", body, place)
        elif step.slug == "give-more-cpu":
            body = {"name": place.container, "resources": {"requests": {"cpu": "4"}, "limits": {"cpu": None}}}
            yield _container("patch-cpu.yaml", "CPU: 4 requested, no limit", body, place)
        elif step.slug == "add-replica" and step.after:
            count = {"spec": {"replicas": int(float(step.after.replace(",", "")))}}
            yield patch(
                "patch-replicas.yaml", f"{step.after} replicas", count, place.resource, place.namespace
            )
    given = [pair for s in steps if not s.flag for pair in _ENVIRONMENT.findall(s.action)]
    if given:
        env = [{"name": name, "value": value} for name, value in dict(given).items()]
        told = ", ".join(name for name, _ in given)
        yield _container(
            "patch-env.yaml", f"Environment: {told}", {"name": place.container, "env": env}, place
        )


def _spec(body: Document) -> Document:
    return {"spec": {"template": {"spec": {"containers": [body]}}}}


def _container(name: str, what: str, body: Document, place: Place) -> File:
    return patch(name, what, _spec(body), place.resource, place.namespace, warning=RESTARTS)


def _told(steps: Sequence[Step]) -> str:
    return ", ".join(f"{s.flag} {s.before or 'not set'} -> {s.after or 'removed'}" for s in steps)


def _command(steps: Sequence[Step], launch: Launch | None) -> File:
    """The command, an argument a line; only what changes where the command is not known."""
    if launch is None or not launch.words or not launch.plain:
        parts = [" ".join(map(shlex.quote, words_for(s) or [f"# leave out {s.flag}"])) for s in steps]
        return File(
            "args.txt", "\n".join(parts) + "\n", "The arguments that change (the whole command is not known)"
        )
    words, lines = edited(launch, steps), [""]
    for word in words:
        if word.startswith("--") and lines[-1]:
            lines.append("")
        lines[-1] = f"{lines[-1]} {shlex.quote(word)}".strip()
    return File("args.txt", " \\\n  ".join(lines) + "\n", f"The whole command with {_told(steps)}")


def _arguments(steps: Sequence[Step], launch: Launch | None, place: Place) -> File:
    told = launch.workload if launch else None
    if launch is not None and told is not None and launch.plain and told.field in ("args", "command"):
        body: Document = {"name": place.container, told.field: edited(launch, steps)}
        return _container("patch-args.yaml", f"Arguments: {_told(steps)}", body, place)
    added = [word for s in steps for word in words_for(s) or ()]
    path = f"/spec/template/spec/containers/{place.index}/args/-"
    text = json.dumps([{"op": "add", "path": path, "value": word} for word in added], indent=1) + "\n"
    command = f"kubectl -n {place.namespace} patch {place.resource} --type json --patch-file patch-args.json"
    return File(
        "patch-args.json",
        text,
        f"Arguments at the end of the list, where the last one counts: {_told(steps)}",
        look=f"{command} --dry-run=server -o yaml | kubectl diff -f -",
        apply=command,
        warning=f"the container must be number {place.index} and have an `args` list; give the manifest "
        f"(--args-file) for a patch of the whole list; {RESTARTS}",
    )


def _image(step: Step, place: Place) -> File:
    release = step.after.split()[0]
    repository = place.image.rpartition(":")[0] if ":" in place.image.rpartition("/")[2] else place.image
    image = f"{repository or IMAGE}:v{release}"
    command = f"kubectl -n {place.namespace} set image {place.resource} {place.container}={image}"
    made = _container("patch-image.yaml", f"Image {image}", {"name": place.container, "image": image}, place)
    return File(
        made.name,
        made.text,
        made.what,
        made.look,
        f"{made.apply}   # or: {command}",
        "check that the tag exists for your repository; compare answers and speed before and after",
        made.objects,
    )
