"""What happened to pods: restarts and their reasons, the cluster's events, what was rolled out when."""

import re
import time
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

from vllmdoctor.errors import SourceError
from vllmdoctor.kube.answers import Expired, NotThere, gap_of, words
from vllmdoctor.kube.door import Door, Json
from vllmdoctor.kube.find import Found, selector_text
from vllmdoctor.kube.launches import described
from vllmdoctor.kube.owners import controller, kind_and_name
from vllmdoctor.kube.pods import Pod, end_of, gpus_of, moment, trouble
from vllmdoctor.model import Event, Gap, Observation

ORIGIN = "kubernetes"
_REVISION = "deployment.kubernetes.io/revision"
_ROUTINE = frozenset(
    (
        *("Scheduled", "Pulled", "Pulling", "Created", "Started", "SuccessfulCreate", "SuccessfulDelete"),
        *("SuccessfulAttachVolume", "Completed", "SawCompletedJob", "NoPods"),
    )
)
_MOST_EVENTS = 30
_RECENT_S = 3600.0  # an earlier start than that, and the only one, is no news
_KINDS = ("Pod", "Deployment", "StatefulSet", "ReplicaSet", "HorizontalPodAutoscaler")


def of_status(pod: Pod) -> Iterator[Observation]:
    """What a pod's own status tells: how its container last ended, and why it does not run."""
    last = (pod.status.get("lastState") or {}).get("terminated") or {}
    at = moment(last.get("finishedAt"))
    if last and at is not None:
        killed = last.get("reason") == "OOMKilled"
        count = int(pod.status.get("restartCount") or 0)
        text = f"container {pod.container} ended ({end_of(last)}), {count} restart{'s'[: count != 1]} so far"
        if killed and (limit := _limits(pod).get("memory")):
            text += f"; its memory limit is {limit}"
        yield Event(at, "oom-killed" if killed else "container-ended", text, pod.instance, ORIGIN)
    began = moment(((pod.status.get("state") or {}).get("running") or {}).get("startedAt"))
    if began is not None and (pod.status.get("restartCount") or time.time() - began < _RECENT_S):
        yield Event(began, "container-started", f"container {pod.container} started", pod.instance, ORIGIN)
    why = trouble(pod)
    if why:
        told = words(why)
        yield Event(time.time(), "not-running", told, pod.instance, ORIGIN)
        yield Gap(pod.instance, f"pod {pod.name}: its metrics", told, _hint(pod))


def _hint(pod: Pod) -> str:
    if pod.phase == "Pending":
        gpus = gpus_of(pod.spec)
        wants = f" (it asks for {gpus} GPU{'s'[: gpus != 1]})" if gpus else ""
        return f"kubectl -n {pod.namespace} describe pod {pod.name}{wants}"
    return f"kubectl -n {pod.namespace} logs {pod.name} -c {pod.container} --previous"


def _limits(pod: Pod) -> Mapping[str, str]:
    found: Mapping[str, str] = (pod.spec.get("resources") or {}).get("limits") or {}
    return found


def of_cluster(door: Door, found: Found) -> Iterator[Observation]:
    """The cluster's events about the pods and what owns them; routine ones are left out."""
    instances = {(p.namespace, p.name): p.instance for p in found.pods}
    owners = {(p.namespace, str(o["metadata"]["name"])) for p in found.pods if (o := found.owner(p))}
    for namespace in dict.fromkeys(p.namespace for p in found.pods):
        one = [p for p in found.pods if p.namespace == namespace]
        fields = f"involvedObject.name={one[0].name}" if len(one) == 1 and not owners else ""
        try:
            listed = door.listed("api/v1", "events", namespace, fields=fields)
        except Expired:
            raise
        except SourceError as error:
            yield gap_of(error, "the cluster's events")
            continue
        told = [e for each in listed if (e := _event(each, instances, owners)) is not None]
        yield from sorted(told, key=lambda e: e.time)[-_MOST_EVENTS:]


def _event(
    each: Json, instances: Mapping[tuple[str, str], str], owners: set[tuple[str, str]]
) -> Event | None:
    about = each.get("involvedObject") or each.get("regarding") or {}
    key = (str(about.get("namespace", "")), str(about.get("name", "")))
    reason = str(each.get("reason") or "")
    if about.get("kind") not in _KINDS or (key not in instances and key not in owners):
        return None
    if reason in _ROUTINE:
        return None
    series = each.get("series") or {}
    meta = each.get("metadata") or {}
    at = next(
        (
            t
            for told in (
                *(series.get("lastObservedTime"), each.get("lastTimestamp"), each.get("eventTime")),
                meta.get("creationTimestamp"),
            )
            if (t := moment(told)) is not None
        ),
        None,
    )
    if at is None:
        return None
    count = int(series.get("count") or each.get("count") or 1)
    often = f" ({count} times)" if count > 1 else ""
    text = f"{reason}: {words(str(each.get('message') or each.get('note') or ''))}{often}"
    name = re.sub(r"(?<!^)(?=[A-Z])", "-", reason).lower() or "event"
    return Event(at, name, text, instances.get(key, key[1]), ORIGIN)


