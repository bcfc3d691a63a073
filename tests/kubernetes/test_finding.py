"""From what a person names to its pods: each kind of object, a selector, a namespace, or nothing at all."""

from collections.abc import Callable

import pytest
from tests.kubernetes.apiserver import Cluster, Workload
from tests.kubernetes.conftest import Doctor


def behind_a_service(cluster: Cluster) -> Workload:
    work = cluster.deployment("vllm", replicas=2)
    cluster.service("front", work)
    return work


Make = Callable[[Cluster], Workload]
KINDS: dict[str, tuple[str, Make]] = {
    "deploy/vllm": ("", lambda c: c.deployment("vllm", replicas=2)),
    "sts/vllm": ("", lambda c: c.statefulset("vllm", replicas=2)),
    "ds/vllm": ("", lambda c: c.daemonset("vllm", replicas=2)),
    "svc/front": ("", behind_a_service),
    "lws/vllm": ("leaderworkerset", lambda c: c.leaderworkerset("vllm", replicas=2)),
    "isvc/vllm": ("kserve", lambda c: c.inferenceservice("vllm", replicas=2, port=8000)),
    "llmisvc/vllm": ("kserve", lambda c: c.llminferenceservice("vllm", replicas=2)),
}


@pytest.mark.parametrize("named", KINDS)
def test_the_pods_of_each_kind_are_found(named: str, doctor: Doctor, cluster: Cluster) -> None:
    feature, make = KINDS[named]
    work = make(cluster).serve(doctor.vllm())
    cluster.deployment("other", replicas=1).serve(doctor.vllm())
    if feature:
        doctor.allowed("--with", feature)

    recording = doctor.record(f"k8s://inference/{named}", ticks=2)

    shown = {name for name in recording.columns if any("vllm:" in key for key in recording.columns[name])}
    assert shown == {pod.name for pod in work.pods}


def test_a_ray_service_is_read_where_ray_shows_its_metrics(doctor: Doctor, cluster: Cluster) -> None:
    doctor.allowed("--with", "ray")
    work = cluster.rayservice("vllm", replicas=2).serve(doctor.vllm(), port=8080)

    for named in (
        "rayservice/vllm",
        f"raycluster/{work.pods[0].object['metadata']['ownerReferences'][0]['name']}",
    ):
        recording = doctor.record(f"k8s://inference/{named}", ticks=2)
        assert set(recording.columns) >= {pod.name for pod in work.pods}


def test_a_lone_pod_a_selector_and_a_whole_namespace(doctor: Doctor, cluster: Cluster) -> None:
    pod = cluster.pod("vllm-test").serve(doctor.vllm())
    cluster.deployment("web", image="nginx:1", args=["nginx"], gpus=0, container="web", port=80)

    for words in (["vllm-test"], ["pod/vllm-test"], ["-l", "app=vllm-test"]):
        said = doctor.look(*words)
        assert said.code == 0, said.err
        assert [e["instance"] for e in said.json["engines"]] == [pod.name]


def test_only_the_container_that_runs_vllm_is_read(doctor: Doctor, cluster: Cluster) -> None:
    work = cluster.deployment(
        "vllm",
        sidecars=("istio-proxy", "log-shipper"),
        init=("fetch-model",),
        args=["m", "--max-num-seqs", "7"],
    )
    work.pods[0].serve(doctor.vllm()).say("INFO vLLM API server version 0.12.0")

    recording = doctor.record("k8s://inference/deploy/vllm", ticks=2)

    assert {f.key: f.value for f in recording.facts}["max_num_seqs"] == 7
    assert {one.first("container") for one in doctor.asked("pods/log")} == {"vllm"}


def test_the_port_is_that_of_the_arguments(doctor: Doctor, cluster: Cluster) -> None:
    work = cluster.deployment("vllm", port=8000, args=["m", "--port", "9000"])
    work.serve(doctor.vllm(), port=9000)

    assert set(doctor.record("k8s://inference/deploy/vllm", ticks=2).columns) >= {work.pods[0].name}


