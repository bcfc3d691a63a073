"""`kubectl vllmdoctor`, run by real kubectl: help, errors, exit codes, completion, and Ctrl-C."""

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
from tests.kubernetes.apiserver import Cluster, stepped
from tests.kubernetes.conftest import Doctor
from tests.kubernetes.kubectls import Kubectl

from vllmdoctor import __version__

Run = Callable[..., "subprocess.CompletedProcess[str]"]
SCRIPTS = {
    "kubectl-vllmdoctor": "from vllmdoctor.kubectl import main; sys.exit(main())",
    "kubectl_complete-vllmdoctor": "from vllmdoctor.kubectl import complete; sys.exit(complete())",
}

# what is the same for all of them is tried with the oldest and the newest
ENDS = pytest.mark.parametrize("kubectl", ["1.20", "1.37"], indirect=True)


@pytest.fixture
def plugin(kubectl: Kubectl, doctor: Doctor, tmp_path: Path) -> Run:
    """Runs kubectl with the plugin on PATH, as it is installed."""
    for name, code in SCRIPTS.items():
        script = tmp_path / name
        script.write_text(f"#!{sys.executable}\nimport sys\n{code}\n", encoding="utf-8")
        script.chmod(0o755)
    source = str(Path(__file__).parents[2] / "src")
    path = os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PATH")])])
    environment = {**os.environ, "PATH": path, "PYTHONPATH": source, "PYTHONWARNINGS": "error"}

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        command = [kubectl.path, *words]
        return subprocess.run(command, capture_output=True, text=True, env=environment, timeout=60)

    run.environment, run.path = environment, kubectl.path  # type: ignore[attr-defined]
    return run


def test_kubectl_finds_it_and_it_calls_itself_by_the_words_that_were_typed(plugin: Run) -> None:
    said = plugin("vllmdoctor", "--help")
    assert said.returncode == 0
    assert "kubectl vllmdoctor" in said.stdout
    assert plugin("vllmdoctor", "--version").stdout == f"vllmdoctor {__version__}\n"
    assert "kubectl-vllmdoctor" in plugin("plugin", "list").stdout


def test_errors_and_exit_codes_are_the_plugins_own(plugin: Run, cluster: Cluster) -> None:
    cluster.deployment("vllm", replicas=0)

    misuse = plugin("vllmdoctor", "diagnose", "deplyment/vllm")
    blind = plugin("vllmdoctor", "diagnose", "deploy/vllm")

    assert (misuse.returncode, blind.returncode) == (2, 3)
    assert misuse.stderr.splitlines()[0] == "vllmdoctor: no kind named 'deplyment'"
    assert "0 replicas" in blind.stderr


@ENDS
def test_a_sick_pod_is_diagnosed_and_can_fail_a_script(plugin: Run, doctor: Doctor, cluster: Cluster) -> None:
    work = cluster.deployment("vllm", replicas=2)
    for pod in work.pods:
        pod.serve(doctor.vllm(stepped("overload-kv", start=60, step=20)))

    said = plugin(
        *("vllmdoctor", "diagnose", "deploy/vllm", "-n", "inference", "--for", "3s", "--every", "1s"),
        *("-f", "json", "--fail-on", "critical"),
    )

    report = json.loads(said.stdout)
    assert (said.returncode, report["verdict"]) == (1, "sick"), said.stderr
    assert {engine["instance"] for engine in report["engines"]} == {pod.name for pod in work.pods}


def test_flags_before_its_name_fail_by_kubectls_own_rule(plugin: Run) -> None:
    said = plugin("-n", "inference", "vllmdoctor", "diagnose", "deploy/vllm")

    assert said.returncode == 1
    assert "flags cannot be placed before plugin name" in said.stderr


def test_tab_offers_commands_objects_and_namespaces(plugin: Run, kubectl: Kubectl, cluster: Cluster) -> None:
    if kubectl.version < (1, 26):
        pytest.skip("kubectl completes plugins from 1.26 on")
    pod = cluster.deployment("vllm").pods[0]

    def offered(*words: str) -> list[str]:
        lines = plugin("__complete", "vllmdoctor", *words).stdout.splitlines()
        return [line.partition("\t")[0] for line in lines]

    assert "diagnose" in offered("dia")
    assert pod.name in offered("diagnose", "")
    assert "deploy/vllm" in offered("diagnose", "deploy/v")
    assert "--namespace" in offered("diagnose", "--names")


@ENDS
def test_ctrl_c_judges_what_is_there_and_leaves_nothing_behind(
    plugin: Run, doctor: Doctor, cluster: Cluster
) -> None:
    cluster.deployment("vllm").serve(doctor.vllm(stepped("overload-kv", start=60, step=20)))
    doctor.allowed("pods", "port-forward")
    words = ["vllmdoctor", "diagnose", "deploy/vllm", "--for", "10m", "--every", "1s", "-f", "json"]
    process = subprocess.Popen(
        [plugin.path, *words],  # type: ignore[attr-defined]
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=plugin.environment,  # type: ignore[attr-defined]
        start_new_session=True,
    )
    with process:
        for _ in range(600):
            if len(doctor.asked("pods/portforward")) >= 6:
                break
            doctor.server.ended.wait(0.05)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=30)

    assert process.returncode == 0, err
    assert json.loads(out)["scrapes"] >= 3
    assert "Traceback" not in err
    assert in_group(process.pid) == []


def in_group(group: int) -> list[str]:
    """What still runs of a group of processes."""
    running = []
    for process in psutil.process_iter():
        with contextlib.suppress(ProcessLookupError, psutil.Error):
            if os.getpgid(process.pid) == group:
                running.append(process.name())
    return running
