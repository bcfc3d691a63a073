"""A pod that runs vLLM: which of its containers, on which port, and how it is."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from vllmdoctor.errors import UsageError
from vllmdoctor.kube.kinds import Kind
from vllmdoctor.kube.nouns import Named

Json = dict[str, Any]

SURE = 3  # from this on a container is taken for a vLLM server without anybody saying so
_STARTS = re.compile(r"\bvllm\s+serve\b|vllm\.entrypoints|\bapi_server\b")
_ROUTER = re.compile(r"router|gateway|inference-scheduler|\bepp\b|lmcache-server|proxy")
_USUAL_PORTS = (8000, 8080)
_SERVED = ("http", "vllm", "metrics", "container-port")


@dataclass(frozen=True, slots=True)
class Pod:
    """One pod: its object, the container that serves (and its place among them) and its port.

    `instance` is what it is called in the recording; `owner` is the object that made it, "" for none.
    """

    namespace: str
    name: str
    object: Json
    container: str
    index: int
    port: int
    secure: bool
    instance: str

    @property
    def spec(self) -> Json:
        """Of the container."""
        found: Json = self.object["spec"]["containers"][self.index]
        return found

    @property
    def status(self) -> Json:
        """Of the container; {} before it was ever created."""
        told = (self.object.get("status") or {}).get("containerStatuses") or []
        return next((s for s in told if s.get("name") == self.container), {})

    @property
    def phase(self) -> str:
        """The pod's phase; Terminating where it is being deleted."""
        if self.object["metadata"].get("deletionTimestamp"):
            return "Terminating"
        return str((self.object.get("status") or {}).get("phase") or "Unknown")

    @property
    def runs(self) -> bool:
        """Whether the container runs now."""
        return "running" in (self.status.get("state") or {})

    @property
    def node(self) -> str:
        """The name of its node; "" before it has one."""
        return str(self.object["spec"].get("nodeName") or "")

    @property
    def proxied(self) -> str:
        """Its name for the API server's proxy: with the port's number, which works everywhere."""
        return f"{'https:' if self.secure else ''}{self.name}:{self.port}"

    @property
    def named(self) -> Named:
        """It as a target."""
        return Named(self.namespace, "pod", self.name)


def pod_of(found: Json, kind: Kind, wanted: str, instance: str = "") -> Pod:
    """The pod with the container that serves: the one wanted, else the likeliest.

    UsageError where there is no container of that name.
    """
    meta, containers = found["metadata"], found["spec"]["containers"]
    names = [str(c["name"]) for c in containers]
    if wanted:
        if wanted not in names:
            told = f"no container {wanted!r} in pod {meta['name']}"
            raise UsageError(told, hint=f"it has: {', '.join(names)}")
        index = names.index(wanted)
    else:
        index = max(range(len(containers)), key=lambda i: (likelihood(containers[i], kind), -i))
    spec = containers[index]
    return Pod(
        namespace=str(meta.get("namespace", "")),
        name=str(meta["name"]),
        object=found,
        container=names[index],
        index=index,
        port=_port(spec, kind),
        secure=any("--ssl-keyfile" in word for word in words_of(spec)),
        instance=instance or str(meta["name"]),
    )


def likelihood(container: Mapping[str, Any], kind: Kind | None = None) -> int:
    """How likely a container runs a vLLM server: its command and image tell most, then GPUs and ports."""
    said = " ".join(words_of(container))
    image = str(container.get("image", "")).lower()
    name = str(container.get("name", ""))
    if _ROUTER.search(image.rpartition("/")[2]) or _ROUTER.search(name):
        return 0
    points = 5 if _STARTS.search(said) else 0
    points += 3 if "vllm" in image else 0
    points += 2 if gpus_of(container) else 0
    points += 2 if name == "vllm" or (kind is not None and kind.container and name == kind.container) else 0
    points += 1 if any(str(e.get("name", "")).startswith("VLLM_") for e in container.get("env") or ()) else 0
    points += 1 if any(p.get("containerPort") in _USUAL_PORTS for p in container.get("ports") or ()) else 0
    return points


