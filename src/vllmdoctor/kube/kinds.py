"""The kinds that run vLLM servers, in one table: where they are and how their pods are found."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

How = Literal["itself", "selector", "label"]


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of object.

    `name` is its singular name in lower case, `path` the start of its paths ("api/v1", "apis/apps/v1"),
    `plural` its resource; "" where there is no such object in the cluster (a Helm release). Its pods
    are found by the object's own selector, or by `label`, with `{}` for its name. `containers` of that
    name are the server's, `port` is what it serves on where nothing else tells.
    """

    name: str
    title: str
    path: str
    plural: str
    short: tuple[str, ...] = ()
    how: How = "label"
    label: str = ""
    container: str = ""
    port: int = 8000

    @property
    def group(self) -> str:
        """The API group; "" for the core."""
        return self.path.split("/")[1] if self.path.startswith("apis/") else ""

    @property
    def resource(self) -> str:
        """As kubectl and its errors name it: deployments.apps."""
        return f"{self.plural}.{self.group}" if self.group else self.plural


_ALL = (
    Kind("pod", "Pod", "api/v1", "pods", ("po",), "itself"),
    Kind("deployment", "Deployment", "apis/apps/v1", "deployments", ("deploy",), "selector"),
    Kind("statefulset", "StatefulSet", "apis/apps/v1", "statefulsets", ("sts",), "selector"),
    Kind("replicaset", "ReplicaSet", "apis/apps/v1", "replicasets", ("rs",), "selector"),
    Kind("daemonset", "DaemonSet", "apis/apps/v1", "daemonsets", ("ds",), "selector"),
    Kind("service", "Service", "api/v1", "services", ("svc",), "selector"),
    # only the leaders of the groups serve
    Kind(
        "leaderworkerset",
        "LeaderWorkerSet",
        "apis/leaderworkerset.x-k8s.io/v1",
        "leaderworkersets",
        ("lws",),
        label="leaderworkerset.sigs.k8s.io/name={},leaderworkerset.sigs.k8s.io/worker-index=0",
    ),
    Kind(
        "inferenceservice",
        "InferenceService",
        "apis/serving.kserve.io/v1beta1",
        "inferenceservices",
        ("isvc",),
        label="serving.kserve.io/inferenceservice={}",
        container="kserve-container",
        port=8080,
    ),
    # its router's scheduler, and the workers of its groups, have the same name and serve nothing
    Kind(
        "llminferenceservice",
        "LLMInferenceService",
        "apis/serving.kserve.io/v1alpha1",
        "llminferenceservices",
        ("llmisvc",),
        label="app.kubernetes.io/name={},app.kubernetes.io/component notin "
        "(llminferenceservice-router-scheduler,llminferenceservice-workload-worker)",
    ),
    Kind(
        "rayservice",
        "RayService",
        "apis/ray.io/v1",
        "rayservices",
        label="ray.io/cluster={}",
        container="ray-head",
        port=8080,
    ),
    Kind(
        "raycluster",
        "RayCluster",
        "apis/ray.io/v1",
        "rayclusters",
        label="ray.io/cluster={}",
        container="ray-head",
        port=8080,
    ),
    # a release of vLLM's production-stack chart: Helm has no object of its own for it
    Kind("helm", "Helm release", "", "", ("release",), label="helm-release-name={}", container="vllm"),
)

KINDS: Mapping[str, Kind] = MappingProxyType({kind.name: kind for kind in _ALL})
BY_TITLE: Mapping[str, Kind] = MappingProxyType({kind.title: kind for kind in _ALL})
_BY_WORD: Mapping[str, Kind] = MappingProxyType(
    {word: kind for kind in _ALL for word in (kind.name, kind.plural, *kind.short) if word}
)


def kind_of(word: str) -> Kind | None:
    """The kind that a word means as kubectl reads it: deploy, deployments, Deployment, deployments.apps."""
    plain, _, group = word.lower().partition(".")
    kind = _BY_WORD.get(plain)
    if kind is None or not group:
        return kind
    version = kind.path.rpartition("/")[2]
    return kind if group in (kind.group, f"{version}.{kind.group}") else None


def words() -> tuple[str, ...]:
    """Every word that names a kind."""
    return tuple(_BY_WORD)
