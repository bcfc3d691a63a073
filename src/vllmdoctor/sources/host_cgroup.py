"""The control group of a process, version 1 or 2: its memory limit and use, OOM kills, CPU throttling."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from vllmdoctor.exposition import canonical_series

_UNLIMITED = 1 << 60  # version 1 writes a number near 2^63 for "no limit"
_MICRO, _NANO = 1e-6, 1e-9


@dataclass(frozen=True, slots=True)
class Cgroup:
    """Where the files of a group are. `memory` or `cpu` is None where the process has no group of its own."""

    version: int
    memory: Path | None
    cpu: Path | None
    cpu_usage: Path | None = None

    def read(self) -> dict[str, float]:
        """Series -> value, of what is there; "no limit" is no series."""
        told = _version_2(self) if self.version == 2 else _version_1(self)
        return {canonical_series(f"host:cgroup_{name}", {}): value for name, value in told.items()}


def find(pid: int, root: Path = Path("/")) -> Cgroup | None:
    """The group of a process; None where it cannot be told. `root` is where /proc and /sys are."""
    try:
        lines = (root / f"proc/{pid}/cgroup").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return None
    places: dict[str, str] = {}
    for line in lines:
        _, controllers, path = (*line.split(":", 2), "", "")[:3]
        for controller in controllers.split(","):
            places[controller] = path
    mount = root / "sys/fs/cgroup"
    if (mount / "cgroup.controllers").exists():
        place = _place(mount, places.get("", "/"), ("memory.current",))
        return Cgroup(2, place, place or (mount if (mount / "cpu.stat").exists() else None))
    memory = _place(mount / "memory", places.get("memory", "/"), ("memory.usage_in_bytes",))
    cpu = _place(mount / "cpu", places.get("cpu", "/"), ("cpu.stat",))
    if cpu is None:
        cpu = _place(mount / "cpu,cpuacct", places.get("cpu", "/"), ("cpu.stat",))
    usage = _place(mount / "cpuacct", places.get("cpuacct", "/"), ("cpuacct.usage",)) or cpu
    if memory is None and cpu is None:
        return None
    if memory is not None and memory == mount / "memory" and _limit(memory, "memory.limit_in_bytes") is None:
        memory = None  # the whole machine's: no group of its own
    return Cgroup(1, memory, cpu, usage)


def _place(mount: Path, path: str, files: Iterable[str]) -> Path | None:
    """The group's folder. Inside of a container its own group is mounted as the root."""
    for folder in (mount / path.strip("/"), mount):
        if ".." not in path and all((folder / name).exists() for name in files):
            return folder
    return mount if all((mount / name).exists() for name in files) else None


def _version_2(group: Cgroup) -> dict[str, float]:
    told: dict[str, float] = {}
    if group.memory is not None:
        current = _number(group.memory / "memory.current")
        stat, events = _table(group.memory / "memory.stat"), _table(group.memory / "memory.events")
        _put(told, "memory_bytes", current)
        if current is not None and "inactive_file" in stat:
            told["memory_working_set_bytes"] = max(0.0, current - stat["inactive_file"])
        _put(told, "memory_limit_bytes", _limit_above(group.memory, "memory.max"))
        _put(told, "memory_anonymous_bytes", stat.get("anon"))
        _put(told, "memory_shared_bytes", stat.get("shmem"))
        _put(told, "swap_bytes", _number(group.memory / "memory.swap.current"))
        _put(told, "oom_kills_total", events.get("oom_kill"))
        _put(told, "memory_limit_hits_total", events.get("max"))
    if group.cpu is not None:
        stat = _table(group.cpu / "cpu.stat")
        for name, key, scale in (
            ("cpu_seconds_total", "usage_usec", _MICRO),
            ("cpu_periods_total", "nr_periods", 1.0),
            ("cpu_throttled_periods_total", "nr_throttled", 1.0),
            ("cpu_throttled_seconds_total", "throttled_usec", _MICRO),
        ):
            _put(told, name, stat.get(key), scale)
        quota = _words(group.cpu / "cpu.max")
        if len(quota) == 2 and quota[0].isdecimal() and quota[1].isdecimal() and int(quota[1]):
            told["cpu_limit_cores"] = int(quota[0]) / int(quota[1])
    return told


def _version_1(group: Cgroup) -> dict[str, float]:
    told: dict[str, float] = {}
    if group.memory is not None:
        usage, stat = _number(group.memory / "memory.usage_in_bytes"), _table(group.memory / "memory.stat")
        _put(told, "memory_bytes", usage)
        if usage is not None and "total_inactive_file" in stat:
            told["memory_working_set_bytes"] = max(0.0, usage - stat["total_inactive_file"])
        limit = stat.get("hierarchical_memory_limit", _number(group.memory / "memory.limit_in_bytes"))
        _put(told, "memory_limit_bytes", None if limit is None or limit >= _UNLIMITED else limit)
        _put(told, "memory_anonymous_bytes", stat.get("total_rss"))
        _put(told, "memory_shared_bytes", stat.get("total_shmem"))
        _put(told, "swap_bytes", stat.get("total_swap"))
        _put(told, "oom_kills_total", _table(group.memory / "memory.oom_control").get("oom_kill"))
        _put(told, "memory_limit_hits_total", _number(group.memory / "memory.failcnt"))
    if group.cpu is not None:
        stat = _table(group.cpu / "cpu.stat")
        _put(told, "cpu_periods_total", stat.get("nr_periods"))
        _put(told, "cpu_throttled_periods_total", stat.get("nr_throttled"))
        _put(told, "cpu_throttled_seconds_total", stat.get("throttled_time"), _NANO)
        quota, period = _number(group.cpu / "cpu.cfs_quota_us"), _number(group.cpu / "cpu.cfs_period_us")
        if quota is not None and quota > 0 and period:
            told["cpu_limit_cores"] = quota / period
    if group.cpu_usage is not None:
        _put(told, "cpu_seconds_total", _number(group.cpu_usage / "cpuacct.usage"), _NANO)
    return told


def _limit(folder: Path, name: str) -> float | None:
    limit = _number(folder / name)
    return None if limit is None or limit >= _UNLIMITED else limit


def _limit_above(folder: Path, name: str) -> float | None:
    """The tightest limit of a group and of those above it, as far as they can be seen."""
    limits = []
    for place in (folder, *folder.parents):
        if not (place / "cgroup.controllers").exists():
            break
        limit = _limit(place, name)
        if limit is not None:
            limits.append(limit)
    return min(limits, default=None)


def _put(told: dict[str, float], name: str, value: float | None, scale: float = 1.0) -> None:
    if value is not None:
        told[name] = value * scale


def _words(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="utf-8", errors="replace").split()
    except OSError:
        return []


def _number(path: Path) -> float | None:
    words = _words(path)
    return float(words[0]) if words and words[0].lstrip("-").isdecimal() else None


def _table(path: Path) -> Mapping[str, float]:
    """`name number` lines."""
    words = _words(path)
    return {
        name: float(number)
        for name, number in zip(words[::2], words[1::2], strict=False)
        if number.isdecimal()
    }
