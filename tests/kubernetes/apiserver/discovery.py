"""What the server says it serves, and objects as the tables that kubectl prints."""

from collections.abc import Callable, Collection
from typing import Any

from tests.kubernetes.apiserver.kinds import KINDS, Kind
from tests.kubernetes.apiserver.manifests import Object


def served(groups: Collection[str]) -> list[Kind]:
    """The kinds that a cluster with these groups has."""
    return [kind for kind in KINDS if not kind.custom or kind.group in groups]


def versions() -> Object:
    """The answer to /api."""
    return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []}


def group_list(kinds: Collection[Kind]) -> Object:
    """The answer to /apis."""
    groups: dict[str, list[dict[str, str]]] = {"authorization.k8s.io": [_version("authorization.k8s.io/v1")]}
    for kind in kinds:
        if kind.group and _version(kind.api) not in groups.setdefault(kind.group, []):
            groups[kind.group].append(_version(kind.api))
    return {
        "kind": "APIGroupList",
        "apiVersion": "v1",
        "groups": [
            {"name": name, "versions": versions, "preferredVersion": versions[0]}
            for name, versions in groups.items()
        ],
    }


def _version(api: str) -> dict[str, str]:
    return {"groupVersion": api, "version": api.rpartition("/")[2]}


def resource_list(api: str, kinds: Collection[Kind]) -> Object | None:
    """The answer to /apis/GROUP/VERSION; None for one that is not served."""
    resources: list[Object] = []
    if api == "authorization.k8s.io/v1":
        for plural, review in _REVIEWS.items():
            resources.append(_resource(plural, review, False, ["create"], []))
    for kind in kinds:
        if kind.api != api:
            continue
        verbs = ["get", "list", "watch"]
        resources.append(_resource(kind.plural, kind.kind, kind.namespaced, verbs, list(kind.short)))
        for sub in kind.subresources:
            resources.append(_resource(f"{kind.plural}/{sub}", kind.kind, kind.namespaced, ["get"], []))
    if not resources:
        return None
    return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": api, "resources": resources}


_REVIEWS = {
    "selfsubjectaccessreviews": "SelfSubjectAccessReview",
    "selfsubjectrulesreviews": "SelfSubjectRulesReview",
}


def _resource(plural: str, kind: str, namespaced: bool, verbs: list[str], short: list[str]) -> Object:
    names = {"name": plural, "singularName": kind.lower(), "kind": kind, "namespaced": namespaced}
    return names | {"verbs": verbs} | ({"shortNames": short} if short else {})


# --- tables ---------------------------------------------------------------------------------------


def _pod_ready(pod: Object) -> str:
    statuses = pod["status"].get("containerStatuses", [])
    return f"{sum(s['ready'] for s in statuses)}/{len(pod['spec']['containers'])}"


def _pod_status(pod: Object) -> str:
    for status in pod["status"].get("containerStatuses", []):
        if "waiting" in status["state"]:
            return str(status["state"]["waiting"]["reason"])
    return "Terminating" if "deletionTimestamp" in pod["metadata"] else str(pod["status"]["phase"])


def _restarts(pod: Object) -> int:
    return sum(s["restartCount"] for s in pod["status"].get("containerStatuses", []))


def _replicas(item: Object) -> str:
    return f"{item['status'].get('readyReplicas', 0)}/{item['spec'].get('replicas', 0)}"


_COLUMNS: dict[str, dict[str, Callable[[Object], Any]]] = {
    "pods": {"Ready": _pod_ready, "Status": _pod_status, "Restarts": _restarts},
    "deployments": {"Ready": _replicas},
    "statefulsets": {"Ready": _replicas},
}


def table(kind: Kind, items: Collection[Object], metadata: Object) -> Object:
    """Objects as a Table."""
    columns = {"Name": lambda item: item["metadata"]["name"], **_COLUMNS.get(kind.plural, {})}
    columns["Created At"] = lambda item: item["metadata"]["creationTimestamp"]
    definitions = [
        {
            "name": name,
            "type": "string",
            "format": "name" if name == "Name" else "",
            "description": "",
            "priority": 0,
        }
        for name in columns
    ]
    partial = {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1"}
    rows = [
        {"cells": [of(item) for of in columns.values()], "object": partial | {"metadata": item["metadata"]}}
        for item in items
    ]
    head = {"kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": metadata}
    return head | {"columnDefinitions": definitions, "rows": rows}
