"""What a server was started with, wherever its pod keeps it, and what a roll-out changed of it."""

from typing import Any

import pytest
from tests.kubernetes.conftest import Doctor

from vllmdoctor.kube.door import Door
from vllmdoctor.kube.find import find
from vllmdoctor.kube.launches import Launches, described
from vllmdoctor.kube.names import parse
from vllmdoctor.kube.nouns import Access
from vllmdoctor.launch import Launch


def read(target: str = "k8s://inference/deploy/vllm-server", container: str = "") -> tuple[Launch, list[str]]:
    """The launch of the target's first pod, and what could not be read."""
    with Door(Access()) as door:
        found = find(door, parse(target), container)
        launches = Launches(door)
        launch = launches.read(found.pods[0], found.owner(found.pods[0]))
        return launch, [f"{gap.what}: {gap.why}" for gap in launches.gaps]


def container_of(doctor: Doctor, name: str = "vllm-server") -> dict[str, Any]:
    pod = next(p for p in doctor.cluster.pods.values() if p.name.startswith(name))
    return next(c for c in pod.object["spec"]["containers"] if c["name"] == pod.engine)


def test_arguments_become_facts_and_the_deployment_is_what_would_be_changed(doctor: Doctor) -> None:
    args = ["--model", "m", "--max-num-seqs", "64", "--api-key", "secret"]
    doctor.cluster.deployment("vllm-server", replicas=3, image="vllm/vllm-openai:v0.12.0", args=args)
    launch, gaps = read()
    facts = {f.key: f.value for f in launch.facts}

    assert facts == {"model": "m", "max_num_seqs": 64.0, "replicas": 3, "vllm_version": "0.12.0"}
    assert launch.workload is not None
    assert (launch.workload.kind, launch.workload.name) == ("Deployment", "vllm-server")
    assert (launch.workload.namespace, launch.workload.container) == ("inference", "vllm")
    assert dict(launch.workload.labels) == {"app": "vllm-server"}
    assert gaps == []


def test_a_config_file_in_a_config_map_is_read_and_the_command_line_wins(doctor: Doctor) -> None:
    doctor.cluster.config_map("vllm-config", {"server.yaml": "max-num-seqs: 32\nmax-model-len: 8192\n"})
    args = ["--model", "m", "--max-num-seqs", "64", "--config", "/etc/vllm/server.yaml"]
    doctor.cluster.deployment("vllm-server", args=args)
    pod = next(iter(doctor.cluster.pods.values()))
    pod.object["spec"]["volumes"] = [{"name": "config", "configMap": {"name": "vllm-config"}}]
    container_of(doctor)["volumeMounts"] = [{"name": "config", "mountPath": "/etc/vllm"}]
    launch, _ = read()

    assert launch.value("--max-num-seqs") == "64"
    assert launch.value("--max-model-len") == "8192"


def test_a_start_script_in_a_config_map_is_read(doctor: Doctor) -> None:
    script = "#!/bin/sh\nexport HF_HOME=/data\nexec vllm serve m \\\n  --max-num-seqs 16\n"
    doctor.cluster.config_map("scripts", {"run": script})
    doctor.cluster.deployment("vllm-server", args=[])
    pod = next(iter(doctor.cluster.pods.values()))
    volume = {"name": "s", "configMap": {"name": "scripts", "items": [{"key": "run", "path": "start.sh"}]}}
    pod.object["spec"]["volumes"] = [volume]
    own = container_of(doctor)
    own["command"], own["args"] = ["/bin/sh", "/scripts/start.sh"], []
    own["volumeMounts"] = [{"name": "s", "mountPath": "/scripts/"}]
    launch, _ = read()

    assert launch.value("--max-num-seqs") == "16"
    assert not launch.plain


def test_variables_from_config_maps_are_put_in(doctor: Doctor) -> None:
    doctor.cluster.config_map("settings", {"SEQS": "48", "LENGTH": "4096"})
    doctor.cluster.deployment(
        "vllm-server", args=["--model", "m", "--max-num-seqs=$(SEQS)", "--max-model-len", "$(VLLM_LENGTH)"]
    )
    own = container_of(doctor)
    own["env"] = [
        {"name": "VLLM_LENGTH", "valueFrom": {"configMapKeyRef": {"name": "settings", "key": "LENGTH"}}},
        {"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "hf", "key": "token"}}},
    ]
    own["envFrom"] = [{"configMapRef": {"name": "settings"}}, {"secretRef": {"name": "hf"}}]
    launch, gaps = read()

    assert (launch.value("--max-num-seqs"), launch.value("--max-model-len")) == ("48", "4096")
    assert gaps == []


def test_a_config_map_that_is_missing_or_forbidden_is_a_gap(doctor: Doctor) -> None:
    doctor.cluster.deployment("vllm-server", args=["--model", "m"])
    container_of(doctor)["envFrom"] = [{"configMapRef": {"name": "gone"}}]
    _, gaps = read()
    assert gaps == ["what ConfigMap gone says: the pods name it, and it is not there"]

    doctor.allowed("pods", "workloads")
    _, gaps = read()
    refused = "403: not allowed to get configmaps in namespace inference"
    assert gaps == [f"arguments that stand in a ConfigMap: {refused}"]


@pytest.mark.parametrize(
    ("command", "args"),
    [
        (["vllm", "serve"], ["m", "--max-num-seqs", "8"]),
        (["vllm", "serve", "m"], ["--max-num-seqs", "8"]),
        (["vllm", "serve", "m", "--max-num-seqs", "8"], []),
        (["vllm", "serve", "m", "--max-num-seqs", "8"], ["--port", "8000"]),
        (["python3", "-m", "vllm.entrypoints.openai.api_server"], ["--model", "m", "--max-num-seqs", "8"]),
        (["bash", "-c"], ["vllm serve m --max-num-seqs 8"]),
    ],
)
def test_command_and_arguments_are_read_in_every_way_they_are_split(
    doctor: Doctor, command: list[str], args: list[str]
) -> None:
    doctor.cluster.deployment("vllm-server")
    own = container_of(doctor)
    own["command"], own["args"] = command, args
    launch, _ = read()

    assert (launch.value("--model"), launch.value("--max-num-seqs")) == ("m", "8")


def template(image: str, *args: str, **more: Any) -> dict[str, Any]:
    return {"spec": {"containers": [{"name": "vllm", "image": image, "args": list(args), **more}]}}


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        (template("vllm:v0.11.0"), template("vllm:v0.12.0"), "image v0.11.0 -> v0.12.0"),
        (template("a/vllm:1"), template("b/vllm:1"), "image a/vllm:1 -> b/vllm:1"),
        (
            template("v", "--max-num-seqs", "64", "--enforce-eager"),
            template("v", "--max-num-seqs", "256"),
            "--max-num-seqs 64 -> 256, --enforce-eager True -> not set",
        ),
        (
            template("v", "--api-key", "one"),
            template("v", "--api-key", "two"),
            "nothing of the server's container",
        ),
        (template("v"), template("v", env=[{"name": "A", "value": "b"}]), "environment"),
        (template("v"), {"spec": {"containers": []}}, "other containers"),
    ],
)
def test_a_rollout_is_told_by_what_it_changed(before: Any, after: Any, words: str) -> None:
    assert described(before, after, "vllm") == words
