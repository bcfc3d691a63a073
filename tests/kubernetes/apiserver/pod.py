"""A pod of the cluster: what it serves, logs and runs, and in which state it is."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol

from tests.kubernetes.apiserver.failures import Failure, bad_request
from tests.kubernetes.apiserver.manifests import Object, stamp


class Backend(Protocol):
    """Anything that listens: its host and port."""

    @property
    def address(self) -> tuple[str, int]:
        """Where it is reached on this machine."""
        ...


@dataclass(frozen=True, slots=True)
class Ran:
    """What a command in a container gave."""

    out: bytes = b""
    err: bytes = b""
    code: int = 0


Command = Callable[[list[str]], Ran]


@dataclass(slots=True)
class Pod:
    """A pod: the object that is served, and what stands behind its subresources."""

    object: Object
    recount: Callable[[], None] = lambda: None
    ports: dict[int, tuple[str, int]] = field(default_factory=dict)
    logs: dict[tuple[str, bool], list[tuple[float, str]]] = field(default_factory=dict)
    commands: dict[str, Command] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return str(self.object["metadata"]["name"])

    @property
    def namespace(self) -> str:
        return str(self.object["metadata"]["namespace"])

    @property
    def containers(self) -> list[str]:
        return [container["name"] for container in self.object["spec"]["containers"]]

    @property
    def engine(self) -> str:
        """The container of vLLM: the last one."""
        return self.containers[-1]

    # --- what it serves, says and runs ------------------------------------------------------------

    def serve(self, backend: Backend, port: int = 8000) -> "Pod":
        """From now on the backend answers on this port of the pod."""
        self.ports[port] = backend.address
        return self

    def say(
        self, text: str, *, container: str = "", previous: bool = False, at: float | None = None
    ) -> "Pod":
        """Add to a container's log, a line a second, the first at `at` [unix s], or the last about now."""
        lines = text.splitlines()
        start = time.time() - len(lines) if at is None else at
        kept = self.logs.setdefault((container or self.engine, previous), [])
        kept.extend((start + n, line) for n, line in enumerate(lines))
        return self

    def run(self, program: str, gives: Ran | Command) -> "Pod":
        """A program that can be run in its containers, and what that gives."""
        self.commands[program] = gives if callable(gives) else lambda argv: gives
        return self

    def executed(self, argv: list[str]) -> Ran | None:
        """What a command gives; None where there is no such program."""
        command = self.commands.get(argv[0]) if argv else None
        return command(argv) if command else None

    # --- in which state it is ---------------------------------------------------------------------

    def crash_loop(self, restarts: int = 7, code: int = 1, reason: str = "Error") -> "Pod":
        """Its engine ends again and again."""
        back_off = f"back-off 5m0s restarting failed container={self.engine} pod={self.name}_{self.namespace}"
        ended = self._ended(code, reason)
        waiting = {"waiting": {"reason": "CrashLoopBackOff", "message": back_off}}
        return self._engine(waiting, ready=False, restarts=restarts, last=ended)

    def killed(self, restarts: int = 1, ago_s: float = 600.0) -> "Pod":
        """Its engine ran out of memory, and runs again since."""
        since = {"running": {"startedAt": stamp(time.time() - ago_s)}}
        return self._engine(since, ready=True, restarts=restarts, last=self._ended(137, "OOMKilled", ago_s))

    def waiting(self, reason: str = "ImagePullBackOff", message: str = "") -> "Pod":
        """Its engine has not started."""
        self.object["status"]["phase"] = "Pending"
        said = {"reason": reason} | ({"message": message} if message else {})
        return self._engine({"waiting": said}, ready=False)

    def pending(self, why: str = "0/3 nodes are available: 3 Insufficient nvidia.com/gpu.") -> "Pod":
        """It has no node."""
        self.object["spec"].pop("nodeName", None)
        for key in ("podIP", "podIPs", "hostIP", "startTime", "containerStatuses"):
            self.object["status"].pop(key, None)
        unscheduled = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": why}
        self.object["status"] |= {"phase": "Pending", "conditions": [unscheduled]}
        self.ports.clear()
        self.recount()
        return self

    def not_ready(self) -> "Pod":
        """It runs, and its readiness probe fails."""
        return self._engine(self._status()["state"], ready=False)

    def terminating(self) -> "Pod":
        """It was told to end."""
        self.object["metadata"] |= {"deletionTimestamp": stamp(time.time()), "deletionGracePeriodSeconds": 30}
        return self

    def _ended(self, code: int, reason: str, ago_s: float = 120.0) -> Object:
        end = time.time() - ago_s
        times = {"startedAt": stamp(end - 300), "finishedAt": stamp(end)}
        return {"terminated": {"exitCode": code, "reason": reason} | times}

    def _status(self) -> Object:
        return next(s for s in self.object["status"]["containerStatuses"] if s["name"] == self.engine)

    def _engine(
        self, state: Object, *, ready: bool, restarts: int | None = None, last: Object | None = None
    ) -> "Pod":
        status = self._status()
        status |= {"state": state, "ready": ready, "started": "running" in state}
        status |= {} if restarts is None else {"restartCount": restarts}
        status |= {} if last is None else {"lastState": last}
        for condition in self.object["status"]["conditions"]:
            if condition["type"] in ("Ready", "ContainersReady"):
                condition["status"] = str(ready)
                condition.pop("reason", None)
                condition |= {} if ready else {"reason": "ContainersNotReady"}
        if "running" not in state:
            self.ports.clear()
        self.recount()
        return self

    @property
    def ready(self) -> bool:
        conditions = self.object["status"].get("conditions", ())
        return any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)

    # --- its log ----------------------------------------------------------------------------------

    def chosen(self, container: str, why: str) -> str:
        """The container that is meant; Failure as the server words it, where none or no such one is."""
        if container in self.containers:
            return container
        if container:
            raise bad_request(f"container {container} is not valid for pod {self.name}")
        if len(self.containers) > 1:
            among = " ".join(self.containers)
            said = f"a container name must be specified for pod {self.name}, choose one of: [{among}]"
            raise bad_request(said if why == "log" else f"container name required: [{among}]")
        return self.containers[0]

    def log(self, options: Mapping[str, str]) -> str:
        """The log as `kubectl logs` asks for it."""
        container = self.chosen(options.get("container", ""), "log")
        previous = options.get("previous", "") == "true"
        kept = self.logs.get((container, previous), [])
        if previous and not kept:
            raise bad_request(f'previous terminated container "{container}" in pod "{self.name}" not found')
        if not previous and not kept:
            self._refuse_unstarted(container)
        kept = _since(kept, options)
        if "tailLines" in options:
            kept = kept[-int(options["tailLines"]) :] if int(options["tailLines"]) else []
        stamped = options.get("timestamps", "") == "true"
        text = "".join(f"{_nano(at)} {line}\n" if stamped else f"{line}\n" for at, line in kept)
        return text[: int(options["limitBytes"])] if "limitBytes" in options else text

    def _refuse_unstarted(self, container: str) -> None:
        statuses = self.object["status"].get("containerStatuses", ())
        status: Any = next((s for s in statuses if s["name"] == container), None)
        if status is None and self.object["status"]["phase"] == "Pending":
            raise bad_request(f"pod {self.name} does not have a host assigned")
        waiting = status and status["state"].get("waiting")
        if waiting and not status["restartCount"]:
            why = waiting["reason"]
            why = "trying and failing to pull image" if why == "ImagePullBackOff" else why
            raise bad_request(f'container "{container}" in pod "{self.name}" is waiting to start: {why}')


def _since(kept: list[tuple[float, str]], options: Mapping[str, str]) -> list[tuple[float, str]]:
    if "sinceSeconds" in options:
        start = time.time() - int(options["sinceSeconds"])
    elif "sinceTime" in options:
        start = datetime.fromisoformat(options["sinceTime"]).timestamp()
    else:
        return kept
    return [(at, line) for at, line in kept if at >= start]


def _nano(at: float) -> str:
    return stamp(at)[:-1] + f".{int(at % 1 * 1e9):09d}Z"


def not_running(pod: Pod, container: str) -> Failure:
    """What exec says where there is no such running container."""
    said = f'unable to upgrade connection: container not found ("{container}")'
    return Failure(500, "InternalError", said)
