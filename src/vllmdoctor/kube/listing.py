"""What there is to look at: the vLLM servers of a place, a row for each workload."""

from collections.abc import Iterable
from dataclasses import dataclass

from vllmdoctor.kube.door import Door, Json
from vllmdoctor.kube.find import Found, find
from vllmdoctor.kube.launches import Launches
from vllmdoctor.kube.names import parse
from vllmdoctor.kube.nouns import Cluster
from vllmdoctor.kube.owners import kind_and_name
from vllmdoctor.kube.pods import Pod, trouble
from vllmdoctor.model import Gap


@dataclass(frozen=True, slots=True)
class Server:
    """A workload, or a pod that nothing owns: `name` as kubectl takes it, pods that run and pods in all."""

    namespace: str
    name: str
    running: int
    pods: int
    version: str
    model: str
    trouble: str


def servers(target: str, cluster: Cluster) -> tuple[list[Server], list[Gap]]:
    """The servers that a target without a name means, and what could not be read. Raises as `find` does."""
    with Door(cluster.access) as door:
        found = find(door, parse(target), cluster.container)
        launches = Launches(door)
        groups: dict[tuple[str, str], list[Pod]] = {}
        for pod in found.pods:
            groups.setdefault((pod.namespace, _name(pod, found.owner(pod))), []).append(pod)
        rows = [_row(place, name, pods, launches, found) for (place, name), pods in sorted(groups.items())]
    return rows, [*found.gaps, *launches.gaps]


def _name(pod: Pod, owner: Json | None) -> str:
    return kind_and_name(owner) if owner else f"pod/{pod.name}"


def _row(place: str, name: str, pods: list[Pod], launches: Launches, found: Found) -> Server:
    launch = launches.read(pods[0], found.owner(pods[0]))
    model = launch.value("--served-model-name") or launch.value("--model") or ""
    return Server(
        namespace=place,
        name=name,
        running=sum(pod.runs for pod in pods),
        pods=len(pods),
        version=launch.version.text if launch.version else "",
        model=model.rstrip("/").rpartition("/")[2] if model.startswith("/") else model,
        trouble=_first(trouble(pod) for pod in pods),
    )


def _first(texts: Iterable[str]) -> str:
    return next(filter(None, texts), "")
