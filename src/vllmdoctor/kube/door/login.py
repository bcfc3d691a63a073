"""Who asks: the kubeconfig as kubectl reads it, or the service account of the pod this runs in.

A kubeconfig is never written, not even where a token in it was renewed.
"""

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from kubernetes.client.configuration import Configuration
from kubernetes.config import incluster_config
from kubernetes.config.config_exception import ConfigException
from kubernetes.config.kube_config import KubeConfigLoader, KubeConfigMerger

from vllmdoctor.errors import Unauthorized, UnknownName, UsageError
from vllmdoctor.kube.answers import words
from vllmdoctor.kube.nouns import Access
from vllmdoctor.launch_yaml import load_all

_ENVIRONMENT = "KUBECONFIG"
_USUAL = "~/.kube/config"
_CHOSEN = "chosen by options"
POOL = 16  # connections kept


def configured(access: Access) -> tuple[Configuration, str, str]:
    """(the library's configuration, the current namespace, who that is in words).

    UsageError for none, Unauthorized where its login gives no credentials.
    """
    configuration = Configuration()
    configuration.connection_pool_maxsize = POOL
    paths = _paths(access)
    if not paths and _in_cluster(configuration):
        own = Path(incluster_config.SERVICE_TOKEN_FILENAME).with_name("namespace")
        namespace = own.read_text(encoding="utf-8").strip() if own.exists() else "default"
        return configuration, access.namespace or namespace, "this pod's service account"
    if not paths:
        raise UsageError(
            "no kubeconfig: neither --kubeconfig nor KUBECONFIG names a file, nor is there ~/.kube/config",
            hint="does `kubectl config view` show a cluster? Inside a pod, give it a service account",
        )
    shown = os.pathsep.join(map(str, paths))
    for path in paths:
        _checked(path)
    with _readable(shown):
        with _complaints() as heard:
            merged = KubeConfigMerger(os.pathsep.join(map(str, paths))).config
            context = _context(merged, access, shown)
            loader = KubeConfigLoader(merged, active_context=context, config_base_path=None)
            loader.load_and_set(configuration)
        chosen = loader.current_context.get("context") or {}
        namespace = chosen.get("namespace") or "default"
        user = str(chosen.get("user") or "")
        users = {str(each["name"]) for each in merged.value.get("users") or []}
    if user and user not in users:
        # the library would ask as nobody, and the server say 403
        raise UsageError(
            f"{shown}: context {context} names a user that is not there: {user}",
            hint="`kubectl config view` shows it",
        )
    if not str(configuration.host).startswith(("https://", "http://")):
        raise UsageError(
            f"{shown}: the server of context {context} is no address: {words(str(configuration.host))!r}",
            hint="it is written as server: https://HOST:PORT",
        )
    if heard and "BearerToken" not in configuration.api_key and not configuration.cert_file:
        # without credentials the server would only say 401: the plugin's own words say why
        told = f"no credentials from {shown}: {words(heard[0])}"
        if "No such file" in heard[0]:
            raise UsageError(told, hint="is the credential plugin that it names installed, and in PATH?")
        raise Unauthorized(told, hint="log in again")
    return configuration, access.namespace or str(namespace), f"{shown}, context {context}"


def current_namespace(access: Access) -> str:
    """The namespace of targets that name none; asks nobody, and needs no credentials."""
    if access.namespace:
        return access.namespace
    paths = _paths(access)
    if not paths:
        return configured(access)[1]
    for path in paths:
        _checked(path)
    with _readable(os.pathsep.join(map(str, paths))):
        merged = KubeConfigMerger(os.pathsep.join(map(str, paths))).config
        name = access.context or merged.value.get("current-context")
        for each in merged.value.get("contexts") or []:
            if each["name"] == name:
                return str(each["context"].safe_get("namespace") or "default")
    return "default"


@contextmanager
def _readable(shown: str) -> Iterator[None]:
    """What is wrong inside a kubeconfig, in one line."""
    try:
        yield
    except ConfigException as error:
        raise UsageError(f"{shown}: {words(str(error))}", hint="`kubectl config view` shows it") from None
    except (OSError, LookupError, TypeError, ValueError, AttributeError) as error:
        raise UsageError(f"{shown} is no kubeconfig that can be read: {words(str(error))}") from None


def _paths(access: Access) -> list[Path]:
    """The files that there are; UsageError where one that was named is not."""
    if access.kubeconfig:
        path = Path(access.kubeconfig).expanduser()
        if not path.is_file():
            raise UsageError(f"no such kubeconfig: {access.kubeconfig}")
        return [path]
    told = os.environ.get(_ENVIRONMENT, "") or _USUAL
    found = [Path(each).expanduser() for each in told.split(os.pathsep) if each]
    return [path for path in found if path.is_file()]


def _checked(path: Path) -> None:
    try:
        documents = load_all(path.read_text(encoding="utf-8"), str(path))
    except (OSError, UnicodeError) as error:
        why = getattr(error, "strerror", None) or "it is no text"
        raise UsageError(f"cannot read {path}: {str(why).lower()}") from None
    if not documents or not isinstance(documents[0], dict):
        raise UsageError(
            f"{path} is empty, or no kubeconfig", hint="`kubectl config view` shows what is read"
        )


def _in_cluster(configuration: Configuration) -> bool:
    try:
        incluster_config.load_incluster_config(client_configuration=configuration)
    except ConfigException:
        return False
    return True


def _context(merged: Any, access: Access, shown: str) -> str:
    """The context to use; one of its own where a cluster or a user was chosen. UnknownName for none."""
    known = {str(each["name"]) for each in merged.value.get("contexts") or []}
    name = access.context or str(merged.value.get("current-context") or "")
    if access.context and name not in known:
        raise UnknownName("context", name, known)
    if not (access.cluster or access.user):
        if not name:
            raise UsageError(
                f"{shown} has no current context",
                hint="choose one: --context NAME, or `kubectl config use-context NAME`",
            )
        return name
    for kind, chosen in (("clusters", access.cluster), ("users", access.user)):
        there = {str(each["name"]) for each in merged.value.get(kind) or []}
        if chosen and chosen not in there:
            raise UnknownName(kind[:-1], chosen, there)
    base = dict(merged["contexts"].get_with_name(name).value["context"]) if name in known else {}
    base |= {key: value for key, value in (("cluster", access.cluster), ("user", access.user)) if value}
    merged.value["contexts"].append({"name": _CHOSEN, "context": base})
    return _CHOSEN


@contextmanager
def _complaints() -> Iterator[list[str]]:
    """What the library writes to the log instead of raising it: a credential plugin that failed."""
    heard: list[str] = []

    class Ear(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            heard.append(record.getMessage())

    ear, root = Ear(logging.ERROR), logging.getLogger()
    root.addHandler(ear)
    try:
        yield heard
    finally:
        root.removeHandler(ear)
