"""One GPU's figures at one moment, as `nvml:` series. What the driver refuses for good is asked once."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from vllmdoctor.sources.nvml import Driver, Refusal
from vllmdoctor.sources.tenants import gpu_series

_VOLATILE = 0
_CORRECTED, _UNCORRECTED = 0, 1
_SM, _MEMORY = 1, 2
_POWER, _THERMAL = 0, 1
_XID = 0x8
_MEMORY_V2 = 0x02000028
_MOST_XIDS = 64  # that are taken from the driver's queue at one reading


@dataclass(frozen=True, slots=True)
class GpuProcess:
    """A process that holds memory of a GPU: bytes (None where the driver does not tell)."""

    pid: int
    used_bytes: int | None


@dataclass(frozen=True, slots=True)
class Figure:
    """One question to the driver: the function, what follows the handle, and the series it fills."""

    what: str
    function: str
    arguments: tuple[int, ...]
    series: Callable[[Any], Mapping[str, float]]


def _one(name: str, scale: float = 1.0) -> Callable[[Any], Mapping[str, float]]:
    return lambda answer: {name: float(answer) * scale}


def _memory(answer: Any) -> Mapping[str, float]:
    return {
        "memory_total_bytes": float(answer.total),
        "memory_used_bytes": float(answer.used),
        "memory_free_bytes": float(answer.free),
    }


def _rates(answer: Any) -> Mapping[str, float]:
    return {
        "utilization_percent": float(answer.gpu),
        "memory_utilization_percent": float(answer.memory),
    }


def _rows(answer: Any) -> Mapping[str, float]:
    corrected, uncorrected, pending, failed = answer
    return {
        "remapped_rows": float(corrected + uncorrected),
        "remapping_pending": float(pending),
        "remapping_failed": float(failed),
    }


FIGURES: Sequence[Figure] = (
    Figure("utilisation", "nvmlDeviceGetUtilizationRates", (), _rates),
    Figure("SM clock", "nvmlDeviceGetClockInfo", (_SM,), _one("sm_clock_mhz")),
    Figure("memory clock", "nvmlDeviceGetClockInfo", (_MEMORY,), _one("memory_clock_mhz")),
    Figure("temperature", "nvmlDeviceGetTemperature", (0,), _one("temperature_celsius")),
    Figure("power", "nvmlDeviceGetPowerUsage", (), _one("power_watts", 1e-3)),
    Figure("power limit", "nvmlDeviceGetEnforcedPowerLimit", (), _one("power_limit_watts", 1e-3)),
    Figure("throttle reasons", "nvmlDeviceGetCurrentClocksEventReasons", (), _one("clocks_event_reasons")),
    Figure(
        "time throttled by heat",
        "nvmlDeviceGetViolationStatus",
        (_THERMAL,),
        lambda answer: {"thermal_violation_ns": float(answer.violationTime)},
    ),
    Figure(
        "time throttled by power",
        "nvmlDeviceGetViolationStatus",
        (_POWER,),
        lambda answer: {"power_violation_ns": float(answer.violationTime)},
    ),
    Figure(
        "corrected memory errors",
        "nvmlDeviceGetTotalEccErrors",
        (_CORRECTED, _VOLATILE),
        _one("ecc_corrected_total"),
    ),
    Figure(
        "uncorrected memory errors",
        "nvmlDeviceGetTotalEccErrors",
        (_UNCORRECTED, _VOLATILE),
        _one("ecc_uncorrected_total"),
    ),
    Figure("remapped memory rows", "nvmlDeviceGetRemappedRows", (), _rows),
)
"""What is asked at every reading."""

SLOW: Sequence[Figure] = (
    Figure("highest SM clock", "nvmlDeviceGetMaxClockInfo", (_SM,), _one("sm_clock_max_mhz")),
    Figure("highest memory clock", "nvmlDeviceGetMaxClockInfo", (_MEMORY,), _one("memory_clock_max_mhz")),
    Figure(
        "retired pages (single-bit)",
        "nvmlDeviceGetRetiredPages",
        (0,),
        lambda answer: {"retired_pages_single_bit": float(len(answer))},
    ),
    Figure(
        "retired pages (double-bit)",
        "nvmlDeviceGetRetiredPages",
        (1,),
        lambda answer: {"retired_pages_double_bit": float(len(answer))},
    ),
    Figure("MIG mode", "nvmlDeviceGetMigMode", (), lambda answer: {"mig_mode": float(answer[0])}),
)
"""What hardly ever changes: asked at the first reading and kept."""


@dataclass
class Gpu:
    """One GPU: its handle, what it has refused so far (what -> why), and the last driver error's code."""

    index: int
    uuid: str
    name: str
    handle: Any
    refused: dict[str, Refusal] = field(default_factory=dict)
    lost: Refusal | None = None
    xid: float = 0.0
    _kept: dict[str, float] | None = None
    _events: Any = None
    _skip: set[str] = field(default_factory=set)

    @property
    def labels(self) -> tuple[tuple[str, str], ...]:
        """The labels that name it."""
        return (("gpu", str(self.index)), ("uuid", self.uuid))

    def read(self, driver: Driver) -> dict[str, float]:
        """Series -> value. Nothing is 0 that was not read as 0; a GPU that is gone gives nothing."""
        values: dict[str, float] = {}
        for name, value in self._memory(driver).items():
            values[gpu_series(name, *self.labels)] = value
        if self._kept is None and not self.lost:
            self._kept = {gpu_series(n, *self.labels): v for n, v in self._figures(driver, SLOW)}
        for name, value in self._figures(driver, FIGURES):
            values[gpu_series(name, *self.labels)] = value
        if self.lost:
            return {}
        values |= self._kept or {}
        values |= self._instances(driver, values)
        xid = self._last_xid(driver)
        if xid is not None:
            values[gpu_series("xid", *self.labels)] = xid
        return values

    def processes(self, driver: Driver) -> tuple[GpuProcess, ...] | None:
        """Who holds memory of it; None where the driver does not tell."""
        answer = self.ask(driver, "processes", "nvmlDeviceGetComputeRunningProcesses")
        if answer is None:
            return None
        joined: dict[int, int | None] = {}
        for process in answer:  # one line for each MIG instance
            used, more = joined.get(int(process.pid)), process.usedGpuMemory
            joined[int(process.pid)] = used if more is None else (used or 0) + int(more)
        return tuple(GpuProcess(pid, used) for pid, used in joined.items())

    def _memory(self, driver: Driver) -> Mapping[str, float]:
        # version 2 keeps what the driver reserves for itself apart from what is used
        answer = self.ask(driver, "memory with reserve", "nvmlDeviceGetMemoryInfo", _MEMORY_V2)
        if answer is not None:
            return {**_memory(answer), "memory_reserved_bytes": float(answer.reserved)}
        if not self.lost and "memory with reserve" in self._skip:
            self.refused.pop("memory with reserve", None)  # not worth a word: the old call tells enough
            answer = self.ask(driver, "memory", "nvmlDeviceGetMemoryInfo")
        return {} if answer is None else _memory(answer)

    def _figures(self, driver: Driver, figures: Sequence[Figure]) -> Iterator[tuple[str, float]]:
        for figure in figures:
            answer = self.ask(driver, figure.what, figure.function, *figure.arguments)
            if answer is not None:
                yield from figure.series(answer).items()

    def ask(self, driver: Driver, what: str, function: str, *arguments: object) -> Any:
        """An answer about this GPU, or None; what was refused, and why, is kept in `refused`."""
        if self.lost or what in self._skip:
            return None
        answer = driver.ask(function, self.handle, *arguments)
        if not isinstance(answer, Refusal):
            return answer
        if answer.lost:
            self.lost = answer
        elif not answer.quiet:
            self.refused.setdefault(what, answer)
            if answer.final:
                self._skip.add(what)
        return None

    def _instances(self, driver: Driver, values: Mapping[str, float]) -> dict[str, float]:
        """Memory of each MIG instance, where the GPU is cut into such."""
        if values.get(gpu_series("mig_mode", *self.labels)) != 1.0:
            return {}
        found: dict[str, float] = {}
        most = self.ask(driver, "MIG instances", "nvmlDeviceGetMaxMigDeviceCount")
        for number in range(int(most or 0)):
            part = driver.ask("nvmlDeviceGetMigDeviceHandleByIndex", self.handle, number)
            memory = part if isinstance(part, Refusal) else driver.ask("nvmlDeviceGetMemoryInfo", part)
            if not isinstance(memory, Refusal):
                for name, value in _memory(memory).items():
                    found[gpu_series(f"mig_{name}", *self.labels, ("mig", str(number)))] = value
        return found

    def _last_xid(self, driver: Driver) -> float | None:
        """The code of the last driver error since this began to look; 0 for none."""
        if self._events is None:
            self._events = driver.ask("nvmlEventSetCreate")
            if not isinstance(self._events, Refusal):
                self.ask(driver, "XID errors", "nvmlDeviceRegisterEvents", _XID, self._events)
        if isinstance(self._events, Refusal):
            self.refused.setdefault("XID errors", self._events)
        if "XID errors" in self.refused:
            return None
        for _ in range(_MOST_XIDS):
            event = driver.ask("nvmlEventSetWait_v2", self._events, 0)
            if isinstance(event, Refusal):
                if not event.quiet:
                    self.refused.setdefault("XID errors", event)
                break
            self.xid = float(event.eventData)
        return self.xid

    def close(self, driver: Driver) -> None:
        """Give back what was taken from the driver."""
        if self._events is not None and not isinstance(self._events, Refusal):
            driver.ask("nvmlEventSetFree", self._events)
