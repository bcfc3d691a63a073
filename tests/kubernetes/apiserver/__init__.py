"""A small Kubernetes API server for tests: real sockets, TLS, the real server's words, and no cluster.

    cluster = Cluster()
    work = cluster.deployment("vllm-server", replicas=3, image="vllm/vllm-openai:v0.12.0", args=[...])
    work.serve(Vllm(played("overload-kv")))
    server = Server(cluster)
    kubeconfig.write(path, server, kubeconfig.with_token(cluster.user("doctor")))

It speaks what kubectl (1.20 to 1.37) and the Python client speak: lists in chunks, tables, discovery,
proxies, logs, exec and port-forward over WebSocket and SPDY. It enforces RBAC, keeps every request, and
goes wrong where it is told to. It changes nothing: a request that would is refused, and kept.
"""

from tests.kubernetes.apiserver import kubeconfig
from tests.kubernetes.apiserver.asked import Asked
from tests.kubernetes.apiserver.cluster import Cluster
from tests.kubernetes.apiserver.faults import Cut, Hang
from tests.kubernetes.apiserver.pages import Vllm, played, stepped, still
from tests.kubernetes.apiserver.pod import Pod, Ran
from tests.kubernetes.apiserver.rules import ALL, Rule, User
from tests.kubernetes.apiserver.server import Server
from tests.kubernetes.apiserver.workloads import Workload

__all__ = [
    "ALL",
    "Asked",
    "Cluster",
    "Cut",
    "Hang",
    "Pod",
    "Ran",
    "Rule",
    "Server",
    "User",
    "Vllm",
    "Workload",
    "kubeconfig",
    "played",
    "stepped",
    "still",
]
