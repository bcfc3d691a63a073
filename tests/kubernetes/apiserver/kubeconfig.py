"""Kubeconfig files for a user of the test cluster, in the ways that people log in."""

from pathlib import Path
from typing import Any

import yaml
from tests.kubernetes.apiserver.rules import User
from tests.kubernetes.apiserver.server import TLS, Server


def with_token(user: User) -> dict[str, Any]:
    """A token in the file."""
    return {"token": user.token}


def with_certificate() -> dict[str, Any]:
    """A client certificate; who has it is the user `certified`."""
    pem = str(TLS / "client.pem")
    return {"client-certificate": pem, "client-key": pem}


def with_command(command: str, *arguments: str) -> dict[str, Any]:
    """A program that prints the credential, as clouds do it."""
    api = "client.authentication.k8s.io/v1beta1"
    asked = {"apiVersion": api, "command": command, "args": list(arguments)}
    return {"exec": {**asked, "env": None, "interactiveMode": "Never", "provideClusterInfo": False}}


def write(
    path: Path,
    server: Server,
    login: dict[str, Any],
    *,
    namespace: str = "",
    context: str = "test",
    url: str = "",
) -> Path:
    """The file, with one cluster, one user and one context."""
    cluster = {"server": url or server.url, "certificate-authority": str(TLS / "ca.pem")}
    of = {"cluster": "test-cluster", "user": "someone"} | ({"namespace": namespace} if namespace else {})
    told = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": context,
        "preferences": {},
        "clusters": [{"name": "test-cluster", "cluster": cluster}],
        "users": [{"name": "someone", "user": login}],
        "contexts": [{"name": context, "context": of}],
    }
    path.write_text(yaml.safe_dump(told), encoding="utf-8")
    path.chmod(0o600)
    return path
