"""`nvml:` and `nvml:0,1`: the GPUs of this machine, read through the driver at every tick."""

import platform
from collections.abc import Iterator, Sequence

from vllmdoctor.errors import SourceError, UsageError
from vllmdoctor.model import Event, Fact, Gap, Observation, Snapshot
from vllmdoctor.sources import Window
from vllmdoctor.sources.host_tree import Seen, root_of, scan
from vllmdoctor.sources.nvml import Driver, Refusal
from vllmdoctor.sources.nvml_reading import Gpu, GpuProcess
from vllmdoctor.sources.tenants import OTHER, OURS, UNKNOWN, Tenant, program, tenants

_LOOK_AGAIN_S = 60.0  # for a process that became a vLLM server after it was met
_ORIGIN = "nvml:"


def open_target(target: str) -> "NvmlSource":
    """The Source for `nvml:`, for all GPUs, or `nvml:0,2`, for some."""
    chosen = target.partition(":")[2].strip("/")
    words = [word.strip() for word in chosen.split(",") if word.strip()]
    if not all(word.isdecimal() or word.startswith("GPU-") for word in words):
        raise UsageError(
            f"{target!r} names no GPUs", hint="nvml: for all, nvml:0,1 or nvml:GPU-UUID for some"
        )
    return NvmlSource(tuple(words))


class NvmlSource:
    """Reads the GPUs. SourceError where the driver cannot be asked at all."""

    live = True
    beside = True

    def __init__(self, chosen: Sequence[str] = ()) -> None:
        self._chosen = chosen
        self._instance = f"{_ORIGIN}{platform.node() or 'localhost'}"
        self._driver = Driver()
        self._told: set[tuple[int, str]] = set()
        self._people = _People(self._driver)
        self._stamps: dict[int, int] = {}

    def read(self, window: Window) -> Iterator[Observation]:
        """Yield a Snapshot a tick, and once a Gap for what a GPU does not tell."""
        refusal = self._driver.open()
        if refusal is not None:
            raise SourceError(f"no GPU can be read: {refusal.words}", hint=refusal.hint)
        gpus: list[Gpu] = []
        try:
            gpus = self._gpus()
            yield from self._facts(gpus)
            for _ in window.ticks():
                now = round(window.clock(), 3)
                self._people.look(now)
                values: dict[str, float] = {}
                notes: list[Observation] = []
                for gpu in gpus:
                    was, xids = gpu.lost, gpu.xid
                    values |= gpu.read(self._driver)
                    values |= self._tenants(gpu)
                    if gpu.lost and not was:
                        notes += self._lost(gpu, gpu.lost, now)
                    if gpu.xid != xids:
                        text = f"GPU {gpu.index}: driver error XID {gpu.xid:.0f}"
                        notes.append(Event(now, "xid", text, self._instance, _ORIGIN))
                if values:
                    yield Snapshot(now, self._instance, values)
                yield from notes
                for gpu in gpus:
                    yield from self._refusals(gpu)
                if not values and all(gpu.lost for gpu in gpus):
                    return
        finally:
            for gpu in gpus:
                gpu.close(self._driver)
            self._driver.close()

    def _gpus(self) -> list[Gpu]:
        count = self._driver.ask("nvmlDeviceGetCount")
        if isinstance(count, Refusal):
            raise SourceError(f"no GPU can be read: {count.words}", hint=count.hint)
        found: list[Gpu] = []
        refused: Refusal | None = None
        for index in range(int(count)):
            handle = self._driver.ask("nvmlDeviceGetHandleByIndex", index)
            if isinstance(handle, Refusal):
                refused = handle
                gpu = Gpu(index, "", "", None)
                gpu.lost = handle
            else:
                uuid = self._driver.ask("nvmlDeviceGetUUID", handle)
                name = self._driver.ask("nvmlDeviceGetName", handle)
                gpu = Gpu(index, _text(uuid), _text(name), handle)
            if not self._chosen or str(index) in self._chosen or gpu.uuid in self._chosen:
                found.append(gpu)
        if not found:
            what = "the driver knows no GPU" if not count else f"there is no GPU {', '.join(self._chosen)}"
            raise SourceError(f"no GPU can be read: {what}", hint="nvidia-smi -L lists them")
        if refused is not None and all(gpu.lost for gpu in found):
            raise SourceError(f"no GPU can be read: {refused.words}", hint=refused.hint)
        return found

    def _facts(self, gpus: Sequence[Gpu]) -> Iterator[Observation]:
        version = self._driver.ask("nvmlSystemGetDriverVersion")
        if not isinstance(version, Refusal):
            yield Fact("gpu_driver_version", _text(version), _ORIGIN, self._instance)
        names = [gpu.name for gpu in gpus if gpu.name]
        if names:
            yield Fact("gpu_name", ", ".join(dict.fromkeys(names)), _ORIGIN, self._instance)
            yield Fact("gpu_count", len(gpus), _ORIGIN, self._instance)
        for gpu in gpus:
            if gpu.lost:
                yield Gap(self._instance, f"GPU {gpu.index}", gpu.lost.words, gpu.lost.hint)

    def _tenants(self, gpu: Gpu) -> dict[str, float]:
        processes = None if gpu.lost else gpu.processes(self._driver)
        if processes is None:
            return {}
        shares = self._shares(gpu) if processes else {}
        return tenants(gpu.labels, (self._people.tenant(p, shares.get(p.pid)) for p in processes))

    def _shares(self, gpu: Gpu) -> dict[int, float]:
        """Pid -> share of the multiprocessors' time since the last reading (percent)."""
        since = self._stamps.get(gpu.index, 0)
        samples = gpu.ask(self._driver, "SM time of processes", "nvmlDeviceGetProcessUtilization", since)
        seen = [s for s in samples or () if s.timeStamp > since]
        if seen:
            self._stamps[gpu.index] = max(int(s.timeStamp) for s in seen)
        return {int(s.pid): float(s.smUtil) for s in seen if s.smUtil <= 100}

    def _lost(self, gpu: Gpu, why: Refusal, now: float) -> Iterator[Observation]:
        hint = "dmesg tells the XID; the node has to be drained and the GPU reset or replaced"
        yield Event(now, "gpu-lost", f"GPU {gpu.index}: {why.words}", self._instance, _ORIGIN)
        yield Gap(self._instance, f"GPU {gpu.index}, from its loss on", why.words, hint)

    def _refusals(self, gpu: Gpu) -> Iterator[Gap]:
        """What this GPU does not tell, once, joined by the reason."""
        by_reason: dict[str, list[str]] = {}
        hints: dict[str, str] = {}
        for what, refusal in gpu.refused.items():
            if (gpu.index, what) not in self._told:
                self._told.add((gpu.index, what))
                by_reason.setdefault(refusal.words, []).append(what)
                hints[refusal.words] = refusal.hint
        for words, whats in by_reason.items():
            yield Gap(self._instance, f"GPU {gpu.index}: {', '.join(whats)}", words, hints[words])


