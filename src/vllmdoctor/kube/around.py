"""What stands around a workload: its nodes, what scales it, what protects it from a drain."""

import re
from collections.abc import Iterator

from vllmdoctor.errors import SourceError
from vllmdoctor.kube.answers import Expired, NotThere, gap_of, words
from vllmdoctor.kube.door import Door, Json
from vllmdoctor.kube.find import Found
from vllmdoctor.kube.owners import kind_and_name
from vllmdoctor.kube.pods import Pod, gpus_of, moment
from vllmdoctor.model import Event, Fact, Gap, Observation

ORIGIN = "kubernetes"
_MOST_NODES = 20
_QUANTITY = re.compile(r"(\d+(?:\.\d+)?)(m|k|M|G|T|Ki|Mi|Gi|Ti)?")
_UNITS = {
    None: 1.0, "m": 1e-3, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12,
    "Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40,
}  # fmt: skip
_SCALERS = (
    ("apis/autoscaling/v2", "horizontalpodautoscalers"),
    ("apis/keda.sh/v1alpha1", "scaledobjects"),
)
_PRESSURE = ("MemoryPressure", "DiskPressure", "PIDPressure")


def quantity(text: object) -> float | None:
    """The number that Kubernetes writes as 500m, 8 or 40Gi (SI units); None for anything else."""
    found = _QUANTITY.fullmatch(str(text))
    return float(found[1]) * _UNITS[found[2]] if found else None


def of_pod(pod: Pod, owner: Json | None) -> Iterator[Fact]:
    """Where a pod's server runs, whose it is, and what it is given: GPUs, CPU, memory."""
    # names first: a recording without names learns them here
    yield Fact("namespace", pod.namespace, "pod", pod.instance)
    if owner is not None:
        yield Fact(str(owner.get("kind", "")).lower(), str(owner["metadata"]["name"]), "pod", pod.instance)
    if pod.node:
        yield Fact("node", pod.node, "pod", pod.instance)
    resources = pod.spec.get("resources") or {}
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    origin = f"pod {pod.name}: resources"
    if gpus := gpus_of(pod.spec):
        yield Fact("gpus", gpus, origin, pod.instance)
    for key, told in (
        ("cpu_limit", limits.get("cpu")),
        ("cpu_request", requests.get("cpu")),
        ("memory_limit_bytes", limits.get("memory")),
    ):
        if (value := quantity(told)) is not None:
            yield Fact(key, value, origin, pod.instance)


def limits_as_series(pod: Pod, owner: Json | None) -> dict[str, float]:
    """What kube-state-metrics would show: the pod's memory limit and restarts, its workload's replicas."""
    labels = f'pod="{pod.instance}"'
    series: dict[str, float] = {}
    memory = quantity(((pod.spec.get("resources") or {}).get("limits") or {}).get("memory"))
    if memory:
        series[f'kube_pod_container_resource_limits{{{labels},resource="memory"}}'] = memory
    if "restartCount" in pod.status:
        restarts = float(pod.status["restartCount"])
        series[f"kube_pod_container_status_restarts_total{{{labels}}}"] = restarts
    last = (pod.status.get("lastState") or {}).get("terminated") or {}
    if last.get("reason") == "OOMKilled":
        series[f'kube_pod_container_status_last_terminated_reason{{{labels},reason="OOMKilled"}}'] = 1.0
    kind = str((owner or {}).get("kind", "")).lower()
    if owner is not None and kind in ("deployment", "statefulset"):
        spec, status = owner.get("spec") or {}, owner.get("status") or {}
        desired = "kube_deployment_spec_replicas" if kind == "deployment" else "kube_statefulset_replicas"
        series[f"{desired}{{{labels}}}"] = float(spec.get("replicas", 1))
        available = status.get("availableReplicas", status.get("readyReplicas", 0))
        series[f"kube_{kind}_status_replicas_available{{{labels}}}"] = float(available)
    return series


