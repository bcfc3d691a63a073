"""Which container of a pod runs vLLM, on which port, and why a pod does not run."""

from typing import Any

import pytest

from vllmdoctor.errors import UsageError
from vllmdoctor.kube.around import quantity
from vllmdoctor.kube.find import selector_text
from vllmdoctor.kube.kinds import KINDS
from vllmdoctor.kube.pods import Pod, moment, pod_of, serves_vllm, trouble

POD = KINDS["pod"]
VLLM = {"name": "server", "image": "vllm/vllm-openai:v0.12.0", "args": ["--model", "m"]}
PROXY = {"name": "istio-proxy", "image": "istio/proxyv2:1.24", "ports": [{"containerPort": 15090}]}


def made(*containers: dict[str, Any], status: dict[str, Any] | None = None) -> dict[str, Any]:
    meta = {"name": "vllm-0", "namespace": "inference"}
    return {"metadata": meta, "spec": {"containers": list(containers)}, "status": status or {}}


def chosen(*containers: dict[str, Any], kind: str = "pod", wanted: str = "") -> Pod:
    return pod_of(made(*containers), KINDS[kind], wanted)


@pytest.mark.parametrize(
    ("containers", "name"),
    [
        ((PROXY, VLLM), "server"),
        ((VLLM, PROXY), "server"),
        (({"name": "main", "image": "own/llm:1", "command": ["sh", "-c", "vllm serve m"]}, PROXY), "main"),
        (({"name": "router", "image": "lmcache/vllm-router:1"}, VLLM), "server"),
        (
            (
                {"name": "transformer", "image": "own/pre:1"},
                {"name": "engine", "image": "own/llm:1", "resources": {"limits": {"nvidia.com/gpu": "2"}}},
            ),
            "engine",
        ),
        (({"name": "a", "image": "x"}, {"name": "b", "image": "y", "env": [{"name": "VLLM_PORT"}]}), "b"),
        (({"name": "a", "image": "x"}, {"name": "b", "image": "y"}), "a"),
    ],
)
def test_the_container_that_runs_vllm_is_picked(containers: tuple[dict[str, Any], ...], name: str) -> None:
    assert chosen(*containers).container == name


def test_a_container_that_was_named_is_taken_and_a_wrong_name_is_said() -> None:
    assert chosen(PROXY, VLLM, wanted="istio-proxy").container == "istio-proxy"
    with pytest.raises(UsageError) as caught:
        chosen(PROXY, VLLM, wanted="vllm")
    assert caught.value.message == "no container 'vllm' in pod vllm-0"
    assert caught.value.hint == "it has: istio-proxy, server"


@pytest.mark.parametrize(
    ("container", "kind", "port"),
    [
        (VLLM, "pod", 8000),
        (VLLM | {"args": ["--port", "8080"]}, "pod", 8080),
        (VLLM | {"args": ["--port=9000"], "ports": [{"containerPort": 8000}]}, "pod", 9000),
        (VLLM | {"command": ["sh", "-c", "vllm serve m --port 7000"]}, "pod", 7000),
        (VLLM | {"ports": [{"containerPort": 55555}, {"containerPort": 8000}]}, "pod", 8000),
        (VLLM | {"ports": [{"containerPort": 5000, "name": "http"}]}, "pod", 5000),
        (VLLM, "inferenceservice", 8080),
        (
            VLLM | {"ports": [{"containerPort": 8265}, {"containerPort": 8081, "name": "metrics"}]},
            "raycluster",
            8081,
        ),
        (VLLM, "rayservice", 8080),
    ],
)
def test_the_port_is_told_by_arguments_then_by_names_then_by_habit(
    container: dict[str, Any], kind: str, port: int
) -> None:
    assert chosen(container, kind=kind).port == port


def test_a_proxied_name_has_a_number_and_says_where_tls_is_spoken() -> None:
    assert chosen(VLLM).proxied == "vllm-0:8000"
    assert chosen(VLLM | {"args": ["--ssl-keyfile", "/k"]}).proxied == "https:vllm-0:8000"


@pytest.mark.parametrize(
    ("container", "serves"),
    [
        (VLLM, True),
        ({"name": "main", "image": "own/llm:1", "args": ["vllm", "serve", "m"]}, True),
        ({"name": "router", "image": "vllm/vllm-router:1"}, False),
        ({"name": "sglang", "image": "lmsys/sglang:1", "resources": {"limits": {"nvidia.com/gpu": 1}},
          "ports": [{"containerPort": 8000}]}, False),
        (PROXY, False),
    ],
)  # fmt: skip
def test_a_pod_is_taken_for_a_server_only_where_something_says_vllm(
    container: dict[str, Any], serves: bool
) -> None:
    assert serves_vllm(made(container)) is serves


def state(restarts: int = 0, last: dict[str, Any] | None = None, **now: Any) -> dict[str, Any]:
    container = {"name": "server", "restartCount": restarts, "state": now}
    return {"phase": "Running", "containerStatuses": [container | ({"lastState": last} if last else {})]}


@pytest.mark.parametrize(
    ("status", "why"),
    [
        (state(running={}), ""),
        (
            state(
                7,
                {"terminated": {"reason": "OOMKilled", "exitCode": 137}},
                waiting={"reason": "CrashLoopBackOff"},
            ),
            "CrashLoopBackOff (7 restarts, the last end: OOMKilled, exit code 137)",
        ),
        (
            state(waiting={"reason": "ImagePullBackOff", "message": 'Back-off pulling image "x"'}),
            'ImagePullBackOff (0 restarts): Back-off pulling image "x"',
        ),
        (state(terminated={"reason": "Error", "exitCode": 1}), "ended: exit code 1"),
        (
            {
                "phase": "Pending",
                "conditions": [
                    {"type": "PodScheduled", "status": "False", "message": "3 Insufficient nvidia.com/gpu."}
                ],
            },
            "Pending: 3 Insufficient nvidia.com/gpu.",
        ),
        ({"phase": "Failed", "reason": "Evicted", "message": "low on memory"}, "Evicted: low on memory"),
        ({}, "Unknown"),
    ],
)
def test_why_a_pod_does_not_run_is_told_in_words(status: dict[str, Any], why: str) -> None:
    assert trouble(pod_of(made(VLLM, status=status), POD, "")) == why


def test_a_selector_is_written_as_a_query_has_it() -> None:
    selector = {
        "matchLabels": {"app": "vllm"},
        "matchExpressions": [
            {"key": "tier", "operator": "In", "values": ["a", "b"]},
            {"key": "old", "operator": "DoesNotExist"},
            {"key": "gpu", "operator": "Exists"},
            {"key": "x", "operator": "NotIn", "values": ["c"]},
        ],
    }
    assert selector_text(selector) == "app=vllm,tier in (a,b),!old,gpu,x notin (c)"


@pytest.mark.parametrize(
    ("text", "number"),
    [("8", 8.0), ("500m", 0.5), ("40Gi", 40 * 2.0**30), ("1.5G", 1.5e9), ("", None), ("much", None)],
)
def test_a_quantity_is_read_in_plain_units(text: str, number: float | None) -> None:
    assert quantity(text) == number


def test_times_are_read_with_and_without_fractions() -> None:
    assert moment("1970-01-01T00:01:00Z") == 60.0
    assert moment("1970-01-01T00:01:00.500000000Z") == 60.5
    assert moment("soon") is None
