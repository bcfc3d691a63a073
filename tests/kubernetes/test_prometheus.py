"""The pods' history from a real Prometheus in the cluster, asked through the API server."""

from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from tests.kubernetes.apiserver import Cluster, Workload, failures
from tests.kubernetes.conftest import Doctor
from tests.prometheus import store

from vllmdoctor.sources import Window, gather_targets

EXAMPLES = ("healthy", "overload-kv")
POD = "vllm-7c9d8f6b5d-{}"


@dataclass(frozen=True, slots=True)
class Prometheus:
    """Where it listens, and until when it has the pods' history."""

    address: tuple[str, int]
    end: float


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    """Two recordings, as those of two pods of the deployment."""
    found = store.binaries()
    if not found:
        pytest.skip(f"NOT TESTED: no prometheus with promtool on PATH, nor in {store.PROMETHEUS}")
    folder = tmp_path_factory.mktemp("prometheus")
    recordings = []
    for number, name in enumerate(EXAMPLES):
        place = {"instance": f"10.244.1.{number}:8000", "job": "vllm", "namespace": "inference"}
        recording = gather_targets([f"example:{name}"], Window())
        recordings.append(store.stored(recording, place | {"pod": POD.format(f"aaaa{number + 1}")}))
    for number, one in enumerate(recordings):
        store.write([one], folder / f"{number}.om")
    files = [folder / f"{number}.om" for number in range(len(recordings))]
    with store.prometheus(found[0], files, folder) as url:
        host, _, port = url.removeprefix("http://").partition(":")
        yield Prometheus((host, int(port)), recordings[1].end)


@pytest.fixture
def work(cluster: Cluster, prometheus: Prometheus) -> Workload:
    """The deployment whose pods have that history, and the Prometheus beside it."""
    work = cluster.deployment("vllm", replicas=2)
    for number, pod in enumerate(work.pods):
        cluster.delete(pod)
        pod.object["metadata"]["name"] = POD.format(f"aaaa{number + 1}")
        cluster.add(pod.object)
        cluster.pods["inference", pod.name] = pod
    labels = {"app.kubernetes.io/name": "prometheus"}
    cluster.service("prom", namespace="monitoring", port=9090, labels=labels, backend=prometheus)
    return work


def test_the_history_of_the_pods_is_judged_without_watching_them(
    work: Workload, prometheus: Prometheus, doctor: Doctor
) -> None:
    said = doctor.run("diagnose", "deploy/vllm", "--window", "10m", "--at", str(prometheus.end), "-f", "json")

    assert said.code == 0, said.err
    report = said.json
    assert (report["verdict"], report["primary"]) == ("sick", "overload")
    assert report["scrapes"] > 20
    assert {one.verb for one in doctor.asked("services/proxy")} == {"get"}
    assert {one.name for one in doctor.asked("services/proxy")} == {"prom:9090"}
    assert not [one for one in doctor.asked("pods/proxy") if "metrics" in one.rest]


def test_without_the_right_to_ask_it_the_pods_are_watched_and_a_gap_says_so(
    work: Workload, doctor: Doctor
) -> None:
    work.serve(doctor.vllm())
    doctor.allowed("pods", "metrics")

    recording = doctor.record("k8s://inference/deploy/vllm", ticks=2, prometheus="")

    (gap,) = [g for g in recording.gaps if "Prometheus" in g.what]
    assert "not allowed to list services" in gap.why
    assert sum(any("vllm:" in key for key in of) for of in recording.columns.values()) == 2


def test_a_prometheus_that_fails_is_a_gap_and_the_pods_are_watched(
    work: Workload, doctor: Doctor, cluster: Cluster
) -> None:
    work.serve(doctor.vllm())
    cluster.spoil(failures.unreachable("dial tcp 10.96.0.80:9090: i/o timeout"), resource="services/proxy")

    recording = doctor.record("k8s://inference/deploy/vllm", ticks=2, prometheus="")

    assert any("Prometheus" in g.what and "i/o timeout" in g.why for g in recording.gaps), recording.gaps
    assert sum(any("vllm:" in key for key in of) for of in recording.columns.values()) == 2


def test_an_address_as_pods_write_it_names_the_service(
    work: Workload, prometheus: Prometheus, doctor: Doctor
) -> None:
    url = "http://prom.monitoring.svc:9090"
    words = ["--window", "10m", "--at", str(prometheus.end), "--prometheus", url, "-f", "json"]

    said = doctor.run("diagnose", "deploy/vllm", *words)

    assert said.json["primary"] == "overload"


@pytest.mark.parametrize("url", ["ftp://prometheus:9090", "file:///etc/passwd"])
def test_a_prometheus_that_can_be_none_is_refused_before_anything_is_watched(
    url: str, doctor: Doctor, cluster: Cluster
) -> None:
    cluster.deployment("vllm").serve(doctor.vllm())

    said = doctor.run("diagnose", "deploy/vllm", "--prometheus", url)

    assert said.code == 2
    assert "watching" not in said.err