def test_without_a_name_the_servers_are_listed_to_choose_from(doctor: Doctor, cluster: Cluster) -> None:
    cluster.deployment("llama", replicas=3).pods[0].crash_loop()
    cluster.statefulset("qwen", image="vllm/vllm-openai:v0.11.0")
    cluster.deployment("web", image="nginx:1", args=["nginx"], gpus=0, container="web", port=80)

    said = doctor.run("diagnose")

    assert said.code == 0
    assert "2 vLLM servers" in said.out
    for words in (("deployment/llama", "2/3", "0.12.0"), ("statefulset/qwen", "1/1", "0.11.0")):
        assert any(all(word in line for word in words) for line in said.out.splitlines()), said.out
    assert "web" not in said.out
    assert "kubectl vllmdoctor diagnose" in said.err


def test_all_namespaces_are_listed_with_the_right_to(doctor: Doctor, cluster: Cluster) -> None:
    for namespace in ("team-a", "team-b"):
        cluster.deployment("vllm", namespace=namespace)

    assert doctor.run("diagnose", "-A").code == 3
    doctor.allowed("-A")
    said = doctor.run("diagnose", "-A")

    assert said.code == 0
    assert "team-a" in said.out
    assert "team-b" in said.out


@pytest.mark.parametrize(
    ("words", "code", "line", "hint"),
    [
        (["deploy/vlm"], 3, '"vlm" not found in namespace inference', "deployment/vllm"),
        (["deploy/vllm", "-n", "empty"], 3, "403", "rbac"),
        (["deplyment/vllm"], 2, "no kind named 'deplyment'", "deployment"),
        (["deploy/none"], 3, "0 replicas", ""),
        (["deploy/VLLM_1"], 2, "VLLM_1", ""),
        (["vllm-nope"], 3, '"vllm-nope" not found', ""),
        (["-l", "app=nobody"], 3, "app=nobody", "-A"),
        (["deploy/vllm", "-A"], 2, "-A", ""),
        (["deploy/vllm", "-l", "a=b"], 2, "selector", ""),
    ],
)
def test_what_is_not_there_is_said_in_one_line_with_a_hint(
    words: list[str], code: int, line: str, hint: str, doctor: Doctor, cluster: Cluster
) -> None:
    cluster.deployment("vllm").serve(doctor.vllm())
    cluster.deployment("none", replicas=0)

    said = doctor.look(*words)

    assert said.code == code, said.err
    assert line in said.err
    assert hint in said.err
    assert "Traceback" not in said.err
    assert said.out == ""
    assert len(said.err.strip().splitlines()) <= 2, said.err


def test_a_kind_that_is_not_installed_is_told_from_a_name_that_is_not_there(
    doctor: Doctor, cluster: Cluster
) -> None:
    doctor.allowed("--with", "leaderworkerset")

    said = doctor.look("lws/vllm")

    assert said.code == 3
    assert "LeaderWorkerSet" in said.err
    assert "operator" in said.err


def test_a_kind_that_may_not_be_read_is_found_by_its_labels_and_the_gap_says_which_right(
    doctor: Doctor, cluster: Cluster
) -> None:
    work = cluster.leaderworkerset("vllm").serve(doctor.vllm())

    recording = doctor.record("k8s://inference/lws/vllm", ticks=2)
    said = doctor.look("lws/other")

    assert work.pods[0].name in recording.columns
    (gap,) = [g for g in recording.gaps if "leaderworkersets" in g.why]
    assert gap.hint == "`vllmdoctor rbac --with leaderworkerset` prints a Role that allows it"
    assert said.code == 3
    assert "403: not allowed to get leaderworkersets.leaderworkerset.x-k8s.io" in said.err


def test_two_hundred_pods_are_listed_in_parts_and_all_read(doctor: Doctor, cluster: Cluster) -> None:
    cluster.deployment("vllm", replicas=200).serve(doctor.vllm(lambda: PAGE))

    recording = doctor.record("k8s://inference/deploy/vllm", ticks=1)

    assert sum(any("vllm:" in key for key in of) for of in recording.columns.values()) == 200
    assert all(one.first("limit") for one in doctor.asked("pods") if one.verb == "list")


PAGE = 'vllm:num_requests_running{engine="0",model_name="m"} 1.0\n'
