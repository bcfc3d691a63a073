"""The kinds of object that the server knows: how they are named in paths, and whose they are."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind; `custom` ones are served only once a cluster has an object of their group."""

    group: str
    version: str
    plural: str
    kind: str
    short: tuple[str, ...] = ()
    namespaced: bool = True
    subresources: tuple[str, ...] = ()
    custom: bool = False

    @property
    def api(self) -> str:
        """What stands in `apiVersion`."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def spoken(self) -> str:
        """How messages name it: `deployments.apps`, but `pods`."""
        return f"{self.plural}.{self.group}" if self.group else self.plural


def _kinds() -> tuple[Kind, ...]:
    rbac = "rbac.authorization.k8s.io"
    return (
        Kind("", "v1", "pods", "Pod", ("po",), True, ("exec", "log", "portforward", "proxy", "status")),
        Kind("", "v1", "services", "Service", ("svc",), True, ("proxy",)),
        Kind("", "v1", "events", "Event", ("ev",)),
        Kind("", "v1", "nodes", "Node", ("no",), False, ("proxy",)),
        Kind("", "v1", "namespaces", "Namespace", ("ns",), False),
        Kind("", "v1", "configmaps", "ConfigMap", ("cm",)),
        Kind("", "v1", "secrets", "Secret"),
        Kind("", "v1", "serviceaccounts", "ServiceAccount", ("sa",)),
        Kind("", "v1", "endpoints", "Endpoints", ("ep",)),
        Kind("apps", "v1", "deployments", "Deployment", ("deploy",), True, ("scale",)),
        Kind("apps", "v1", "replicasets", "ReplicaSet", ("rs",)),
        Kind("apps", "v1", "statefulsets", "StatefulSet", ("sts",)),
        Kind("apps", "v1", "daemonsets", "DaemonSet", ("ds",)),
        Kind("apps", "v1", "controllerrevisions", "ControllerRevision"),
        Kind("batch", "v1", "jobs", "Job"),
        Kind("batch", "v1", "cronjobs", "CronJob", ("cj",)),
        Kind("autoscaling", "v2", "horizontalpodautoscalers", "HorizontalPodAutoscaler", ("hpa",)),
        Kind("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget", ("pdb",)),
        Kind("discovery.k8s.io", "v1", "endpointslices", "EndpointSlice"),
        Kind(rbac, "v1", "roles", "Role"),
        Kind(rbac, "v1", "rolebindings", "RoleBinding"),
        Kind(rbac, "v1", "clusterroles", "ClusterRole", (), False),
        Kind(rbac, "v1", "clusterrolebindings", "ClusterRoleBinding", (), False),
        _custom("leaderworkerset.x-k8s.io", "v1", "leaderworkersets", "LeaderWorkerSet", "lws"),
        _custom("serving.kserve.io", "v1beta1", "inferenceservices", "InferenceService", "isvc"),
        _custom("serving.kserve.io", "v1alpha1", "llminferenceservices", "LLMInferenceService", "llmisvc"),
        _custom("ray.io", "v1", "rayservices", "RayService", "rayservice"),
        _custom("ray.io", "v1", "rayclusters", "RayCluster", "raycluster"),
        _custom("keda.sh", "v1alpha1", "scaledobjects", "ScaledObject", "so"),
    )


def _custom(group: str, version: str, plural: str, kind: str, short: str) -> Kind:
    return Kind(group, version, plural, kind, (short,), custom=True)


KINDS = _kinds()


def kind_of(api: str, kind: str) -> Kind:
    """The kind of an object by what stands in it."""
    return next(k for k in KINDS if (k.api, k.kind) == (api, kind))


def named(kind: str) -> Kind:
    """A kind by its name alone: `Deployment`."""
    return next(k for k in KINDS if k.kind == kind)
