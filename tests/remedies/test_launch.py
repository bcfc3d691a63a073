"""Launch commands in every form that people keep them in, and the facts they hold."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vllmdoctor.errors import UsageError, VllmDoctorError
from vllmdoctor.launch import Launch, count
from vllmdoctor.launch_edit import edited
from vllmdoctor.launch_text import parse_command, parse_text, read_launch
from vllmdoctor.model import Effort, Step


def facts(launch: Launch) -> dict[str, object]:
    return {f.key: f.value for f in launch.facts}


COMMON = {
    "model": "meta-llama/Llama-3-8B",
    "max_num_seqs": 64.0,
    "gpu_memory_utilization": "0.9",
    "enable_prefix_caching": False,
}
ARGUMENTS = "--max-num-seqs 64 --gpu-memory-utilization=0.9 --no-enable-prefix-caching"
FORMS = {
    "vllm serve": f"vllm serve meta-llama/Llama-3-8B {ARGUMENTS}",
    "continued": "vllm serve meta-llama/Llama-3-8B \\\n  --max-num-seqs 64 \\\n"
    "  # a comment\n  --gpu-memory-utilization 0.9 \\\n  --no-enable-prefix-caching\n",
    "environment": f"CUDA_VISIBLE_DEVICES=0 VLLM_USE_V1=1 vllm serve meta-llama/Llama-3-8B {ARGUMENTS}",
    "module": f"python3 -m vllm.entrypoints.openai.api_server --model meta-llama/Llama-3-8B {ARGUMENTS}",
    "exec": f"exec vllm serve meta-llama/Llama-3-8B {ARGUMENTS}",
    "after another": f"cd /models && vllm serve meta-llama/Llama-3-8B {ARGUMENTS} 2>&1 | tee log",
    "shell": f"bash -c 'vllm serve meta-llama/Llama-3-8B {ARGUMENTS}'",
    "docker": "docker run --rm --gpus all -v ~/.cache:/root/.cache -p 8000:8000 --name vllm "
    f"vllm/vllm-openai:v0.11.0 --model meta-llama/Llama-3-8B {ARGUMENTS}",
    "arguments alone": f"--model meta-llama/Llama-3-8B {ARGUMENTS}",
    "underscores": "vllm serve meta-llama/Llama-3-8B --max_num_seqs 64 --gpu_memory_utilization 0.9 "
    "--no_enable_prefix_caching".replace("--no_e", "--no-e"),
    "configuration": "model: meta-llama/Llama-3-8B\nmax-num-seqs: 64\ngpu-memory-utilization: 0.9\n"
    "enable-prefix-caching: false\n",
    "deployment": """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: vllm, namespace: ai}
spec:
  replicas: 2
  selector: {matchLabels: {app: vllm}}
  template:
    spec:
      containers:
        - name: proxy
          image: envoy
        - name: server
          image: docker.io/vllm/vllm-openai:v0.11.0
          command: ["vllm", "serve"]
          args: ["meta-llama/Llama-3-8B", "--max-num-seqs", "$(SEQS)", "--gpu-memory-utilization=0.9",
                 "--no-enable-prefix-caching"]
          env: [{name: SEQS, value: "64"}]
""",
    "deployment with a shell": f"""\
apiVersion: v1
kind: List
items:
  - apiVersion: apps/v1
    kind: StatefulSet
    metadata: {{name: vllm}}
    spec:
      template:
        spec:
          containers:
            - name: server
              image: vllm/vllm-openai:latest
              command: ["/bin/sh", "-c", "exec vllm serve meta-llama/Llama-3-8B {ARGUMENTS}"]
""",
    "chart values": """\
servingEngineSpec:
  modelSpec:
    - name: llama
      repository: vllm/vllm-openai
      tag: v0.11.0
      modelURL: meta-llama/Llama-3-8B
      vllmConfig:
        maxNumSeqs: 64
        gpuMemoryUtilization: 0.9
        enablePrefixCaching: false
