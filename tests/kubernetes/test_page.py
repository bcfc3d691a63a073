"""docs/kubectl.md shows what the commands really print, run against a cluster as it describes one."""

import re
from pathlib import Path

import pytest
from tests.kubernetes.apiserver import Cluster, stepped
from tests.kubernetes.conftest import Doctor
from tests.test_docs import matches

PAGE = (Path(__file__).parents[2] / "docs" / "kubectl.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```text\n\$ kubectl vllmdoctor (.*?)\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize(("command", "shown"), BLOCKS, ids=[command for command, _ in BLOCKS])
def test_a_block_shows_what_the_command_prints(
    command: str, shown: str, doctor: Doctor, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    args = ["--model", "Qwen/Qwen2.5-7B-Instruct", "--max-num-seqs", "64"]
    work = cluster.deployment("vllm-server", replicas=3, args=args)
    for pod in work.pods:
        pod.serve(doctor.vllm(stepped("healthy", step=20), version="0.12.0"))
    work.pods[0].serve(doctor.vllm(stepped("overload-kv", start=60, step=20), version="0.12.0"))
    other = cluster.statefulset("embedder", image="vllm/vllm-openai:v0.11.0", args=["--model", "BAAI/bge-m3"])
    other.pods[0].crash_loop()
    # the page watches for a minute; here the recordings are played twenty times as fast
    words = command.replace("--for 1m", "--for 3s --every 1s").split()

    said = doctor.run(*words)

    real = (said.out if said.out else said.err).rstrip("\n")
    assert matches(shown.rstrip("\n"), real), f"$ kubectl vllmdoctor {command}\n{real}"


def test_every_right_in_the_page_is_one_that_is_printed(doctor: Doctor) -> None:
    listed = doctor.run("rbac", "--list").out

    for resource in re.findall(r"\b(?:pods|services)/[a-z]+\b", PAGE):
        assert resource in listed
