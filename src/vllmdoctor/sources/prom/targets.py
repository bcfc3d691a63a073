"""Which servers a Prometheus knows, what they are called, and what else belongs to them.

A server is what one scrape target shows. Its name is its pod, or its address where there is no
pod; pods of one name are told apart by namespace and cluster, servers in one pod by their port.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

POD_LABELS = ("pod", "kubernetes_pod_name", "pod_name")
NAMESPACE_LABELS = ("namespace", "kubernetes_namespace", "kube_namespace")
NODE_LABELS = ("node", "Hostname", "kubernetes_node", "nodename", "node_name")
REPLICA_LABELS = (
    *("prometheus_replica", "replica", "__replica__", "prometheus", "receive", "monitor"),
    *("job", "service", "endpoint", "scrape_job", "cluster"),
)
"""Labels in which two copies of one series may differ, in the order in which one copy is chosen."""


@dataclass(frozen=True, slots=True)
class Scheme:
    """Which of the usual labels this Prometheus uses; "" where none."""

    pod: str
    namespace: str
    cluster: str
    model: str

    @property
    def by(self) -> tuple[str, ...]:
        """The labels that tell servers and engines apart."""
        own = (self.pod, self.namespace, self.cluster, self.model)
        return ("instance", *(label for label in own if label), "engine", "model_name")

    def key(self, labels: Mapping[str, str]) -> tuple[str, str, str, str]:
        """What tells a server from others: its address, pod, namespace and cluster."""
        own = (self.pod, self.namespace, self.cluster)
        return (labels.get("instance", ""), *(labels.get(n, "") if n else "" for n in own))  # type: ignore[return-value]


@dataclass(frozen=True, slots=True)
class Target:
    """One scrape target that shows vLLM's series."""

    name: str
    instance: str
    pod: str
    namespace: str
    cluster: str
    job: str
    container: str
    node: str

    @property
    def host(self) -> str:
        """The address without its port."""
        host, colon, port = self.instance.rpartition(":")
        return host if colon and port.isdigit() else self.instance


def scheme_of(found: Sequence[Mapping[str, str]]) -> Scheme:
    """The labels in use among the series of servers."""

    def first(names: Iterable[str]) -> str:
        return next((n for n in names if any(labels.get(n) for labels in found)), "")

    clusters = {labels.get("cluster", "") for labels in found}
    with_model = any("model" in labels and "model_name" not in labels for labels in found)
    return Scheme(
        first(POD_LABELS),
        first(NAMESPACE_LABELS),
        "cluster" if len(clusters) > 1 else "",
        "model" if with_model else "",
    )


def targets_of(found: Sequence[Mapping[str, str]], scheme: Scheme) -> dict[tuple[str, str, str, str], Target]:
    """The servers by their key, each with a name that no other server has."""
    labels_of = {scheme.key(labels): labels for labels in found}
    names = _names(labels_of)
    targets = {}
    for key, labels in labels_of.items():
        node = next((labels[n] for n in NODE_LABELS if labels.get(n)), "")
        instance, pod, namespace, cluster = key
        targets[key] = Target(
            names[key],
            instance,
            pod,
            namespace,
            cluster,
            labels.get("job", ""),
            labels.get("container", ""),
            node,
        )
    return targets


def _names(keys: Collection[tuple[str, str, str, str]]) -> dict[tuple[str, str, str, str], str]:
    places: dict[str, set[tuple[str, str]]] = defaultdict(set)
    ports: dict[tuple[str, str, str, str], set[str]] = defaultdict(set)
    for instance, pod, namespace, cluster in keys:
        places[pod or instance].add((namespace, cluster))
        if pod:
            host, _, port = instance.rpartition(":")
            ports[host, pod, namespace, cluster].add(port)
    names = {}
    for key in keys:
        instance, pod, namespace, cluster = key
        name = pod or instance or "prometheus"
        if len({n for n, _ in places[pod or instance]}) > 1:
            name = f"{namespace}/{name}"
        if len({c for _, c in places[pod or instance]}) > 1:
            name = f"{cluster}/{name}"
        host, _, port = instance.rpartition(":")
        if pod and len(ports[host, pod, namespace, cluster]) > 1:
            name = f"{name}:{port}"
        names[key] = name
    return names


def single_copy(live: Sequence[Mapping[str, str]], scheme: Scheme) -> tuple[str, str]:
    """(label, value) to keep where the same series comes in several copies at one time; ("", "") if not.

    Two jobs that scrape the same pods, or two Prometheis that write to one store, would count all
    work twice.
    """
    copies: dict[tuple[str, ...], list[Mapping[str, str]]] = defaultdict(list)
    for labels in live:
        copies[tuple(labels.get(n, "") for n in scheme.by)].append(labels)
    doubled = [group for group in copies.values() if len(group) > 1]
    if not doubled:
        return "", ""
    for label in REPLICA_LABELS:
        values = {labels.get(label, "") for group in doubled for labels in group}
        for value in sorted(values, reverse=True):
            kept = [labels for labels in live if labels.get(label, "") == value]
            if len(kept) == len(copies) == len({tuple(k.get(n, "") for n in scheme.by) for k in kept}):
                return label, value
    return "", ""


def workload_of(pod: str) -> set[str]:
    """The names that the deployment or stateful set of a pod may have, judged by the pod's name."""
    parts = pod.split("-")
    found = set()
    if len(parts) > 2 and len(parts[-1]) == 5 and parts[-2].isalnum():
        found.add("-".join(parts[:-2]))
    if len(parts) > 1 and parts[-1].isdigit():
        found.add("-".join(parts[:-1]))
    return found
