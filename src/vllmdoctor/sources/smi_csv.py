"""`nvidia-smi --query-gpu=... --format=csv` and `--query-compute-apps`: any columns in any order, with or
without units, once or in a loop."""

import csv
import re
from collections.abc import Iterator, Sequence

from vllmdoctor.sources.smi_fields import FIELDS, REASONS, Reading, Row, moment, number, readings

_CELL = re.compile(r"^([a-z_][\w.]*)(?:\s*\[([^\]]*)\])?$")
_APPS = {"used_gpu_memory": "used", "used_memory": "used"}
_REASON = re.compile(r"^clocks_(?:event|throttle)_reasons\.(\w+)$")


def header(line: str) -> list[tuple[str, str]] | None:
    """The columns (field, unit) of a line that names some; None for any other line."""
    cells = [_CELL.match(cell.strip()) for cell in line.split(",")]
    columns = [(cell[1], cell[2] or "") for cell in cells if cell is not None]
    if len(columns) < len(cells):
        return None
    known = [name for name, _ in columns if name in FIELDS or name in _APPS or _REASON.match(name)]
    return columns if known else None


def read(lines: Sequence[str]) -> tuple[list[Reading], int]:
    """The readings, and how many lines were not understood."""
    columns: list[tuple[str, str]] = []
    rows: list[tuple[float | None, Row]] = []
    processes: list[tuple[str, int, str, float | None]] = []
    apps_seen = False
    strange = 0
    for cells, line in _cells(lines):
        found = header(line)
        if found is not None:
            columns = found
            apps_seen = apps_seen or any(name in _APPS for name, _ in columns)
            continue
        if not columns or len(cells) != len(columns):
            strange += bool(line.strip())
            continue
        told = {name: cell for (name, _), cell in zip(columns, cells, strict=True)}
        units = dict(columns)
        if any(name in _APPS for name in told):
            processes.append(_process(told, units))
        else:
            rows.append(_row(told, units))
    found_readings = readings(rows)
    _join(found_readings, processes, apps_seen)
    if not found_readings and processes:
        row = Row(gpu="0", uuid=processes[0][0], processes={})
        found_readings = [Reading(None, [row])]
        _join(found_readings, processes, apps_seen)
    return found_readings, strange


def _cells(lines: Sequence[str]) -> Iterator[tuple[list[str], str]]:
    for line in lines:
        cells = next(csv.reader([line], skipinitialspace=True), [])
        yield [cell.strip() for cell in cells], line.strip()


def _row(told: dict[str, str], units: dict[str, str]) -> tuple[float | None, Row]:
    row = Row(
        gpu=told.get("index", ""),
        uuid=told.get("uuid", told.get("gpu_uuid", "")),
        name=told.get("name", told.get("gpu_name", "")),
    )
    bits: int | None = None
    for name, text in told.items():
        reason = _REASON.match(name)
        if name in FIELDS:
            row.put(FIELDS[name], _with_unit(text, units[name]))
        elif reason and reason[1] in REASONS and text in ("Active", "Not Active"):
            bits = (bits or 0) | (REASONS[reason[1]] if text == "Active" else 0)
    if bits is not None:
        row.values.setdefault("clocks_event_reasons", float(bits))
    return moment(told.get("timestamp", "")), row


def _with_unit(text: str, unit: str) -> str:
    """The value with its column's unit, which `nounits` leaves in the header or out altogether."""
    bare = bool(re.fullmatch(r"-?\d+(?:\.\d+)?", text))
    return f"{text} {unit}" if bare and unit in ("B", "KiB", "MiB", "GiB", "mW") else text


def _process(told: dict[str, str], units: dict[str, str]) -> tuple[str, int, str, float | None]:
    used = next(name for name in told if name in _APPS)
    pid = told.get("pid", "")
    return (
        told.get("gpu_uuid", told.get("gpu_bus_id", "")),
        int(pid) if pid.isdecimal() else 0,
        told.get("process_name", told.get("name", "")),
        number(_with_unit(told[used], units[used]), "process_memory_bytes"),
    )


def _join(
    found: Sequence[Reading], processes: Sequence[tuple[str, int, str, float | None]], apps_seen: bool
) -> None:
    """Give the processes to the GPUs of the last reading, by UUID."""
    if not (found and apps_seen):
        return
    for row in found[-1].rows:
        mine = [p for p in processes if len(found[-1].rows) == 1 or p[0] == row.uuid]
        row.processes = {pid: (name, used) for _, pid, name, used in mine if pid}