class _People:
    """Who the processes are: each is looked up once, and again when it may have changed."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._known: dict[int, Tenant] = {}
        self._scan: dict[int, Seen] | None = None
        self._since = 0.0

    def look(self, now: float) -> None:
        """Begin a reading."""
        self._scan = None
        if now - self._since > _LOOK_AGAIN_S:
            self._since = now
            self._known.clear()

    def tenant(self, process: GpuProcess, sm_percent: float | None) -> Tenant:
        """A process with its name, its owner and what it holds."""
        if process.pid not in self._known:
            self._known[process.pid] = self._meet(process.pid)
        known = self._known[process.pid]
        used = None if process.used_bytes is None else float(process.used_bytes)
        return Tenant(known.pid, known.name, known.owner, known.server, used, sm_percent)

    def _meet(self, pid: int) -> Tenant:
        if self._scan is None:
            self._scan = scan()
        seen = self._scan.get(pid)
        told = self._driver.ask("nvmlSystemGetProcessName", pid)
        name = "" if isinstance(told, Refusal) else _text(told)
        if seen is None:  # of another container: its name is all there is
            owner = OURS if name.startswith("VLLM::") else UNKNOWN
            return Tenant(pid, name or "?", owner, "elsewhere" if owner == OURS else "")
        root = root_of(pid, self._scan)
        shown = name or (seen.command[0] if seen.command else "?")
        return Tenant(pid, program(shown), OTHER if root is None else OURS, "" if root is None else str(root))


def _text(answer: object) -> str:
    if isinstance(answer, Refusal):
        return ""
    return answer.decode("utf-8", "replace") if isinstance(answer, bytes) else str(answer)
