"""A rolling restart on a schedule, with no more rights than it needs, and a budget for disruptions."""

import re

from vllmdoctor.manifests.files import Document, File, manifest
from vllmdoctor.manifests.place import Place
from vllmdoctor.model import Step

KUBECTL = "registry.k8s.io/kubectl:v1.33.4"  # has no shell: each command is a container of its own
SCHEDULE = re.compile(r"`((?:[\d*/,-]+ ){4}[\d*/,-]+)`")
DEFAULT_SCHEDULE = "0 */6 * * *"
SINGLE = (
    "there is a single replica (or the number is not known): minAvailable 1 then blocks every drain of "
    "its node, "
    "and each restart is an outage of as long as the model takes to load"
)


def restart(step: Step, place: Place) -> tuple[File, File]:
    """The CronJob with its account and role, and the PodDisruptionBudget."""
    name = f"{place.name}-restart"
    found = SCHEDULE.search(step.action)
    schedule = found[1] if found else DEFAULT_SCHEDULE
    warning = SINGLE if place.replicas <= 1 else ""
    note = (
        "A stop-gap: it hides the fault and loses its evidence. Save /metrics and logs before the first run."
    )
    return (
        manifest(
            "rolling-restart.yaml",
            f"Rolling restart of {place.resource} at {schedule}",
            (_account(name, place), *_rights(name, place), _job(name, schedule, place)),
            warning=warning,
            note=note,
        ),
        budget(place),
    )


def budget(place: Place) -> File:
    """At least one pod stays while nodes are drained."""
    return manifest(
        "pdb.yaml",
        "PodDisruptionBudget: at least one pod stays",
        (
            {
                "apiVersion": "policy/v1",
                "kind": "PodDisruptionBudget",
                "metadata": place.meta,
                "spec": {"minAvailable": 1, "selector": {"matchLabels": place.selector}},
            },
        ),
        warning=SINGLE if place.replicas <= 1 else "",
    )


def _account(name: str, place: Place) -> Document:
    return {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": place.named(name),
        "automountServiceAccountToken": False,
    }


def _rights(name: str, place: Place) -> tuple[Document, Document]:
    """Of one workload alone: get and patch to restart it, list and watch to wait for it."""
    role: Document = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "Role",
        "metadata": place.named(name),
        "rules": [
            {
                "apiGroups": ["apps"],
                "resources": [f"{place.kind.lower()}s"],
                "resourceNames": [place.name],
                "verbs": ["get", "patch", "list", "watch"],
            },
            {
                "apiGroups": ["apps"],
                "resources": [f"{place.kind.lower()}s/status"],
                "resourceNames": [place.name],
                "verbs": ["get"],
            },
        ],
    }
    binding: Document = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": place.named(name),
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name},
        "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": place.namespace}],
    }
    return role, binding


def _job(name: str, schedule: str, place: Place) -> Document:
    pod = {
        "serviceAccountName": name,
        "automountServiceAccountToken": True,
        "restartPolicy": "Never",
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": 65532,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "initContainers": [_kubectl("restart", ["rollout", "restart", place.resource], place)],
        "containers": [_kubectl("wait", ["rollout", "status", place.resource, "--timeout=40m"], place)],
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "metadata": place.named(name),
        "spec": {
            "schedule": schedule,
            "concurrencyPolicy": "Forbid",
            "startingDeadlineSeconds": 600,
            "successfulJobsHistoryLimit": 3,
            "failedJobsHistoryLimit": 3,
            "jobTemplate": {
                "spec": {
                    "backoffLimit": 0,
                    "activeDeadlineSeconds": 3600,
                    "template": {"spec": pod},
                }
            },
        },
    }


def _kubectl(name: str, words: list[str], place: Place) -> Document:
    return {
        "name": name,
        "image": KUBECTL,
        "args": [*words, f"--namespace={place.namespace}"],
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        "resources": {
            "requests": {"cpu": "50m", "memory": "64Mi"},
            "limits": {"memory": "128Mi"},
        },
    }
