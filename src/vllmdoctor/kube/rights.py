"""What is read in a cluster, which right each reading needs, and what is lost without it: one table.

It drives `vllmdoctor rbac`, and the words for every 403.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal

from vllmdoctor.errors import UnknownName
from vllmdoctor.kube.kinds import KINDS

Where = Literal["pods", "monitoring", "cluster"]


@dataclass(frozen=True, slots=True)
class Right:
    """Verbs on a resource of a group, and what is lost without them.

    `where` is the pods' namespace, that of the monitoring, or none: what belongs to the whole cluster.
    """

    group: str
    resource: str
    verbs: tuple[str, ...]
    lost: str
    where: Where = "pods"

    @property
    def full(self) -> str:
        """The resource with its group, as kubectl names it."""
        return f"{self.resource}.{self.group}" if self.group else self.resource


@dataclass(frozen=True, slots=True)
class Feature:
    """Something that is read. `usual`: without being asked for."""

    name: str
    what: str
    rights: tuple[Right, ...]
    usual: bool = True

    @property
    def words(self) -> str:
        """Its rights, as in `get,list pods`."""
        return "; ".join(f"{','.join(r.verbs)} {r.full}" for r in self.rights)


def _read(kind: str, lost: str) -> Right:
    return Right(KINDS[kind].group, KINDS[kind].plural, ("get", "list"), lost)


_CHAIN = "who owns the pods, their replicas, and what to patch"
_ROLLOUTS = "which change was rolled out when"
_SCALERS = "whether something scales the replicas"
# Since 1.35 a stream over WebSocket needs create besides get (kubernetes/kubernetes pull request 134577).
_STREAM = ("get", "create")
_GROUP = "rbac.authorization.k8s.io"
_NAME = "vllmdoctor"

FEATURES: Mapping[str, Feature] = MappingProxyType(
    {
        feature.name: feature
        for feature in (
            Feature("pods", "the pods, their arguments, limits and restarts", (
                _read("pod", "everything: the pods are not known"),
            )),
            Feature("metrics", "each pod's /metrics, through the API server", (
                Right("", "pods/proxy", ("get",), "the pods' metrics by way of the API server"),
            )),
            Feature("logs", "settings, statistics and trouble in the logs", (
                Right("", "pods/log", ("get",), "what the logs tell of settings, errors and the time before"),
            )),
            Feature("events", "why a pod waits, was killed or was moved", (
                Right("", "events", ("list",), "why pods wait, are killed or are moved"),
            )),
            Feature("workloads", "deployments and stateful sets, and what was rolled out when", (
                _read("deployment", _CHAIN),
                _read("statefulset", _CHAIN),
                _read("daemonset", _CHAIN),
                _read("replicaset", _ROLLOUTS),
                Right("apps", "controllerrevisions", ("list",), _ROLLOUTS),
            )),
            Feature("configmaps", "arguments and settings that stand in ConfigMaps", (
                Right("", "configmaps", ("get",), "arguments that stand in a ConfigMap"),
            )),
            Feature("scaling", "autoscalers and disruption budgets", (
                Right("autoscaling", "horizontalpodautoscalers", ("list",), _SCALERS),
                Right("keda.sh", "scaledobjects", ("list",), _SCALERS),
                Right("policy", "poddisruptionbudgets", ("list",), "whether a drain may take all replicas"),
            )),
            Feature("services", "Services by name, and what is in front of the pods", (
                _read("service", "the Service in front of the pods"),
            )),
            Feature("nodes", "the nodes' pressure and GPUs", (
                Right("", "nodes", ("get",), "the nodes' pressure, GPUs and driver", "cluster"),
            )),
            Feature("prometheus", "the history that a Prometheus in the cluster keeps", (
                Right("", "services", ("get", "list"), "the search for a Prometheus", "monitoring"),
                Right("", "services/proxy", ("get",), "the history that a Prometheus keeps", "monitoring"),
            )),
            Feature("leaderworkerset", "LeaderWorkerSets by name", (
                _read("leaderworkerset", _CHAIN),
            ), False),
            Feature("kserve", "InferenceServices by name", (
                _read("inferenceservice", _CHAIN),
                _read("llminferenceservice", _CHAIN),
            ), False),
            Feature("ray", "RayServices and RayClusters by name", (
                _read("rayservice", _CHAIN),
                _read("raycluster", _CHAIN),
            ), False),
            Feature("port-forward", "each pod's /metrics where the proxy is refused", (
                Right("", "pods/portforward", _STREAM, "the pods' metrics by port-forward"),
            ), False),
            Feature("exec", "nvidia-smi inside the containers (--exec)", (
                Right("", "pods/exec", _STREAM, "the GPUs' figures by nvidia-smi"),
            ), False),
        )
    }
)  # fmt: skip


def right_for(group: str, resource: str) -> Right | None:
    """The right that reading a resource takes."""
    return next(
        (r for f in FEATURES.values() for r in f.rights if (r.group, r.resource) == (group, resource)), None
    )


def words_for(group: str, resource: str) -> str:
    """The command that prints a Role with the right; with the feature's name where it is not a usual one."""
    of = [f for f in FEATURES.values() if any((r.group, r.resource) == (group, resource) for r in f.rights)]
    unusual = of and not any(f.usual for f in of)
    return f"vllmdoctor rbac --with {of[0].name}" if unusual else "vllmdoctor rbac"


