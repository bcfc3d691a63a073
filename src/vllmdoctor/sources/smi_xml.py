"""`nvidia-smi -q -x`: one XML document for each reading, one after the other in a loop."""

import re
from collections.abc import Iterator
from xml.etree import ElementTree

from vllmdoctor.sources.smi_fields import REASONS, Reading, Row, moment, number

_DOCUMENT = re.compile(r"<nvidia_smi_log>.*?</nvidia_smi_log>", re.DOTALL)
_PATHS: tuple[tuple[str, str], ...] = (
    ("fb_memory_usage/total", "memory_total_bytes"),
    ("fb_memory_usage/used", "memory_used_bytes"),
    ("fb_memory_usage/free", "memory_free_bytes"),
    ("fb_memory_usage/reserved", "memory_reserved_bytes"),
    ("utilization/gpu_util", "utilization_percent"),
    ("utilization/memory_util", "memory_utilization_percent"),
    ("temperature/gpu_temp", "temperature_celsius"),
    ("temperature/memory_temp", "memory_temperature_celsius"),
    ("gpu_power_readings/power_draw", "power_watts"),
    ("gpu_power_readings/instant_power_draw", "power_watts"),
    ("gpu_power_readings/average_power_draw", "power_watts"),
    ("gpu_power_readings/current_power_limit", "power_limit_watts"),
    ("power_readings/power_draw", "power_watts"),
    ("power_readings/enforced_power_limit", "power_limit_watts"),
    ("power_readings/power_limit", "power_limit_watts"),
    ("clocks/sm_clock", "sm_clock_mhz"),
    ("clocks/mem_clock", "memory_clock_mhz"),
    ("max_clocks/sm_clock", "sm_clock_max_mhz"),
    ("max_clocks/mem_clock", "memory_clock_max_mhz"),
    ("ecc_errors/volatile/dram_uncorrectable", "ecc_uncorrected_total"),
    ("ecc_errors/volatile/dram_correctable", "ecc_corrected_total"),
    ("ecc_errors/volatile/double_bit/total", "ecc_uncorrected_total"),
    ("ecc_errors/volatile/single_bit/total", "ecc_corrected_total"),
    ("retired_pages/multiple_single_bit_retirement/retired_count", "retired_pages_single_bit"),
    ("retired_pages/double_bit_retirement/retired_count", "retired_pages_double_bit"),
    ("mig_mode/current_mig", "mig_mode"),
)
_REASON_NAMES = ("clocks_event_reason", "clocks_throttle_reason")


def read(text: str) -> tuple[list[Reading], int]:
    """The readings, and how many documents were not whole."""
    found: list[Reading] = []
    broken = max(0, text.count("<nvidia_smi_log>") - len(_DOCUMENT.findall(text)))
    for document in _DOCUMENT.findall(text):
        try:
            # the document's own part only: no DOCTYPE, so no entity can be declared
            root = ElementTree.fromstring(document)  # noqa: S314
        except ElementTree.ParseError:
            broken += 1
            continue
        rows = [_row(at, gpu) for at, gpu in enumerate(root.iterfind("gpu"))]
        driver = root.findtext("driver_version", "").strip()
        found.append(Reading(moment(root.findtext("timestamp", "")), rows, driver))
    return found, broken


def _row(at: int, gpu: "ElementTree.Element[str]") -> Row:
    row = Row(
        gpu=str(at),
        uuid=gpu.findtext("uuid", "").strip(),
        name=gpu.findtext("product_name", "").strip(),
    )
    for path, figure in _PATHS:
        text = gpu.findtext(path)
        if text is not None and figure not in row.values:
            row.put(figure, text)
    row.refused = {figure: why for figure, why in row.refused.items() if figure not in row.values}
    states = dict(_reasons(gpu))
    if states:
        row.values["clocks_event_reasons"] = float(sum(REASONS[name] for name, on in states.items() if on))
    processes = gpu.find("processes")
    if processes is not None and (processes.text or "").strip() in ("", "None"):
        row.processes = {
            int(pid): (
                one.findtext("process_name", "").strip(),
                number(one.findtext("used_memory", ""), "process_memory_bytes"),
            )
            for one in processes.iterfind("process_info")
            if (pid := one.findtext("pid", "").strip()).isdecimal()
            and "G" not in one.findtext("type", "")[:1]
        }
    return row


def _reasons(gpu: "ElementTree.Element[str]") -> Iterator[tuple[str, bool]]:
    for stem in _REASON_NAMES:
        for one in gpu.find(f"{stem}s") or ():
            name = one.tag.removeprefix(f"{stem}_")
            if name in REASONS and one.text is not None:
                yield name, one.text.strip() == "Active"
