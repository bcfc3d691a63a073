"""Which cluster, as whom and in which namespace: as kubectl decides it, without ever writing a kubeconfig."""

import stat
from pathlib import Path

import pytest
import yaml
from kubernetes.config import incluster_config
from tests.kubernetes.apiserver import kubeconfig
from tests.kubernetes.apiserver.server import TLS
from tests.kubernetes.conftest import Doctor

from vllmdoctor.errors import Unauthorized, UnknownName, UsageError
from vllmdoctor.kube.door import Door, current_namespace
from vllmdoctor.kube.kinds import KINDS
from vllmdoctor.kube.nouns import Access


def pods(access: Access) -> list[str]:
    with Door(access) as door:
        return [p["metadata"]["name"] for p in door.listed("api/v1", "pods", door.namespace)]


def test_the_kubeconfig_of_the_environment_serves_and_stays_as_it_is(doctor: Doctor, tmp_path: Path) -> None:
    doctor.cluster.pod("vllm-0")
    path = tmp_path / "kubeconfig"
    before = path.read_bytes()

    assert pods(Access()) == ["vllm-0"]
    assert (path.read_bytes(), sorted(p.name for p in tmp_path.iterdir())) == (before, ["kubeconfig"])


def test_a_client_certificate_serves(doctor: Doctor) -> None:
    doctor.cluster.pod("vllm-0")
    doctor.cluster.user("certified")
    doctor.login(kubeconfig.with_certificate())

    assert pods(Access()) == ["vllm-0"]


def script(path: Path, text: str) -> str:
    path.write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


def test_a_credential_plugin_is_asked_anew_once_its_token_expired(doctor: Doctor, tmp_path: Path) -> None:
    doctor.cluster.pod("vllm-0")
    assert doctor.user is not None
    counter = tmp_path / "asked"
    first, second = "an-old-token", doctor.user.token
    told = (
        '{"apiVersion":"client.authentication.k8s.io/v1beta1","kind":"ExecCredential",'
        '"status":{"token":"\'$token\'"}}'
    )
    command = script(
        tmp_path / "login",
        f"token={first}; [ -e {counter} ] && token={second}; touch {counter}\nprintf '%s' '{told}'",
    )
    doctor.login(kubeconfig.with_command(command))
    with Door(Access()) as door:
        door._line._renewed -= 3600.0  # as if it had been open for an hour

        assert [p["metadata"]["name"] for p in door.listed("api/v1", "pods", "inference")] == ["vllm-0"]


def test_a_credential_plugin_that_fails_is_quoted(doctor: Doctor, tmp_path: Path) -> None:
    doctor.login(kubeconfig.with_command(script(tmp_path / "login", "echo 'run: aws sso login' >&2; exit 3")))
    with pytest.raises(Unauthorized) as caught:
        Door(Access())

    assert "run: aws sso login" in caught.value.message
    assert caught.value.hint == "log in again"


def test_a_credential_plugin_that_is_not_there_is_no_matter_of_logging_in(doctor: Doctor) -> None:
    doctor.login(kubeconfig.with_command("no-such-login"))
    with pytest.raises(UsageError) as caught:
        Door(Access())

    assert "no-such-login" in caught.value.message
    assert caught.value.hint == "is the credential plugin that it names installed, and in PATH?"


def test_expired_credentials_end_it_with_one_line(doctor: Doctor) -> None:
    assert doctor.user is not None
    doctor.cluster.deployment("vllm-server")
    doctor.cluster.expire(doctor.user)
    said = doctor.look("deploy/vllm-server")

    assert said.code == 3
    assert said.err.splitlines()[0] == "vllmdoctor: 401: the API server does not accept the credentials"
    assert "log in again" in said.err


@pytest.fixture
def contexts(doctor: Doctor, tmp_path: Path) -> Path:
    """A kubeconfig with two contexts, and users of which one is nobody."""
    assert doctor.user is not None
    path = doctor.login(kubeconfig.with_token(doctor.user))
    config = yaml.safe_load(path.read_text(encoding="utf-8"))
    config["users"].append({"name": "nobody", "user": {"token": "unknown"}})
    config["contexts"].append({"name": "other", "context": {"cluster": "test-cluster", "user": "nobody"}})
    path.write_text(yaml.safe_dump(config), encoding="utf-8")
    return path


def test_context_user_and_namespace_are_chosen_as_by_kubectl(doctor: Doctor, contexts: Path) -> None:
    doctor.cluster.pod("vllm-0")

    assert current_namespace(Access()) == "inference"
    assert current_namespace(Access(context="other")) == "default"
    assert current_namespace(Access(context="other", namespace="inference")) == "inference"
    assert pods(Access(context="other", user="someone", namespace="inference")) == ["vllm-0"]
    assert doctor.look("pod/vllm-0", "--context", "other", "-n", "inference").code == 3


