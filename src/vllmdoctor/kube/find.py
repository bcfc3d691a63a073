"""From what a target names to its pods, and to the object that owns them."""

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from vllmdoctor.errors import NotEnoughData, SourceError, UnknownName
from vllmdoctor.kube.answers import Forbidden, NotThere, gap_of
from vllmdoctor.kube.door import Door, Json
from vllmdoctor.kube.kinds import KINDS, Kind
from vllmdoctor.kube.nouns import EVERYWHERE, Named
from vllmdoctor.kube.owners import controller, guessed, owners_of
from vllmdoctor.kube.pods import Pod, pod_of, serves_vllm
from vllmdoctor.model import Gap


@dataclass(slots=True)
class Found:
    """The pods that a target means, and the objects that own them by the pod's full name."""

    named: Named
    pods: tuple[Pod, ...]
    owners: dict[tuple[str, str], Json] = field(default_factory=dict)
    gaps: list[Gap] = field(default_factory=list)

    def owner(self, pod: Pod) -> Json | None:
        """The workload that owns a pod, where it is known."""
        return self.owners.get((pod.namespace, pod.name))


def find(door: Door, named: Named, container: str = "") -> Found:
    """The pods of a target. UnknownName for a name that is not there, NotEnoughData where it has no pods."""
    namespace = "" if named.namespace == EVERYWHERE else named.namespace or door.namespace
    named = Named(named.namespace or namespace, named.kind, named.name, named.selector)
    kind = KINDS[named.kind]
    gaps: list[Gap] = []
    if not named.name:
        return _many(door, named, namespace, container)
    if kind.name == "pod":
        try:
            objects = [door.one(kind, namespace, named.name)]
        except NotThere:
            raise _unknown(door, kind, namespace, named.name) from None
        owner = None
    else:
        owner, objects = _of_object(door, kind, namespace, named.name, gaps)
    alive = [o for o in objects if not _finished(o)]
    if kind.name in ("rayservice", "raycluster"):
        alive = [o for o in alive if _uses_gpu_or_head(o)]
    if not alive:
        raise _empty(kind, named.name, namespace, owner, objects)
    found = Found(named, _named_apart([pod_of(o, kind, container) for o in alive], kind, container))
    found.gaps += gaps
    if owner is not None and kind.name in ("deployment", "statefulset", "daemonset"):
        found.owners = {(p.namespace, p.name): owner for p in found.pods}
    else:
        found.owners, told = owners_of(door, found.pods)
        found.gaps += told
    return found


def _many(door: Door, named: Named, namespace: str, container: str) -> Found:
    """All pods of a place that run vLLM, or those that a selector picks."""
    objects = door.listed("api/v1", "pods", namespace, labels=named.selector)
    alive = [o for o in objects if not _finished(o)]
    chosen = [o for o in alive if serves_vllm(o)] or ([] if not named.selector else alive)
    if not chosen:
        where = f"namespace {namespace}" if namespace else "the whole cluster"
        which = f" with labels {named.selector}" if named.selector else " that run vLLM"
        raise NotEnoughData(
            f"no pods{which} in {where} (looked at {len(alive)})",
            hint="choose another namespace (-n, or -A for all), labels (-l), or name one: TYPE/NAME",
        )
    kind = KINDS["pod"]
    found = Found(named, _named_apart([pod_of(o, kind, container) for o in chosen], kind, container))
    found.owners, found.gaps = owners_of(door, found.pods)
    return found


def _named_apart(pods: Sequence[Pod], kind: Kind, container: str) -> tuple[Pod, ...]:
    """The pods by name; where a name is in two namespaces, they are called NAMESPACE/NAME."""
    names = [p.name for p in pods]
    return tuple(
        sorted(
            (
                p if names.count(p.name) == 1
                else pod_of(p.object, kind, container, f"{p.namespace}/{p.name}")
                for p in pods
            ),
            key=lambda p: (p.namespace, p.name),
        )
    )  # fmt: skip


def _of_object(
    door: Door, kind: Kind, namespace: str, name: str, gaps: list[Gap]
) -> tuple[Json | None, list[Json]]:
    """(the object, its pods). Where it may not be seen, its pods are told by labels, or by who made them."""
    try:
        owner, labels = _labels(door, kind, namespace, name)
    except Forbidden as error:
        if kind.how == "label" and kind.name != "rayservice":
            pods = door.listed("api/v1", "pods", namespace, labels=kind.label.format(name))
            if not pods:  # whether there is such an object at all cannot be told
                raise
            gaps.append(gap_of(error, ""))
            return None, pods
        if kind.name not in ("deployment", "statefulset", "daemonset", "replicaset"):
            raise
        try:
            pods = door.listed("api/v1", "pods", namespace)
        except Forbidden:
            raise error from None
        gaps.append(gap_of(error, ""))
        made = (kind.title, name)
        return None, [o for o in pods if made in (controller(o), guessed(o))]
    return owner, door.listed("api/v1", "pods", namespace, labels=labels)


