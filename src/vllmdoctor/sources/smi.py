"""What nvidia-smi printed, as a file or on standard input: told apart by its form, read as `nvml:` series."""

import re
from collections.abc import Iterator, Sequence

from vllmdoctor.errors import NotEnoughData, SourceError
from vllmdoctor.model import Fact, Gap, Observation, Snapshot
from vllmdoctor.sources import smi_csv, smi_lines, smi_xml
from vllmdoctor.sources.smi_fields import Reading, Row
from vllmdoctor.sources.tenants import OURS, Tenant, gpu_series, owners_by_name, program, tenants

_LOOKED_AT = 60  # lines
_DMON = re.compile(r"^#\s*(?:Date\s+)?(?:Time\s+)?gpu\s+\w+", re.IGNORECASE | re.MULTILINE)
_TABLE = re.compile(r"NVIDIA-SMI.*Driver Version:")
_FAILED = re.compile(
    r"^(?:NVIDIA-SMI (?:has failed|couldn't)|Failed to initialize NVML|No devices were found|"
    r"Unable to determine the device handle)[^\n]*",
    re.MULTILINE,
)
_FULL_TEXT = "==============NVSMI LOG=============="
_ZONE_S, _FARTHEST_ZONES, _JUST_WRITTEN_S = 1800.0, 28, 10.0
_HOW = "nvidia-smi --query-gpu=timestamp,index,memory.used,... --format=csv, -q -x, dmon -o DT, or its table"


def looks_like(head: str) -> bool:
    """Whether a text begins as nvidia-smi's output does."""
    if "<nvidia_smi_log" in head or _DMON.search(head) or _TABLE.search(head) or _FAILED.match(head.lstrip()):
        return True
    lines = head.split("\n", _LOOKED_AT)[:_LOOKED_AT]
    return _FULL_TEXT in head or any(smi_csv.header(line.strip()) for line in lines)


def read_smi(text: str, instance: str, moment: float, interval_s: float) -> Iterator[Observation]:
    """Snapshots of what nvidia-smi printed. `moment` is when it was written (unix s), `interval_s` the
    time between two readings that carry none. SourceError where it printed a failure."""
    found, strange = _readings(text)
    if not found:
        failure = _FAILED.search(text)
        if failure:
            raise SourceError(f"nvidia-smi failed: {failure[0].strip()}")
        if _FULL_TEXT in text:
            raise NotEnoughData(f"{instance} is the text of nvidia-smi -q", hint="nvidia-smi -q -x is read")
        raise NotEnoughData(f"{instance} holds no figures of nvidia-smi", hint=f"read is {_HOW}")
    yield from _timed(found, instance, moment, interval_s)
    driver = next((reading.driver for reading in found if reading.driver), "")
    if driver:
        yield Fact("gpu_driver_version", driver, "nvidia-smi", instance)
    names = dict.fromkeys(row.name for row in found[0].rows if row.name)
    if names:
        yield Fact("gpu_name", ", ".join(names), "nvidia-smi", instance)
    uuids = {row.gpu: row.uuid for reading in found for row in reading.rows if row.uuid}
    for reading in found:
        values = _values(reading.rows, uuids)
        if values and reading.time is not None:
            yield Snapshot(reading.time, instance, values)
    yield from _refusals(found, instance)
    if strange:
        yield Gap(instance, f"{strange} lines of nvidia-smi", "not understood, or cut off")


def _readings(text: str) -> tuple[list[Reading], int]:
    if "<nvidia_smi_log" in text:
        return smi_xml.read(text)
    lines = text.splitlines()
    if _DMON.search(text):
        return smi_lines.dmon(lines)
    if _TABLE.search(text):
        return smi_lines.table(lines)
    return smi_csv.read(lines)


def _timed(found: Sequence[Reading], instance: str, moment: float, interval_s: float) -> Iterator[Gap]:
    """Give every reading its time: shown ones in the zone they are in, others counted back from the end."""
    if all(reading.time is None for reading in found):
        for at, reading in enumerate(reversed(found)):
            reading.time = moment - at * interval_s
        if len(found) > 1:
            yield Gap(
                instance,
                "when nvidia-smi looked",
                f"it shows no times: counted back {interval_s:g} s each from when the file was written",
                "add timestamp to --query-gpu, or -o DT to dmon",
            )
        return
    last = max(reading.time for reading in found if reading.time is not None)
    zones = round((moment - last) / _ZONE_S)
    exact = abs(moment - last - zones * _ZONE_S) <= _JUST_WRITTEN_S and abs(zones) <= _FARTHEST_ZONES
    zone = zones * _ZONE_S if exact else 0.0
    for reading in found:
        reading.time = None if reading.time is None else reading.time + zone
    hours = -zone / 3600
    yield Gap(
        instance,
        "the zone of nvidia-smi's times",
        f"it is not told: taken for UTC{f'{hours:+g} h, by when the file was written' if zone else ''}",
    )


def _values(rows: Sequence[Row], uuids: dict[str, str]) -> dict[str, float]:
    names = {pid: name for row in rows for pid, (name, _) in (row.processes or {}).items()}
    owners = owners_by_name(names)
    values: dict[str, float] = {}
    for row in rows:
        uuid = uuids.get(row.gpu, "")
        labels = (("gpu", row.gpu), ("uuid", uuid)) if uuid else (("gpu", row.gpu),)
        for figure, value in row.values.items():
            values[gpu_series(figure, *labels)] = value
        values |= tenants(
            labels,
            (
                Tenant(pid, program(name), owners[pid], "told by name" if owners[pid] == OURS else "", used)
                for pid, (name, used) in (row.processes or {}).items()
            ),
        )
    return values


def _refusals(found: Sequence[Reading], instance: str) -> Iterator[Gap]:
    """What a GPU never had a number for, once, joined by nvidia-smi's word for it."""
    by_word: dict[tuple[str, str], dict[str, None]] = {}
    told = {(row.gpu, figure) for reading in found for row in reading.rows for figure in row.values}
    for reading in found:
        for row in reading.rows:
            for figure, word in row.refused.items():
                if (row.gpu, figure) not in told:
                    by_word.setdefault((row.gpu, word), {})[figure.rpartition("_")[0].replace("_", " ")] = (
                        None
                    )
    for (gpu, word), figures in by_word.items():
        yield Gap(instance, f"GPU {gpu}: {', '.join(figures)}", f"nvidia-smi says {word}")
