"""Workloads with all that their controllers would have made of them: revisions, pods, owners, addresses."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.kubernetes.apiserver import manifests
from tests.kubernetes.apiserver.manifests import Object, Template, made, suffix
from tests.kubernetes.apiserver.pod import Backend, Pod
from tests.kubernetes.apiserver.store import Store


@dataclass(slots=True)
class Workload:
    """What was asked for, the objects that count its pods, and the pods."""

    object: Object
    selector: Mapping[str, str]
    counted: list[Object] = field(default_factory=list)
    pods: list[Pod] = field(default_factory=list)

    @property
    def name(self) -> str:
        return str(self.object["metadata"]["name"])

    @property
    def namespace(self) -> str:
        return str(self.object["metadata"]["namespace"])

    def serve(self, *backends: Backend, port: int = 8000) -> "Workload":
        """Its pods answer with these backends, in turn."""
        for n, pod in enumerate(self.pods):
            pod.serve(backends[n % len(backends)], port)
        return self

    def recount(self) -> None:
        """Set every status to what the pods are now."""
        ready, whole = sum(pod.ready for pod in self.pods), len(self.pods)
        for item in self.counted:
            status: Object = {"observedGeneration": 1}
            if item["kind"] == "DaemonSet":
                status |= {"desiredNumberScheduled": whole, "currentNumberScheduled": whole}
                status |= {"numberReady": ready, "numberAvailable": ready, "updatedNumberScheduled": whole}
            else:
                status |= {"replicas": whole, "readyReplicas": ready, "availableReplicas": ready}
                status |= {"updatedReplicas": whole}
            if item["kind"] == "Deployment":
                status |= {"unavailableReplicas": whole - ready} if whole > ready else {}
                available = "True" if ready else "False"
                status["conditions"] = [{"type": "Available", "status": available}]
            item["status"] = status


class Workloads:
    """Makes workloads in a store. Each takes `Template`'s words: `image=`, `args=`, `sidecars=` and so on."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.pods: dict[tuple[str, str], Pod] = {}
        self._made = 0

    def add(self, item: Object) -> Object:
        """Put any object in."""
        return self.store.add(item)

    def namespace(self, name: str) -> None:
        """Make a namespace."""
        self.add(made("Namespace", name, None, status={"phase": "Active"}))

    def deployment(
        self, name: str, *, namespace: str = "inference", replicas: int = 1, owner: Object | None = None,
        age_s: float = 7200.0, **template: Any,
    ) -> Workload:  # fmt: skip
        """A Deployment, its ReplicaSet, and its pods."""
        of, selector = Template(**template), {"app": name}
        labels = {"app": name, **of.labels, "pod-template-hash": suffix(name + of.image + str(of.args), 10)}
        spec = self._spec(replicas, selector, of)
        whole = made("Deployment", name, namespace, owner, labels={"app": name, **of.labels}, spec=spec)
        whole["metadata"]["annotations"] = {"deployment.kubernetes.io/revision": "1"}
        hashed = f"{name}-{labels['pod-template-hash']}"
        spec = self._spec(replicas, {**selector, "pod-template-hash": labels["pod-template-hash"]}, of)
        revision = made("ReplicaSet", hashed, namespace, whole, labels=labels, spec=spec)
        names = [f"{hashed}-{suffix(f'{hashed}/{n}', 5)}" for n in range(replicas)]
        return self._run(whole, selector, [whole, revision], revision, names, labels, of, age_s)

    def statefulset(
        self, name: str, *, namespace: str = "inference", replicas: int = 1, owner: Object | None = None,
        age_s: float = 7200.0, labels: Mapping[str, str] | None = None, **template: Any,
    ) -> Workload:  # fmt: skip
        """A StatefulSet, its revision, and its pods."""
        of, selector = Template(**template), {"app": name, **(labels or {})}
        revision = f"{name}-{suffix(name, 10)}"
        spec = self._spec(replicas, selector, of) | {
            "serviceName": name,
            "podManagementPolicy": "OrderedReady",
        }
        whole = made("StatefulSet", name, namespace, owner, labels=dict(selector), spec=spec)
        self.add(made("ControllerRevision", revision, namespace, whole, revision=1, data={}))
        worn = {**selector, **of.labels, "controller-revision-hash": revision}
        names = [f"{name}-{n}" for n in range(replicas)]
        return self._run(whole, selector, [whole], whole, names, worn, of, age_s)

    def daemonset(
        self, name: str, *, namespace: str = "inference", replicas: int = 3, age_s: float = 7200.0,
        **template: Any,
    ) -> Workload:  # fmt: skip
        """A DaemonSet and its pods, one a node."""
        of, selector = Template(**template), {"app": name}
        spec = {"selector": {"matchLabels": selector}, "template": manifests.template(of, selector)}
        whole = made("DaemonSet", name, namespace, labels=dict(selector), spec=spec)
        names = [f"{name}-{suffix(f'{name}/{n}', 5)}" for n in range(replicas)]
        return self._run(whole, selector, [whole], whole, names, {**selector, **of.labels}, of, age_s)

    def leaderworkerset(
        self, name: str, *, namespace: str = "inference", replicas: int = 1, size: int = 2, **template: Any
    ) -> Workload:
        """A LeaderWorkerSet: a StatefulSet of leaders, its pods here, and one of workers for each."""
        worn = {"leaderworkerset.sigs.k8s.io/name": name}
        of = Template(**template)
        pods = {"size": size, "workerTemplate": manifests.template(of, worn)}
        whole = made("LeaderWorkerSet", name, namespace)
        whole |= {
            "spec": {"replicas": replicas, "leaderWorkerTemplate": pods},
            "status": {"replicas": replicas},
        }
        self.add(whole)
        leads = {**worn, "leaderworkerset.sigs.k8s.io/worker-index": "0"}
        given = {"namespace": namespace, **template}
        leaders = self.statefulset(name, replicas=replicas, owner=whole, labels=leads, **given)
        for leader in leaders.pods:
            self.statefulset(leader.name, replicas=size - 1, owner=leader.object, labels=worn, **given)
        leaders.object = whole
        return leaders

    def inferenceservice(
        self, name: str, *, namespace: str = "inference", replicas: int = 1, **template: Any
    ) -> Workload:
        """An InferenceService of KServe, in its raw mode: a Deployment of predictors."""
        model = {"modelFormat": {"name": "huggingface"}, "args": list(Template(**template).args)}
        whole = made("InferenceService", name, namespace, spec={"predictor": {"model": model}})
        whole["status"] = {"conditions": [{"type": "Ready", "status": "True"}]}
        template = {"container": "kserve-container", "port": 8080, **template}
        template["labels"] = {"serving.kserve.io/inferenceservice": name, **template.get("labels", {})}
        return self._above(whole, f"{name}-predictor", namespace, replicas, template)

    def llminferenceservice(
        self, name: str, *, namespace: str = "inference", replicas: int = 1, **template: Any
    ) -> Workload:
        """An LLMInferenceService of KServe: a Deployment of servers."""
        spec = {"model": {"uri": "hf://Qwen/Qwen2.5-7B-Instruct"}, "replicas": replicas}
        whole = made("LLMInferenceService", name, namespace, spec=spec)
        template = {"container": "main", **template}
        template["labels"] = {"app.kubernetes.io/name": name, **template.get("labels", {})}
        return self._above(whole, f"{name}-kserve", namespace, replicas, template)

    def rayservice(
        self, name: str, *, namespace: str = "inference", replicas: int = 1, **template: Any
    ) -> Workload:
        """A RayService, its RayCluster, and that one's pods."""
        whole = self.add(made("RayService", name, namespace, spec={"serveConfigV2": ""}, status={}))
        cluster = f"{name}-raycluster-{suffix(name, 5)}"
        raycluster = self.add(made("RayCluster", cluster, namespace, whole, spec={}, status={}))
        worn = {"ray.io/cluster": cluster, "ray.io/node-type": "worker"}
        names = [f"{cluster}-worker-{suffix(f'{cluster}/{n}', 5)}" for n in range(replicas)]
        of = Template(**{"port": 8080, "port_name": "metrics", **template})
        return self._run(whole, worn, [], raycluster, names, {**worn, **of.labels}, of, 7200.0)

    def pod(self, name: str, *, namespace: str = "inference", age_s: float = 7200.0, **template: Any) -> Pod:
        """A pod that nobody owns."""
        of = Template(**template)
        return self._pod(name, namespace, of, {"app": name, **of.labels}, None, age_s)

    def delete(self, pod: Pod) -> None:
        """The pod is gone."""
        self.store.remove(pod.object)
        self.pods.pop((pod.namespace, pod.name), None)

    # --- how they are made ------------------------------------------------------------------------

    def _above(
        self, whole: Object, name: str, namespace: str, replicas: int, template: Mapping[str, Any]
    ) -> Workload:
        self.add(whole)
        made_of = self.deployment(name, namespace=namespace, replicas=replicas, owner=whole, **template)
        made_of.object = whole
        return made_of

    def _spec(self, replicas: int, selector: Mapping[str, str], of: Template) -> Object:
        labels = {**selector, **of.labels}
        spec: Object = {"replicas": replicas, "selector": {"matchLabels": dict(selector)}}
        return spec | {"template": manifests.template(of, labels)}

    def _run(
        self, whole: Object, selector: Mapping[str, str], counted: list[Object], owner: Object,
        names: Sequence[str], labels: Mapping[str, str], of: Template, age_s: float,
    ) -> Workload:  # fmt: skip
        namespace = whole["metadata"]["namespace"]
        workload = Workload(whole, selector, counted)
        for item in counted:
            self.add(item)
        for name in names:
            pod = self._pod(name, namespace, of, labels, owner, age_s)
            pod.recount = workload.recount
            workload.pods.append(pod)
        workload.recount()
        return workload

    def _pod(
        self, name: str, namespace: str, of: Template, labels: Mapping[str, str], owner: Object | None,
        age_s: float,
    ) -> Pod:  # fmt: skip
        self.namespace(namespace)
        item = manifests.pod(name, namespace, of, labels, owner, time.time() - age_s)
        number = self._made
        self._made += 1
        address = f"10.244.{1 + number // 250}.{1 + number % 250}"
        item["spec"]["nodeName"] = f"gpu-node-{1 + number % 3}"
        item["status"] |= {
            "podIP": address,
            "podIPs": [{"ip": address}],
            "hostIP": f"192.168.0.{1 + number % 3}",
        }
        self.add(item)
        pod = self.pods[namespace, name] = Pod(item)
        return pod
