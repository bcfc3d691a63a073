"""Objects as a cluster has them: pod templates, pods that run, and what owns them."""

import hashlib
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.kubernetes.apiserver.kinds import named

Object = dict[str, Any]
_SPACE = uuid.UUID("5f0f6a2e-6f1c-4a52-8f43-1f7c4b2f6d10")


def stamp(unix_s: float) -> str:
    """A time as Kubernetes writes it."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(unix_s))


def uid(*parts: str) -> str:
    return str(uuid.uuid5(_SPACE, "/".join(parts)))


def suffix(text: str, length: int) -> str:
    """The hash that a controller puts behind a name; always the same for the same name."""
    alphabet = "bcdfghjklmnpqrstvwxz2456789"
    digest = hashlib.sha256(text.encode()).digest()
    return "".join(alphabet[byte % len(alphabet)] for byte in digest[:length])


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def owned(owner: Object | None) -> Object:
    """`ownerReferences` for what a controller made."""
    if owner is None:
        return {}
    reference = {"apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": owner["metadata"]["name"]}
    reference |= {"uid": owner["metadata"]["uid"], "controller": True, "blockOwnerDeletion": True}
    return {"ownerReferences": [reference]}


def made(kind: str, name: str, namespace: str | None, owner: Object | None = None, **more: Any) -> Object:
    """An object with its metadata; `labels` and `annotations` go there, the rest beside it."""
    of = named(kind)
    metadata: Object = {"name": name, "uid": uid(kind, namespace or "", name)}
    metadata |= {"namespace": namespace} if namespace else {}
    metadata |= {key: more.pop(key) for key in ("labels", "annotations") if more.get(key)}
    return {"apiVersion": of.api, "kind": kind, "metadata": metadata | owned(owner)} | more


@dataclass(frozen=True, slots=True)
class Template:
    """What a pod is made from. `sidecars` are further containers by name, `env` plain values."""

    image: str = "vllm/vllm-openai:v0.12.0"
    args: Sequence[str] = ("--model", "Qwen/Qwen2.5-7B-Instruct")
    command: Sequence[str] = ()
    container: str = "vllm"
    port: int | None = 8000
    port_name: str = "http"
    gpus: int = 1
    memory: str = "32Gi"
    cpu: str = "8"
    env: Mapping[str, str] = field(default_factory=dict)
    env_from: Sequence[Object] = ()
    sidecars: Sequence[str] = ()
    init: Sequence[str] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    probes: bool = True
    volumes: Sequence[Object] = ()
    grace_s: int = 30

    def spec(self) -> Object:
        """The pod's spec."""
        engine: Object = {"name": self.container, "image": self.image, "imagePullPolicy": "IfNotPresent"}
        engine |= {
            key: list(words) for key, words in (("command", self.command), ("args", self.args)) if words
        }
        if self.port is not None:
            engine["ports"] = [{"name": self.port_name, "containerPort": self.port, "protocol": "TCP"}]
        env = [{"name": name, "value": value} for name, value in self.env.items()]
        engine |= {"env": env} if env else {}
        engine |= {"envFrom": list(self.env_from)} if self.env_from else {}
        limits = {"cpu": self.cpu, "memory": self.memory}
        limits |= {"nvidia.com/gpu": str(self.gpus)} if self.gpus else {}
        engine["resources"] = {"limits": limits, "requests": dict(limits)}
        if self.probes and self.port is not None:
            check = {"path": "/health", "port": self.port, "scheme": "HTTP"}
            engine["readinessProbe"] = {"httpGet": check, "periodSeconds": 10, "failureThreshold": 3}
            engine["livenessProbe"] = {"httpGet": check, "periodSeconds": 10, "failureThreshold": 3}
        engine |= {"terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File"}
        others = [{"name": name, "image": f"{name}:1.0", "resources": {}} for name in self.sidecars]
        spec: Object = {"containers": [*others, engine], "restartPolicy": "Always"}
        if self.init:
            spec["initContainers"] = [{"name": name, "image": f"{name}:1.0"} for name in self.init]
        spec |= {"volumes": list(self.volumes)} if self.volumes else {}
        return spec | {"terminationGracePeriodSeconds": self.grace_s, "serviceAccountName": "default"}


def pod(
    name: str, namespace: str, of: Template, labels: Mapping[str, str], owner: Object | None, begun: float
) -> Object:
    """A pod that has run, ready, since `begun` [unix s]."""
    spec, since = of.spec(), stamp(begun)
    conditions = [
        {"type": kind, "status": "True", "lastProbeTime": None, "lastTransitionTime": since}
        for kind in ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled")
    ]
    statuses = [
        {
            "name": container["name"],
            "image": container["image"],
            "imageID": f"{container['image'].partition(':')[0]}@sha256:{_digest(container['image'])}",
            "containerID": f"containerd://{_digest(name + container['name'])}",
            "ready": True,
            "started": True,
            "restartCount": 0,
            "state": {"running": {"startedAt": since}},
            "lastState": {},
        }
        for container in spec["containers"]
    ]
    status = {"phase": "Running", "conditions": conditions, "containerStatuses": statuses}
    status |= {"startTime": since, "qosClass": "Guaranteed"}
    made_of = made("Pod", name, namespace, owner, labels=dict(labels), annotations=dict(of.annotations))
    made_of["metadata"]["creationTimestamp"] = since
    return made_of | {"spec": spec, "status": status}


def template(of: Template, labels: Mapping[str, str]) -> Object:
    """A pod template inside of another object."""
    metadata: Object = {"labels": dict(labels)}
    metadata |= {"annotations": dict(of.annotations)} if of.annotations else {}
    return {"metadata": metadata, "spec": of.spec()}


def node(name: str, gpus: int, product: str) -> Object:
    labels = {
        "kubernetes.io/hostname": name,
        "nvidia.com/gpu.product": product,
        "nvidia.com/gpu.count": str(gpus),
    }
    amounts = {"cpu": "96", "memory": "1056Gi", "nvidia.com/gpu": str(gpus), "pods": "110"}
    conditions = [
        {"type": "MemoryPressure", "status": "False", "reason": "KubeletHasSufficientMemory"},
        {"type": "DiskPressure", "status": "False", "reason": "KubeletHasNoDiskPressure"},
        {"type": "PIDPressure", "status": "False", "reason": "KubeletHasSufficientPID"},
        {"type": "Ready", "status": "True", "reason": "KubeletReady"},
    ]
    info = {
        "kubeletVersion": "v1.33.1",
        "containerRuntimeVersion": "containerd://2.0.5",
        "architecture": "amd64",
    }
    status = {"capacity": amounts, "allocatable": dict(amounts), "conditions": conditions, "nodeInfo": info}
    return made("Node", name, None, labels=labels, spec={}, status=status)