@pytest.mark.parametrize(
    ("access", "message"),
    [
        (Access(context="tset"), "no context named 'tset'"),
        (Access(cluster="test"), "no cluster named 'test'"),
        (Access(user="somebody"), "no user named 'somebody'"),
    ],
)
def test_a_choice_that_is_not_there_names_the_nearest(contexts: Path, access: Access, message: str) -> None:
    with pytest.raises(UnknownName) as caught:
        Door(access)
    assert caught.value.message == message


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is empty, or no kubeconfig"),
        ("a: [", "is no YAML"),
        ("kind: Config\ncontexts: []\n", "has no current context"),
        (
            "current-context: a\ncontexts: [{name: a, context: {cluster: c, user: u}}]\nclusters: []\n",
            "name c",
        ),
    ],
)
def test_a_broken_kubeconfig_is_one_line(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "config"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(UsageError) as caught:
        Door(Access(kubeconfig=str(path)))
    assert message in caught.value.message
    assert "\n" not in caught.value.message


@pytest.mark.parametrize(
    "contexts",
    [
        "5",
        "[{name: a, context: null}]",
        "[{context: {cluster: c, user: u}}]",
    ],
)
def test_broken_contexts_are_one_line_also_where_only_the_namespace_is_asked_for(
    tmp_path: Path, contexts: str
) -> None:
    path = tmp_path / "config"
    path.write_text(f"current-context: a\ncontexts: {contexts}\n", encoding="utf-8")
    with pytest.raises(UsageError) as caught:
        current_namespace(Access(kubeconfig=str(path)))
    assert caught.value.message.startswith(f"{path}")
    assert "\n" not in caught.value.message


def test_a_user_that_is_not_there_is_said_instead_of_asking_as_nobody(doctor: Doctor, tmp_path: Path) -> None:
    path = tmp_path / "kubeconfig"
    config = yaml.safe_load(path.read_text(encoding="utf-8"))
    config["users"] = []
    path.write_text(yaml.safe_dump(config), encoding="utf-8")
    with pytest.raises(UsageError) as caught:
        Door(Access())

    assert caught.value.message == f"{path}: context test names a user that is not there: someone"
    assert doctor.asked() == []


@pytest.mark.parametrize("server", ["nonsense", "", "127.0.0.1:6443"])
def test_a_server_that_is_no_address_is_said(doctor: Doctor, tmp_path: Path, server: str) -> None:
    path = tmp_path / "kubeconfig"
    config = yaml.safe_load(path.read_text(encoding="utf-8"))
    config["clusters"][0]["cluster"]["server"] = server
    path.write_text(yaml.safe_dump(config), encoding="utf-8")
    with pytest.raises(UsageError) as caught:
        Door(Access())

    assert f"the server of context test is no address: {server!r}" in caught.value.message


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("https://nowhere.invalid", "https://nowhere.invalid cannot be reached: "),
        ("http://", " broke off: "),  # TLS is spoken there
    ],
)
def test_a_failed_connection_is_told_in_plain_words(doctor: Doctor, url: str, message: str) -> None:
    assert doctor.user is not None
    port = doctor.server.url.rpartition(":")[2]
    url = url if url != "http://" else f"http://127.0.0.1:{port}"
    doctor.login(kubeconfig.with_token(doctor.user), url=url)
    said = doctor.look("deploy/vllm-server").err.splitlines()[0]

    assert message in said
    assert not {"(", ")", "["} & set(said)


def test_no_kubeconfig_at_all_is_said(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        Door(Access())
    assert caught.value.message.startswith("no kubeconfig")
    with pytest.raises(UsageError) as caught:
        Door(Access(kubeconfig="nowhere"))
    assert caught.value.message == "no such kubeconfig: nowhere"


def test_a_server_that_is_not_there_is_said_at_once(doctor: Doctor) -> None:
    assert doctor.user is not None
    doctor.login(kubeconfig.with_token(doctor.user), url="https://127.0.0.1:1")
    said = doctor.look("deploy/vllm-server")

    assert said.code == 3
    assert "https://127.0.0.1:1 cannot be reached: connection refused" in said.err.lower()


def test_a_certificate_of_another_authority_is_refused(doctor: Doctor, tmp_path: Path) -> None:
    path = tmp_path / "kubeconfig"
    config = yaml.safe_load(path.read_text(encoding="utf-8"))
    del config["clusters"][0]["cluster"]["certificate-authority"]
    path.write_text(yaml.safe_dump(config), encoding="utf-8")
    said = doctor.look("deploy/vllm-server")

    assert said.code == 3
    assert "TLS failed" in said.err
    assert doctor.asked() == []


def test_an_object_is_plain_json(doctor: Doctor) -> None:
    doctor.cluster.deployment("vllm-server", replicas=2)
    with Door(Access()) as door:
        found = door.one(KINDS["deployment"], "inference", "vllm-server")

    assert (found["kind"], found["spec"]["replicas"]) == ("Deployment", 2)


def test_inside_a_pod_its_service_account_serves(
    doctor: Doctor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    doctor.cluster.pod("vllm-0")
    assert doctor.user is not None
    account = tmp_path / "account"
    account.mkdir()
    (account / "token").write_text(doctor.user.token, encoding="utf-8")
    (account / "namespace").write_text("inference", encoding="utf-8")
    (account / "ca.crt").write_bytes((TLS / "ca.pem").read_bytes())
    monkeypatch.setattr(incluster_config, "SERVICE_TOKEN_FILENAME", str(account / "token"))
    monkeypatch.setattr(incluster_config, "SERVICE_CERT_FILENAME", str(account / "ca.crt"))
    host, port = doctor.server.url.removeprefix("https://").split(":")
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", host)
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", port)
    monkeypatch.delenv("KUBECONFIG")

    assert current_namespace(Access()) == "inference"
    assert pods(Access()) == ["vllm-0"]
