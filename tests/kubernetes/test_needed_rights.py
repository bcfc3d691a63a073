"""The rights that `vllmdoctor rbac` prints are enough, each is needed, and without each one a gap says so."""

from collections.abc import Callable, Iterator

import pytest
from tests.kubernetes.apiserver import Asked, Cluster, Ran, Rule, User
from tests.kubernetes.conftest import SMI, Doctor

from vllmdoctor.errors import VllmDoctorError

Right = tuple[str, str, str]  # verb, group, resource


def everything(doctor: Doctor) -> None:
    """A cluster in which there is something to read for every feature."""
    cluster, served = doctor.cluster, doctor.vllm()
    cluster.config_map("settings", {"VLLM_LOGGING_LEVEL": "INFO"})
    env = [{"configMapRef": {"name": "settings"}}]
    work = cluster.deployment("vllm", env_from=env).serve(served)
    work.pods[0].say("INFO vLLM API server version 0.12.0").run("nvidia-smi", Ran(SMI.read_bytes()))
    cluster.service("front", work)
    cluster.autoscaler(work)
    cluster.scaled_object(work, "sum(vllm:num_requests_waiting)")
    cluster.disruption_budget(work)
    cluster.event(work.pods[0], "Unhealthy", "Readiness probe failed")
    cluster.statefulset("stateful").serve(served)
    cluster.daemonset("each", replicas=1).serve(served)
    cluster.leaderworkerset("many", size=2).serve(served)
    cluster.inferenceservice("served", port=8000).serve(served)
    cluster.llminferenceservice("llm").serve(served)
    cluster.rayservice("ray").serve(served, port=8080)
    labels = {"app.kubernetes.io/name": "prometheus"}
    cluster.service("prometheus", namespace="monitoring", port=9090, labels=labels, backend=served)


def named(*targets: str) -> Callable[[Doctor], str]:
    """Read targets, once each; what is missing of them, as text."""

    def read(doctor: Doctor) -> str:
        said = []
        for target in targets:
            try:
                gaps = doctor.record(f"k8s://inference/{target}", ticks=1, prometheus="", execute=True).gaps
                said += [f"{gap.what}: {gap.why}" for gap in gaps]
            except VllmDoctorError as error:
                said.append(str(error))
        return "\n".join(said)

    return read


SCENES: dict[str, Callable[[Doctor], str]] = {
    "a deployment": named("deploy/vllm"),
    "a stateful set": named("sts/stateful"),
    "a daemon set": named("ds/each"),
    "a service": named("svc/front"),
    "a pod": lambda doctor: named(f"pod/{next(iter(doctor.cluster.pods.values())).name}")(doctor),
    "pods of several nodes": named("lws/many"),
    "KServe": named("isvc/served", "llmisvc/llm"),
    "Ray": named("rayservice/ray", "raycluster/nope"),
    "a wrong name": named("deploy/vlm", "sts/statefl", "ds/eac", "svc/fron", "vllm-x", "lws/mny", "isvc/x",
                          "llmisvc/x", "rayservice/x"),
    "no name": lambda doctor: doctor.run("diagnose").err,
}  # fmt: skip


def used(log: list[Asked]) -> set[Right]:
    return {(one.verb, one.group, one.resource) for one in log if one.resource}


def rights(user: User) -> Iterator[Right]:
    for rule in user.rules:
        for verb in rule.verbs:
            for group in rule.groups:
                yield from ((verb, group, resource) for resource in rule.resources)


FEATURES = ["exec", "port-forward", "leaderworkerset", "kserve", "ray"]


def test_what_is_printed_is_enough_and_nothing_of_it_is_idle(doctor: Doctor, cluster: Cluster) -> None:
    everything(doctor)
    user = doctor.allowed(*(word for one in FEATURES for word in ("--with", one)))
    for scene in SCENES.values():
        scene(doctor)
    cluster.deployment("deaf")  # nothing answers by proxy: a port-forward is tried
    named("deploy/deaf")(doctor)

    outside = {str(one) for one in cluster.refused if not _search_of_all_namespaces(one)}
    idle = set(rights(user)) - used(cluster.log)
    # exec and port-forward are gets where the stream is a WebSocket; servers from 1.35 on want create, too
    streams = {("create", "", "pods/exec"), ("create", "", "pods/portforward")}
    assert outside == set()
    assert idle - streams == set()


def _search_of_all_namespaces(asked: Asked) -> bool:
    """A Prometheus is looked for everywhere first, then where the rights are."""
    return (asked.verb, asked.resource, asked.namespace) == ("list", "services", None)


def without(user: User, right: Right) -> list[Rule]:
    """His rules but for one right."""
    kept = []
    for rule in user.rules:
        for verb in rule.verbs:
            for group in rule.groups:
                for resource in rule.resources:
                    if (verb, group, resource) != right:
                        kept.append(Rule((group,), (resource,), (verb,), rule.names, rule.namespace))
    return kept


USUAL: list[tuple[Right, str]] = [
    (("get", "", "pods"), "a pod"),
    (("list", "", "pods"), "a deployment"),
    (("get", "", "pods/proxy"), "a deployment"),
    (("get", "", "pods/log"), "a deployment"),
    (("list", "", "events"), "a deployment"),
    (("get", "apps", "deployments"), "a deployment"),
    (("get", "apps", "statefulsets"), "a stateful set"),
    (("get", "apps", "daemonsets"), "a daemon set"),
    (("get", "apps", "replicasets"), "a service"),
    (("list", "apps", "replicasets"), "a deployment"),
    (("list", "apps", "controllerrevisions"), "a stateful set"),
    (("get", "", "configmaps"), "a deployment"),
    (("list", "autoscaling", "horizontalpodautoscalers"), "a deployment"),
    (("list", "keda.sh", "scaledobjects"), "a deployment"),
    (("list", "policy", "poddisruptionbudgets"), "a deployment"),
    (("get", "", "services"), "a service"),
    (("list", "", "services"), "a deployment"),
    (("get", "", "nodes"), "a deployment"),
    (("get", "", "services/proxy"), "a deployment"),
    (("get", "", "pods/exec"), "a deployment"),
]


@pytest.mark.parametrize(("right", "scene"), USUAL, ids=[" ".join(filter(None, one)) for one, _ in USUAL])
def test_without_one_right_a_gap_names_it(right: Right, scene: str, doctor: Doctor, cluster: Cluster) -> None:
    everything(doctor)
    user = doctor.allowed("--with", "exec")
    doctor.use(cluster.user("deprived", without(user, right)))

    said = SCENES[scene](doctor)

    verb, group, resource = right
    full = f"{resource}.{group}" if group else resource
    assert any(one.verb == verb and one.resource == resource for one in cluster.refused)
    assert f"not allowed to {verb} {full} in" in said, said


def test_a_server_that_wants_create_for_streams_is_told_by_that_verb(
    doctor: Doctor, cluster: Cluster
) -> None:
    everything(doctor)
    user = doctor.allowed("--with", "exec")
    doctor.use(cluster.user("deprived", without(user, ("create", "", "pods/exec"))))
    cluster.creates_streams = True

    said = SCENES["a deployment"](doctor)

    assert "not allowed to create pods/exec in namespace inference" in said
