"""pods/proxy and services/proxy: the API server's own request to what listens in the cluster."""

import http.client
from dataclasses import dataclass

from tests.kubernetes.apiserver.asked import Asked
from tests.kubernetes.apiserver.cluster import Cluster
from tests.kubernetes.apiserver.failures import Failure, not_found, unreachable
from tests.kubernetes.apiserver.kinds import named
from tests.kubernetes.apiserver.manifests import Object

TIMEOUT_S = 30.0
# between one connection and the next: the proxy hands these on as the backend set them
_OWN = {"connection", "transfer-encoding", "keep-alive", "content-length"}


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back."""

    code: int
    body: bytes
    headers: dict[str, str]


def proxied(cluster: Cluster, asked: Asked, method: str, accept: str, body: bytes) -> Answer:
    """The backend's answer; Failure in the server's words where there is none."""
    scheme, name, port = _parted(asked.name or "")
    if asked.resource == "pods/proxy":
        address = _pod_address(cluster, asked.namespace or "", name, int(port or 0))
    else:
        address = _service_address(cluster, asked.namespace or "", name, port)
    if scheme == "https":
        raise unreachable("tls: first record does not look like a TLS handshake")
    connection = http.client.HTTPConnection(*address, timeout=TIMEOUT_S)
    try:
        connection.request(
            method, asked.rest, body or None, {"Accept": accept, "Accept-Encoding": "identity"}
        )
        answer = connection.getresponse()
        headers = {k: v for k, v in answer.getheaders() if k.lower() not in _OWN}
        return Answer(answer.status, answer.read(), headers)
    except TimeoutError:
        raise unreachable(f"dial tcp {address[0]}:{address[1]}: i/o timeout") from None
    except (OSError, http.client.HTTPException) as error:
        raise unreachable(f"{str(error) or 'EOF'}") from None
    finally:
        connection.close()


def _parted(name: str) -> tuple[str, str, str]:
    """Scheme, name and port of `[SCHEME:]NAME[:PORT]`."""
    parts = name.split(":")
    if len(parts) == 3:
        return parts[0], parts[1], parts[2]
    return "", parts[0], parts[1] if len(parts) == 2 else ""


def _pod_address(cluster: Cluster, namespace: str, name: str, port: int) -> tuple[str, int]:
    item = cluster.store.get(named("Pod"), namespace, name)
    if item is None:
        raise not_found(named("Pod"), name)
    ip = item["status"].get("podIP")
    if not ip:
        raise Failure(400, "BadRequest", "address not allowed")
    if not port:
        ports = item["spec"]["containers"][0].get("ports") or [{"containerPort": 80}]
        port = ports[0]["containerPort"]
    address = cluster.pods[namespace, name].ports.get(port)
    if address is None:
        raise unreachable(f"dial tcp {ip}:{port}: connect: connection refused")
    return address


def _service_address(cluster: Cluster, namespace: str, name: str, port: str) -> tuple[str, int]:
    item = cluster.store.get(named("Service"), namespace, name)
    if item is None:
        raise not_found(named("Service"), name)
    ports = item["spec"]["ports"]
    chosen = [p for p in ports if port in ("", p["name"], str(p["port"]))]
    if not chosen:
        raise Failure(503, "ServiceUnavailable", f'no service port "{port}" found for service "{name}"')
    if (namespace, name) in cluster.services:
        return cluster.services[namespace, name]
    for pod in cluster.pods.values():
        if pod.ready and pod.namespace == namespace and _selected(item, pod.object):
            for address in (pod.ports.get(_target(chosen[0], pod.object)),):
                if address is not None:
                    return address
    raise Failure(503, "ServiceUnavailable", f'no endpoints available for service "{name}"')


def _selected(service: Object, pod: Object) -> bool:
    labels = pod["metadata"].get("labels", {})
    return all(labels.get(key) == value for key, value in service["spec"]["selector"].items())


def _target(port: Object, pod: Object) -> int:
    if isinstance(port["targetPort"], int):
        return port["targetPort"]
    for container in pod["spec"]["containers"]:
        for one in container.get("ports", ()):
            if one.get("name") == port["targetPort"]:
                return int(one["containerPort"])
    return int(port["port"])
