"""One process read from /proc: cheap counters at every reading, costly ones now and then."""

import os
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from vllmdoctor.exposition import canonical_series
from vllmdoctor.sources.host_tree import Member

_TICK_S = 1.0 / os.sysconf("SC_CLK_TCK")
_KIB = 1024.0
_STATUS = {
    b"VmRSS": ("resident_memory_bytes", _KIB),
    b"RssAnon": ("anonymous_memory_bytes", _KIB),
    b"RssShmem": ("shared_memory_bytes", _KIB),
    b"VmSwap": ("swap_bytes", _KIB),
    b"Threads": ("threads", 1.0),
    b"voluntary_ctxt_switches": ("voluntary_switches_total", 1.0),
    b"nonvoluntary_ctxt_switches": ("involuntary_switches_total", 1.0),
}
_COSTLY_EVERY_S = 15.0
_PSS_UP_TO_BYTES = 512 * 2**20  # the kernel walks every page for it, and holds up the process meanwhile


@lru_cache(maxsize=8192)
def series(name: str, pid: int, role: str) -> str:
    """The series of a figure of one process."""
    return canonical_series(f"host:{name}", {"pid": str(pid), "role": role})


@dataclass
class ProcessReader:
    """Reads one process. `refused` says what could not be read and why."""

    member: Member
    proc: Path = Path("/proc")
    refused: dict[str, str] = field(default_factory=dict)
    _costly: dict[str, float] = field(default_factory=dict)
    _costly_at: float = float("-inf")

    def read(self, now: float) -> dict[str, float] | None:
        """Series -> value; None when the process is gone (or its number has gone to another)."""
        place = f"{self.proc}/{self.member.pid}"
        status = _content(f"{place}/status")
        stat = _content(f"{place}/stat")
        if status is None or stat is None:
            return None
        values = self._status(status)
        fields = stat.rpartition(b")")[2].split()
        if fields[0] in (b"Z", b"X"):  # ended, and nobody has taken note yet
            return None
        pid, role = self.member.pid, self.member.role
        values[series("cpu_user_seconds_total", pid, role)] = int(fields[11]) * _TICK_S
        values[series("cpu_system_seconds_total", pid, role)] = int(fields[12]) * _TICK_S
        values[series("cpu_seconds_total", pid, role)] = (int(fields[11]) + int(fields[12])) * _TICK_S
        values[series("major_faults_total", pid, role)] = float(fields[9])
        if now - self._costly_at >= _COSTLY_EVERY_S:
            self._costly_at = now
            self._costly = self._rarely(place, values.get(series("resident_memory_bytes", pid, role), 0.0))
        values |= self._costly
        return values

    def _status(self, status: bytes) -> dict[str, float]:
        values: dict[str, float] = {}
        for line in status.splitlines():
            name, _, rest = line.partition(b":")
            told = _STATUS.get(name)
            if told is not None:
                values[series(told[0], self.member.pid, self.member.role)] = float(rest.split()[0]) * told[1]
        return values

    def _rarely(self, place: str, resident: float) -> dict[str, float]:
        values: dict[str, float] = {}
        pid, role = self.member.pid, self.member.role
        try:
            values[series("open_files", pid, role)] = float(len(os.listdir(f"{place}/fd")))
        except OSError as error:
            self._refuse("open files", error)
        if resident <= _PSS_UP_TO_BYTES:
            try:
                with open(f"{place}/smaps_rollup", "rb") as file:
                    for line in file:
                        if line.startswith(b"Pss:"):
                            values[series("proportional_memory_bytes", pid, role)] = (
                                float(line.split()[1]) * _KIB
                            )
            except OSError as error:
                self._refuse("proportional memory", error)
        return values

    def _refuse(self, what: str, error: OSError) -> None:
        if not isinstance(error, FileNotFoundError | ProcessLookupError):  # those: it has just ended
            self.refused.setdefault(what, (error.strerror or str(error)).lower())


def _content(path: str) -> bytes | None:
    """All of a small file of /proc; None where there is none (any more)."""
    try:
        handle = os.open(path, os.O_RDONLY)
    except OSError:
        return None
    try:
        return os.read(handle, 1 << 16)
    except OSError:
        return None
    finally:
        os.close(handle)
