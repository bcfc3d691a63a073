"""A file to be written: its name, its text, what it is and how to look at it and apply it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from vllmdoctor.launch_yaml import dump_all

Document = dict[str, Any]


@dataclass(frozen=True, slots=True)
class File:
    """`look` and `apply` are command lines ("" where there is none); `objects` what a YAML file holds."""

    name: str
    text: str
    what: str
    look: str = ""
    apply: str = ""
    warning: str = ""
    objects: tuple[Document, ...] = ()


def manifest(name: str, what: str, objects: Sequence[Document], *, warning: str = "", note: str = "") -> File:
    """A file of whole objects, applied as a whole."""
    head = f"# {what}. Written by vllmdoctor; nothing was applied.\n" + "".join(
        f"# {line}\n" for line in (note, warning and f"Beware: {warning}") if line
    )
    return File(
        name,
        head + dump_all(list(objects)),
        what,
        look=f"kubectl diff -f {name}",
        apply=f"kubectl apply -f {name}",
        warning=warning,
        objects=tuple(objects),
    )


def patch(name: str, what: str, body: Document, resource: str, namespace: str, *, warning: str = "") -> File:
    """A strategic merge patch of the workload."""
    command = f"kubectl -n {namespace} patch {resource} --type strategic --patch-file {name}"
    head = f"# {what}: a strategic merge patch of {resource}. Written by vllmdoctor; nothing was applied.\n"
    return File(
        name,
        head + dump_all([body]),
        what,
        look=f"{command} --dry-run=server -o yaml | kubectl diff -f -",
        apply=command,
        warning=warning,
        objects=(body,),
    )
