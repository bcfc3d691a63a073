"""The name that was probably meant where a file has one that never was: by its letters, or by its words."""

import difflib
from dataclasses import dataclass

from vllmdoctor.promlint.lives import PARTS, metric, shown_names
from vllmdoctor.promlint.nodes import Matcher
from vllmdoctor.release import Version
from vllmdoctor.signals import NEVER_EXISTED

_LIKE = 0.84  # names that differ by a letter or a plural
_ENDED = "vllm:request_success_total"
_FAILED = ("fail", "error")
_OF_GPUS = (
    ("gpu_mem", "see the GPU's own DCGM_FI_DEV_FB_USED and DCGM_FI_DEV_FB_FREE"),
    ("gpu_util", "see the GPU's own DCGM_FI_DEV_GPU_UTIL"),
    ("gpu_temp", "see the GPU's own DCGM_FI_DEV_GPU_TEMP"),
)
# What people call it -> the family; the first that fits.
_CALLED: tuple[tuple[tuple[str, ...], str], ...] = (
    (("ttft", "first_token"), "vllm:time_to_first_token_seconds"),
    (("itl", "inter_token"), "vllm:inter_token_latency_seconds"),
    (("tpot", "per_output_token"), "vllm:request_time_per_output_token_seconds"),
    (("queue_time", "time_in_queue", "queue_duration", "waiting_time"), "vllm:request_queue_time_seconds"),
    (("e2e", "request_latency", "request_duration", "latency"), "vllm:e2e_request_latency_seconds"),
    (("preempt",), "vllm:num_preemptions_total"),
    (("waiting", "queue", "pending"), "vllm:num_requests_waiting"),
    (("running", "active_req", "in_flight"), "vllm:num_requests_running"),
    (("cache_hit",), "vllm:prefix_cache_hits_total"),
    (("cache_usage", "kv_cache", "kv_usage", "cache_util"), "vllm:kv_cache_usage_perc"),
    (("prompt_token", "input_token"), "vllm:prompt_tokens_total"),
    (("generation_token", "output_token", "completion_token", "generated_token"),
     "vllm:generation_tokens_total"),
    (("request_count", "requests_total", "request_total", "requests_finished"), _ENDED),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Near:
    """A name that a release shows, with what it must be asked for; else advice, or nothing."""

    name: str = ""
    matchers: tuple[Matcher, ...] = ()
    advice: str = ""


def nearest(name: str, release: Version | None) -> Near:
    """The nearest name that a release, the newest where none is given, shows."""
    told = NEVER_EXISTED.get(name, "")
    if told:
        return Near(told) if metric(told) else Near(advice=told)
    part = next((p for p in PARTS if name.endswith(p)), "")
    stem = name.removesuffix(part)
    families = [f for f in shown_names(release) if not part or _kind(f) == "histogram"]
    for spelt in (stem, f"{stem}_total"):
        close = difflib.get_close_matches(spelt, families, n=1, cutoff=_LIKE)
        if close:
            return Near(close[0] + part)
    if any(word in stem for word in _FAILED):
        return Near(_ENDED, (Matcher("finished_reason", "=", "error"),))
    for word, advice in _OF_GPUS:
        if word in stem:
            return Near(advice=advice)
    for words, family in _CALLED:
        if family in families and any(word in stem for word in words):
            return Near(family + part)
    return Near()


def _kind(family: str) -> str:
    found = metric(family)
    return found.kind if found else ""
