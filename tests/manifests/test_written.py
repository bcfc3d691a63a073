"""What is written: only what the plan holds, with the target's names, never over anything, with warnings."""

from pathlib import Path

import pytest
from tests.manifests.making import KNOWN, RELEASE, every_step, files, launch, steps

from vllmdoctor.errors import FileExists, UnknownName, UsageError
from vllmdoctor.launch_text import parse_text
from vllmdoctor.manifests import artefacts, place_of, taken, write
from vllmdoctor.manifests.place import UNKNOWN
from vllmdoctor.model import Outcome, Severity, Status, Step
from vllmdoctor.plan import make_plan
from vllmdoctor.release import version
from vllmdoctor.remedies import figures

VALUES = """\
servingEngineSpec:
  modelSpec:
    - name: llama
      repository: vllm/vllm-openai
      tag: v0.30.0
      modelURL: meta-llama/Llama-3-8B
      replicaCount: 2
      vllmConfig:
        maxModelLen: 8192
        maxNumSeqs: 64
        enablePrefixCaching: false
        extraArgs: ["--num-gpu-blocks-override", "64", "--disable-log-requests"]
"""


def full_pool_plan() -> tuple[Step, ...]:
    found = Outcome("overload", "overload", Status.FOUND, Severity.CRITICAL, 0.9, "0", "kv-bound")
    return make_plan(
        [found],
        figures(measured=KNOWN),
        RELEASE,
        lambda _: ("more-kv-blocks", "fp8-kv-cache", "lower-max-num-seqs", "add-replica"),
    )


# --- only what the plan holds


def test_one_change_of_arguments_is_taken_at_a_time() -> None:
    chosen = taken(full_pool_plan())

    assert [s.slug for s in chosen if s.flag] == ["more-kv-blocks"]
    assert "add-replica" in [s.slug for s in chosen]


def test_steps_can_be_chosen_and_a_slip_names_the_nearest() -> None:
    plan = full_pool_plan()

    assert [s.slug for s in taken(plan, ["fp8-kv-cache"])] == ["fp8-kv-cache"]
    with pytest.raises(UnknownName) as error:
        taken(plan, ["fp8-cache"])
    assert error.value.hint == "did you mean 'fp8-kv-cache'?"


def test_advice_that_is_harmful_here_cannot_be_chosen() -> None:
    assert "lower-gpu-memory-utilization" in [s.slug for s in full_pool_plan() if s.verdict == "harmful"]
    with pytest.raises(UnknownName):
        taken(full_pool_plan(), ["lower-gpu-memory-utilization"])


@pytest.mark.parametrize(
    ("slug", "names"),
    [
        ("more-kv-blocks", {"args.txt", "patch-args.yaml", "values-production-stack.yaml", "alerts.yaml"}),
        ("rolling-restart", {"rolling-restart.yaml", "pdb.yaml", "alerts.yaml"}),
        ("split-traffic-by-length", {"httproute.yaml", "virtualservice.yaml"}),
        (
            "add-replica",
            {
                "hpa.yaml",
                "scaledobject.yaml",
                "patch-replicas.yaml",
                "values-production-stack.yaml",
                "alerts.yaml",
            },
        ),
        ("raise-memory-limit", {"patch-memory.yaml", "values-production-stack.yaml", "alerts.yaml"}),
        ("expandable-segments", {"patch-env.yaml", "alerts.yaml"}),
        ("probe-progress", {"alerts.yaml"}),
    ],
)
def test_a_step_brings_its_own_files_alone(slug: str, names: set[str]) -> None:
    assert set(files(steps(slug), launch())) >= names
    assert set(files(steps(slug), launch())) <= names | {"README.md", "alerts.yaml"}


def test_no_step_no_files_but_the_readme() -> None:
    assert set(files((), launch())) == {"README.md"}


# --- names


