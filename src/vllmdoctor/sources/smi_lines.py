"""`nvidia-smi dmon` and the plain `nvidia-smi` table, once or in a loop."""

import re
from collections.abc import Sequence

from vllmdoctor.sources.smi_fields import Reading, Row, moment, readings

_DMON = {
    "pwr": "power_watts",
    "gtemp": "temperature_celsius",
    "mtemp": "memory_temperature_celsius",
    "sm": "utilization_percent",
    "mem": "memory_utilization_percent",
    "mclk": "memory_clock_mhz",
    "pclk": "sm_clock_mhz",
    "fb": "memory_used_bytes",
}
_DAY = re.compile(r"(\d{4})[/-]?(\d\d)[/-]?(\d\d)")
_SPOKEN = re.compile(r"^[A-Z][a-z]{2} [A-Z][a-z]{2} +\d{1,2} \d\d:\d\d:\d\d \d{4}$")
_DRIVER = re.compile(r"Driver Version:\s*(\d[\w.]*)")
_DEVICE = re.compile(r"^\|\s+(\d+)\s+(\S.*?)\s{2,}.*\|\s*[0-9A-Fa-f]{8}:")
_FIGURES = re.compile(
    r"^\|\s*(?:N/A|\d+%|ERR!)\s+(\d+|N/A|ERR!)C?\s+P?\S*\s+(\S+?)W?\s*/\s*(\S+?)W?\s*\|"
    r"\s*(\d+)\s*MiB\s*/\s*(\d+)\s*MiB\s*\|\s*(\d+|N/A)\s*%?"
)
_PROCESS = re.compile(r"^\|\s+(\d+)\s+(?:\S+\s+\S+\s+)?(\d+)\s+([CGM+]+)\s+(\S.*?)\s+(?:(\d+)MiB|N/A)\s*\|")


def dmon(lines: Sequence[str]) -> tuple[list[Reading], int]:
    """The readings of dmon's output, and how many lines were not understood."""
    columns: list[str] = []
    rows: list[tuple[float | None, Row]] = []
    strange = 0
    for line in lines:
        words = line.lstrip("#").split()
        if line.startswith("#"):
            lower = [word.lower() for word in words]
            if "gpu" in lower:
                columns = lower
            continue
        if not words or len(words) != len(columns):
            strange += bool(words)
            continue
        told = dict(zip(columns, words, strict=True))
        row = Row(gpu=told["gpu"])
        for column, figure in _DMON.items():
            if column in told:
                row.put(figure, told[column])
        rows.append((_moment(told), row))
    return readings(rows, apart_s=0.9), strange


def _moment(told: dict[str, str]) -> float | None:
    day = _DAY.fullmatch(told.get("date", ""))
    if day is None or "time" not in told:
        return None
    return moment(f"{day[1]}/{day[2]}/{day[3]} {told['time']}")


def table(lines: Sequence[str]) -> tuple[list[Reading], int]:
    """The readings of nvidia-smi's own table, and how many of its GPUs could not be read."""
    found: list[Reading] = []
    time: float | None = None
    device: Row | None = None
    strange = 0
    for line in lines:
        if _SPOKEN.match(line.strip()):
            time = moment(line)
        elif driver := _DRIVER.search(line):
            found.append(Reading(time, [], driver[1]))
            time, device = None, None
        elif not found:
            continue
        elif match := _DEVICE.match(line):
            strange += device is not None
            device = Row(gpu=match[1], name=match[2].removesuffix(" Off").removesuffix(" On").strip())
        elif device is not None and (match := _FIGURES.match(line)):
            for figure, text in zip(
                ("temperature_celsius", "power_watts", "power_limit_watts"), match.groups(), strict=False
            ):
                device.put(figure, text)
            device.put("memory_used_bytes", f"{match[4]} MiB")
            device.put("memory_total_bytes", f"{match[5]} MiB")
            device.put("utilization_percent", match[6])
            found[-1].rows.append(device)
            device = None
        elif match := _PROCESS.match(line):
            _put_process(found[-1].rows, match)
    return [reading for reading in found if reading.rows], strange + (device is not None)


def _put_process(rows: Sequence[Row], match: re.Match[str]) -> None:
    for row in rows:
        if row.gpu == match[1] and "C" in match[3]:
            held = row.processes if row.processes is not None else {}
            used = float(match[5]) * 1024 * 1024 if match[5] else None
            row.processes = {**held, int(match[2]): (match[4], used)}