""",
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_gives_the_same_facts(form: str) -> None:
    launch = parse_text(FORMS[form], "cmd.txt")

    told = facts(launch)
    for beside in ("vllm_version", "replicas"):
        told.pop(beside, None)
    assert {k: str(v) for k, v in told.items()} == {k: str(v) for k, v in COMMON.items()}
    assert launch.stray == ()


def test_each_fact_says_where_it_is_from() -> None:
    assert {f.origin for f in parse_command(FORMS["vllm serve"], "--args").facts} == {"--args"}


@pytest.mark.parametrize("form", ["docker", "deployment", "chart values"])
def test_an_images_tag_tells_the_release(form: str) -> None:
    launch = parse_text(FORMS[form], "x")

    assert str(launch.version) == "0.11.0"
    assert facts(launch)["vllm_version"] == "0.11.0"


def test_a_tag_that_is_no_release_tells_none() -> None:
    assert parse_text(FORMS["deployment with a shell"], "x").version is None


def test_the_workload_is_told_by_the_manifest() -> None:
    told = parse_text(FORMS["deployment"], "x").workload

    assert told is not None
    assert (told.kind, told.name, told.namespace, told.container) == ("Deployment", "vllm", "ai", "server")
    assert (told.replicas, told.labels, told.field, told.index) == (2, (("app", "vllm"),), "args", 1)
    assert facts(parse_text(FORMS["deployment"], "x"))["replicas"] == 2


def test_short_forms_lists_json_and_environment() -> None:
    launch = parse_command(
        "VLLM_USE_V1=1 vllm serve m -tp 4 -dp 2 --served-model-name a b --max-model-len 32k "
        """--speculative-config '{"method": "mtp", "num_speculative_tokens": 3}' """
        "--structured-outputs-config.backend xgrammar",
        "--args",
    )

    told = facts(launch)
    assert (told["tensor_parallel_size"], told["data_parallel_size"]) == (4.0, 2.0)
    assert told["served_model_name"] == "a b"
    assert told["max_model_len"] == 32000.0
    assert told["num_speculative_tokens"] == 3.0
    assert told["structured_outputs_config.backend"] == "xgrammar"
    assert launch.env == (("VLLM_USE_V1", "1"),)


def test_a_secret_never_becomes_a_fact() -> None:
    launch = parse_command("vllm serve m --api-key abc123 --hf-token hf_xyz --max-num-seqs 4", "--args")

    assert "abc123" not in str(launch.facts)
    assert "hf_xyz" not in str(launch.facts)


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("8192", 8192),
        ("8k", 8000),
        ("8K", 8192),
        ("25.6k", 25600),
        ("1M", 1048576),
        ("auto", None),
        ("-1", -1),
    ],
)
def test_numbers_are_read_as_the_server_reads_them(text: str, number: float | None) -> None:
    assert count(text) == number


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("vllm serve 'model", "no shell command"),
        ("   \n", "is empty"),
        ("apiVersion: v1\nkind: Service\nspec: {}\n", "no container that runs vLLM"),
        ("apiVersion: v1\nkind: [\n", "is no YAML"),
        ("docker run nginx", "no vLLM image"),
        ("servingEngineSpec:\n  modelSpec: []\n", "name no model"),
    ],
)
def test_what_cannot_be_read_is_one_clear_error(text: str, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        parse_text(text, "cmd.txt")


def test_a_file_that_is_not_there_is_one_clear_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="could not be read"):
        read_launch(path=str(tmp_path / "none.txt"))
    (tmp_path / "bytes").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UsageError, match="is no text"):
        read_launch(path=str(tmp_path / "bytes"))
    with pytest.raises(UsageError, match="both"):
        read_launch(args="x", path="y")


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=200))
def test_no_text_breaks_the_reader(text: str) -> None:
    try:
        launch = parse_text(text, "cmd.txt")
    except VllmDoctorError:
        return
    assert isinstance(launch.facts, tuple)


WORDS = st.lists(
    st.sampled_from(
        [
            "--max-num-seqs",
            "64",
            "--no-enable-prefix-caching",
            "--x=1",
            "-tp",
            "2",
            "m",
            "{}",
            "--",
            "-",
            "serve",
            "apiVersion: v1",
            "kind: Pod",
            "spec:",
            "  containers: [{image: vllm}]",
            "\n",
            "docker",
            "run",
            "'a b'",
        ]
    ),
    max_size=12,
)


@settings(max_examples=200, deadline=None)
@given(WORDS, st.sampled_from([" ", "\n"]))
def test_no_arrangement_of_words_breaks_the_reader(words: list[str], between: str) -> None:
    try:
        launch = parse_text(between.join(words), "cmd.txt")
    except VllmDoctorError:
        return
    assert isinstance(launch.facts, tuple)


# --- editing


def step(name: str, before: str, after: str) -> Step:
    return Step(
        "s", "t", "a", "helps", "w", Effort.RESTART, ("overload",), flag=name, before=before, after=after
    )


@pytest.mark.parametrize(
    ("name", "before", "after", "words"),
    [
        (
            "--max-num-seqs",
            "64",
            "4",
            "m --max-num-seqs 4 --gpu-memory-utilization=0.9 --no-enable-prefix-caching",
        ),
        (
            "--gpu-memory-utilization",
            "0.9",
            "0.95",
            "m --max-num-seqs 64 --gpu-memory-utilization 0.95 --no-enable-prefix-caching",
        ),
        (
            "--enable-prefix-caching",
            "False",
            "True",
            "m --max-num-seqs 64 --gpu-memory-utilization=0.9 --enable-prefix-caching",
        ),
        ("--max-num-seqs", "64", "removed", "m --gpu-memory-utilization=0.9 --no-enable-prefix-caching"),
        (
            "--watermark",
            "0.0",
            "0.02",
            "m --max-num-seqs 64 --gpu-memory-utilization=0.9 --no-enable-prefix-caching --watermark 0.02",
        ),
    ],
)
def test_a_step_changes_its_own_argument_alone(name: str, before: str, after: str, words: str) -> None:
    launch = parse_command(f"vllm serve m {ARGUMENTS}", "--args")

    assert " ".join(edited(launch, [step(name, before, after)])) == f"vllm serve {words}"


def test_a_step_for_speculation_changes_one_number_of_its_json() -> None:
    launch = parse_command(
        """vllm serve m --speculative-config '{"method": "mtp", "num_speculative_tokens": 5}'""", "--args"
    )

    words = edited(
        launch, [step("--speculative-config", "num_speculative_tokens 5", "num_speculative_tokens 2")]
    )

    assert words[-1] == '{"method": "mtp", "num_speculative_tokens": 2}'
