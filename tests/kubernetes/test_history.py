"""Which history belongs to which pods, and where a Prometheus is looked for."""

import pytest
from tests.kubernetes.conftest import Doctor

from vllmdoctor.kube.door import Door
from vllmdoctor.kube.find import find
from vllmdoctor.kube.names import parse
from vllmdoctor.kube.nouns import Access
from vllmdoctor.sources.kube.history import address_of, matchers, service_of


def asked(target: str) -> str:
    with Door(Access()) as door:
        return matchers(find(door, parse(target)))


def test_a_workload_is_matched_with_the_pods_before_it(doctor: Doctor) -> None:
    doctor.cluster.deployment("vllm-server", replicas=2)
    doctor.cluster.statefulset("vllm.big", replicas=2)
    lone = doctor.cluster.pod("lone")

    assert asked("k8s://inference/deploy/vllm-server") == (
        'namespace=~"inference",pod=~"vllm-server-[0-9a-z]{6,10}-[0-9a-z]{5}"'
    )
    assert asked("k8s://inference/sts/vllm.big") == 'namespace=~"inference",pod=~"vllm[.]big-[0-9]+"'
    assert asked(f"k8s://inference/{lone.name}") == 'namespace=~"inference",pod=~"lone"'


@pytest.mark.parametrize(
    ("url", "service"),
    [
        ("http://prom.monitoring.svc:9090", ("monitoring", "prom", "9090", "")),
        ("http://prom.monitoring.svc.cluster.local:9090/p", ("monitoring", "prom", "9090", "/p")),
        ("https://prom.monitoring.svc", ("monitoring", "prom", "443", "")),
        ("http://prometheus.example.com:9090", None),
        ("http://localhost:9090", None),
    ],
)
def test_an_address_that_only_pods_know_is_asked_through_the_api_server(
    url: str, service: tuple[str, str, str, str] | None
) -> None:
    assert service_of(url) == service


def test_the_prometheus_of_an_operator_is_found_and_no_other_program(doctor: Doctor) -> None:
    doctor.cluster.deployment("vllm-server")
    labels = {"app.kubernetes.io/name": "prometheus"}
    doctor.cluster.service("prometheus-operator", namespace="monitoring", port=9090, labels=labels)
    with Door(Access()) as door:
        found = find(door, parse("k8s://inference/deploy/vllm-server"))
        assert address_of(door, found) == ""
        operated = {"operated-prometheus": "true"}
        doctor.cluster.service("prometheus-operated", namespace="monitoring", port=9090, labels=operated)
        assert address_of(door, found) == "http://prometheus-operated.monitoring.svc:9090"
