"""What a plan must know of a workload in a cluster: its command, its names, and what stands in front."""

from dataclasses import dataclass

from vllmdoctor.errors import SourceError
from vllmdoctor.kube.answers import Expired
from vllmdoctor.kube.door import Door
from vllmdoctor.kube.find import find
from vllmdoctor.kube.launches import Launches
from vllmdoctor.kube.names import parse
from vllmdoctor.kube.nouns import NO_PROMETHEUS, Cluster
from vllmdoctor.kube.pods import Pod
from vllmdoctor.launch import Launch
from vllmdoctor.sources.kube.history import address_of


@dataclass(frozen=True, slots=True)
class Deployed:
    """A launch with its workload, the Service in front of its pods and the Prometheus as pods see it ("")."""

    launch: Launch
    service: str
    prometheus: str


def read_deployed(target: str, cluster: Cluster) -> Deployed:
    """What the target's first pod tells. Raises as `find` does."""
    with Door(cluster.access) as door:
        found = find(door, parse(target), cluster.container)
        pod = found.pods[0]
        launch = Launches(door).read(pod, found.owner(pod))
        prometheus = "" if cluster.prometheus == NO_PROMETHEUS else address_of(door, found)
        return Deployed(launch, _service(door, pod), cluster.prometheus or prometheus)


def _service(door: Door, pod: Pod) -> str:
    """The Service that selects the pod; of several the one with a usual port. "" where it cannot be told."""
    try:
        services = door.listed("api/v1", "services", pod.namespace)
    except Expired:
        raise
    except SourceError:
        return ""
    labels = pod.object["metadata"].get("labels") or {}
    chosen = [
        str(s["metadata"]["name"])
        for s in services
        if (wanted := (s.get("spec") or {}).get("selector"))
        and all(labels.get(key) == value for key, value in wanted.items())
        and (s["spec"].get("clusterIP") != "None" or len(services) == 1)
    ]
    return chosen[0] if chosen else ""
