"""What a person says of a cluster on the command line, and what a target names."""

from collections.abc import Callable
from dataclasses import dataclass, field

EVERYWHERE = "*"
"""The namespace of a target that means all of them."""

KEPT = "what keeps a change of"
"""Begins the Gap that tells that a workload is made by something that undoes changes of it."""

NO_PROMETHEUS = "none"
"""In place of a Prometheus' address: none is to be asked."""


@dataclass(frozen=True, slots=True)
class Access:
    """Which cluster, as whom: kubectl's own options, "" where they were not given.

    `namespace` is that of targets that name none.
    """

    kubeconfig: str = ""
    context: str = ""
    cluster: str = ""
    user: str = ""
    namespace: str = ""


@dataclass(frozen=True, slots=True)
class Cluster:
    """How a cluster is read.

    `container` overrides the choice of the container, `since_s` is how far back logs are read (None: an
    hour, for settings and trouble; their statistics only where a single pod has no other history),
    `execute` allows nvidia-smi to be run in the containers, `prometheus` is an address, "" for what is
    found in the cluster, or "none". `tell` hears how far it is, and "" at the end.
    """

    access: Access = field(default_factory=Access)
    container: str = ""
    since_s: float | None = None
    execute: bool = False
    prometheus: str = ""
    tell: Callable[[str], object] | None = None


@dataclass(frozen=True, slots=True)
class Named:
    """What a target names: one object of a kind, or with name "" the pods that a selector picks."""

    namespace: str
    kind: str
    name: str
    selector: str = ""

    def __str__(self) -> str:
        place = f"k8s://{self.namespace}/{self.kind}"
        if self.name:
            return f"{place}/{self.name}"
        return f"{place}?{self.selector}" if self.selector else place
