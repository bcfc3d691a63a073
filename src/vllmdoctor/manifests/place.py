"""Where a server runs in Kubernetes: names from a manifest or from options, or marked as unknown."""

import re
from dataclasses import dataclass, replace

from vllmdoctor.errors import UsageError
from vllmdoctor.launch import Launch, Workload

UNKNOWN = "replace-me"
_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")
KINDS = ("Deployment", "StatefulSet")


@dataclass(frozen=True, slots=True)
class Place:
    """The workload and what stands around it.

    A name that is not known is `replace-me-...`, and replicas that are not known are 0.
    """

    namespace: str = f"{UNKNOWN}-namespace"
    kind: str = "Deployment"
    name: str = f"{UNKNOWN}-deployment"
    container: str = f"{UNKNOWN}-container"
    index: int = 0
    replicas: int = 0
    labels: tuple[tuple[str, str], ...] = (("app", f"{UNKNOWN}-app"),)
    service: str = f"{UNKNOWN}-service"
    gateway: str = f"{UNKNOWN}-gateway"
    prometheus: str = f"http://{UNKNOWN}-prometheus:9090"
    port: int = 8000
    image: str = ""

    @property
    def selector(self) -> dict[str, str]:
        """The labels that select its pods."""
        return dict(self.labels)

    @property
    def meta(self) -> dict[str, object]:
        """Metadata for an object of its own name."""
        return self.named(self.name)

    def named(self, name: str) -> dict[str, object]:
        """Metadata for an object of that name beside it."""
        return {"name": name, "namespace": self.namespace}

    @property
    def resource(self) -> str:
        """It as kubectl names it: deployment/vllm."""
        return f"{self.kind.lower()}/{self.name}"


def place_of(
    launch: Launch | None,
    *,
    namespace: str = "",
    deployment: str = "",
    container: str = "",
    service: str = "",
    gateway: str = "",
    prometheus: str = "",
    label: str = "",
    replicas: int = 0,
) -> Place:
    """The place that a launch's manifest tells, with what was given by options before it.

    Raises UsageError for a name that Kubernetes would refuse.
    """
    found = _from_workload(Place(), launch.workload) if launch and launch.workload else Place()
    if launch is not None:
        found = replace(found, image=launch.image)
        port = launch.value("--port")
        if port and port.isdigit():
            found = replace(found, port=int(port))
    for what, value in (
        ("namespace", namespace),
        ("name", deployment),
        ("container", container),
        ("service", service),
        ("gateway", gateway),
    ):
        if value:
            if not _NAME.fullmatch(value):
                raise UsageError(
                    f"not a name for Kubernetes: {value!r}",
                    hint="lower-case letters, digits and -, as in vllm-llama",
                )
            found = replace(found, **{what: value})  # type: ignore[arg-type]
    if prometheus:
        found = replace(found, prometheus=prometheus)
    if label:
        pairs = [part.partition("=") for part in label.split(",")]
        if any(not sign or not key or not value for key, sign, value in pairs):
            raise UsageError(f"not labels: {label!r}", hint="write --label app=vllm,model=llama")
        found = replace(found, labels=tuple((key, value) for key, _, value in pairs))
    return replace(found, replicas=replicas) if replicas > 0 else found


def _from_workload(place: Place, told: Workload) -> Place:
    known = {
        "namespace": told.namespace,
        "name": told.name,
        "container": told.container,
        "kind": told.kind if told.kind in KINDS else "",
        "labels": told.labels,
        "replicas": told.replicas,
        "index": told.index,
        "port": told.port,
    }
    return replace(place, **{key: value for key, value in known.items() if value})  # type: ignore[arg-type]