def serves_vllm(found: Json) -> bool:
    """Whether a pod has a container that surely runs a vLLM server."""
    return any(likelihood(c) >= SURE and not _only_gpu(c) for c in found["spec"]["containers"])


def _only_gpu(container: Mapping[str, Any]) -> bool:
    """A GPU and a usual port are not enough: other servers have them too."""
    told = " ".join((str(container.get("image", "")), str(container.get("name", "")), *words_of(container)))
    env = any(str(e.get("name", "")).startswith("VLLM_") for e in container.get("env") or ())
    return not env and "vllm" not in told.lower()


def words_of(container: Mapping[str, Any]) -> list[str]:
    """Its command and arguments."""
    return [str(word) for key in ("command", "args") for word in container.get(key) or ()]


def gpus_of(container: Mapping[str, Any]) -> int:
    """How many GPUs it is given."""
    limits = ((container.get("resources") or {}).get("limits")) or {}
    counts = (str(v) for k, v in limits.items() if k.endswith(("/gpu", "/gpu.shared")) or "/mig-" in k)
    return sum(int(count) for count in counts if count.isdigit())


def moment(text: object) -> float | None:
    """Unix seconds of a time as Kubernetes writes it; None for none."""
    if not isinstance(text, str) or not text:
        return None
    try:
        return datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()
    except ValueError:
        return None


def trouble(pod: Pod) -> str:
    """Why its container does not run, in words; "" where it does."""
    if pod.runs:
        return ""
    state = pod.status.get("state") or {}
    waiting, ended = state.get("waiting") or {}, state.get("terminated") or {}
    status = pod.object.get("status") or {}
    if waiting.get("reason"):
        last = (pod.status.get("lastState") or {}).get("terminated") or {}
        told = f"{pod.status.get('restartCount', 0)} restarts"
        told += f", the last end: {end_of(last)}" if last else ""
        said = (
            waiting.get("message") if waiting["reason"] not in ("CrashLoopBackOff", "PodInitializing") else ""
        )
        return f"{waiting['reason']} ({told})" + (f": {said}" if said else "")
    if ended:
        return f"ended: {end_of(ended)}"
    if status.get("reason"):  # Evicted, NodeLost
        return f"{status['reason']}: {status.get('message', '')}".rstrip(": ")
    return f"{pod.phase}" + "".join(f": {why}" for why in list(_conditions(status))[:1])


def end_of(ended: Mapping[str, Any]) -> str:
    """How a container ended: OOMKilled, exit code 137."""
    reason = str(ended.get("reason") or "")
    code = f"exit code {ended.get('exitCode', '?')}"
    return f"{reason}, {code}" if reason and reason != "Error" else code


def _conditions(status: Mapping[str, Any]) -> Iterator[str]:
    for condition in status.get("conditions") or ():
        if condition.get("status") == "False" and (condition.get("message") or condition.get("reason")):
            yield str(condition.get("message") or condition["reason"])


def _port(container: Mapping[str, Any], kind: Kind) -> int:
    """What --port says, else the port that is named for it, else the first, else the usual one."""
    ports = [p for p in container.get("ports") or () if isinstance(p.get("containerPort"), int)]
    if kind.name in ("rayservice", "raycluster"):  # Ray shows all metrics on a port of its own
        named = (int(p["containerPort"]) for p in ports if p.get("name") == "metrics")
        port = next(named, None)
        if port is not None or not ports:
            return port or kind.port
    told = re.search(r"--port[= ]+(\d+)", " ".join(words_of(container)))
    if told:
        return int(told[1])
    chosen = (
        next((p for p in ports if p["containerPort"] == kind.port), None)
        or next((p for p in ports if str(p.get("name", "")).startswith(_SERVED)), None)
        or next(iter(ports), None)
    )
    return int(chosen["containerPort"]) if chosen else kind.port
