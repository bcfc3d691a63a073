"""A cluster to try things on by hand: `python -m tests.kubernetes.apiserver [REPLICAS] [--still]`.

Prints the KUBECONFIG to use. One replica of vllm-server is overloaded and the others are well; `--still`
has all of them show the same page, which costs this server the least.
"""

import signal
import sys
import tempfile
import threading
from pathlib import Path

from tests.kubernetes.apiserver import Cluster, Server, Vllm, kubeconfig, played, still


def main() -> None:
    """Serve until it is ended."""
    counts = [int(word) for word in sys.argv[1:] if word.isdigit()]
    cluster = Cluster()
    work = cluster.deployment("vllm-server", replicas=counts[0] if counts else 3)
    if "--still" in sys.argv:
        work.serve(Vllm(still()))
    else:
        work.serve(Vllm(played("healthy")))
        work.pods[0].serve(Vllm(played("overload-kv", start_s=60)))
    for pod in work.pods:
        pod.say("INFO 11-29 13:00:00 [api_server.py:1] vLLM API server version 0.12.0")
    cluster.service("vllm", work)
    server = Server(cluster)
    ended = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: ended.set())
    with tempfile.TemporaryDirectory() as folder:
        login = kubeconfig.with_token(cluster.user())
        path = kubeconfig.write(Path(folder) / "kubeconfig", server, login, namespace="inference")
        print(f"KUBECONFIG={path}", flush=True)
        ended.wait()
    server.close()


if __name__ == "__main__":
    main()
