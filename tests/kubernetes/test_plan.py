"""A plan for a workload of a cluster takes everything from the cluster, and applies nothing."""

from pathlib import Path

import pytest
import yaml
from tests.kubernetes.apiserver import stepped
from tests.kubernetes.conftest import Doctor, Said

ARGS = ["--model", "m", "--max-num-seqs", "64", "--num-gpu-blocks-override", "64"]


@pytest.fixture
def planned(doctor: Doctor, tmp_path: Path) -> tuple[Said, Path]:
    """What `plan --write` printed for an overloaded deployment of three replicas, and the folder."""
    work = doctor.cluster.deployment("vllm-server", replicas=3, image="vllm/vllm-openai:v0.12.0", args=ARGS)
    work.serve(doctor.vllm(stepped("healthy")))
    work.pods[0].serve(doctor.vllm(stepped("overload-kv", start=40)))
    doctor.cluster.service("front", work)
    doctor.cluster.autoscaler(work)
    folder = tmp_path / "plan"
    said = doctor.run("plan", "deploy", "vllm-server", "--for", "4s", "--every", "1s", "--write", str(folder))
    return said, folder


def test_names_arguments_and_replicas_come_from_the_cluster(planned: tuple[Said, Path]) -> None:
    said, folder = planned
    patch = yaml.safe_load((folder / "patch-args.yaml").read_text(encoding="utf-8"))
    (container,) = patch["spec"]["template"]["spec"]["containers"]
    written = {path.name: path.read_text(encoding="utf-8") for path in folder.iterdir()}

    assert said.code == 0
    assert container["name"] == "vllm"
    assert container["args"][:5] == ARGS[:5]
    assert container["args"][5] != "64"
    assert "minReplicas: 3" in written["hpa.yaml"]
    assert "replace-me-namespace" not in "".join(written.values())
    assert "replace-me-deployment" not in "".join(written.values())


def test_the_commands_to_copy_name_each_file_once_to_look_and_once_to_apply(
    planned: tuple[Said, Path],
) -> None:
    said, folder = planned
    lines = [line.strip() for line in said.out.splitlines() if line.startswith("  kubectl ")]
    patch = "kubectl -n inference patch deployment/vllm-server --type strategic"
    patch += f" --patch-file {folder}/patch-args.yaml"

    assert f"{patch} --dry-run=server -o yaml | kubectl diff -f -" in lines
    assert patch in lines
    assert f"kubectl diff -f {folder}/hpa.yaml" in lines
    assert f"kubectl apply -f {folder}/hpa.yaml" in lines


def test_what_scales_the_workload_already_is_said(planned: tuple[Said, Path]) -> None:
    said, _ = planned
    assert "Beware: horizontalpodautoscaler/vllm-server 1 to 4 scales it already." in said.out


def test_a_context_that_was_chosen_stands_in_every_command(doctor: Doctor, tmp_path: Path) -> None:
    work = doctor.cluster.deployment("vllm-server", args=ARGS)
    work.serve(doctor.vllm(stepped("overload-kv", start=40)))
    words = ("plan", "deploy/vllm-server", "--context", "test", "--for", "4s", "--every", "1s")
    said = doctor.run(*words, "--write", str(tmp_path / "plan"))
    lines = [line for line in said.out.splitlines() if line.startswith("  kubectl ")]

    assert lines
    assert all(line.startswith("  kubectl --context test ") for line in lines)
    assert all("| kubectl --context test diff" in line for line in lines if "|" in line)


def test_an_operator_that_would_undo_a_patch_is_named(doctor: Doctor) -> None:
    work = doctor.cluster.inferenceservice("llama", args=ARGS)
    work.serve(doctor.vllm(stepped("healthy")), port=8080)
    pod = work.pods[0].name
    gaps = {gap.what: gap for gap in doctor.record(f"k8s://inference/{pod}", ticks=2).gaps}

    told = gaps["what keeps a change of deployment/llama-predictor"]
    assert told.why == "InferenceService/llama makes it, and undoes what others change"
    assert told.hint == "change inferenceservice/llama instead"


def test_a_plan_for_what_an_operator_makes_patches_the_deployment_and_says_beware(
    doctor: Doctor, tmp_path: Path
) -> None:
    work = doctor.cluster.inferenceservice("llama", args=ARGS)
    work.serve(doctor.vllm(stepped("overload-kv", start=40)), port=8080)
    doctor.allowed("pods", "metrics", "workloads", "kserve")
    folder = tmp_path / "plan"
    said = doctor.run("plan", "isvc/llama", "--for", "4s", "--every", "1s", "--write", str(folder))

    assert "patch deployment/llama-predictor --type strategic" in said.out
    assert "Beware: InferenceService/llama makes it, and undoes what others change" in said.out
