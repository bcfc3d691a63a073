"""The signals around vLLM: its process, its HTTP front, its container, its replicas, its GPUs.

`nvml:` names are those of this project's own NVML source; `nvidia_smi_` names those of the
exporter that reads nvidia-smi.
"""

from vllmdoctor.signals.nouns import Era, Kind, Merge, Name, Scope, Signal

_MIB = 1024.0 * 1024.0
_PERCENT = 0.01
_MHZ = 1e6
_NANO = 1e-9
_API_ONLY = "the API server's process only: engine core and workers are not in it"
_ONE_PROCESS = "not exposed with several API server processes, nor by the Rust front end"


def _one(text: str, era: Era, scale: float = 1.0, labels: tuple[tuple[str, str], ...] = ()) -> Name:
    return Name(text, scale=scale, era=era, labels=labels)


def _signal(
    name: str,
    kind: Kind,
    unit: str,
    merge: Merge,
    scope: Scope,
    names: tuple[Name, ...],
    what: str,
    *,
    note: str = "",
    needs: str = "",
) -> Signal:
    return Signal(name, kind, unit, merge, scope, names, what, note, needs)


# One signal a paragraph, as a person reads a table.
# fmt: off
OUTSIDE_SIGNALS = (
    # --- the process and its HTTP front
    _signal(
        "process_memory", "gauge", "bytes", "sum", "instance",
        (_one("process_resident_memory_bytes", "process"),),
        "resident memory", note=_API_ONLY, needs=_ONE_PROCESS,
    ),
    _signal(
        "process_start_time", "gauge", "s", "max", "instance",
        (_one("process_start_time_seconds", "process"),),
        "when the process started (unix time)", note=_API_ONLY, needs=_ONE_PROCESS,
    ),
    _signal(
        "process_cpu", "counter", "s", "sum", "instance",
        (_one("process_cpu_seconds_total", "process"),),
        "CPU time used", note=_API_ONLY, needs=_ONE_PROCESS,
    ),
    _signal(
        "http_requests", "counter", "requests", "sum", "instance",
        (Name("http_requests_total", since="0.8.3"),),
        "HTTP requests answered, aborted ones too",
        note="status is grouped as 2xx, 4xx, 5xx; /metrics and /health are not in it",
    ),
    _signal(
        "http_duration", "histogram", "s", "sum", "instance",
        (
            Name("http_request_duration_highr_seconds", since="0.8.3"),
            Name("http_request_duration_seconds", since="0.8.3"),
        ),
        "time to answer an HTTP request",
        note="a stream counts to its end",
    ),
    _signal(
        "scrape_up", "gauge", "0/1", "max", "instance",
        (_one("up", "kube"),),
        "whether Prometheus could scrape the target",
        needs="known through Prometheus only",
    ),
    # --- the container (cAdvisor, kube-state-metrics)
    _signal(
        "container_memory", "gauge", "bytes", "sum", "pod",
        (
            _one("container_memory_working_set_bytes", "cadvisor"),
            _one("host:cgroup_memory_working_set_bytes", "host"),
            _one("container_memory_rss", "cadvisor"),
            _one("container_memory_usage_bytes", "cadvisor"),
        ),
        "memory the kernel counts against the limit",
        note="the last fall-back, usage, holds page cache that can be dropped",
    ),
    _signal(
        "container_memory_limit", "gauge", "bytes", "sum", "pod",
        (
            _one("container_spec_memory_limit_bytes", "cadvisor"),
            _one("host:cgroup_memory_limit_bytes", "host"),
            _one("kube_pod_container_resource_limits", "kube", 1.0, (("resource", "memory"),)),
        ),
        "memory limit of the container",
        note="0 means no limit",
    ),
    _signal(
        "container_restarts", "counter", "restarts", "sum", "pod",
        (_one("kube_pod_container_status_restarts_total", "kube"),),
        "restarts of the container",
    ),
    _signal(
        "container_oom_killed", "gauge", "0/1", "max", "pod",
        (
            _one(
                "kube_pod_container_status_last_terminated_reason", "kube", 1.0, (("reason", "OOMKilled"),)
            ),
        ),
        "1 when the last end of the container was an OOM kill",
    ),
    _signal(
        "container_oom_events", "counter", "kills", "sum", "pod",
        (_one("container_oom_events_total", "cadvisor"), _one("host:cgroup_oom_kills_total", "host")),
        "OOM kills inside the container",
    ),
    _signal(
        "container_cpu", "counter", "s", "sum", "pod",
        (
            _one("container_cpu_usage_seconds_total", "cadvisor"),
            _one("host:cgroup_cpu_seconds_total", "host"),
        ),
        "CPU time used by the container",
    ),
    _signal(
        "container_cpu_periods", "counter", "periods", "sum", "pod",
        (
            _one("container_cpu_cfs_periods_total", "cadvisor"),
            _one("host:cgroup_cpu_periods_total", "host"),
        ),
        "CPU scheduling periods with a quota",
    ),
    _signal(
        "container_cpu_throttled_periods", "counter", "periods", "sum", "pod",
        (
            _one("container_cpu_cfs_throttled_periods_total", "cadvisor"),
            _one("host:cgroup_cpu_throttled_periods_total", "host"),
        ),
        "periods in which the container ran out of its CPU quota",
    ),
    _signal(
        "replicas_available", "gauge", "replicas", "sum", "pod",
        (
            _one("kube_deployment_status_replicas_available", "kube"),
            _one("kube_statefulset_status_replicas_available", "kube"),
            _one("kube_statefulset_status_replicas_ready", "kube"),
        ),
        "replicas that serve",
    ),
    _signal(
        "replicas_desired", "gauge", "replicas", "sum", "pod",
        (_one("kube_deployment_spec_replicas", "kube"), _one("kube_statefulset_replicas", "kube")),
        "replicas that should serve",
    ),
    # --- the GPU
    _signal(
        "gpu_memory_used", "gauge", "bytes", "sum", "gpu",
        (
            _one("nvml:memory_used_bytes", "nvml"),
            _one("DCGM_FI_DEV_FB_USED", "dcgm", _MIB),
            _one("nvidia_smi_memory_used_bytes", "nvml"),
        ),
        "device memory in use",
        note="the KV pool is allocated at start: full and flat is normal, growth is outside the pool",
    ),
    _signal(
        "gpu_memory_free", "gauge", "bytes", "sum", "gpu",
        (
            _one("nvml:memory_free_bytes", "nvml"),
            _one("DCGM_FI_DEV_FB_FREE", "dcgm", _MIB),
            _one("nvidia_smi_memory_free_bytes", "nvml"),
        ),
        "device memory free",
    ),
    _signal(
        "gpu_memory_total", "gauge", "bytes", "sum", "gpu",
        (
            _one("nvml:memory_total_bytes", "nvml"),
            _one("DCGM_FI_DEV_FB_TOTAL", "dcgm", _MIB),
            _one("nvidia_smi_memory_total_bytes", "nvml"),
        ),
        "device memory",
    ),
    _signal(
        "gpu_utilization", "gauge", "ratio", "mean", "gpu",
        (
            _one("nvml:utilization_percent", "nvml", _PERCENT),
            _one("DCGM_FI_DEV_GPU_UTIL", "dcgm", _PERCENT),
            _one("nvidia_smi_utilization_gpu_ratio", "nvml"),
        ),
        "share of time in which a kernel ran",
        note="1 does not mean that the GPU is used well",
    ),
    _signal(
        "gpu_sm_clock", "gauge", "Hz", "mean", "gpu",
        (
            _one("nvml:sm_clock_mhz", "nvml", _MHZ),
            _one("DCGM_FI_DEV_SM_CLOCK", "dcgm", _MHZ),
            _one("nvidia_smi_clocks_current_sm_clock_hz", "nvml"),
        ),
        "clock of the multiprocessors",
        note="idle GPUs clock down: compare under load only",
    ),
    _signal(
        "gpu_sm_clock_max", "gauge", "Hz", "max", "gpu",
        (
            _one("nvml:sm_clock_max_mhz", "nvml", _MHZ),
            _one("DCGM_FI_DEV_MAX_SM_CLOCK", "dcgm", _MHZ),
            _one("nvidia_smi_clocks_max_sm_clock_hz", "nvml"),
        ),
        "highest clock of the multiprocessors",
    ),
    _signal(
        "gpu_temperature", "gauge", "°C", "max", "gpu",
        (
            _one("nvml:temperature_celsius", "nvml"),
            _one("DCGM_FI_DEV_GPU_TEMP", "dcgm"),
            _one("nvidia_smi_temperature_gpu", "nvml"),
        ),
        "temperature of the GPU",
    ),
    _signal(
        "gpu_power", "gauge", "W", "sum", "gpu",
        (
            _one("nvml:power_watts", "nvml"),
            _one("DCGM_FI_DEV_POWER_USAGE", "dcgm"),
            _one("nvidia_smi_power_draw_watts", "nvml"),
        ),
        "power drawn",
    ),
    _signal(
        "gpu_power_limit", "gauge", "W", "sum", "gpu",
        (
            _one("nvml:power_limit_watts", "nvml"),
            _one("DCGM_FI_DEV_ENFORCED_POWER_LIMIT", "dcgm"),
            _one("DCGM_FI_DEV_POWER_MGMT_LIMIT", "dcgm"),
            _one("nvidia_smi_enforced_power_limit_watts", "nvml"),
        ),
        "power limit in force",
    ),
    _signal(
        "gpu_throttle_reasons", "gauge", "bits", "max", "gpu",
        (
            _one("nvml:clocks_event_reasons", "nvml"),
            _one("DCGM_FI_DEV_CLOCKS_EVENT_REASONS", "dcgm"),
            _one("DCGM_FI_DEV_CLOCK_THROTTLE_REASONS", "dcgm"),
            _one("nvidia_smi_clocks_throttle_reasons_active", "nvml"),
        ),
        "why the clock is held down, a bit each",
        note="1 is idle, 2 and 4 are user limits and the power cap; 8, 32, 64, 128 are hardware and heat",
    ),
    _signal(
        "gpu_thermal_violation", "counter", "s", "sum", "gpu",
        (
            _one("nvml:thermal_violation_ns", "nvml", _NANO),
            _one("DCGM_FI_DEV_THERMAL_VIOLATION", "dcgm", _NANO),
        ),
        "time the clock was held down by heat",
        note="DCGM counts ns in new releases and µs in old ones: judge that it grows, not by how much",
    ),
    _signal(
        "gpu_power_violation", "counter", "s", "sum", "gpu",
        (
            _one("nvml:power_violation_ns", "nvml", _NANO),
            _one("DCGM_FI_DEV_POWER_VIOLATION", "dcgm", _NANO),
        ),
        "time the clock was held down by the power cap",
        note="DCGM counts ns in new releases and µs in old ones: judge that it grows, not by how much",
    ),
    _signal(
        "gpu_xid", "gauge", "code", "max", "gpu",
        (_one("nvml:xid", "nvml"), _one("DCGM_FI_DEV_XID_ERRORS", "dcgm")),
        "code of the last driver error (XID)",
        note="keeps its last code until the exporter restarts",
    ),
)
# fmt: on
