"""One table says what is read, which right it takes and what is lost: it drives `rbac` and every 403."""

import pytest
import yaml

from vllmdoctor.cli import main
from vllmdoctor.errors import UnknownName
from vllmdoctor.kube.answers import Expired, Forbidden, NotThere, error_of, forbidden, gap_of
from vllmdoctor.kube.kinds import KINDS
from vllmdoctor.kube.rights import FEATURES, chosen, right_for


def printed(capsys: pytest.CaptureFixture[str], *words: str) -> list[dict[str, object]]:
    assert main(["rbac", *words]) == 0
    return [each for each in yaml.safe_load_all(capsys.readouterr().out) if each]


def rules(manifest: dict[str, object]) -> set[tuple[str, str, str]]:
    """(verb, group, resource) of a role."""
    return {
        (verb, group, resource)
        for rule in manifest["rules"]  # type: ignore[attr-defined]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def test_no_right_can_change_anything_and_only_streams_create() -> None:
    for feature in FEATURES.values():
        for right in feature.rights:
            streams = right.resource in ("pods/exec", "pods/portforward")
            assert set(right.verbs) <= ({"get", "create"} if streams else {"get", "list"}), right
            assert right.lost


def test_every_kind_that_is_an_object_has_a_right() -> None:
    for kind in KINDS.values():
        assert not kind.plural or right_for(kind.group, kind.plural) is not None, kind.name


def test_secrets_are_not_asked_for() -> None:
    assert not any(right.resource == "secrets" for f in FEATURES.values() for right in f.rights)


def test_a_role_for_some_features_holds_their_rights_and_no_others(
    capsys: pytest.CaptureFixture[str],
) -> None:
    account, role, binding = printed(capsys, "pods", "metrics", "-n", "inference")

    assert (account["kind"], role["kind"], binding["kind"]) == ("ServiceAccount", "Role", "RoleBinding")
    assert {each["metadata"]["namespace"] for each in (account, role, binding)} == {"inference"}  # type: ignore[index]
    assert rules(role) == {("get", "", "pods"), ("list", "", "pods"), ("get", "", "pods/proxy")}
    assert binding["subjects"] == [{"kind": "ServiceAccount", "name": "vllmdoctor", "namespace": "inference"}]


def test_what_is_usual_needs_no_stream_and_keeps_to_its_places(capsys: pytest.CaptureFixture[str]) -> None:
    made = printed(capsys, "-n", "inference", "--monitoring", "prom")
    roles = {(m["kind"], m["metadata"].get("namespace")): m for m in made if "rules" in m}  # type: ignore[attr-defined]

    assert set(roles) == {("ClusterRole", None), ("Role", "inference"), ("Role", "prom")}
    assert rules(roles["ClusterRole", None]) == {("get", "", "nodes")}
    assert ("get", "", "services/proxy") in rules(roles["Role", "prom"])
    assert not any(verb == "create" for role in roles.values() for verb, _, _ in rules(role))


def test_a_stream_takes_create_besides_get(capsys: pytest.CaptureFixture[str]) -> None:
    made = printed(capsys, "--with", "exec", "--with", "port-forward")
    role = next(m for m in made if m["kind"] == "Role" and ("get", "", "pods") in rules(m))

    wanted = {(verb, "", f"pods/{sub}") for verb in ("get", "create") for sub in ("exec", "portforward")}
    assert wanted <= rules(role)


def test_every_namespace_takes_a_cluster_role_and_a_user_gets_no_account(
    capsys: pytest.CaptureFixture[str],
) -> None:
    made = printed(capsys, "pods", "-A", "--user", "jane")

    assert [m["kind"] for m in made] == ["ClusterRole", "ClusterRoleBinding"]
    assert made[1]["subjects"] == [{"kind": "User", "name": "jane", "apiGroup": "rbac.authorization.k8s.io"}]


def test_an_unknown_feature_names_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(UnknownName) as caught:
        chosen(["metric"])
    assert caught.value.hint == "did you mean 'metrics'?"
    assert main(["rbac", "pods", "--with", "exec"]) == 2
    assert "features and --with" in capsys.readouterr().err


def test_the_list_of_features_names_each_right(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["rbac", "--list"]) == 0
    text = " ".join(capsys.readouterr().out.split())
    for feature in FEATURES.values():
        for right in feature.rights:
            assert f"{','.join(right.verbs)} {right.full}" in text


@pytest.mark.parametrize(
    ("asked", "refused", "lost"),
    [
        (
            ("get", "", "pods/log", "inference"),
            "403: not allowed to get pods/log in namespace inference",
            "what the logs tell of settings, errors and the time before",
        ),
        (
            ("list", "apps", "replicasets", "inference"),
            "403: not allowed to list replicasets.apps in namespace inference",
            "which change was rolled out when",
        ),
        (
            ("get", "", "nodes", ""),
            "403: not allowed to get nodes in the whole cluster",
            "the nodes' pressure, GPUs and driver",
        ),
    ],
)
def test_a_403_names_the_verb_the_resource_and_what_is_lost(
    asked: tuple[str, str, str, str], refused: str, lost: str
) -> None:
    error = forbidden(*asked, said='pods is forbidden: User "x" cannot get resource "pods"')
    gap = gap_of(error, "something else")

    assert (gap.what, gap.why) == (lost, refused)
    assert gap.hint == "`vllmdoctor rbac` prints a Role that allows it"
    assert error.message == f"{refused}; unseen without it: {lost}"


def test_a_403_of_an_admission_policy_keeps_its_words() -> None:
    error = forbidden("get", "", "pods/exec", "a", said="denied by policy no-exec:\n use a debug pod")
    assert error.refused.endswith("in namespace a: denied by policy no-exec: use a debug pod")


@pytest.mark.parametrize(
    ("status", "kind", "words"),
    [
        (401, Expired, "401: the API server does not accept the credentials"),
        (403, Forbidden, "403: not allowed to list pods in namespace a"),
        (404, NotThere, '404: pods "x" not found'),
    ],
)
def test_each_status_is_an_error_of_its_own(status: int, kind: type[Exception], words: str) -> None:
    error = error_of(status, 'pods "x" not found', verb="list", group="", resource="pods", namespace="a")

    assert isinstance(error, kind)
    assert error.message.startswith(words)
