"""What pods write: a history where they show no other, settings and trouble besides."""

import time

import pytest
from tests.kubernetes.apiserver import Cluster, Pod, played
from tests.kubernetes.conftest import Doctor

from vllmdoctor.recording import Recording

TARGET = "k8s://inference/deploy/vllm-server"
LINE = (
    "(APIServer pid=1) INFO {} [loggers.py:123] Engine 000: Avg prompt throughput: 100.0 tokens/s, "
    "Avg generation throughput: 200.0 tokens/s, Running: 5 reqs, Waiting: 2 reqs, "
    "GPU KV cache usage: 10.0%, Prefix cache hit rate: 0.0%"
)


def busy(pod: Pod, lines: int = 30) -> None:
    """A statistics line every ten seconds, up to now."""
    now = time.time()
    for at in range(int(now) - 10 * lines, int(now), 10):
        pod.say(LINE.format(time.strftime("%m-%d %H:%M:%S", time.gmtime(at))), at=float(at))


def logged(recording: Recording) -> list[str]:
    """The histories that came from logs."""
    return [name for name, of in recording.columns.items() if any(s.startswith("log:") for s in of)]


def test_a_lone_pod_has_the_history_of_its_log(doctor: Doctor, cluster: Cluster) -> None:
    (pod,) = cluster.deployment("vllm-server").serve(doctor.vllm()).pods
    busy(pod)

    assert logged(doctor.record(TARGET, ticks=2)) == [f"{pod.name} log"]


@pytest.mark.parametrize("lines", [0, 1])
def test_a_log_with_hardly_a_statistics_line_does_not_blind_a_pod_that_shows_its_metrics(
    lines: int, doctor: Doctor, cluster: Cluster
) -> None:
    (pod,) = cluster.deployment("vllm-server").serve(doctor.vllm(played("healthy"))).pods
    pod.say("INFO 11-29 13:00:00 [api_server.py:1] vLLM API server version 0.12.0")
    busy(pod, lines=lines)
    report = doctor.judge(TARGET, ticks=12)

    assert [(e.instance, e.verdict.value) for e in report.engines] == [(pod.name, "healthy")]


def test_a_log_with_settings_alone_is_judged_where_the_pod_shows_no_metrics(
    doctor: Doctor, cluster: Cluster
) -> None:
    (pod,) = cluster.deployment("vllm-server").serve(doctor.vllm()).pods
    pod.say("INFO 11-29 13:00:00 [api_server.py:1] vLLM API server version 0.12.0")
    doctor.allowed("pods", "logs", "workloads")

    assert logged(doctor.record(TARGET, ticks=2)) == [f"{pod.name} log"]


def test_several_pods_have_theirs_where_it_is_asked_for(doctor: Doctor, cluster: Cluster) -> None:
    work = cluster.deployment("vllm-server", replicas=2).serve(doctor.vllm())
    for pod in work.pods:
        busy(pod)

    assert logged(doctor.record(TARGET, ticks=2)) == []
    assert len(logged(doctor.record(TARGET, ticks=2, since_s=600.0))) == 2


@pytest.mark.parametrize("replicas", [1, 2])
def test_where_no_metrics_may_be_read_the_logs_are_judged(
    replicas: int, doctor: Doctor, cluster: Cluster
) -> None:
    work = cluster.deployment("vllm-server", replicas=replicas).serve(doctor.vllm())
    for pod in work.pods:
        busy(pod)
    doctor.allowed("pods", "logs", "workloads")
    recording = doctor.record(TARGET, ticks=2)

    assert len(logged(recording)) == replicas
    assert any("not allowed to get pods/proxy" in gap.why for gap in recording.gaps)
    assert doctor.look("deploy/vllm-server").code in (0, 1)


def test_a_log_that_holds_nothing_in_the_time_asked_for_is_a_gap(doctor: Doctor, cluster: Cluster) -> None:
    (pod,) = cluster.deployment("vllm-server").serve(doctor.vllm()).pods
    pod.say("INFO: 10.0.0.1 - GET /health 200", at=time.time() - 5)
    gaps = {gap.what: gap.why for gap in doctor.record(TARGET, ticks=2, since_s=60.0).gaps}

    assert gaps["what its log tells"] == "it holds nothing of a vLLM server's in the last 60 s"
