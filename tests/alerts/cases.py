"""A server for each alert that must make it fire, and one that looks like it and must not.

A value a minute. Every server is the same healthy one for 380 minutes and then another 100 in which
something is different. Counters are told by what they gain in a minute.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

BEFORE, AFTER = 380, 100
MINUTES = BEFORE + AFTER
MIB, GB = 2.0**20, 1e9


@dataclass(frozen=True, slots=True)
class Gauge:
    """Its value before and after; `slope` is added each minute, all the time."""

    before: float
    after: float
    slope: float = 0.0

    def text(self) -> str:
        low = f"{self.before:g}{self.slope:+g}x{BEFORE - 1}"
        return f"{low} {self.after + self.slope * BEFORE:g}{self.slope:+g}x{AFTER}"


@dataclass(frozen=True, slots=True)
class Counter:
    """What it gains in a minute, before and after."""

    before: float
    after: float

    def text(self) -> str:
        middle = self.before * (BEFORE - 1) + self.after
        return f"0+{self.before:g}x{BEFORE - 1} {middle:g}+{self.after:g}x{AFTER}"


@dataclass(frozen=True, slots=True)
class Raw:
    """Values as promtool has them."""

    values: str

    def text(self) -> str:
        return self.values


Value = Gauge | Counter | Raw
Changes = Mapping[str, float | Value]
NEVER = Raw(f"_x{MINUTES + 1}")
UNTIL_THEN = Raw("its usual values, and then none")

_TTFT = {"0.1": 3.0, "0.25": 18.0, "0.5": 26.0, "1.0": 30.0, "2.5": 30.0, "10.0": 30.0, "+Inf": 30.0}
GAUGES = {
    "vllm:num_requests_running": 8.0,
    "vllm:num_requests_waiting": 0.0,
    'vllm:num_requests_waiting_by_reason{reason="capacity"}': 0.0,
    'vllm:num_requests_waiting_by_reason{reason="deferred"}': 0.0,
    "vllm:kv_cache_usage_perc": 0.5,
    "up": 1.0,
    "process_resident_memory_bytes": 1 * GB,
    "container_memory_working_set_bytes": 8 * GB,
    "container_spec_memory_limit_bytes": 32 * GB,
    "DCGM_FI_DEV_SM_CLOCK": 1980.0,
    "DCGM_FI_DEV_GPU_UTIL": 90.0,
    "DCGM_FI_DEV_FB_USED": 70000.0,
}
COUNTERS = {
    "vllm:generation_tokens_total": 6000.0,
    "vllm:prompt_tokens_total": 12000.0,
    'vllm:request_success_total{finished_reason="stop"}': 20.0,
    'vllm:request_success_total{finished_reason="length"}': 10.0,
    "vllm:num_preemptions_total": 0.0,
    "vllm:prefix_cache_queries_total": 12000.0,
    "vllm:prefix_cache_hits_total": 7200.0,
    "vllm:spec_decode_num_draft_tokens_total": 6000.0,
    "vllm:spec_decode_num_accepted_tokens_total": 4000.0,
    "vllm:time_to_first_token_seconds_sum": 30 * 0.25,
    "vllm:time_to_first_token_seconds_count": 30.0,
    "vllm:inter_token_latency_seconds_sum": 6000 * 0.05,
    "vllm:inter_token_latency_seconds_count": 6000.0,
    "vllm:request_prefill_time_seconds_sum": 30 * 0.2,
    "vllm:request_prefill_time_seconds_count": 30.0,
    "vllm:request_inference_time_seconds_sum": 30 * 10.0,
    "vllm:request_inference_time_seconds_count": 30.0,
    "vllm:request_prompt_tokens_sum": 30 * 400.0,
    "vllm:request_prompt_tokens_count": 30.0,
    "vllm:request_generation_tokens_sum": 30 * 200.0,
    "vllm:request_generation_tokens_count": 30.0,
    'http_requests_total{handler="/v1/chat/completions",status="2xx"}': 30.0,
    "container_cpu_cfs_periods_total": 600.0,
    "container_cpu_cfs_throttled_periods_total": 30.0,
} | {f'vllm:time_to_first_token_seconds_bucket{{le="{le}"}}': n for le, n in _TTFT.items()}
CONFIG = "vllm:cache_config_info"

SUCCESS = tuple(name for name in COUNTERS if name.startswith("vllm:request_success"))


def work(share: float) -> dict[str, float | Value]:
    """All that counts work, and what is inside, at a share of the usual."""
    kept = {n: v * share for n, v in COUNTERS.items() if n.startswith(("vllm:", "http_"))}
    return {**kept, "vllm:num_requests_running": 8 * share, "vllm:kv_cache_usage_perc": 0.5 * share}


def finished(a_minute: float) -> dict[str, float | Value]:
    """Requests that finish in a minute."""
    share = a_minute / 30
    parts = ("request_success", "request_prompt_tokens", "request_generation_tokens")
    return {n: v * share for n, v in COUNTERS.items() if any(p in n for p in parts)}


def slower(factor: float) -> dict[str, float | Value]:
    """The time between tokens, that many times as long."""
    return {"vllm:inter_token_latency_seconds_sum": 300 * factor}


def ttft(mean_s: float, buckets: Mapping[str, float] | None = None) -> dict[str, float | Value]:
    """Times to the first token of 30 requests a minute."""
    found: dict[str, float | Value] = {"vllm:time_to_first_token_seconds_sum": 30 * mean_s}
    for le, n in (buckets or {}).items():
        found[f'vllm:time_to_first_token_seconds_bucket{{le="{le}"}}'] = n
    return found


LONG_TAIL = {"0.5": 24.0, "1.0": 25.0, "2.5": 26.0}
ALL_LATER = {"0.1": 0.0, "0.25": 1.0, "0.5": 4.0, "1.0": 12.0, "2.5": 20.0}
IDLE = work(0.0)
RESTART = f"0+6000x{BEFORE - 1} 0+6000x{AFTER}"
LOOP = f"0+6000x99 0+6000x99 0+6000x{BEFORE - 201} 0+6000x{AFTER}"

FAULTS: dict[str, Changes] = {
    "VLLMThroughputDegradation": {"vllm:generation_tokens_total": 4200.0},
    "VLLMTokensSlower": slower(1.5),
    "VLLMRequestsQueue": {"vllm:num_requests_waiting": 20.0},
    "VLLMKVPoolFull": {"vllm:num_requests_waiting": 20.0, "vllm:kv_cache_usage_perc": 0.97},
    "VLLMPreemptionThrash": {"vllm:num_preemptions_total": 20.0},
    "VLLMRequestsGivenUp": {**finished(18.0), **slower(1.6)},
    "VLLMPrefillBound": {
        **ttft(0.75),
        "vllm:prompt_tokens_total": 24000.0,
        "vllm:prefix_cache_queries_total": 24000.0,
        "vllm:prefix_cache_hits_total": 14400.0,
        "vllm:request_prefill_time_seconds_sum": 30 * 4.0,
    },
    "VLLMTailRunsAway": ttft(0.6, LONG_TAIL),
    "VLLMPrefixCacheCollapse": {**ttft(0.5), "vllm:prefix_cache_hits_total": 1200.0},
    "VLLMSpecDecodeDecay": {"vllm:spec_decode_num_accepted_tokens_total": 2400.0},
    "VLLMBlocksHeldWhileIdle": {**IDLE, "vllm:kv_cache_usage_perc": 0.2},
    "VLLMKVCapacityLost": {"vllm:kv_cache_usage_perc": 0.8},
    "VLLMContextExceedsPool": {f'{CONFIG}{{kv_cache_max_concurrency="0.7"}}': Gauge(1.0, 1.0)},
    "VLLMQueueBeforeEmptyPool": {**IDLE, "vllm:num_requests_waiting": 3.0},
    "VLLMMemoryLeak": {"container_memory_working_set_bytes": Gauge(8 * GB, 8 * GB, 2.4e7)},
    "VLLMMemoryNearLimit": {"container_memory_working_set_bytes": Gauge(20 * GB, 20 * GB, 1.5e7)},
    "VLLMProcessMemoryGrows": {"process_resident_memory_bytes": Gauge(GB, GB, 2e6)},
    "VLLMOutOfMemoryKilled": {
        "kube_pod_container_status_restarts_total": Gauge(0.0, 1.0),
        'kube_pod_container_status_last_terminated_reason{reason="OOMKilled"}': Gauge(1.0, 1.0),
    },
    "VLLMDeviceMemoryGrows": {"DCGM_FI_DEV_FB_USED": Gauge(70000.0, 70000.0, 3.0)},
    "VLLMGpuThrottled": {"DCGM_FI_DEV_SM_CLOCK": 1200.0},
    "VLLMCpuThrottled": {"container_cpu_cfs_throttled_periods_total": 240.0, **slower(1.4)},
    "VLLMGpuWaitsForHost": {"DCGM_FI_DEV_GPU_UTIL": 40.0, **slower(1.4)},
    "VLLMStall": {**IDLE, "vllm:num_requests_running": 8.0},
    "VLLMAnswersWithoutTokens": {
        **IDLE,
        'http_requests_total{handler="/v1/chat/completions",status="2xx"}': 30.0,
    },
    "VLLMAdmissionStopped": {
        **work(0.1),
        "vllm:num_requests_waiting": 20.0,
        'vllm:num_requests_waiting_by_reason{reason="deferred"}': 20.0,
    },
    "VLLMRestarted": {"vllm:generation_tokens_total": Raw(RESTART)},
    "VLLMRestartLoop": {"vllm:generation_tokens_total": Raw(LOOP)},
    "VLLMReplicasMissing": {
        'kube_deployment_spec_replicas{deployment="vllm"}': Gauge(3.0, 3.0),
        'kube_deployment_status_replicas_available{deployment="vllm"}': Gauge(3.0, 2.0),
    },
    "VLLMReplicaGone": {**work(2.0)},  # beside a second pod that is gone
    "VLLMTargetDown": {"up": 0.0, **{n: UNTIL_THEN for n in (*GAUGES, *COUNTERS) if n.startswith("vllm:")}},
    "VLLMScrapesMissing": {"up": Raw(f"1x{BEFORE - 1} " + "1 1 1 0 " * (AFTER // 4))},
    "VLLMMetricNamesGone": {"vllm:kv_cache_usage_perc": UNTIL_THEN},
}
LOOK_ALIKES: dict[str, Changes] = {
    "VLLMThroughputDegradation": work(0.5),  # half as much arrives
    "VLLMTokensSlower": {
        **work(1.6),
        "vllm:inter_token_latency_seconds_sum": 1.5 * 1.6 * 300,
    },  # more arrives
    "VLLMRequestsQueue": {"vllm:num_requests_waiting": Raw(f"0x{BEFORE - 1} " + "0 0 9 " * (AFTER // 3))},
    "VLLMKVPoolFull": {"vllm:kv_cache_usage_perc": 0.97},  # full, and nobody waits
    "VLLMPreemptionThrash": {"vllm:num_preemptions_total": 3.0},
    "VLLMRequestsGivenUp": work(0.6),
    "VLLMPrefillBound": ttft(0.75),  # later, but not for prompts
    "VLLMTailRunsAway": ttft(2.0, ALL_LATER),  # the median as well
    "VLLMPrefixCacheCollapse": {"vllm:prefix_cache_hits_total": 1200.0},  # other prompts, no later
    "VLLMSpecDecodeDecay": {"vllm:spec_decode_num_accepted_tokens_total": 3600.0},
    "VLLMBlocksHeldWhileIdle": IDLE,
    "VLLMKVCapacityLost": {  # longer requests
        "vllm:kv_cache_usage_perc": 0.8,
        "vllm:request_prompt_tokens_sum": 30 * 640.0,
        "vllm:request_generation_tokens_sum": 30 * 320.0,
    },
    "VLLMContextExceedsPool": {f'{CONFIG}{{kv_cache_max_concurrency="7.1"}}': Gauge(1.0, 1.0)},
    "VLLMQueueBeforeEmptyPool": {**work(0.2), "vllm:num_requests_waiting": 3.0},
    "VLLMMemoryLeak": {"container_memory_working_set_bytes": 12 * GB},  # one step at a load peak
    "VLLMMemoryNearLimit": {"container_memory_working_set_bytes": Gauge(28 * GB, 28 * GB)},  # high and flat
    "VLLMProcessMemoryGrows": {"process_resident_memory_bytes": 2 * GB},
    "VLLMOutOfMemoryKilled": {
        "kube_pod_container_status_restarts_total": Gauge(0.0, 1.0),
        'kube_pod_container_status_last_terminated_reason{reason="Error"}': Gauge(1.0, 1.0),
    },
    "VLLMDeviceMemoryGrows": {},  # full and flat
    "VLLMGpuThrottled": {"DCGM_FI_DEV_SM_CLOCK": 600.0, "DCGM_FI_DEV_GPU_UTIL": 0.0, **IDLE},
    "VLLMCpuThrottled": {"container_cpu_cfs_throttled_periods_total": 240.0},  # nobody feels it
    "VLLMGpuWaitsForHost": {"DCGM_FI_DEV_GPU_UTIL": 40.0, **work(0.4)},
    "VLLMStall": work(0.01),  # slow as it is, it moves
    "VLLMAnswersWithoutTokens": IDLE,
    "VLLMAdmissionStopped": {"vllm:num_requests_waiting": 20.0},
    "VLLMRestarted": {},
    "VLLMRestartLoop": {"vllm:generation_tokens_total": Raw(RESTART)},
    "VLLMReplicasMissing": {  # somebody else's
        'kube_deployment_spec_replicas{deployment="web"}': Gauge(3.0, 3.0),
        'kube_deployment_status_replicas_available{deployment="web"}': Gauge(3.0, 2.0),
    },
    "VLLMReplicaGone": {},  # scaled down since half as much arrives
    "VLLMTargetDown": {"up": 0.0, **{n: NEVER for n in (*GAUGES, *COUNTERS) if n.startswith("vllm:")}},
    "VLLMScrapesMissing": {"up": Raw(f"1x{BEFORE - 1} 0 1x{AFTER - 1}")},
    "VLLMMetricNamesGone": {},
}
SECOND_POD = ("VLLMReplicaGone",)


def world() -> Iterator[dict[str, str]]:
    """All servers, as input series: namespace fault-NAME and like-NAME."""
    for kind, cases in (("fault", FAULTS), ("like", LOOK_ALIKES)):
        for alert, changes in cases.items():
            yield from server(f"{kind}-{alert}", changes)
            if alert in SECOND_POD:
                gone = dict.fromkeys((*GAUGES, *COUNTERS), UNTIL_THEN)
                yield from server(f"{kind}-{alert}", gone, pod="vllm-5d4f7c9b8-zzzzz")


def server(namespace: str, changes: Changes, pod: str = "vllm-5d4f7c9b8-abcde") -> Iterator[dict[str, str]]:
    """One server's series, and those of what stands around it."""
    names = dict.fromkeys([*GAUGES, *COUNTERS, *changes])
    for name in names:
        yield {"series": _placed(name, namespace, pod), "values": _value(name, changes).text()}


