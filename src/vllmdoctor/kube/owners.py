"""Who made a pod, and who made that: the workload that is changed to change the pod."""

from collections.abc import Iterable, Iterator, Sequence

from vllmdoctor.errors import SourceError
from vllmdoctor.kube.answers import ORIGIN, Expired, NotThere, gap_of
from vllmdoctor.kube.door import Door, Json
from vllmdoctor.kube.kinds import BY_TITLE
from vllmdoctor.kube.nouns import KEPT
from vllmdoctor.kube.pods import Pod
from vllmdoctor.model import Gap


def owners_of(door: Door, pods: Sequence[Pod]) -> tuple[dict[tuple[str, str], Json], list[Gap]]:
    """(who made each pod, by its namespace and name, each asked once; what could not be told).

    That is a ReplicaSet's Deployment, a StatefulSet, or another kind's object.
    """
    owners: dict[tuple[str, str], Json] = {}
    gaps: list[Gap] = []
    known: dict[tuple[str, str, str], Json | None] = {}
    told: set[str] = set()

    def ask(namespace: str, title: str, name: str) -> Json | None:
        key = (namespace, title, name)
        if key not in known and title in BY_TITLE:
            kind = BY_TITLE[title]
            known[key] = None
            try:
                known[key] = door.one(kind, namespace, name)
            except Expired:
                raise
            except SourceError as error:
                if kind.plural not in told and not isinstance(error, NotThere):
                    told.add(kind.plural)
                    gaps.append(gap_of(error, f"the {kind.title} of the pods"))
        return known.get(key)

    for pod in pods:
        title, name = controller(pod.object)
        if title == "ReplicaSet":
            between = ask(pod.namespace, title, name)
            title, name = controller(between) if between else guessed(pod.object)
        owner = ask(pod.namespace, title, name) if title else None
        if owner is not None:
            owners[pod.namespace, pod.name] = {"kind": title} | owner
    return owners, gaps


def controller(found: Json) -> tuple[str, str]:
    """(kind, name) of the object that made one; ("", "") where nobody did."""
    for reference in found["metadata"].get("ownerReferences") or ():
        if reference.get("controller"):
            return str(reference["kind"]), str(reference["name"])
    return "", ""


def guessed(pod: Json) -> tuple[str, str]:
    """A pod's Deployment by its ReplicaSet's name, where that may not be read."""
    _, name = controller(pod)
    mark = str((pod["metadata"].get("labels") or {}).get("pod-template-hash", ""))
    return ("Deployment", name.removesuffix(f"-{mark}")) if mark and name.endswith(f"-{mark}") else ("", "")


def kind_and_name(owner: Json) -> str:
    """An object as kubectl names it: deployment/vllm."""
    return f"{str(owner.get('kind', '')).lower()}/{owner['metadata']['name']}"


def made_by(owners: Iterable[Json]) -> Iterator[Gap]:
    """What undoes a patch: an operator that owns the workload itself."""
    for owner in {id(o): o for o in owners}.values():
        title, name = controller(owner)
        if title:
            yield Gap(
                ORIGIN,
                f"{KEPT} {kind_and_name(owner)}",
                f"{title}/{name} makes it, and undoes what others change",
                f"change {title.lower()}/{name} instead",
            )
