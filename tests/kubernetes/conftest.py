"""A cluster, and a doctor who may do in it what `vllmdoctor rbac` prints, and nothing else."""

import json
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from tests.kubernetes import kubectls
from tests.kubernetes.apiserver import Asked, Cluster, Server, User, Vllm, kubeconfig
from tests.kubernetes.kubectls import Kubectl

from vllmdoctor.cli import main
from vllmdoctor.cli.calling import PLUGIN
from vllmdoctor.diagnosis import diagnose
from vllmdoctor.kube import nouns
from vllmdoctor.model import Report
from vllmdoctor.recording import Recording, gather
from vllmdoctor.sources import Window, open_source

STREAMS = {"pods/exec", "pods/portforward"}
BEGUN = 1_790_000_000.0
SMI = Path(__file__).parents[1] / "host" / "smi" / "query.csv"  # what nvidia-smi printed


@dataclass(frozen=True, slots=True)
class Said:
    """What a command printed, and its exit code."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


@dataclass(slots=True)
class Doctor:
    """Runs vllmdoctor against the cluster, as a user of it."""

    cluster: Cluster
    server: Server
    folder: Path
    capture: pytest.CaptureFixture[str]
    environ: pytest.MonkeyPatch
    user: User | None = None
    open: list[Vllm] = field(default_factory=list)

    def allowed(self, *words: str) -> User:
        """From now on he is who `vllmdoctor rbac WORDS` is applied for."""
        assert main(["rbac", "-n", "inference", *words]) == 0
        self.use(self.cluster.apply_rbac(self.capture.readouterr().out))
        assert self.user is not None
        return self.user

    def use(self, user: User) -> None:
        self.user = user
        self.login(kubeconfig.with_token(user))

    def login(self, login: dict[str, Any], **more: Any) -> Path:
        """Log in another way, or to another place."""
        path = self.folder / "kubeconfig"
        kubeconfig.write(path, self.server, login, namespace="inference", **more)
        self.environ.setenv("KUBECONFIG", str(path))
        return path

    def vllm(self, page: Callable[[], str] | None = None, **more: Any) -> Vllm:
        """A vLLM server that is closed with the cluster."""
        self.open.append(Vllm(page, **more))
        return self.open[-1]

    def run(self, *words: str, called: str = PLUGIN) -> Said:
        """The command line, as kubectl's plugin."""
        code = main(list(words), called=called)
        told = self.capture.readouterr()
        return Said(code, told.out, told.err)

    def look(self, *words: str) -> Said:
        """Two scrapes, as JSON."""
        return self.run("diagnose", *words, "--for", "1s", "--every", "1s", "-f", "json")

    def record(self, target: str, *, ticks: int = 60, every: float = 4.0, **how: Any) -> Recording:
        """Watch for a long time that passes at once: each scrape is `every` seconds after the last."""
        now = [BEGUN]

        def sleep(_: float) -> None:
            now[0] += every

        how.setdefault("prometheus", nouns.NO_PROMETHEUS)
        window = Window(
            duration_s=(ticks - 1) * every,
            interval_s=every,
            clock=lambda: now[0],
            sleep=sleep,
            cluster=nouns.Cluster(**how),
        )
        return gather(open_source(target).read(window))

    def judge(self, target: str, **more: Any) -> Report:
        """The report on what was recorded so."""
        return diagnose(self.record(target, **more))

    def asked(self, resource: str = "") -> Sequence[Asked]:
        """The requests so far, all or those for a resource."""
        return [one for one in self.cluster.log if resource in ("", one.resource)]


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Nothing of the person who runs the tests: no kubeconfig, no proxies, no credentials."""
    for name in list(os.environ):
        if name.startswith(("VLLMDOCTOR_TOKEN", "VLLMDOCTOR_PROM", "KUBERNETES_")) or name.endswith("_proxy"):
            monkeypatch.delenv(name)
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "KUBECONFIG"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))


@pytest.fixture
def cluster() -> Cluster:
    """An empty cluster with three nodes."""
    return Cluster()


@pytest.fixture
def doctor(
    cluster: Cluster, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Iterator[Doctor]:
    """A doctor with the usual rights; at the end all that was asked was to read."""
    server = Server(cluster)
    doctor = Doctor(cluster, server, tmp_path, capsys, monkeypatch)
    doctor.allowed()
    yield doctor
    server.close()
    for one in doctor.open:
        one.close()
    assert_only_read(cluster.log)


@cache
def every_kubectl() -> dict[str, Kubectl]:
    return kubectls.found()


@pytest.fixture(params=[".".join(map(str, one)) for one in kubectls.WANTED])
def kubectl(request: pytest.FixtureRequest) -> Kubectl:
    """Each kubectl in turn."""
    if request.param not in every_kubectl():
        pytest.skip(f"NOT TESTED: no kubectl {request.param} here: name its folder in {kubectls.FOLDERS}")
    return every_kubectl()[request.param]


def assert_only_read(log: Sequence[Asked]) -> None:
    """Every request read something; a stream into a pod is the one thing that is created."""
    for asked in log:
        reads = asked.verb in ("get", "list") or (asked.verb == "create" and asked.resource in STREAMS)
        assert reads, f"not a reading: {asked}"
        assert asked.resource != "secrets", f"nobody's business: {asked}"