def _value(name: str, changes: Changes) -> Value:
    base = GAUGES[name] if name in GAUGES else COUNTERS.get(name, 0.0)
    change = changes.get(name, base)
    if change == UNTIL_THEN:
        return Raw((f"0+{base:g}x" if name in COUNTERS else f"{base:g}x") + f"{BEFORE - 1} _x{AFTER + 1}")
    if not isinstance(change, float | int):
        return change
    return Counter(base, change) if name in COUNTERS else Gauge(base, change)


def _placed(name: str, namespace: str, pod: str) -> str:
    family, _, inside = name.partition("{")
    labels = f'namespace="{namespace}",pod="{pod}"'
    if family.startswith("vllm:"):
        labels += f',instance="{pod}:8000",job="vllm",engine="0"'
        labels += "" if family == CONFIG else ',model_name="m"'
    elif family.startswith(("container_", "kube_pod_container")):
        labels += ',container="vllm"'
    elif family.startswith("kube_deployment"):
        labels = f'namespace="{namespace}"'
    elif family.startswith("DCGM"):
        labels += ',gpu="0",Hostname="node-1"'
    else:
        labels += f',instance="{pod}:8000",job="vllm"'
    return f"{family}{{{labels}{',' + inside.removesuffix('}') if inside else ''}}}"
