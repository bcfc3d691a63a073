"""Every object that is written stands before its real schema, and every patch before the real kubectl."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.manifests.making import (
    DEPLOYMENT,
    RELEASE,
    custom_errors,
    every_step,
    files,
    kubectl,
    launch,
    steps,
)

from vllmdoctor.manifests import File, write
from vllmdoctor.release import version

kubernetes_validate = pytest.importorskip(
    "kubernetes_validate", reason="NOT CHECKED: no schemas (pip install kubernetes-validate)"
)
OLD = version("0.21.0")  # has a known leak
CUSTOM = ("HTTPRoute", "VirtualService", "ScaledObject", "PrometheusRule")
BUILT_IN = ("1.29", "1.32", "1.37")


def all_files() -> dict[str, File]:
    """Everything that can be written: each step by itself, since two may want the same file."""
    found: dict[str, File] = {}
    for release in (RELEASE, OLD):
        seen: set[str] = set()
        for step in every_step(release):
            if {step.slug, step.treats[0]} <= seen:  # neither the remedy nor the cause is new
                continue
            seen |= {step.slug, step.treats[0]}
            for told in (launch(), None):
                for name, file in files([step], told, release).items():
                    where = "known" if told else "unknown"
                    found[f"{release}/{step.slug}/{step.treats[0]}/{where}/{name}"] = file
    return found


ALL = all_files()
OBJECTS = {
    f"{key}#{n}": each for key, f in ALL.items() for n, each in enumerate(f.objects) if "apiVersion" in each
}


def test_every_kind_of_file_is_among_them() -> None:
    assert {key.rpartition("/")[2] for key in ALL} == {
        "README.md",
        "alerts.yaml",
        "args.txt",
        "hpa.yaml",
        "httproute.yaml",
        "patch-args.json",
        "patch-args.yaml",
        "patch-cpu.yaml",
        "patch-env.yaml",
        "patch-image.yaml",
        "patch-memory.yaml",
        "patch-replicas.yaml",
        "pdb.yaml",
        "rolling-restart.yaml",
        "scaledobject.yaml",
        "values-production-stack.yaml",
        "virtualservice.yaml",
    }
    assert {o["kind"] for o in OBJECTS.values()} == {
        "CronJob",
        "HTTPRoute",
        "HorizontalPodAutoscaler",
        "PodDisruptionBudget",
        "PrometheusRule",
        "Role",
        "RoleBinding",
        "ScaledObject",
        "ServiceAccount",
        "VirtualService",
    }


def test_every_file_reads_back_as_the_objects_it_was_made_of() -> None:
    for key, file in ALL.items():
        if file.name.endswith(".json"):
            assert all(each["op"] == "add" for each in json.loads(file.text)), key
        elif file.name.endswith(".yaml"):
            assert list(yaml.safe_load_all(file.text)) == list(file.objects), key


@pytest.mark.parametrize("release", BUILT_IN)
def test_built_in_objects_validate_strictly(release: str) -> None:
    checked = 0
    for key, each in OBJECTS.items():
        if each["kind"] not in CUSTOM:
            try:
                kubernetes_validate.validate(each, release, strict=True)
            except kubernetes_validate.ValidationError as error:
                pytest.fail(f"{key}: {error.message}")
            checked += 1
    assert checked > 20


def test_custom_objects_validate() -> None:
    custom = {key: each for key, each in OBJECTS.items() if each["kind"] in CUSTOM}

    errors = custom_errors(list(custom.values()))

    assert {o["kind"] for o in custom.values()} == set(CUSTOM)
    assert dict(zip(custom, errors, strict=True)) == {key: [] for key in custom}


def test_the_schemas_of_custom_objects_do_judge() -> None:
    good = next(o for o in OBJECTS.values() if o["kind"] == "HTTPRoute")
    bad = json.loads(json.dumps(good))
    bad["spec"]["rules"][0]["matches"][0]["headers"][0]["type"] = "Regex"

    assert custom_errors([good])[0] == []
    assert custom_errors([bad])[0] != []


@pytest.fixture
def deployment(tmp_path: Path) -> Path:
    path = tmp_path / "deployment.yaml"
    path.write_text(DEPLOYMENT.format(replicas=3), encoding="utf-8")
    return path


def patched(deployment: Path, file: File) -> dict[str, Any]:
    """The Deployment with a patch put on by kubectl, without a server."""
    write([file], deployment.parent / "plan")
    kind = "json" if file.name.endswith(".json") else "strategic"
    done = kubectl(
        "patch",
        "--local",
        "-f",
        str(deployment),
        "--type",
        kind,
        "--patch-file",
        str(deployment.parent / "plan" / file.name),
        "-o",
        "yaml",
    )
    assert done.returncode == 0, done.stderr
    merged: dict[str, Any] = yaml.safe_load(done.stdout)
    kubernetes_validate.validate(merged, "1.32", strict=True)
    return merged


def engine(merged: dict[str, Any]) -> dict[str, Any]:
    containers = {c["name"]: c for c in merged["spec"]["template"]["spec"]["containers"]}
    assert set(containers) == {"logger", "engine"}, "the other container must stay"
    told: dict[str, Any] = containers["engine"]
    return told


def test_arguments_are_changed_in_place_and_all_others_stay(deployment: Path) -> None:
    made = files(steps("more-kv-blocks"), launch())["patch-args.yaml"]

    assert engine(patched(deployment, made))["args"] == [
        "meta-llama/Llama-3-8B",
        "--max-num-seqs",
        "64",
        "--num-gpu-blocks-override",
        "193",
        "--no-enable-prefix-caching",
        "--port=8080",
    ]


def test_a_switch_that_was_off_is_replaced_not_contradicted(deployment: Path) -> None:
    made = files(steps("enable-prefix-caching"), launch())["patch-args.yaml"]

    args = engine(patched(deployment, made))["args"]
    assert "--enable-prefix-caching" in args
    assert "--no-enable-prefix-caching" not in args


def test_without_the_arguments_they_are_added_at_the_end(deployment: Path) -> None:
    told = files(steps("fp8-kv-cache"), None)
    made = told["patch-args.json"]
    moved = made.text.replace("/containers/0/", "/containers/1/")  # as the README asks

    args = engine(patched(deployment, File(made.name, moved, made.what)))["args"]

    assert args[-2:] == ["--kv-cache-dtype", "fp8"]
    assert args[0] == "meta-llama/Llama-3-8B"
    assert "must be number 0 and have an `args` list" in told["README.md"].text


def test_memory_cpu_environment_image_and_replicas_are_patched(deployment: Path, tmp_path: Path) -> None:
    chosen = steps("raise-memory-limit", "give-more-cpu", "expandable-segments", "add-replica")
    made = files(chosen, launch())
    folder = tmp_path / "each"
    folder.mkdir()

    def after(name: str) -> dict[str, Any]:
        copy = folder / name.partition(".")[0] / "deployment.yaml"
        copy.parent.mkdir()
        copy.write_text(deployment.read_text(encoding="utf-8"), encoding="utf-8")
        return patched(copy, made[name])

    limits = engine(after("patch-memory.yaml"))["resources"]["limits"]
    assert limits == {"nvidia.com/gpu": 1, "memory": "48Gi", "cpu": "2"}
    resources = engine(after("patch-cpu.yaml"))["resources"]
    assert resources == {"limits": {"nvidia.com/gpu": 1, "memory": "32Gi"}, "requests": {"cpu": "4"}}
    assert engine(after("patch-env.yaml"))["env"] == [
        {"name": "PYTORCH_CUDA_ALLOC_CONF", "value": "expandable_segments:True"},
        {"name": "HF_HOME", "value": "/models"},
    ]
    assert after("patch-replicas.yaml")["spec"]["replicas"] == 6


def test_an_upgrade_keeps_the_repository_of_the_image(deployment: Path) -> None:
    upgrade = next(s for s in every_step(OLD) if s.slug == "upgrade" and s.treats == ("memory-leak",))

    made = files([upgrade], launch(), OLD)["patch-image.yaml"]

    assert engine(patched(deployment, made))["image"] == "vllm/vllm-openai:v0.26.0"
    assert "kubectl -n serving set image deployment/vllm-llama engine=vllm/vllm-openai:v0.26.0" in made.apply


# --- kubectl apply --dry-run=client against a server that tells only what kinds there are

RESOURCES = {
    "/api/v1": [("serviceaccounts", "ServiceAccount")],
    "/apis/batch/v1": [("cronjobs", "CronJob")],
    "/apis/policy/v1": [("poddisruptionbudgets", "PodDisruptionBudget")],
    "/apis/rbac.authorization.k8s.io/v1": [("roles", "Role"), ("rolebindings", "RoleBinding")],
    "/apis/autoscaling/v2": [("horizontalpodautoscalers", "HorizontalPodAutoscaler")],
    "/apis/gateway.networking.k8s.io/v1": [("httproutes", "HTTPRoute")],
    "/apis/networking.istio.io/v1": [("virtualservices", "VirtualService")],
    "/apis/keda.sh/v1alpha1": [("scaledobjects", "ScaledObject")],
    "/apis/monitoring.coreos.com/v1": [("prometheusrules", "PrometheusRule")],
}


class _Discovery(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        body: dict[str, Any]
        status = 200
        if path == "/api":
            body = {"kind": "APIVersions", "versions": ["v1"]}
        elif path == "/apis":
            names = [key.split("/")[2:] for key in RESOURCES if key.startswith("/apis/")]
            body = {"kind": "APIGroupList", "apiVersion": "v1", "groups": [_group(n, v) for n, v in names]}
        elif path in RESOURCES:
            body = {
                "kind": "APIResourceList",
                "apiVersion": "v1",
                "groupVersion": path.removeprefix("/apis/").removeprefix("/api/"),
                "resources": [
                    {"name": n, "kind": k, "namespaced": True, "verbs": ["get"], "singularName": k.lower()}
                    for n, k in RESOURCES[path]
                ],
            }
        else:
            status, body = 404, {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 404}
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        pass


def _group(name: str, release: str) -> dict[str, Any]:
    told = {"groupVersion": f"{name}/{release}", "version": release}
    return {"name": name, "versions": [told], "preferredVersion": told}


@pytest.fixture
def server() -> Iterator[str]:
    httpd = ThreadingHTTPServer(("127.0.0.1", 0), _Discovery)
    thread = threading.Thread(target=httpd.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{httpd.server_port}"
    httpd.shutdown()
    httpd.server_close()
    thread.join()


def test_the_real_kubectl_would_create_every_object(server: str, tmp_path: Path) -> None:
    made = files(steps("rolling-restart", "split-traffic-by-length", "add-replica"), launch())
    whole = [f for f in made.values() if f.objects and all("apiVersion" in o for o in f.objects)]
    write(whole, tmp_path / "plan")

    done = kubectl(
        "create",
        "--dry-run=client",
        "--validate=false",
        "--server",
        server,
        "-o",
        "name",
        *(part for f in whole for part in ("-f", str(tmp_path / "plan" / f.name))),
        env={"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"},
    )

    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.split()) == [
        "cronjob.batch/vllm-llama-restart",
        "horizontalpodautoscaler.autoscaling/vllm-llama",
        "httproute.gateway.networking.k8s.io/vllm-llama-by-length",
        "poddisruptionbudget.policy/vllm-llama",
        "prometheusrule.monitoring.coreos.com/vllm-llama-vllmdoctor",
        "role.rbac.authorization.k8s.io/vllm-llama-restart",
        "rolebinding.rbac.authorization.k8s.io/vllm-llama-restart",
        "scaledobject.keda.sh/vllm-llama",
        "serviceaccount/vllm-llama-restart",
        "virtualservice.networking.istio.io/vllm-llama-by-length",
    ]