def chosen(names: Iterable[str]) -> tuple[Feature, ...]:
    """The features of these names, or the usual ones where there is none. Raises UnknownName."""
    names = tuple(names)
    for name in names:
        if name not in FEATURES:
            raise UnknownName("feature", name, FEATURES)
    return tuple(f for f in FEATURES.values() if (f.name in names if names else f.usual))


@dataclass(frozen=True, slots=True)
class Subject:
    """Who gets the rights: a user, or a service account that is made with them."""

    name: str
    namespace: str = ""

    @property
    def reference(self) -> dict[str, str]:
        """As a binding names it."""
        if self.namespace:
            return {"kind": "ServiceAccount", "name": self.name, "namespace": self.namespace}
        return {"kind": "User", "name": self.name, "apiGroup": _GROUP}


def manifests(
    features: Sequence[Feature], subject: Subject, *, namespace: str, monitoring: str, everywhere: bool
) -> list[dict[str, Any]]:
    """Roles with the rights that the features take, each bound to the subject, and a service account.

    `everywhere` gives the rights to the pods of every namespace, not of one.
    """
    made: list[dict[str, Any]] = []
    if subject.namespace:
        made.append({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": _meta(subject.namespace)})
    rights: dict[str, list[Right]] = {}
    for right in (r for f in features for r in f.rights):
        wide = right.where == "cluster" or (everywhere and right.where == "pods")
        place = "" if wide else monitoring if right.where == "monitoring" else namespace
        rights.setdefault(place, []).append(right)
    for place, told in sorted(rights.items(), key=lambda each: not each[0]):
        kind = "Role" if place else "ClusterRole"
        head = {"apiVersion": f"{_GROUP}/v1"}
        made.append({**head, "kind": kind, "metadata": _meta(place), "rules": _rules(told)})
        made.append(
            {
                **head,
                "kind": f"{kind}Binding",
                "metadata": _meta(place),
                "roleRef": {"apiGroup": _GROUP, "kind": kind, "name": _NAME},
                "subjects": [subject.reference],
            }
        )
    return made


def _meta(namespace: str) -> dict[str, Any]:
    place = {"namespace": namespace} if namespace else {}
    return {"name": _NAME, **place, "labels": {"app.kubernetes.io/name": _NAME}}


def _rules(rights: Iterable[Right]) -> list[dict[str, Any]]:
    """One rule for the resources of a group that need the same verbs."""
    verbs: dict[tuple[str, str], set[str]] = {}
    for right in rights:
        verbs.setdefault((right.group, right.resource), set()).update(right.verbs)
    rules: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for (group, resource), wanted in verbs.items():
        ordered = tuple(v for v in ("get", "list", "create") if v in wanted)
        rules.setdefault((group, ordered), []).append(resource)
    return [
        {"apiGroups": [group], "resources": resources, "verbs": list(ordered)}
        for (group, ordered), resources in rules.items()
    ]
