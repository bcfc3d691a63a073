"""Which names a Prometheus is asked for: those that a rule or a vital sign reads, in every spelling.

Gauges and counters move between two looks and are asked finely; histograms are only ever read a
bin at a time and are asked coarsely. Where nothing but a mean or a count is read, only the bucket
that holds everything is asked.
"""

import re
from collections.abc import Collection, Iterable, Mapping
from types import MappingProxyType

from vllmdoctor.signals import SIGNALS, canonical_name, family_name, resolve

_EXPORTERS = ("DCGM_", "nvidia_smi_", "container_", "kube_")


def _of_scope(scope: str) -> tuple[str, ...]:
    """The signals of a scope that an exporter's names have: others come from other sources alone."""
    found = (s for s in SIGNALS.values() if s.scope == scope)
    return tuple(s.name for s in found if any(n.text.startswith(_EXPORTERS) for n in s.names))


ENGINE_FINE = (
    *("requests_running", "requests_waiting", "requests_waiting_deferred", "requests_waiting_capacity"),
    *("requests_swapped", "kv_cache_usage", "preemptions"),
    *("prompt_tokens", "generation_tokens", "prefix_cache_queries", "prefix_cache_hits"),
    *("prefix_cache_hit_rate", "requests_finished", "iteration_tokens", "spec_draft_tokens"),
    *("spec_accepted_tokens", "spec_acceptance_rate"),
)
ENGINE_BUCKETS = ("ttft", "itl", "queue_time", "prefill_time", "prompt_length", "output_length")
ENGINE_MEANS = ("tpot", "e2e_latency", "decode_time", "preemptions_per_request")
INSTANCE_FINE = ("process_memory", "process_start_time", "process_cpu", "http_requests", "scrape_up")
WORKLOAD_FINE = ("replicas_available", "replicas_desired")
POD_FINE = tuple(s for s in _of_scope("pod") if s not in WORKLOAD_FINE)
GPU_FINE = _of_scope("gpu")
INFO = "cache_config"
ALWAYS_MAX = frozenset({"max", "mean", "last"})  # a group holds one series; were it two, the larger counts

_TOLD_APART: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {"http_requests_total": ("handler", "status")}  # the rules look at single handlers
    | {n.text: tuple(k for k, _ in n.labels) for s in SIGNALS.values() for n in s.names if n.labels}
)


def kept_labels(family: str) -> tuple[str, ...]:
    """Labels that tell the series of a family apart, beside those that tell servers apart."""
    return _TOLD_APART.get(family, ())


_VLLM = "vllm:"
_SUFFIXES = ("_bucket", "_sum", "_count")


def _texts(signals: Iterable[str]) -> list[str]:
    return [name.text for signal in signals for name in SIGNALS[signal].names]


def any_name(prefix: str) -> str:
    """A regular expression for all names of vLLM's; without vLLM's own prefix only those that are judged."""
    if prefix:
        return f"{re.escape(prefix)}.+"
    bodies = {n.removeprefix(_VLLM).removesuffix("_total") for n in _texts(SIGNALS) if n.startswith(_VLLM)}
    return f"(?:ray_)?vllm[:_].+|(?:{'|'.join(sorted(bodies))})(?:_total)?(?:_bucket|_sum|_count)?"


def exporters_names(signals: Iterable[str]) -> str:
    """A regular expression for the names that exporters beside vLLM have for signals."""
    return "|".join(sorted(text for text in _texts(signals) if text.startswith(_EXPORTERS)))


class Spelling:
    """Names as this Prometheus spells them, and as vLLM does."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix

    def canonical(self, raw: str) -> str:
        """The name as vLLM spells it."""
        return canonical_name(raw.removeprefix(self._prefix))

    def family(self, raw: str) -> str:
        """The family of a name, as vLLM spells it."""
        return family_name(raw.removeprefix(self._prefix))

    def chosen(self, present: Collection[str], signals: Iterable[str]) -> list[str]:
        """The raw names among `present` from which these signals are read, newest names first."""
        found = resolve([self.canonical(raw) for raw in present])
        wanted = {found[s].text for s in signals if s in found}
        return sorted(raw for raw in present if self.family(raw) in wanted)

    def signal_of(self, raw: str) -> str:
        """The signal that reads a raw name, or ""."""
        return _SIGNAL_OF.get(self.family(raw), "")


_SIGNAL_OF = {n.text: s.name for s in SIGNALS.values() for n in s.names}


def part_of(raw: str) -> str:
    """Which part of a histogram a raw name is: `_bucket`, `_sum`, `_count` or ""."""
    return next((s for s in _SUFFIXES if raw.endswith(s)), "")
