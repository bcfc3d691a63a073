"""`host:` and `host:PID`: the vLLM server's processes on this machine, its control group and /dev/shm."""

import os
import platform
from collections.abc import Iterator
from pathlib import Path

from vllmdoctor.errors import SourceError, Unreachable, UsageError
from vllmdoctor.model import Event, Gap, Observation, Snapshot
from vllmdoctor.sources import Window
from vllmdoctor.sources.host_cgroup import Cgroup, find
from vllmdoctor.sources.host_process import ProcessReader
from vllmdoctor.sources.host_tree import Member, members, scan, trees

_SCAN_EVERY_S = 15.0  # for processes that have started since; those that ended are seen at once
_ORIGIN = "host:"
_SHM = "/dev/shm"  # noqa: S108  it is looked at, nothing is written there


def open_target(target: str) -> "HostSource":
    """The Source for `host:`, which looks for vLLM, or `host:1234`, for a process and its children."""
    pid = target.partition(":")[2].strip("/")
    if pid and not (pid.isdecimal() and int(pid)):
        raise UsageError(f"{target!r} names no process", hint="host: looks for vLLM, host:1234 takes a pid")
    return HostSource(int(pid) if pid else None)


class HostSource:
    """Reads a process tree. Unreachable where there is none (it may come), SourceError off Linux."""

    live = True
    beside = True

    def __init__(self, pid: int | None = None, root: Path = Path("/")) -> None:
        self._pid = pid
        self._root = root
        self._instance = f"{_ORIGIN}{platform.node() or 'localhost'}"
        self._readers: dict[int, ProcessReader] = {}
        self._cgroup: Cgroup | None = None
        self._kills: float | None = None
        self._told: set[str] = set()

    def read(self, window: Window) -> Iterator[Observation]:
        """Yield a Snapshot a tick; what begins and ends on the way is an Event."""
        if not (self._root / "proc/self/status").exists():
            raise SourceError("host: needs Linux's /proc", hint="run it on the server's machine")
        self._readers.clear()
        scanned = float("-inf")
        first = True
        for _ in window.ticks():
            now = round(window.clock(), 3)
            if now - scanned >= _SCAN_EVERY_S or not self._readers:
                scanned = now
                yield from self._look(now, first)
            values: dict[str, float] = {}
            for pid, reader in list(self._readers.items()):
                read = reader.read(now)
                if read is None:
                    yield self._ended(self._readers.pop(pid).member, now)
                    scanned = float("-inf")
                else:
                    values |= read
            if values:
                values["host:processes"] = float(len(self._readers))
                values |= self._surroundings()
                yield Snapshot(now, self._instance, values)
                yield from self._killed(values, now)
            yield from self._refusals()
            first = False

    def _look(self, now: float, first: bool) -> Iterator[Observation]:
        """Find the tree again: who is new, and who is not there any more."""
        processes = scan()
        if self._pid is not None:
            found = {self._pid: members(self._pid, processes)} if self._pid in processes else {}
        else:
            found = trees(processes)
        if first and not found:
            wanted = f"process {self._pid}" if self._pid is not None else "vLLM server"
            hint = "is it in another container? run this inside of that one, or give a process: host:PID"
            raise Unreachable(f"there is no {wanted} on this machine", hint=hint)
        if first and len(found) > 1:
            pids = ", ".join(map(str, found))
            yield Gap(
                self._instance,
                f"which of {len(found)} vLLM servers is meant",
                f"all are read together: process {pids}",
                "give one as host:PID",
            )
        current = {member.pid: member for tree in found.values() for member in tree}
        for pid, member in current.items():
            known = self._readers.get(pid)
            if known is not None and known.member.started == member.started:
                if known.member.role != member.role:  # it has given itself a title since
                    known.member = member
                continue
            if known is not None:
                yield self._ended(known.member, now)
            self._readers[pid] = ProcessReader(member, self._root / "proc")
            if not first:
                text = f"{member.role} (pid {pid}) has started"
                yield Event(now, "process-started", text, self._instance, _ORIGIN)
        for pid in set(self._readers) - set(current):
            yield self._ended(self._readers.pop(pid).member, now)
        if current:
            self._cgroup = find(next(iter(current)), self._root)
            yield from self._unread_group()
        if not os.path.isdir(_SHM) and _SHM not in self._told:
            self._told.add(_SHM)
            yield Gap(self._instance, _SHM, "it is not there")

    def _unread_group(self) -> Iterator[Gap]:
        if self._cgroup is None:
            what, why = "the control group", "its files cannot be read"
        elif self._cgroup.memory is None:
            what, why = "memory limit and OOM kills", "the server has no control group of its own for memory"
        else:
            return
        if what not in self._told:
            self._told.add(what)
            yield Gap(self._instance, what, why)

    def _surroundings(self) -> dict[str, float]:
        values = self._cgroup.read() if self._cgroup is not None else {}
        try:
            disk = os.statvfs(_SHM)
        except OSError:
            return values
        values["host:shm_total_bytes"] = float(disk.f_blocks * disk.f_frsize)
        values["host:shm_used_bytes"] = float((disk.f_blocks - disk.f_bfree) * disk.f_frsize)
        return values

    def _killed(self, values: dict[str, float], now: float) -> Iterator[Event]:
        kills = values.get("host:cgroup_oom_kills_total")
        if kills is not None and self._kills is not None and kills > self._kills:
            text = f"the kernel's OOM killer ended {kills - self._kills:.0f} processes of the control group"
            yield Event(now, "oom-kill", text, self._instance, _ORIGIN)
        self._kills = kills if kills is not None else self._kills

    def _ended(self, member: Member, now: float) -> Event:
        text = f"{member.role} (pid {member.pid}) has ended"
        return Event(now, "process-ended", text, self._instance, _ORIGIN)

    def _refusals(self) -> Iterator[Gap]:
        """What could not be read, once for each kind of thing."""
        roles: dict[tuple[str, str], list[str]] = {}
        for reader in self._readers.values():
            for what, why in reader.refused.items():
                if what not in self._told:
                    roles.setdefault((what, why), []).append(f"{reader.member.role} ({reader.member.pid})")
        for (what, why), whose in roles.items():
            self._told.add(what)
            yield Gap(
                self._instance,
                f"{what} of {', '.join(whose)}",
                why,
                "run it as the same user as the server, or as root",
            )
