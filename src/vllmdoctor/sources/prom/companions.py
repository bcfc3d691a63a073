"""What stands around a server: its container, its GPUs, its workload's replicas, joined by labels.

Exporters that tell of other things than themselves carry the pod as `pod`, or as `exported_pod`
where the scrape put the exporter's own pod there. A GPU without a pod is joined by its node, if
just one of the servers stands on it.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from vllmdoctor.promql import one_of, quoted
from vllmdoctor.sources.prom.api import Api
from vllmdoctor.sources.prom.names import GPU_FINE, POD_FINE, WORKLOAD_FINE, exporters_names
from vllmdoctor.sources.prom.survey import Survey
from vllmdoctor.sources.prom.targets import Target, workload_of

KEPT = ("container", "gpu", "UUID", "uuid", "device", "resource", "reason")
"""Labels that tell the series of one companion apart."""

_NAMESPACE = {
    "pod": "namespace",
    "exported_pod": "exported_namespace",
    "deployment": "namespace",
    "statefulset": "namespace",
}
_NO_CONTAINER = ("", "POD")


@dataclass(frozen=True, slots=True)
class Link:
    """Names that are joined to servers by a label: `owners` says to which ones, by its values."""

    label: str
    names: tuple[str, ...]
    series: int
    owners: Mapping[str, tuple[Target, ...]]
    matchers: tuple[str, ...] = ()

    @property
    def by(self) -> tuple[str, ...]:
        """The labels to keep."""
        namespace = _NAMESPACE.get(self.label)
        return (self.label, *([namespace] if namespace else []), *KEPT)

    def of(self, labels: Mapping[str, str]) -> tuple[Target, ...]:
        """The servers that a series belongs to."""
        container, namespace = labels.get("container"), labels.get(_NAMESPACE.get(self.label, ""), "")
        return tuple(
            target
            for target in self.owners.get(labels.get(self.label, ""), ())
            if not (namespace and target.namespace and namespace != target.namespace)
            and not (self.matchers and container and target.container and container != target.container)
        )


def links(api: Api, told: Survey) -> list[Link]:
    """Which companions there are, from the index alone: no sample is read."""
    targets = list(told.targets.values())
    pods = _group((t.pod, t) for t in targets)
    nodes = {n: ts for n, ts in _group((t.node, t) for t in targets).items() if len(ts) == 1}
    hosts = {h: ts for h, ts in _group((t.host, t) for t in targets).items() if len(ts) == 1}
    workloads = _group((w, t) for t in targets for w in workload_of(t.pod))
    pod_names, gpu_names = exporters_names(POD_FINE), exporters_names(GPU_FINE)
    asked: list[tuple[str, str, Mapping[str, tuple[Target, ...]], tuple[str, ...]]] = []
    for label in ("pod", "exported_pod"):
        asked.append((label, pod_names, pods, ('container!=""', 'container!="POD"')))
        asked.append((label, gpu_names, pods, ()))
    for label in ("Hostname", "node", "instance"):
        asked.append((label, gpu_names, hosts if label == "instance" else nodes, ()))
    for label in ("deployment", "statefulset"):
        asked.append((label, exporters_names(WORKLOAD_FINE), workloads, ()))
    asked = [one for one in asked if one[2]]
    alone = targets[0] if len(targets) == 1 and not targets[0].pod else None
    found: list[Link] = []
    if asked:
        matches = [_match(names, [_any_of(label, owners)]) for label, names, owners, _ in asked]
        everything = _newest_names(told, api.series(matches, told.start, told.end))
        taken: set[tuple[str, str]] = set()
        for label, names, owners, matchers in asked:
            if label == "instance":
                owners = _by_host(everything, owners)
            link = _link(label, set(names.split("|")), owners, matchers, everything, taken)
            if link is not None:
                found.append(link)
    if alone is not None and not found:
        found += _of_the_only_one(api, told, alone)
    return found


def _newest_names(told: Survey, everything: list[dict[str, str]]) -> list[dict[str, str]]:
    """The series by whose names signals are read; an older name beside a newer one is not."""
    present = {labels.get("__name__", "") for labels in everything}
    chosen = set(told.spelling.chosen(present, (*POD_FINE, *GPU_FINE, *WORKLOAD_FINE)))
    return [labels for labels in everything if labels.get("__name__", "") in chosen]


def _link(
    label: str,
    names: set[str],
    owners: Mapping[str, tuple[Target, ...]],
    matchers: tuple[str, ...],
    everything: Sequence[Mapping[str, str]],
    taken: set[tuple[str, str]],
) -> Link | None:
    """The link by one label, for the (name, server) pairs that no better label has."""
    series = [
        labels
        for labels in everything
        if labels.get("__name__", "") in names
        and labels.get(label, "") in owners
        and not (matchers and labels.get("container", "") in _NO_CONTAINER)
    ]
    # a label that says where the exporter runs is no link: the better one was tried before
    series = [s for s in series if not (label == "pod" and s.get("exported_pod"))]
    fresh = [s for s in series if not all((s["__name__"], t.name) in taken for t in owners[s[label]])]
    if not fresh:
        return None
    taken.update((s["__name__"], t.name) for s in fresh for t in owners[s[label]])
    values = {s[label] for s in fresh}
    return Link(
        label,
        tuple(sorted({s["__name__"] for s in fresh})),
        len(fresh),
        {value: owners[value] for value in sorted(values)},
        matchers,
    )


def _of_the_only_one(api: Api, told: Survey, target: Target) -> list[Link]:
    """Companions of the only server, where it has no pod label and they tell of one pod alone."""
    names = exporters_names((*POD_FINE, *GPU_FINE))
    found = _newest_names(told, api.series([_match(names, told.matchers)], told.start, told.end))
    found = [s for s in found if s.get("container", "x") not in _NO_CONTAINER]
    by_label = {label: {s.get(label, "") for s in found} for label in ("exported_pod", "pod", "instance")}
    for label, values in by_label.items():
        if found and len(values) == 1 and "" not in values:
            value = values.pop()
            present = tuple(sorted({s["__name__"] for s in found}))
            return [Link(label, present, len(found), {value: (target,)}, told.matchers)]
    return []


def _group(pairs: Iterable[tuple[str, Target]]) -> dict[str, tuple[Target, ...]]:
    grouped: dict[str, list[Target]] = defaultdict(list)
    for value, target in pairs:
        if value:
            grouped[value].append(target)
    return {value: tuple(targets) for value, targets in grouped.items()}


def _match(names: str, matchers: Sequence[str]) -> str:
    return "{" + ",".join([f"__name__=~{quoted(names)}", *matchers]) + "}"


def _any_of(label: str, owners: Mapping[str, tuple[Target, ...]]) -> str:
    if label != "instance":
        return one_of(label, sorted(owners))
    hosts = one_of(label, [*sorted(owners), ""])  # with a second value it is always a regular expression
    inside = hosts.partition('"')[2].removesuffix('|"')
    return f'{label}=~"(?:{inside})(?::[0-9]+)?"'


def _by_host(
    everything: Sequence[Mapping[str, str]], hosts: Mapping[str, tuple[Target, ...]]
) -> dict[str, tuple[Target, ...]]:
    """Hosts as the addresses of exporters on them."""
    owners = {}
    for labels in everything:
        instance = labels.get("instance", "")
        host, colon, port = instance.rpartition(":")
        host = host if colon and port.isdigit() else instance
        if host in hosts:
            owners[instance] = hosts[host]
    return owners