def test_names_come_from_the_manifest() -> None:
    made = files(steps("rolling-restart", "raise-memory-limit"), launch())

    assert not any(UNKNOWN in f.text for f in made.values())
    pdb = made["pdb.yaml"].objects[0]
    assert pdb["metadata"] == {"name": "vllm-llama", "namespace": "serving"}
    assert pdb["spec"]["selector"] == {"matchLabels": {"app": "vllm-llama"}}
    memory = made["patch-memory.yaml"]
    assert memory.objects[0]["spec"]["template"]["spec"]["containers"][0]["name"] == "engine"
    assert memory.apply.startswith("kubectl -n serving patch deployment/vllm-llama --type strategic")


def test_options_come_before_the_manifest() -> None:
    made = files(steps("split-traffic-by-length"), launch(), namespace="other", service="llm", gateway="edge")

    route = made["httproute.yaml"].objects[0]
    assert route["metadata"]["namespace"] == "other"
    assert route["spec"]["parentRefs"] == [{"name": "edge"}]
    assert route["spec"]["rules"][0]["backendRefs"] == [{"name": "llm-long", "port": 8080}]
    assert route["spec"]["rules"][1]["backendRefs"] == [{"name": "llm", "port": 8080}]


def test_names_that_are_not_known_are_marked_and_told() -> None:
    made = files(steps("rolling-restart"))

    assert made["pdb.yaml"].objects[0]["metadata"]["namespace"] == "replace-me-namespace"
    assert "## To be filled in" in made["README.md"].text


@pytest.mark.parametrize(
    "names", [{"namespace": "No Spaces"}, {"deployment": "a/b"}, {"label": "app"}, {"container": "$(rm)"}]
)
def test_a_name_that_kubernetes_would_refuse_is_refused(names: dict[str, str]) -> None:
    with pytest.raises(UsageError):
        place_of(None, **names)  # type: ignore[arg-type]


# --- what they say


def test_the_role_may_do_to_one_deployment_what_a_restart_needs() -> None:
    role = next(
        o
        for o in files(steps("rolling-restart"), launch())["rolling-restart.yaml"].objects
        if o["kind"] == "Role"
    )

    assert role["rules"] == [
        {
            "apiGroups": ["apps"],
            "resources": ["deployments"],
            "resourceNames": ["vllm-llama"],
            "verbs": ["get", "patch", "list", "watch"],
        },
        {
            "apiGroups": ["apps"],
            "resources": ["deployments/status"],
            "resourceNames": ["vllm-llama"],
            "verbs": ["get"],
        },
    ]


def test_the_job_restarts_and_waits_on_the_schedule_of_the_step() -> None:
    leak = next(s for s in every_step() if s.slug == "rolling-restart" and s.treats == ("memory-leak",))
    job = next(o for o in files([leak], launch())["rolling-restart.yaml"].objects if o["kind"] == "CronJob")
    pod = job["spec"]["jobTemplate"]["spec"]["template"]["spec"]

    assert job["spec"]["schedule"] == "0 */4 * * *"  # 8 h to the limit
    assert f"`{job['spec']['schedule']}`" in leak.action
    assert pod["initContainers"][0]["args"] == [
        "rollout", "restart", "deployment/vllm-llama", "--namespace=serving",
    ]  # fmt: skip
    assert pod["containers"][0]["args"][:2] == ["rollout", "status"]
    assert pod["serviceAccountName"] == "vllm-llama-restart"


@pytest.mark.parametrize(("replicas", "warned"), [(1, True), (2, False)])
def test_a_single_replica_is_warned_of(replicas: int, warned: bool) -> None:
    made = files(steps("rolling-restart"), launch(replicas))

    for name in ("pdb.yaml", "rolling-restart.yaml", "README.md"):
        assert ("minAvailable 1 then blocks every drain" in made[name].text) is warned, name
    patch = files(steps("more-kv-blocks"), launch(replicas))["README.md"].text
    assert ("every change that restarts it is an outage" in patch) is warned