def of_workloads(door: Door, found: Found) -> Iterator[Observation]:
    """What scales each workload, and whether a disruption budget keeps a drain from taking all of it."""
    owners = {id(o): (o, p) for p in found.pods if (o := found.owner(p)) is not None}
    for namespace in dict.fromkeys(p.namespace for p in found.pods):
        here = [(o, p) for o, p in owners.values() if p.namespace == namespace]
        yield from _scalers(door, namespace, here, found)
        try:
            budgets = door.listed("apis/policy/v1", "poddisruptionbudgets", namespace)
        except Expired:
            raise
        except SourceError as error:
            yield gap_of(error, "whether a drain may take all replicas")
            continue
        for owner, pod in here:
            name = next((str(b["metadata"]["name"]) for b in budgets if _selects(b, pod)), "none")
            origin = f"{kind_and_name(owner)}: policy"
            for one in (p for p in found.pods if found.owner(p) is owner):
                yield Fact("pod_disruption_budget", name, origin, one.instance)


def _scalers(door: Door, namespace: str, here: list[tuple[Json, Pod]], found: Found) -> Iterator[Observation]:
    names: dict[str, str] = {}
    unread = False
    for path, plural in _SCALERS:
        try:
            listed = door.listed(path, plural, namespace)
        except Expired:
            raise
        except NotThere:  # KEDA is not installed
            continue
        except SourceError as error:
            unread = True
            yield gap_of(error, "whether something scales the replicas")
            continue
        for each in listed:
            spec = each.get("spec") or {}
            target = spec.get("scaleTargetRef") or {}
            low = spec.get("minReplicas", spec.get("minReplicaCount", 1))
            high = spec.get("maxReplicas", spec.get("maxReplicaCount", "?"))
            kind = str(target.get("kind", "Deployment")).lower()
            told = f"{plural.removesuffix('s')}/{each['metadata']['name']} {low} to {high}"
            names.setdefault(f"{kind}/{target.get('name', '')}", told)
    for owner, _ in here:
        name = kind_and_name(owner)
        if name in names or not unread:
            for pod in (p for p in found.pods if found.owner(p) is owner):
                yield Fact("autoscaler", names.get(name, "none"), name, pod.instance)


def _selects(budget: Json, pod: Pod) -> bool:
    selector = (budget.get("spec") or {}).get("selector") or {}
    wanted = selector.get("matchLabels") or {}
    labels = pod.object["metadata"].get("labels") or {}
    return bool(wanted) and all(labels.get(key) == value for key, value in wanted.items())


def of_nodes(door: Door, found: Found) -> Iterator[Observation]:
    """The nodes' pressure, and which GPUs they have by their labels; beyond 20 nodes only some."""
    by_node: dict[str, list[Pod]] = {}
    for pod in found.pods:
        if pod.node:
            by_node.setdefault(pod.node, []).append(pod)
    for name, pods in list(by_node.items())[:_MOST_NODES]:
        try:
            node = door.core("nodes", "", name)
        except Expired:
            raise
        except NotThere:
            why = "the node is not there any more"
            yield Gap(pods[0].instance, f"node {name}", why)
            continue
        except SourceError as error:
            yield gap_of(error, f"node {name}")
            return
        yield from _of_node(node, name, pods)
    if len(by_node) > _MOST_NODES:
        yield Gap(ORIGIN, f"{len(by_node) - _MOST_NODES} nodes", f"only {_MOST_NODES} are looked at")


def _of_node(node: Json, name: str, pods: list[Pod]) -> Iterator[Observation]:
    labels = node["metadata"].get("labels") or {}
    product = labels.get("nvidia.com/gpu.product") or labels.get("cloud.google.com/gke-accelerator")
    major, minor = (labels.get(f"nvidia.com/cuda.driver.{part}") for part in ("major", "minor"))
    for pod in pods:
        if product:
            yield Fact("gpu_name", str(product), f"node {name}", pod.instance)
        if major and minor:
            yield Fact("gpu_driver_version", f"{major}.{minor}", f"node {name}", pod.instance)
    for condition in (node.get("status") or {}).get("conditions") or ():
        kind, status = condition.get("type"), condition.get("status")
        bad = (kind in _PRESSURE and status == "True") or (kind == "Ready" and status != "True")
        at = moment(condition.get("lastTransitionTime"))
        if bad and at is not None:
            said = words(f"node {name}: {kind} is {status}: {condition.get('message', '')}").rstrip(": ")
            for pod in pods:
                yield Event(at, "node-trouble", said, pod.instance, ORIGIN)
