"""What is packed for clusters: krew's archive and manifest, the image's recipe, the jobs that run it."""

import hashlib
import json
import os
import re
import subprocess
import sys
import sysconfig
import tarfile
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.kubernetes.apiserver import Cluster, stepped
from tests.kubernetes.conftest import Doctor

from vllmdoctor import __version__
from vllmdoctor.cli import main

jsonschema = pytest.importorskip("jsonschema", reason="NOT CHECKED: pip install kubernetes-validate")
kubernetes_validate = pytest.importorskip("kubernetes_validate", reason="NOT CHECKED: no schemas")
ROOT = Path(__file__).parents[2]
PACKAGING = ROOT / "packaging"
HOMEPAGE = "https://example.com/vllmdoctor"
BUILT_IN = ("1.29", "1.32", "1.37")


# --- krew -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What script/krew makes."""
    folder = tmp_path_factory.mktemp("krew")
    environment = {**os.environ, "PYTHON": sys.executable, "KREW_INTO": str(folder)}
    subprocess.run(
        [str(ROOT / "script" / "krew"), HOMEPAGE], check=True, env=environment, capture_output=True
    )
    return folder


def test_the_plugins_manifest_follows_krews_rules(built: Path) -> None:
    manifest = yaml.safe_load((built / "vllmdoctor.yaml").read_text())
    schema = json.loads((PACKAGING / "krew" / "schema.json").read_text())

    jsonschema.validate(manifest, schema)
    assert manifest["metadata"]["name"] == "vllmdoctor"  # that of the file, and of the command
    assert manifest["spec"]["version"] == f"v{__version__}"
    labels = [tuple(p["selector"]["matchLabels"].values()) for p in manifest["spec"]["platforms"]]
    assert labels == [(os, arch) for os in ("linux", "darwin") for arch in ("amd64", "arm64")]


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("metadata", "name"), "kubectl_vllmdoctor"),
        (("spec", "version"), "0.1.0"),
        (("spec", "shortDescription"), "two\nlines"),
        (("spec", "platforms"), []),
        (("spec", "platforms", 0, "sha256"), "ABC"),
        (("spec", "platforms", 0, "bin"), "../kubectl-vllmdoctor"),
    ],
)
def test_the_schema_refuses_what_krew_refuses(path: tuple[Any, ...], value: Any, built: Path) -> None:
    manifest = yaml.safe_load((built / "vllmdoctor.yaml").read_text())
    of = manifest
    for step in path[:-1]:
        of = of[step]
    of[path[-1]] = value

    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(manifest, json.loads((PACKAGING / "krew" / "schema.json").read_text()))


def test_the_archive_is_the_one_that_the_manifest_names_and_is_made_the_same_again(
    built: Path, tmp_path: Path
) -> None:
    (archive,) = built.glob("*.tar.gz")
    platforms = yaml.safe_load((built / "vllmdoctor.yaml").read_text())["spec"]["platforms"]

    assert {p["sha256"] for p in platforms} == {hashlib.sha256(archive.read_bytes()).hexdigest()}
    assert {p["uri"] for p in platforms} == {f"{HOMEPAGE}/releases/download/v{__version__}/{archive.name}"}
    with tarfile.open(archive) as tar:
        assert platforms[0]["bin"] in tar.getnames()
        assert {entry.mtime for entry in tar} == {0}


def test_what_krew_installs_runs_through_its_link(built: Path, tmp_path: Path) -> None:
    store, home = tmp_path / "store", tmp_path / "data"
    with tarfile.open(next(built.glob("*.tar.gz"))) as tar:
        tar.extractall(store, filter="data")
    (tmp_path / "bin").mkdir()
    link = tmp_path / "bin" / "kubectl-vllmdoctor"
    link.symlink_to(store / "kubectl-vllmdoctor")
    # the dependencies are those of this environment: nothing is downloaded
    libraries = sysconfig.get_paths()["purelib"]
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("VIRTUAL_ENV", "PYTHON"))}
    environment |= {"PIP_NO_DEPS": "1", "PIP_NO_INDEX": "1", "XDG_DATA_HOME": str(home)}
    environment |= {"PYTHONPATH": libraries, "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin"}

    first, second = (
        subprocess.run([str(link), "--version"], capture_output=True, text=True, env=environment)
        for _ in range(2)
    )

    assert first.stdout == second.stdout == f"vllmdoctor {__version__}\n", first.stderr
    assert "making a Python environment" in first.stderr
    assert second.stderr == ""
    assert [p.name for p in (home / "vllmdoctor").iterdir()] == [f"vllmdoctor-{__version__}"]


