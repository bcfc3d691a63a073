"""A cluster to try things on by hand: `python -m tests.kubernetes.apiserver [REPLICAS]`, until Ctrl-C.

Prints the KUBECONFIG to use. One replica of vllm-server is overloaded, the others are well.
"""

import sys
import tempfile
import threading
from pathlib import Path

from tests.kubernetes.apiserver import Cluster, Server, Vllm, kubeconfig, played


def main() -> None:
    """Serve until interrupted."""
    replicas = int(sys.argv[1]) if len(sys.argv) > 1 else 3
    cluster = Cluster()
    work = cluster.deployment("vllm-server", replicas=replicas, image="vllm/vllm-openai:v0.12.0")
    work.serve(Vllm(played("healthy")))
    work.pods[0].serve(Vllm(played("overload-kv", start_s=60)))
    for pod in work.pods:
        pod.say("INFO 11-29 13:00:00 [api_server.py:1] vLLM API server version 0.12.0")
    cluster.service("vllm", work)
    server = Server(cluster)
    with tempfile.TemporaryDirectory() as folder:
        login = kubeconfig.with_token(cluster.user())
        path = kubeconfig.write(Path(folder) / "kubeconfig", server, login, namespace="inference")
        print(f"KUBECONFIG={path}", flush=True)
        try:
            threading.Event().wait()
        except KeyboardInterrupt:
            server.close()


if __name__ == "__main__":
    main()
