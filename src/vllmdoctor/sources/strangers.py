"""Telling vLLM's metrics from others', and naming the program whose page was read instead."""

from collections.abc import Iterable

from vllmdoctor.errors import NotVllm

_VLLM = ("vllm:", "vllm_", "ray_vllm", "log:", "probe:", "run:")
_KNOWN = (
    ("node_", "node_exporter"),
    ("DCGM_", "the DCGM exporter"),
    ("nvml:", "readings of GPUs"),
    ("host:", "readings of processes"),
    ("nvidia_smi_", "an nvidia-smi exporter"),
    ("container_", "cAdvisor"),
    ("kube_", "kube-state-metrics"),
    ("kubelet_", "a kubelet"),
    ("prometheus_", "Prometheus itself"),
    ("alertmanager_", "Alertmanager"),
    ("envoy_", "Envoy"),
    ("nginx_", "nginx"),
    ("sglang:", "SGLang"),
    ("tgi_", "text-generation-inference"),
    ("nv_", "Triton"),
    ("llamacpp:", "llama.cpp"),
    ("litellm_", "LiteLLM"),
    ("probe:", "what a probe measured"),
    ("ray_", "Ray"),
)
_SHOWN = 3


def is_vllm(series: str) -> bool:
    """Whether a series is one of vLLM's own, also as Ray spells them, or what a client measured at it."""
    return series.startswith(_VLLM)


def is_beside(series: str) -> bool:
    """Whether a series is of the machine: a server that cannot be reached says more about what is wrong."""
    return series.startswith(("nvml:", "host:"))


def not_vllm(series: Iterable[str]) -> NotVllm:
    """The error that tells what was seen in place of vLLM's metrics."""
    names = list(dict.fromkeys(s.partition("{")[0] for s in series))
    for prefix, program in _KNOWN:
        own = [name for name in names if name.startswith(prefix)]
        if own:
            return NotVllm(
                f"not a vLLM server: saw {program} ({_listed(own)})",
                hint="give the address of the vLLM server; this one may be given beside it",
            )
    return NotVllm(
        f"not a vLLM server: saw {_listed(names)}",
        hint="with --disable-log-stats vLLM shows none of its metrics",
    )


def _listed(names: list[str]) -> str:
    more = f", and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more
