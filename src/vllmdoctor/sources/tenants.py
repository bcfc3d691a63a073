"""Whose process is it that holds GPU memory: vLLM's, another's, or nobody can tell."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache

from vllmdoctor.exposition import canonical_series

OURS, OTHER, UNKNOWN = "vllm", "other", "unknown"


@dataclass(frozen=True, slots=True)
class Tenant:
    """A process on a GPU. `server` tells one vLLM server from another ("" where it is not vLLM's)."""

    pid: int
    name: str
    owner: str
    server: str = ""
    used_bytes: float | None = None
    sm_percent: float | None = None


@lru_cache(maxsize=4096)
def gpu_series(name: str, *pairs: tuple[str, str]) -> str:
    """The series of a figure of one GPU."""
    return canonical_series(f"nvml:{name}", dict(pairs))


def tenants(labels: tuple[tuple[str, str], ...], found: Iterable[Tenant]) -> dict[str, float]:
    """The series of the processes on one GPU.

    `nvml:other_memory_bytes` sums what is not of the (largest) vLLM server there. It is given only
    where that server was seen on this GPU: on another GPU nobody is its neighbour.
    """
    told = list(found)
    values: dict[str, float] = {}
    for one in told:
        pairs = (*labels, ("pid", str(one.pid)), ("process", one.name), ("owner", one.owner))
        if one.used_bytes is not None:
            values[gpu_series("process_memory_bytes", *pairs)] = one.used_bytes
        if one.sm_percent is not None:
            values[gpu_series("process_sm_percent", *pairs)] = one.sm_percent
    held: dict[str, float] = {}
    for one in told:
        if one.owner == OURS:
            held[one.server] = held.get(one.server, 0.0) + (one.used_bytes or 0.0)
    if not held:
        return values
    ours = max(held, key=lambda server: held[server])
    others = [one for one in told if one.owner == OTHER or (one.owner == OURS and one.server != ours)]
    if all(one.used_bytes is not None for one in others):
        values[gpu_series("other_memory_bytes", *labels)] = sum(one.used_bytes or 0.0 for one in others)
    values[gpu_series("own_memory_bytes", *labels)] = held[ours]
    values[gpu_series("other_processes", *labels)] = float(len(others))
    if any(one.sm_percent is not None for one in told):
        values[gpu_series("other_sm_percent", *labels)] = sum(one.sm_percent or 0.0 for one in others)
    return values


def owners_by_name(names: Mapping[int, str]) -> dict[int, str]:
    """Owners where only names are known: beside a process that calls itself vLLM, others are others."""
    marked = {pid for pid, name in names.items() if _is_vllm_name(name)}
    if marked:
        return {pid: OURS if pid in marked else OTHER for pid in names}
    return {pid: UNKNOWN if _may_be_vllm(name) else OTHER for pid, name in names.items()}


def program(name: str) -> str:
    """A program's own name: no path and no arguments, which may hold secrets."""
    return _program(name)[:64] or "?"


def _program(name: str) -> str:
    return name.split(" ", 1)[0].rsplit("/", 1)[-1]


def _is_vllm_name(name: str) -> bool:
    return name.startswith("VLLM::") or _program(name) == "vllm"


def _may_be_vllm(name: str) -> bool:
    own = _program(name).lower()
    return not own or own.startswith(("python", "ray", "pt_main", "[", "n/a", "-"))
