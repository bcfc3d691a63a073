"""vLLM's processes on this machine: found by their command lines, each with its role. The door to psutil."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePath

import psutil

_TITLE = re.compile(r"^VLLM::([A-Za-z][\w.:-]*)")  # what vLLM calls its processes from 0.10 on
_OTHER_TITLE = re.compile(r"^[\w-]+::([A-Za-z][\w.:-]*)")  # the same with VLLM_PROCESS_NAME_PREFIX set
_RAY = re.compile(r"^ray::(?:IDLE|([A-Za-z]\w*))")
_PYTHON = re.compile(r"^(?:python|pypy|pt_main_thread)[\d.]*$")
_DEPTHS = ("APIServer", "EngineCore", "Worker")  # who starts whom, where no title tells


@dataclass(frozen=True, slots=True)
class Member:
    """A process of a tree. `started` is unix seconds; `root` the pid the tree hangs on."""

    pid: int
    started: float
    role: str
    root: int


@dataclass(frozen=True, slots=True)
class Seen:
    """What a scan tells of a process; the command line is empty where it may not be read."""

    pid: int
    parent: int
    started: float
    command: tuple[str, ...]


def scan() -> dict[int, Seen]:
    """Every process of this machine (of this container, inside of one)."""
    found: dict[int, Seen] = {}
    for process in psutil.process_iter(["ppid", "cmdline", "create_time"]):
        told = process.info
        found[process.pid] = Seen(
            process.pid,
            told["ppid"] or 0,
            told["create_time"] or 0.0,
            tuple(told["cmdline"] or ()),
        )
    return found


def trees(processes: Mapping[int, Seen]) -> dict[int, tuple[Member, ...]]:
    """Root pid -> the members of each vLLM server, the root first."""
    roots = [
        seen.pid
        for seen in processes.values()
        if is_vllm(seen.command) and not _below_another(seen, processes)
    ]
    return {root: members(root, processes) for root in sorted(roots)}


def members(root: int, processes: Mapping[int, Seen]) -> tuple[Member, ...]:
    """A process and all below it, by pid within each generation; () where it is gone."""
    if root not in processes:
        return ()
    children: dict[int, list[Seen]] = {}
    for seen in processes.values():
        children.setdefault(seen.parent, []).append(seen)
    found: list[Member] = []
    level, depth, met = [processes[root]], 0, {root}
    while level:
        found += [Member(s.pid, s.started, role_of(s.command, depth), root) for s in level]
        below = [c for s in level for c in children.get(s.pid, ()) if c.pid not in met]
        met |= {c.pid for c in below}
        level, depth = sorted(below, key=lambda s: s.pid), depth + 1
    return _numbered(found)


def is_vllm(command: Sequence[str]) -> bool:
    """Whether a command line is that of vLLM itself (a shell that starts it is not)."""
    if not command:
        return False
    if _TITLE.match(command[0]):
        return True
    program = PurePath(command[0]).name
    if program != "vllm" and not _PYTHON.match(program):
        return False
    names = [PurePath(word).name for word in command[:8]]
    if "vllm" in names:
        at = names.index("vllm")
        return any(word == "serve" for word in command[at + 1 :])
    return any(word.startswith("vllm.entrypoints") for word in command)


def role_of(command: Sequence[str], depth: int) -> str:
    """`APIServer`, `EngineCore_DP1`, `Worker_TP0` ...: the title's, or guessed by the generation."""
    first = command[0] if command else ""
    if title := _TITLE.match(first):
        return title[1]
    if ray := _RAY.match(first):
        return f"ray:{ray[1] or 'idle'}"
    if depth and (title := _OTHER_TITLE.match(first)):
        return title[1]
    line = " ".join(command)
    for name, role in (
        ("resource_tracker", "resource-tracker"),
        ("multiprocessing.forkserver", "forkserver"),
    ):
        if name in line:
            return role
    program = PurePath(first).name
    if depth and program and not _PYTHON.match(program) and program != "vllm":
        return program[:32]  # a compiler, a shell, whatever a worker starts
    return _DEPTHS[min(depth, len(_DEPTHS) - 1)]


def root_of(pid: int, processes: Mapping[int, Seen]) -> int | None:
    """The root of the vLLM server a process belongs to; None where it belongs to none."""
    found = None
    seen = processes.get(pid)
    for _ in range(len(processes)):
        if seen is None:
            break
        if is_vllm(seen.command):
            found = seen.pid
        seen = processes.get(seen.parent)
    return found


def _below_another(seen: Seen, processes: Mapping[int, Seen]) -> bool:
    """Whether one of its ancestors is vLLM too."""
    parent = processes.get(seen.parent)
    return parent is not None and root_of(parent.pid, processes) is not None


def _numbered(found: Iterable[Member]) -> tuple[Member, ...]:
    """Guessed roles that occur several times get a number, so that each process has its own name."""
    told = list(found)
    roles = [member.role for member in told]
    numbers: dict[str, int] = {}
    for at, member in enumerate(told):
        if roles.count(member.role) > 1:
            number = numbers.get(member.role, 0)
            numbers[member.role] = number + 1
            told[at] = replace(member, role=f"{member.role}_{number}")
    return tuple(told)
