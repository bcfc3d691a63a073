"""The history that a Prometheus keeps of the same pods: the one in the cluster, or one that was named."""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from urllib.parse import urlsplit

from vllmdoctor.errors import SourceError, VllmDoctorError
from vllmdoctor.kube.answers import ORIGIN, Expired, Forbidden
from vllmdoctor.kube.door import Door, Json
from vllmdoctor.kube.find import Found
from vllmdoctor.kube.nouns import NO_PROMETHEUS
from vllmdoctor.kube.pods import Pod
from vllmdoctor.model import Gap, Observation, Samples
from vllmdoctor.sources import Window
from vllmdoctor.sources.http import Reply
from vllmdoctor.sources.prom.place import Place, place_of
from vllmdoctor.sources.prom.source import PrometheusSource

_LABELS = ("operated-prometheus=true", "app.kubernetes.io/name=prometheus")
USUAL_NAMESPACE = "monitoring"
_PORT = 9090
_PORTS = ("web", "http-web", "http")
_OTHERS = re.compile(r"alertmanager|pushgateway|node-exporter|operator\b|adapter|exporter|blackbox")
_MOST_TRIED = 3
_WHAT = "what was before now"


class ServiceHttp:
    """Asks a Service through the API server's proxy, as `Http` asks an address: with GET alone."""

    def __init__(self, door: Door, namespace: str, name: str) -> None:
        self._door, self._namespace, self._name = door, namespace, name

    def __exit__(self, *_: object) -> None:
        """Nothing is kept open: the door is closed by whoever opened it."""

    @contextmanager
    def ask(self, url: str, query: Sequence[tuple[str, str]], whole_s: float = 30.0) -> Iterator[Reply]:
        """Ask a page of the Service, whatever its status."""
        with self._door.proxy("services", self._namespace, self._name, url, query, whole_s) as told:
            status, kind, pieces = told
            yield Reply(status, kind, pieces)


def from_prometheus(door: Door, found: Found, window: Window) -> Iterator[Observation]:
    """The pods' history, or a Gap that says why there is none."""
    asked = window.cluster.prometheus
    if asked == NO_PROMETHEUS:
        return
    history = window.history
    if not history.match:
        window = replace(window, history=replace(history, match=matchers(found)))
    sources: list[PrometheusSource] = []
    try:
        sources = _sources(door, asked, found)
    except Expired:
        raise
    except SourceError as error:
        why = error.refused if isinstance(error, Forbidden) else error.message
        yield Gap(ORIGIN, f"{_WHAT}, from a Prometheus", why, error.hint)
        return
    if not sources:
        why = "no Prometheus was found in the cluster; the pods were only watched"
        yield Gap(ORIGIN, _WHAT, why, "name one: --prometheus URL (also that of a Service in the cluster)")
        return
    refused: list[VllmDoctorError] = []
    for source in sources:
        try:
            for observation in source.read(window):
                yield observation
                if isinstance(observation, Samples):
                    refused = []
            return
        except Expired:
            raise
        except VllmDoctorError as error:
            refused.append(error)
    if refused:
        last = refused[-1]
        why = last.refused if isinstance(last, Forbidden) else last.message
        yield Gap(ORIGIN, f"{_WHAT}, from a Prometheus", why, last.hint)


def matchers(found: Found) -> str:
    """Label matchers for the pods and, where they are a roll-out's, for those before them."""
    names = sorted({pattern(pod, found.owner(pod)) for pod in found.pods})
    places = sorted({pod.namespace for pod in found.pods})
    return f'namespace=~"{"|".join(places)}",pod=~"{"|".join(names)}"'


def pattern(pod: Pod, owner: Json | None) -> str:
    """A regular expression for the names of a workload's pods; of other pods their own name."""
    kind = str((owner or {}).get("kind", ""))
    name = str(owner["metadata"]["name"]) if owner else ""
    if kind == "Deployment":
        return f"{_quoted(name)}-[0-9a-z]{{6,10}}-[0-9a-z]{{5}}"
    if kind == "StatefulSet":
        return f"{_quoted(name)}-[0-9]+"
    return _quoted(pod.name)


def _quoted(name: str) -> str:
    return name.replace(".", "[.]")


def service_of(url: str) -> tuple[str, str, str, str] | None:
    """(namespace, name, port, path) of the Service that an address as pods write it names; else None."""
    parts = urlsplit(url if "://" in url else f"http://{url}")
    labels = (parts.hostname or "").split(".")
    if len(labels) < 3 or labels[2] != "svc":
        return None
    port = str(parts.port or (443 if parts.scheme == "https" else 80))
    return labels[1], labels[0], port, parts.path


def address_of(door: Door, found: Found) -> str:
    """The Prometheus of the cluster as pods see it; "" where none was found, or may not be looked for."""
    try:
        candidates = _candidates(door, found)
    except SourceError:
        return ""
    return next((f"http://{name}.{ns}.svc:{port}" for ns, name, port in candidates), "")


def _sources(door: Door, asked: str, found: Found) -> list[PrometheusSource]:
    if asked and (service := service_of(asked)) is not None:
        namespace, name, port, path = service
        return [_through(door, namespace, name, port, path)]
    if asked:
        url = asked if asked.startswith("prom+") else f"prom+{asked if '://' in asked else 'http://' + asked}"
        return [PrometheusSource(place_of(url))]
    return [_through(door, *candidate) for candidate in _candidates(door, found)[:_MOST_TRIED]]


def _through(door: Door, namespace: str, name: str, port: str, path: str = "") -> PrometheusSource:
    place = Place(path.rstrip("/"), None, f"Prometheus ({namespace}/{name})")
    return PrometheusSource(place, ServiceHttp(door, namespace, f"{name}:{port}"))


def _candidates(door: Door, found: Found) -> list[tuple[str, str, str]]:
    """(namespace, name, port) of Services that look like a Prometheus, the likeliest first."""
    own = {pod.namespace for pod in found.pods}
    seen: dict[tuple[str, str, str], None] = {}
    try:
        _look(door, "", own, seen)
    except Forbidden as refused:
        # without a right to the whole cluster: where `vllmdoctor rbac` gives one
        if not _looked(door, USUAL_NAMESPACE, own, seen):
            raise refused from None
    return list(seen)


def _look(door: Door, place: str, own: set[str], seen: dict[tuple[str, str, str], None]) -> None:
    """The Services that look like a Prometheus in a namespace, or in all of them."""
    for labels in _LABELS:
        listed = door.listed("api/v1", "services", place, labels=labels)
        listed.sort(key=lambda s: (s["metadata"].get("namespace") not in own, s["metadata"]["name"]))
        for service in listed:
            if (port := _port(service)) and not _OTHERS.search(str(service["metadata"]["name"])):
                seen[str(service["metadata"]["namespace"]), str(service["metadata"]["name"]), port] = None


def _looked(door: Door, place: str, own: set[str], seen: dict[tuple[str, str, str], None]) -> bool:
    try:
        _look(door, place, own, seen)
    except Forbidden:
        return False
    return True


def _port(service: Json) -> str:
    ports = (service.get("spec") or {}).get("ports") or ()
    chosen = next((p for p in ports if p.get("port") == _PORT), None) or next(
        (p for p in ports if p.get("name") in _PORTS), None
    )
    return str(chosen["port"]) if chosen else ""
