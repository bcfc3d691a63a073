"""The signals of the server's machine: its processes by role, and who else is on its GPUs.

`host:` and `nvml:` names are those of this project's own sources; nobody else exposes them.
"""

from vllmdoctor.signals.nouns import Kind, Merge, Name, Scope, Signal

_TREE = "of all processes of the server; a label names each one's role"
_NO_HOST = "no readings of the server's processes were given (the target host: on its machine)"
_NO_NVML = "who uses the GPU was not told (the target nvml: on the server's machine)"


def _host(
    name: str, kind: Kind, unit: str, text: str, what: str, note: str = "", merge: Merge = "sum"
) -> Signal:
    return Signal(
        name,
        kind,
        unit,
        merge,
        "instance",
        (Name(f"host:{text}", era="host"),),
        what,
        note or _TREE,
        _NO_HOST,
    )


def _gpu(
    name: str,
    kind: Kind,
    unit: str,
    text: str,
    what: str,
    *,
    merge: Merge = "sum",
    scale: float = 1.0,
    note: str = "",
) -> Signal:
    scope: Scope = "gpu"
    return Signal(
        name, kind, unit, merge, scope, (Name(f"nvml:{text}", scale=scale, era="nvml"),), what, note, _NO_NVML
    )


MACHINE_SIGNALS = (
    _host(
        "host_memory",
        "gauge",
        "bytes",
        "resident_memory_bytes",
        "resident memory of the server's processes",
        f"{_TREE}; memory they share counts in each",
    ),
    _host("host_swap", "gauge", "bytes", "swap_bytes", "memory swapped out"),
    _host("host_cpu", "counter", "s", "cpu_seconds_total", "CPU time used by the server's processes"),
    _host("host_threads", "gauge", "threads", "threads", "threads"),
    _host("host_open_files", "gauge", "files", "open_files", "open files and sockets"),
    _host(
        "host_involuntary_switches",
        "counter",
        "switches",
        "involuntary_switches_total",
        "times a process was put off its CPU for another",
    ),
    _host(
        "shm_used",
        "gauge",
        "bytes",
        "shm_used_bytes",
        "shared memory (/dev/shm) in use",
        "of the whole machine",
        "max",
    ),
    _host(
        "shm_total",
        "gauge",
        "bytes",
        "shm_total_bytes",
        "size of the shared memory (/dev/shm)",
        "of the whole machine",
        "max",
    ),
    _gpu(
        "gpu_process_memory",
        "gauge",
        "bytes",
        "process_memory_bytes",
        "device memory of each process",
        note="labels name the process and whether it is vLLM's",
    ),
    _gpu(
        "gpu_other_memory",
        "gauge",
        "bytes",
        "other_memory_bytes",
        "device memory of processes that are not this server's",
        note="only on GPUs that the server uses; absent where it cannot be told whose a process is",
    ),
    _gpu("gpu_own_memory", "gauge", "bytes", "own_memory_bytes", "device memory of the server's processes"),
    _gpu(
        "gpu_other_sm",
        "gauge",
        "ratio",
        "other_sm_percent",
        "share of the multiprocessors' time that others took",
        merge="max",
        scale=0.01,
    ),
    _gpu(
        "gpu_ecc_uncorrected",
        "counter",
        "errors",
        "ecc_uncorrected_total",
        "memory errors that could not be corrected, since the driver was loaded",
    ),
)