def of_rollouts(door: Door, found: Found) -> Iterator[Observation]:
    """When a new template was rolled out, and what it changed of the server's container."""
    for owner in {id(o): o for o in found.owners.values()}.values():
        pod = next(p for p in found.pods if found.owner(p) is owner)
        kind = owner.get("kind")
        try:
            if kind == "Deployment":
                templates = _replica_sets(door, owner, pod.namespace)
            elif kind in ("StatefulSet", "DaemonSet"):
                templates = _revisions(door, owner, pod.namespace)
            else:
                continue
        except Expired:
            raise
        except NotThere:
            continue
        except SourceError as error:
            yield gap_of(error, "which change was rolled out when")
            continue
        name = kind_and_name(owner)
        for (_, _, before), (at, revision, after) in pairwise(templates):
            text = f"{name} revision {revision}: {described(before, after, pod.container)}"
            yield Event(at, "rollout", text, str(owner["metadata"]["name"]), ORIGIN)


Templates = list[tuple[float, int, Json]]


def _replica_sets(door: Door, owner: Json, namespace: str) -> Templates:
    labels = selector_text((owner.get("spec") or {}).get("selector") or {})
    listed = door.listed("apis/apps/v1", "replicasets", namespace, labels=labels)
    own = [o for o in listed if controller(o) == ("Deployment", str(owner["metadata"]["name"]))]
    return _ordered(
        (o, (o["metadata"].get("annotations") or {}).get(_REVISION), o["spec"].get("template") or {})
        for o in own
    )


def _revisions(door: Door, owner: Json, namespace: str) -> Templates:
    labels = selector_text((owner.get("spec") or {}).get("selector") or {})
    listed = door.listed("apis/apps/v1", "controllerrevisions", namespace, labels=labels)
    name = str(owner["metadata"]["name"])
    return _ordered(
        (o, o.get("revision"), ((o.get("data") or {}).get("spec") or {}).get("template") or {})
        for o in listed
        if controller(o)[1] == name
    )


def _ordered(found: "Iterator[tuple[Json, object, Json]]") -> Templates:
    """(when, revision, template), in the order of their revisions.

    A rolled back template keeps its first creation time: a revision is never dated before the one it
    follows.
    """
    numbered = sorted(
        (
            (int(str(number)), moment(o["metadata"].get("creationTimestamp")) or 0.0, template)
            for o, number, template in found
            if str(number or "").isdigit()
        ),
        key=lambda each: each[0],
    )
    ordered: Templates = []
    for number, at, template in numbered:
        ordered.append((max([at, *(t for t, _, _ in ordered)]), number, template))
    return ordered


def last_words(door: Door, pod: Pod) -> Iterator[Observation]:
    """The end of the log of a container that does not stay up: what it said before it ended."""
    if not int(pod.status.get("restartCount") or 0) and "terminated" not in (pod.status.get("state") or {}):
        return
    previous = "waiting" in (pod.status.get("state") or {})
    query = [("container", pod.container), ("tailLines", "200"), ("timestamps", "true")]
    query += [("previous", "true")] if previous else []
    try:
        text = door.log(pod.namespace, pod.name, query, 1 << 20).decode("utf-8", "replace")
    except Expired:
        raise
    except SourceError as error:
        yield gap_of(error, f"the last words of {pod.name}", pod.instance)
        return
    line = _telling(text.splitlines())
    if line:
        stamp, _, rest = line.partition(" ")
        at = moment(stamp)
        said = rest if at is not None else line
        yield Event(at or time.time(), "last-words", words(said), pod.instance, ORIGIN)


_ERROR = re.compile(r"\b(?:\w+Error|\w+Exception|Killed|CUDA|out of memory|FATAL|fatal|error:)")


def _telling(lines: Sequence[str]) -> str:
    """The last line that names an error, else the last line."""
    said = [line for line in lines if line.strip()]
    return next((line for line in reversed(said) if _ERROR.search(line)), said[-1] if said else "")
