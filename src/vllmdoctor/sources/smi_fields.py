"""nvidia-smi's words: which of its fields is which `nvml:` figure, and numbers in any unit they come in."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from types import MappingProxyType

MIB = 1024.0 * 1024.0
_UNITS = {"B": 1.0, "KIB": 1024.0, "MIB": MIB, "GIB": 1024 * MIB, "KB": 1e3, "MB": MIB, "GB": 1024 * MIB}
_NUMBER = re.compile(r"(-?\d+(?:\.\d+)?)\s*([A-Za-z%/°]*)")
_NOTHING = re.compile(r"^\[?\s*(?:N/?A|Not (?:Supported|Available|Found|Active)|-)\s*\]?$", re.IGNORECASE)
_LOCAL = re.compile(r"(\d{4})[/-](\d\d)[/-](\d\d)[ T](\d\d):(\d\d):(\d\d)(?:\.(\d+))?")
_SPOKEN = "%a %b %d %H:%M:%S %Y"

FIELDS: Mapping[str, str] = MappingProxyType(
    {
        "memory.total": "memory_total_bytes",
        "memory.used": "memory_used_bytes",
        "memory.free": "memory_free_bytes",
        "memory.reserved": "memory_reserved_bytes",
        "utilization.gpu": "utilization_percent",
        "utilization.memory": "memory_utilization_percent",
        "temperature.gpu": "temperature_celsius",
        "temperature.memory": "memory_temperature_celsius",
        "power.draw": "power_watts",
        "power.draw.instant": "power_watts",
        "power.draw.average": "power_watts",
        "power.limit": "power_limit_watts",
        "enforced.power.limit": "power_limit_watts",
        "clocks.sm": "sm_clock_mhz",
        "clocks.current.sm": "sm_clock_mhz",
        "clocks.mem": "memory_clock_mhz",
        "clocks.current.memory": "memory_clock_mhz",
        "clocks.max.sm": "sm_clock_max_mhz",
        "clocks.max.mem": "memory_clock_max_mhz",
        "clocks.max.memory": "memory_clock_max_mhz",
        "clocks_event_reasons.active": "clocks_event_reasons",
        "clocks_throttle_reasons.active": "clocks_event_reasons",
        "ecc.errors.corrected.volatile.total": "ecc_corrected_total",
        "ecc.errors.uncorrected.volatile.total": "ecc_uncorrected_total",
        "retired_pages.single_bit_ecc.count": "retired_pages_single_bit",
        "retired_pages.double_bit.count": "retired_pages_double_bit",
        "mig.mode.current": "mig_mode",
    }
)
"""A field of --query-gpu -> the figure it is."""

REASONS: Mapping[str, int] = MappingProxyType(
    {
        "gpu_idle": 0x01,
        "applications_clocks_setting": 0x02,
        "sw_power_cap": 0x04,
        "hw_slowdown": 0x08,
        "sync_boost": 0x10,
        "sw_thermal_slowdown": 0x20,
        "hw_thermal_slowdown": 0x40,
        "hw_power_brake_slowdown": 0x80,
        "display_clock_setting": 0x100,
    }
)
"""A reason for a low clock, as nvidia-smi spells it -> NVML's bit."""


@dataclass
class Row:
    """One GPU in one reading. `refused` holds the figures it had no number for, with nvidia-smi's word."""

    gpu: str = ""
    uuid: str = ""
    name: str = ""
    values: dict[str, float] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)
    processes: dict[int, tuple[str, float | None]] | None = None

    def put(self, figure: str, text: str) -> None:
        """Take a figure as it is written."""
        value = number(text, figure)
        if value is not None:
            self.values[figure] = value
        elif figure not in self.values:
            self.refused[figure] = text.strip(" []") or "nothing"


@dataclass
class Reading:
    """All GPUs at one moment: unix seconds on nvidia-smi's own clock, None where it shows none."""

    time: float | None
    rows: list[Row]
    driver: str = ""


def number(text: str, figure: str) -> float | None:
    """A figure's value in its own unit (bytes, percent, MHz, W, °C, bits); None where it is no number."""
    text = text.strip()
    if figure == "mig_mode":
        return {"enabled": 1.0, "disabled": 0.0}.get(text.lower())
    if figure == "clocks_event_reasons" and text.lower().startswith("0x"):
        try:
            return float(int(text, 16))
        except ValueError:
            return None
    match = _NUMBER.fullmatch(text)
    if match is None or _NOTHING.match(text):
        return None
    value, unit = float(match[1]), match[2].upper()
    if figure.endswith("_bytes"):
        return value * _UNITS.get(unit or "MIB", 0.0) if unit in {"", *_UNITS} else None
    if figure.endswith("_watts") and unit == "MW":
        return value / 1000
    return value


def moment(text: str) -> float | None:
    """The time as nvidia-smi writes it, taken for UTC: `2026/11/29 17:02:36.123`, `Sun Nov 29 ... 2026`."""
    text = " ".join(text.split())
    if match := _LOCAL.fullmatch(text):
        try:
            at = datetime(*(int(match[i]) for i in range(1, 7)), tzinfo=UTC)  # type: ignore[arg-type, misc]
        except ValueError:
            return None
        return at.timestamp() + float(f"0.{match[7] or 0}")
    try:
        return datetime.strptime(text, _SPOKEN).replace(tzinfo=UTC).timestamp()
    except ValueError:
        return None


def readings(rows: Sequence[tuple[float | None, Row]], apart_s: float = 0.5) -> list[Reading]:
    """Rows in their order -> readings: a new one begins when a GPU comes again or the time moves on."""
    found: list[Reading] = []
    for time, row in rows:
        last = found[-1] if found else None
        again = last is None or bool(row.gpu and any(row.gpu == other.gpu for other in last.rows))
        if last is not None and time is not None and last.time is not None:
            again = again or time - last.time > apart_s
        if last is None or again:
            found.append(Reading(time, [row]))
        else:
            last.rows.append(row)
    for reading in found:
        for at, row in enumerate(reading.rows):
            row.gpu = row.gpu or str(at)
    return found