def _labels(door: Door, kind: Kind, namespace: str, name: str) -> tuple[Json | None, str]:
    """(the object, the selector of its pods)."""
    if not kind.plural:
        return None, kind.label.format(name)
    try:
        found = door.one(kind, namespace, name)
    except NotThere:
        raise _unknown(door, kind, namespace, name) from None
    if kind.name == "rayservice":
        active = ((found.get("status") or {}).get("activeServiceStatus") or {}).get("rayClusterName")
        return found, kind.label.format(active or _ray_cluster(door, namespace, name))
    if kind.how == "label":
        return found, kind.label.format(name)
    selector = (found.get("spec") or {}).get("selector") or {}
    labels = selector_text({"matchLabels": selector} if kind.name == "service" else selector)
    if not labels:
        raise NotEnoughData(f"{kind.name}/{name} selects no pods", hint="it has no selector")
    return found, labels


def _ray_cluster(door: Door, namespace: str, name: str) -> str:
    """The newest RayCluster that a RayService made, where its status does not name the active one."""
    kind = KINDS["raycluster"]
    made = [
        o for o in door.listed(kind.path, kind.plural, namespace) if controller(o) == ("RayService", name)
    ]
    newest = max(made, key=lambda o: str(o["metadata"].get("creationTimestamp", "")), default=None)
    return str(newest["metadata"]["name"]) if newest else name


def selector_text(selector: Mapping[str, Any]) -> str:
    """A selector as a query has it."""
    parts = [f"{key}={value}" for key, value in (selector.get("matchLabels") or {}).items()]
    for each in selector.get("matchExpressions") or ():
        key, values = each["key"], ",".join(each.get("values") or ())
        parts.append(
            {"In": f"{key} in ({values})", "NotIn": f"{key} notin ({values})", "Exists": key}.get(
                each["operator"], f"!{key}"
            )
        )
    return ",".join(parts)


def _unknown(door: Door, kind: Kind, namespace: str, name: str) -> SourceError | UnknownName:
    """The error for a name that is not there, with the nearest one that is."""
    try:
        objects = door.listed(kind.path, kind.plural, namespace)
        there = [str(o["metadata"]["name"]) for o in objects]
    except NotThere:
        return NotThere(
            f"this cluster knows no {kind.title}", hint="is its operator installed in this cluster?"
        )
    except SourceError:
        objects, there = [], []
    makers = (made for o in objects for made in (controller(o), guessed(o)))
    owner = next((made for made in makers if kind.name == "pod" and made[1] == name), None)
    near = difflib.get_close_matches(name, there, n=1)
    hint = f"did you mean {kind.name}/{near[0]}?" if near else ""
    if owner:
        hint = f"did you mean {owner[0].lower()}/{owner[1]}?"
    elif not near:
        hint = f"there: {', '.join(sorted(there)[:8])}" if there else "is it in another namespace (-n, -A)?"
    return NotThere(f'{kind.resource} "{name}" not found in namespace {namespace}', hint=hint)


def _empty(
    kind: Kind, name: str, namespace: str, owner: Json | None, objects: Sequence[Json]
) -> NotEnoughData:
    spec, status = (owner or {}).get("spec") or {}, (owner or {}).get("status") or {}
    if spec.get("replicas") == 0:
        return NotEnoughData(
            f"{kind.name}/{name} is scaled to 0 replicas", hint="there is nothing to look at"
        )
    if objects:
        phases = ", ".join(sorted({str((o.get("status") or {}).get("phase")) for o in objects}))
        return NotEnoughData(f"the pods of {kind.name}/{name} have ended ({phases})")
    why = next(
        (
            str(c.get("message") or c.get("reason"))
            for c in status.get("conditions") or ()
            if c.get("status") == ("True" if c.get("type") == "ReplicaFailure" else "False")
        ),
        "",
    )
    said = f": {why}" if why else ""
    return NotEnoughData(
        f"{kind.name}/{name} has no pods in namespace {namespace}{said}",
        hint=f"kubectl -n {namespace} describe {kind.name}/{name}" if kind.plural else "is the name right?",
    )


def _finished(found: Json) -> bool:
    return (found.get("status") or {}).get("phase") in ("Succeeded", "Failed") and not (
        (found.get("status") or {}).get("reason")
    )


def _uses_gpu_or_head(found: Json) -> bool:
    """Ray's head shows metrics even without a GPU; workers without one run no engine."""
    labels = found["metadata"].get("labels") or {}
    return labels.get("ray.io/node-type") != "redis-cleanup"
