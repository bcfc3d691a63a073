"""A cluster that can be set up in a line or two, and is read over the network by what is tested."""

import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import yaml
from tests.kubernetes.apiserver.faults import Fault, Wrong
from tests.kubernetes.apiserver.kinds import named
from tests.kubernetes.apiserver.manifests import Object, made, node, stamp
from tests.kubernetes.apiserver.pod import Backend, Pod
from tests.kubernetes.apiserver.rules import ALL, Rule, User, rules_of
from tests.kubernetes.apiserver.store import Store
from tests.kubernetes.apiserver.workloads import Workload, Workloads

if TYPE_CHECKING:
    from tests.kubernetes.apiserver.asked import Asked

NODES = ("gpu-node-1", "gpu-node-2", "gpu-node-3")


class Cluster(Workloads):
    """Objects, users with their rights, what goes wrong, and the log of what was asked."""

    def __init__(self, version: str = "v1.33.1") -> None:
        super().__init__(Store())
        self.version = version
        self.creates_streams = False  # from 1.35 on, a stream over WebSocket takes the verb create as well
        self.users: dict[str, User] = {}
        self.faults: list[Fault] = []
        self.log: list[Asked] = []
        self.refused: list[Asked] = []  # those of the log that the user may not ask
        self.services: dict[tuple[str, str], tuple[str, int]] = {}
        for name in NODES:
            self.add(node(name, 8, "NVIDIA-H100-80GB-HBM3"))
        for namespace in ("default", "kube-system", "inference"):
            self.namespace(namespace)

    # --- objects beside the workloads -------------------------------------------------------------

    def service(
        self,
        name: str,
        of: Workload | None = None,
        *,
        namespace: str = "inference",
        port: int = 80,
        target: int | str = "http",
        backend: Backend | None = None,
        labels: Mapping[str, str] | None = None,
    ) -> Object:
        """A service before a workload's pods, or before a backend outside of any pod."""
        selector = dict(of.selector) if of else {"app": name}
        ports = [{"name": "http", "port": port, "targetPort": target, "protocol": "TCP"}]
        spec = {"selector": selector, "ports": ports, "type": "ClusterIP", "clusterIP": "10.96.0.80"}
        service = made("Service", name, namespace, labels=dict(labels or selector), spec=spec, status={})
        if backend is not None:
            self.services[namespace, name] = backend.address
        self.namespace(namespace)
        return self.add(service)

    def config_map(self, name: str, data: Mapping[str, str], namespace: str = "inference") -> Object:
        """A ConfigMap."""
        return self.add(made("ConfigMap", name, namespace, data=dict(data)))

    def event(
        self, about: Pod | Object, reason: str, message: str, *, kind: str = "Warning", ago_s: float = 60.0,
        count: int = 1,
    ) -> Object:  # fmt: skip
        """Something that happened to an object."""
        item = about.object if isinstance(about, Pod) else about
        metadata = item["metadata"]
        involved = {key: metadata[key] for key in ("name", "uid", "namespace") if key in metadata}
        involved |= {"kind": item["kind"], "apiVersion": item["apiVersion"]}
        last = time.time() - ago_s
        number = len(self.store.objects.get(named("Event"), {}))
        return self.add(
            made(
                "Event",
                f"{metadata['name']}.{number:016x}",
                metadata.get("namespace", "default"),
                involvedObject=involved,
                reason=reason,
                message=message,
                type=kind,
                count=count,
                firstTimestamp=stamp(last - 30.0 * (count - 1)),
                lastTimestamp=stamp(last),
                source={"component": "kubelet"},
            )
        )

    def autoscaler(self, of: Workload, low: int = 1, high: int = 4) -> Object:
        """A HorizontalPodAutoscaler on a workload."""
        target = {key: of.object[key] for key in ("apiVersion", "kind")} | {"name": of.name}
        spec = {"scaleTargetRef": target, "minReplicas": low, "maxReplicas": high}
        spec["metrics"] = [
            {
                "type": "Resource",
                "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}},
            }
        ]
        status = {"currentReplicas": len(of.pods), "desiredReplicas": len(of.pods)}
        return self.add(made("HorizontalPodAutoscaler", of.name, of.namespace, spec=spec, status=status))

    def scaled_object(self, of: Workload, query: str, threshold: str = "5") -> Object:
        """A ScaledObject of KEDA on a workload."""
        trigger = {"serverAddress": "http://prometheus:9090", "query": query, "threshold": threshold}
        spec = {
            "scaleTargetRef": {"name": of.name},
            "minReplicaCount": 1,
            "maxReplicaCount": 4,
            "triggers": [{"type": "prometheus", "metadata": trigger}],
        }
        return self.add(made("ScaledObject", of.name, of.namespace, spec=spec))

    def disruption_budget(self, of: Workload, least: int = 1) -> Object:
        """A PodDisruptionBudget over a workload's pods."""
        spec = {"minAvailable": least, "selector": {"matchLabels": dict(of.selector)}}
        status = {"currentHealthy": len(of.pods), "desiredHealthy": least, "expectedPods": len(of.pods)}
        return self.add(made("PodDisruptionBudget", of.name, of.namespace, spec=spec, status=status))

    # --- who may do what --------------------------------------------------------------------------

    def user(self, name: str = "doctor", rules: Sequence[Rule] = (ALL,), *, token: str = "") -> User:
        """Someone with a token, who may do everything where no rules are given."""
        user = User(name, token or f"token-of-{name}", list(rules))
        self.users[user.token] = user
        return user

    def expire(self, user: User) -> None:
        """His token is no longer good."""
        self.users.pop(user.token, None)

    def apply_rbac(self, text: str) -> User:
        """What `kubectl apply` makes of printed RBAC: the one subject of its bindings, with their rules."""
        documents = [d for d in yaml.safe_load_all(text) if d]
        items = [i for d in documents for i in (d["items"] if d["kind"] == "List" else [d])]
        roles = {(i["kind"], i["metadata"].get("namespace"), i["metadata"]["name"]): i for i in items}
        users: dict[str, User] = {}
        for item in items:
            self.add(item)
            if item["kind"] not in ("RoleBinding", "ClusterRoleBinding"):
                continue
            namespace = item["metadata"].get("namespace") if item["kind"] == "RoleBinding" else None
            to = item["roleRef"]
            role = roles[to["kind"], namespace if to["kind"] == "Role" else None, to["name"]]
            for subject in item["subjects"]:
                name = _subject(subject, namespace)
                user = users.get(name) or self.user(name, ())
                users[name] = user
                user.rules.extend(rules_of(role, namespace))
        (user,) = users.values()
        return user

    # --- what goes wrong --------------------------------------------------------------------------

    def spoil(self, wrong: Wrong, **where: Any) -> Fault:
        """Requests that match `where` get this instead; `Fault` has the words for it."""
        fault = Fault(wrong, **where)
        self.faults.append(fault)
        return fault


def _subject(subject: Mapping[str, str], namespace: str | None) -> str:
    if subject["kind"] == "ServiceAccount":
        return f"system:serviceaccount:{subject.get('namespace', namespace)}:{subject['name']}"
    return subject["name"]