def test_without_python_it_says_what_is_missing_and_leaves_nothing(built: Path, tmp_path: Path) -> None:
    with tarfile.open(next(built.glob("*.tar.gz"))) as tar:
        tar.extractall(tmp_path / "store", filter="data")
    tools = tmp_path / "bin"
    tools.mkdir()
    for tool in ("dirname", "ls", "mkdir", "rm"):
        (tools / tool).symlink_to(f"/bin/{tool}" if Path(f"/bin/{tool}").exists() else f"/usr/bin/{tool}")
    environment = {"PATH": str(tools), "HOME": str(tmp_path), "XDG_DATA_HOME": str(tmp_path / "data")}

    done = subprocess.run(
        ["/bin/sh", str(tmp_path / "store" / "kubectl-vllmdoctor")], capture_output=True, text=True,
        env=environment,
    )  # fmt: skip

    assert done.returncode == 2
    assert "it needs Python 3.11 or newer, or uv" in done.stderr
    assert list((tmp_path / "data").rglob("*")) == [tmp_path / "data" / "vllmdoctor"]


# --- in the cluster -------------------------------------------------------------------------------


def documents(name: str) -> list[dict[str, Any]]:
    text = (PACKAGING / "kubernetes" / name).read_text()
    return [document for document in yaml.safe_load_all(text) if document]


def pod_of(name: str) -> dict[str, Any]:
    (job,) = documents(name)
    spec = job["spec"]["jobTemplate"]["spec"] if job["kind"] == "CronJob" else job["spec"]
    pod: dict[str, Any] = spec["template"]["spec"]
    return pod


@pytest.mark.parametrize("version", BUILT_IN)
@pytest.mark.parametrize("name", ["rbac.yaml", "job.yaml", "cronjob.yaml"])
def test_each_object_is_what_kubernetes_takes(name: str, version: str) -> None:
    for document in documents(name):
        kubernetes_validate.validate(document, version, strict=True)


def test_the_rights_are_those_that_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["rbac", "-n", "inference"]) == 0
    printed = capsys.readouterr().out

    kept = (PACKAGING / "kubernetes" / "rbac.yaml").read_text()
    assert kept == printed, "hint: vllmdoctor rbac -n inference > packaging/kubernetes/rbac.yaml"


@pytest.mark.parametrize("name", ["job.yaml", "cronjob.yaml"])
def test_the_pods_keep_to_the_restricted_standard(name: str) -> None:
    pod = pod_of(name)
    (container,) = pod["containers"]

    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    own = container["securityContext"]
    assert (own["allowPrivilegeEscalation"], own["readOnlyRootFilesystem"]) == (False, True)
    assert own["capabilities"] == {"drop": ["ALL"]}
    assert container["resources"]["limits"]["memory"]
    assert pod["serviceAccountName"] == documents("rbac.yaml")[0]["metadata"]["name"]
    assert container["image"] == f"vllmdoctor:{__version__}"
    assert {v["name"] for v in pod.get("volumes", [])} >= {
        m["name"] for m in container.get("volumeMounts", [])
    }


@pytest.mark.parametrize(("name", "code"), [("job.yaml", 0), ("cronjob.yaml", 1)])
def test_what_the_jobs_run_works_with_the_rights_they_have(
    name: str, code: int, doctor: Doctor, cluster: Cluster, tmp_path: Path
) -> None:
    work = cluster.deployment("vllm-server").serve(doctor.vllm(stepped("overload-kv", start=60, step=20)))
    doctor.use(cluster.apply_rbac((PACKAGING / "kubernetes" / "rbac.yaml").read_text()))
    words = " ".join(pod_of(name)["containers"][0]["args"]).replace("=", " ")
    words = words.replace("--for 5m --every 5s", "--for 3s --every 1s").replace("/reports", str(tmp_path))

    said = doctor.run(*words.split(), called="vllmdoctor")

    assert said.code == code, said.err
    assert work.pods[0].name in said.out
    assert (tmp_path / "history.rec.gz").exists() is (name == "cronjob.yaml")


def test_the_image_has_no_root_and_copies_only_what_is_there() -> None:
    recipe = (PACKAGING / "Containerfile").read_text()

    assert re.findall(r"^USER (.*)$", recipe, re.MULTILINE)[-1] == "65532:65532"
    assert recipe.count("FROM ") == 2
    assert ":latest" not in recipe
    assert 'ENTRYPOINT ["vllmdoctor"]' in recipe
    for sources in re.findall(r"^COPY (?!--from)(.*) \S+$", recipe, re.MULTILINE):
        assert all((ROOT / source).exists() for source in sources.split()), sources
    kept = (PACKAGING / "Containerfile.dockerignore").read_text()
    for sources in re.findall(r"^COPY (?!--from)(.*) \S+$", recipe, re.MULTILINE):
        assert all(f"!{source}\n" in kept for source in sources.split()), sources