def test_an_unknown_number_of_replicas_is_warned_of_as_well() -> None:
    assert "not known" in files(steps("rolling-restart"))["pdb.yaml"].text


@pytest.mark.parametrize(
    ("release", "usage"),
    [
        ("0.8.5", "vllm:gpu_cache_usage_perc"),
        ("0.12.0", "vllm:kv_cache_usage_perc"),
        ("0.32.0", "vllm:kv_cache_usage_perc"),
    ],
)
def test_metrics_are_named_as_the_release_names_them(release: str, usage: str) -> None:
    made = files(steps("add-replica"), launch(), version(release))

    keda = made["scaledobject.yaml"].objects[0]["spec"]["triggers"]
    assert keda[1]["metadata"]["query"] == f'avg({usage}{{namespace="serving",pod=~"vllm-llama-.*"}})'
    hpa = made["hpa.yaml"].objects[0]["spec"]["metrics"]
    assert hpa[1]["pods"]["metric"]["name"] == usage.replace(":", "_")
    groups = made["alerts.yaml"].objects[0]["spec"]["groups"]
    assert any(usage in rule["expr"] for group in groups for rule in group["rules"])


def test_replicas_grow_from_those_that_run_to_those_that_are_needed() -> None:
    hpa = files(steps("add-replica"), launch())["hpa.yaml"].objects[0]["spec"]

    assert (hpa["minReplicas"], hpa["maxReplicas"]) == (3, 6)  # 3 x 1.2 / 0.8 / 0.8 = 5.6


def test_values_for_the_chart_use_its_own_names() -> None:
    made = files(steps("lower-max-num-seqs", "enable-prefix-caching", "fp8-kv-cache"), launch())

    model = made["values-production-stack.yaml"].objects[0]["servingEngineSpec"]["modelSpec"][0]
    assert model == {
        "name": "vllm-llama",
        "vllmConfig": {
            "maxNumSeqs": 4,
            "enablePrefixCaching": True,
            "extraArgs": ["--kv-cache-dtype", "fp8"],
        },
    }


def test_values_of_the_chart_keep_the_extra_arguments_that_were_there() -> None:
    told = parse_text(VALUES, "values.yaml")

    made = files(steps("fp8-kv-cache"), told)

    extra = made["values-production-stack.yaml"].objects[0]["servingEngineSpec"]["modelSpec"][0]["vllmConfig"]
    assert extra == {
        "extraArgs": [
            "--num-gpu-blocks-override", "64", "--disable-log-requests", "--kv-cache-dtype", "fp8",
        ]
    }  # fmt: skip


# --- writing


def test_nothing_is_ever_overwritten_and_nothing_half_written(tmp_path: Path) -> None:
    made = tuple(files(steps("rolling-restart"), launch()).values())
    (tmp_path / "README.md").write_text("mine", encoding="utf-8")

    with pytest.raises(FileExists):
        write(made, tmp_path)

    assert [p.name for p in tmp_path.iterdir()] == ["README.md"]
    assert (tmp_path / "README.md").read_text(encoding="utf-8") == "mine"


def test_files_are_written_as_they_are(tmp_path: Path) -> None:
    made = artefacts(steps("rolling-restart"), launch(), place_of(launch()), RELEASE)

    paths = write(made, tmp_path / "new" / "plan")

    assert [p.read_text(encoding="utf-8") for p in paths] == [f.text for f in made]
    assert paths[-1].name == "README.md"


def test_a_file_in_the_place_of_the_folder_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "plan").write_text("", encoding="utf-8")

    with pytest.raises(FileExists):
        write((), tmp_path / "plan")


def test_every_file_is_told_with_its_commands_in_the_readme() -> None:
    made = files(steps("rolling-restart", "split-traffic-by-length", "add-replica"), launch())

    for file in made.values():
        if file.name != "README.md":
            assert f"## {file.name}" in made["README.md"].text
            assert file.apply in made["README.md"].text
            assert "nothing was applied" in file.text or file.name == "args.txt"
