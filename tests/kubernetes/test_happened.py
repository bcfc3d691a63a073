"""What happened to a workload: roll-outs with what they changed, the cluster's events, what stands around."""

import copy
import time
from typing import Any

from tests.kubernetes.apiserver import Cluster
from tests.kubernetes.apiserver.kinds import named
from tests.kubernetes.apiserver.manifests import stamp
from tests.kubernetes.conftest import Doctor

from vllmdoctor.model import Event

TARGET = "k8s://inference/deploy/vllm-server"


def events(doctor: Doctor, target: str = TARGET) -> dict[str, Event]:
    """The last event of each kind."""
    return {event.kind: event for event in doctor.record(target, ticks=2).events}


def revised(cluster: Cluster, image: str, args: list[str], ago_s: float) -> None:
    """An older ReplicaSet beside the one that runs, which came `ago_s` ago as revision 2."""
    new: dict[str, Any] = next(iter(cluster.store.objects[named("ReplicaSet")].values()))
    old = copy.deepcopy(new)
    old["metadata"] |= {"name": "vllm-server-5d4f8b7c6d", "uid": "old"}
    for item, number, at in ((old, "1", 7200.0), (new, "2", ago_s)):
        item["metadata"]["annotations"] = {"deployment.kubernetes.io/revision": number}
        item["metadata"]["creationTimestamp"] = stamp(time.time() - at)
    container = old["spec"]["template"]["spec"]["containers"][-1]
    container |= {"image": image, "args": args}
    cluster.add(old)


def test_a_rollout_is_an_event_that_says_what_it_changed(doctor: Doctor, cluster: Cluster) -> None:
    args = ["--model", "m", "--max-num-seqs", "256"]
    work = cluster.deployment("vllm-server", image="vllm/vllm-openai:v0.12.0", args=args)
    work.serve(doctor.vllm())
    revised(cluster, "vllm/vllm-openai:v0.11.0", ["--model", "m", "--max-num-seqs", "64"], 600.0)
    rollout = events(doctor)["rollout"]

    assert rollout.text == (
        "deployment/vllm-server revision 2: image v0.11.0 -> v0.12.0, --max-num-seqs 64 -> 256"
    )
    assert 590 < time.time() - rollout.time < 660


def test_without_the_right_to_see_revisions_a_gap_says_what_is_lost(doctor: Doctor, cluster: Cluster) -> None:
    cluster.deployment("vllm-server", args=["--model", "m"]).serve(doctor.vllm())
    doctor.allowed("pods", "metrics")
    gaps = {gap.what: gap.why for gap in doctor.record(TARGET, ticks=2).gaps}

    refused = "403: not allowed to get deployments.apps in namespace inference"
    assert gaps["who owns the pods, their replicas, and what to patch"] == refused


def test_events_of_others_and_routine_are_left_out(doctor: Doctor, cluster: Cluster) -> None:
    work = cluster.deployment("vllm-server").serve(doctor.vllm())
    other = cluster.deployment("web")
    cluster.event(work.pods[0], "Pulled", "image is there", kind="Normal")
    cluster.event(work.pods[0], "Unhealthy", "Readiness probe failed: 503", count=3)
    cluster.event(other.pods[0], "BackOff", "restarting")
    found = events(doctor)

    assert found["unhealthy"].text == "Unhealthy: Readiness probe failed: 503 (3 times)"
    assert found["unhealthy"].instance == work.pods[0].name
    assert {"pulled", "back-off"} & set(found) == set()


def test_what_scales_and_protects_a_workload_is_a_fact_also_where_it_is_none(
    doctor: Doctor, cluster: Cluster
) -> None:
    scaled = cluster.deployment("vllm-server").serve(doctor.vllm())
    cluster.autoscaler(scaled, low=2, high=6)
    cluster.deployment("bare").serve(doctor.vllm())
    facts = {
        name: {f.key: f.value for f in doctor.record(f"k8s://inference/deploy/{name}", ticks=2).facts}
        for name in ("vllm-server", "bare")
    }

    assert facts["vllm-server"]["autoscaler"] == "horizontalpodautoscaler/vllm-server 2 to 6"
    assert facts["bare"]["autoscaler"] == "none"
    assert facts["vllm-server"]["pod_disruption_budget"] == "none"


def test_a_node_under_pressure_is_an_event_of_its_pods(doctor: Doctor, cluster: Cluster) -> None:
    cluster.deployment("vllm-server").serve(doctor.vllm())
    node: dict[str, Any] = next(
        n for n in cluster.store.objects[named("Node")].values() if n["metadata"]["name"] == "gpu-node-1"
    )
    since = stamp(time.time() - 120)
    pressure = {"type": "MemoryPressure", "status": "True", "lastTransitionTime": since, "message": "low"}
    node["status"]["conditions"] = [pressure]

    assert events(doctor)["node-trouble"].text == "node gpu-node-1: MemoryPressure is True: low"
