"""docs/kubectl.md shows what the commands really print, run against a cluster as it describes one."""

import re
import shlex
from pathlib import Path

import pytest
from tests.kubernetes.apiserver import Cluster, stepped
from tests.kubernetes.conftest import Doctor
from tests.test_docs import matches
from typer.main import get_command

from vllmdoctor import cli

PAGE = (Path(__file__).parents[2] / "docs" / "kubectl.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```text\n\$ kubectl vllmdoctor (.*?)\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
LINES = [line for block in re.findall(r"^```sh\n(.*?)^```", PAGE, re.M | re.S) for line in block.splitlines()]
COMMANDS = [line for line in LINES if re.match(r"(kubectl )?vllmdoctor [a-z]", line)]


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


@pytest.mark.parametrize("line", COMMANDS)
def test_a_command_to_paste_has_only_options_that_there_are(line: str) -> None:
    words = shlex.split(line.partition(" | ")[0], comments=True)
    words = words[words.index("vllmdoctor") + 1 :]
    command = get_command(cli.app).commands[words[0]]  # type: ignore[attr-defined]

    known = {name for parameter in command.params for name in parameter.opts}
    assert {word.partition("=")[0] for word in words if word[0] == "-" and word != "--help"} <= known


def test_every_right_in_the_page_is_one_that_is_printed(doctor: Doctor) -> None:
    listed = doctor.run("rbac", "--list").out

    for resource in re.findall(r"\b(?:pods|services)/[a-z]+\b", PAGE):
        assert resource in listed
