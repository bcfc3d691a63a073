"""What people paste of nvidia-smi: any columns, any units, XML, dmon and the plain table."""

import io
import os
import sys
from pathlib import Path

import pytest
from tests.host.conftest import Seen

from vllmdoctor.errors import NotEnoughData, SourceError, VllmDoctorError
from vllmdoctor.sources import Window, open_source
from vllmdoctor.sources.input import Kind, open_input

SAMPLES = Path(__file__).with_name("smi")
NAMES = sorted(path.name for path in SAMPLES.iterdir())
MIB = 2.0**20
AT = 1_795_971_756.0  # 2026-11-29 17:02:36 UTC


def read(path: Path) -> Seen:
    seen = Seen()
    for observation in open_source(str(path)).read(Window(interval_s=5.0)):
        seen.add(observation)
    return seen


def written(folder: Path, text: str, at: float = AT + 5) -> Path:
    path = folder / "smi.out"
    path.write_text(text, encoding="utf-8")
    os.utime(path, (at, at))
    return path


@pytest.fixture
def sample(tmp_path: Path, request: pytest.FixtureRequest) -> Seen:
    return read(written(tmp_path, (SAMPLES / request.param).read_text(encoding="utf-8")))


@pytest.mark.parametrize("name", NAMES)
def test_it_is_known_by_its_form_whatever_the_file_is_called(name: str) -> None:
    with open_input(SAMPLES / name) as source:
        assert source.kind() is Kind.SMI


@pytest.mark.parametrize("sample", ["query.csv"], indirect=True)
def test_columns_in_any_order_with_units_are_read_reading_by_reading(sample: Seen) -> None:
    first, second = sample.snapshots

    assert [first.time, second.time] == [AT + 0.123, AT + 5.123]
    of_0 = 'gpu="0",uuid="GPU-5c1d"'
    assert {k: v for k, v in first.values.items() if of_0 in k} == {
        f"nvml:sm_clock_max_mhz{{{of_0}}}": 1980.0,
        f"nvml:utilization_percent{{{of_0}}}": 97.0,
        f"nvml:memory_used_bytes{{{of_0}}}": 71000 * MIB,
        f"nvml:memory_total_bytes{{{of_0}}}": 81559 * MIB,
        f"nvml:memory_free_bytes{{{of_0}}}": 10000 * MIB,
        f"nvml:sm_clock_mhz{{{of_0}}}": 1980.0,
        f"nvml:temperature_celsius{{{of_0}}}": 56.0,
        f"nvml:power_watts{{{of_0}}}": 651.25,
        f"nvml:power_limit_watts{{{of_0}}}": 700.0,
        f"nvml:clocks_event_reasons{{{of_0}}}": 4.0,
    }
    assert second.values['nvml:sm_clock_mhz{gpu="1",uuid="GPU-77aa"}'] == 1185.0
    assert 'nvml:power_watts{gpu="1",uuid="GPU-77aa"}' not in first.values
    assert ("GPU 1: power", "nvidia-smi says N/A") in [(gap.what, gap.why) for gap in sample.gaps]


@pytest.mark.parametrize("sample", ["nounits.csv"], indirect=True)
def test_without_units_index_and_times_it_is_one_reading_of_when_it_was_written(sample: Seen) -> None:
    (snapshot,) = sample.snapshots

    assert snapshot.time == AT + 5
    assert snapshot.values['nvml:memory_used_bytes{gpu="0"}'] == 71000 * MIB
    assert snapshot.values['nvml:sm_clock_mhz{gpu="1"}'] == 1200.0
    assert snapshot.values['nvml:clocks_event_reasons{gpu="0"}'] == 4.0
    assert snapshot.values['nvml:clocks_event_reasons{gpu="1"}'] == 64.0


@pytest.mark.parametrize("sample", ["apps.csv", "table.txt", "full.xml"], indirect=True)
def test_the_processes_beside_vllm_are_its_neighbours(sample: Seen) -> None:
    values = sample.snapshots[0].values
    of_0 = {k.partition("{")[0]: v for k, v in values.items() if 'gpu="0"' in k}

    assert of_0["nvml:own_memory_bytes"] == 61000 * MIB
    assert of_0["nvml:other_memory_bytes"] == 9500 * MIB
    names = {k for k in values if "process_memory" in k and 'owner="other"' in k and 'gpu="0"' in k}
    assert [('process="blender"' in k, 'pid="999"' in k) for k in names] == [(True, True)]
    assert not any("other_memory" in k for k in values if 'gpu="1"' in k)


@pytest.mark.parametrize("sample", ["dmon.txt"], indirect=True)
def test_dmon_with_its_times_is_a_reading_a_second(sample: Seen) -> None:
    first, second = sample.snapshots

    assert [first.time, second.time] == [AT, AT + 1]
    assert first.values == {
        'nvml:power_watts{gpu="0"}': 651.0,
        'nvml:temperature_celsius{gpu="0"}': 56.0,
        'nvml:memory_temperature_celsius{gpu="0"}': 70.0,
        'nvml:utilization_percent{gpu="0"}': 97.0,
        'nvml:memory_utilization_percent{gpu="0"}': 45.0,
        'nvml:memory_clock_mhz{gpu="0"}': 2619.0,
        'nvml:sm_clock_mhz{gpu="0"}': 1980.0,
        'nvml:memory_used_bytes{gpu="0"}': 71000 * MIB,
        'nvml:power_watts{gpu="1"}': 350.0,
        'nvml:temperature_celsius{gpu="1"}': 88.0,
        'nvml:utilization_percent{gpu="1"}': 95.0,
        'nvml:memory_utilization_percent{gpu="1"}': 44.0,
        'nvml:memory_clock_mhz{gpu="1"}': 2619.0,
        'nvml:sm_clock_mhz{gpu="1"}': 1200.0,
        'nvml:memory_used_bytes{gpu="1"}': 70900 * MIB,
    }


def test_dmon_without_times_is_counted_back_from_when_it_was_written(tmp_path: Path) -> None:
    lines = (SAMPLES / "dmon.txt").read_text(encoding="utf-8").splitlines()
    text = "".join(
        line.replace("#Date       Time       ", "#").replace("#YYYYMMDD   HH:MM:SS   ", "#")[0:] + "\n"
        if line.startswith("#")
        else line[21:] + "\n"
        for line in lines
    )

    seen = read(written(tmp_path, text))

    assert [s.time for s in seen.snapshots] == [AT, AT + 5]
    assert ("when nvidia-smi looked", "add timestamp to --query-gpu, or -o DT to dmon") in [
        (gap.what, gap.hint) for gap in seen.gaps
    ]


@pytest.mark.parametrize("sample", ["table.txt"], indirect=True)
def test_the_plain_table_is_read(sample: Seen) -> None:
    (snapshot,) = sample.snapshots

    assert snapshot.time == AT
    figures = {
        k: v for k, v in snapshot.values.items() if "process" not in k and "other" not in k and "own" not in k
    }
    assert figures == {
        'nvml:temperature_celsius{gpu="0"}': 56.0,
        'nvml:power_watts{gpu="0"}': 651.0,
        'nvml:power_limit_watts{gpu="0"}': 700.0,
        'nvml:memory_used_bytes{gpu="0"}': 71000 * MIB,
        'nvml:memory_total_bytes{gpu="0"}': 81559 * MIB,
        'nvml:utilization_percent{gpu="0"}': 97.0,
        'nvml:temperature_celsius{gpu="1"}': 41.0,
        'nvml:power_limit_watts{gpu="1"}': 450.0,
        'nvml:memory_used_bytes{gpu="1"}': 5 * MIB,
        'nvml:memory_total_bytes{gpu="1"}': 24564 * MIB,
        'nvml:utilization_percent{gpu="1"}': 0.0,
    }
    assert {f.key: f.value for f in sample.facts} == {
        "gpu_driver_version": "580.95.05",
        "gpu_name": "NVIDIA H100 80GB HBM3, NVIDIA GeForce RTX 4090",
    }


@pytest.mark.parametrize("sample", ["full.xml"], indirect=True)
def test_the_xml_is_read_with_its_reasons_as_bits(sample: Seen) -> None:
    (snapshot,) = sample.snapshots
    of_0 = '{gpu="0",uuid="GPU-5c1d"}'

    told = {
        name: snapshot.values[f"nvml:{name}{of_0}"]
        for name in (
            "clocks_event_reasons",
            "memory_reserved_bytes",
            "ecc_uncorrected_total",
            "power_watts",
            "power_limit_watts",
            "sm_clock_mhz",
            "sm_clock_max_mhz",
            "temperature_celsius",
            "mig_mode",
        )
    }

    assert told == {
        "clocks_event_reasons": float(0x4 | 0x8 | 0x40),
        "memory_reserved_bytes": 559 * MIB,
        "ecc_uncorrected_total": 3.0,
        "power_watts": 350.5,
        "power_limit_watts": 700.0,
        "sm_clock_mhz": 1200.0,
        "sm_clock_max_mhz": 1980.0,
        "temperature_celsius": 88.0,
        "mig_mode": 0.0,
    }


def test_a_loop_of_xml_documents_is_a_history_and_the_cut_off_last_one_is_told(tmp_path: Path) -> None:
    one = (SAMPLES / "full.xml").read_text(encoding="utf-8")
    two = one.replace("17:02:36", "17:02:41").replace("71000 MiB", "71010 MiB")

    seen = read(written(tmp_path, one + two + one[: len(one) // 2], at=AT + 1000))

    used = [s.values['nvml:memory_used_bytes{gpu="0",uuid="GPU-5c1d"}'] / MIB for s in seen.snapshots]
    assert used == [71000.0, 71010.0]
    assert [s.time for s in seen.snapshots] == [AT, AT + 5]
    assert "1 lines of nvidia-smi" in [gap.what for gap in seen.gaps]


def test_entities_in_the_xml_are_not_expanded(tmp_path: Path) -> None:
    text = (SAMPLES / "full.xml").read_text(encoding="utf-8")
    bomb = '<!DOCTYPE nvidia_smi_log [<!ENTITY a "88"><!ENTITY b "&a;&a;">]>'
    text = text.replace('<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v12.dtd">', bomb)

    with pytest.raises(NotEnoughData):
        read(written(tmp_path, text.replace("88 C", "&b; C")))


def test_times_in_another_zone_are_moved_when_the_file_was_just_written(tmp_path: Path) -> None:
    text = (SAMPLES / "table.txt").read_text(encoding="utf-8")

    seen = read(written(tmp_path, text, at=AT - 2 * 3600 + 1))  # the machine's clock shows UTC+2

    assert [s.time for s in seen.snapshots] == [AT - 2 * 3600]
    (gap,) = [gap for gap in seen.gaps if gap.what.startswith("the zone")]
    assert gap.why == "it is not told: taken for UTC+2 h, by when the file was written"


def test_it_is_read_from_standard_input_too(monkeypatch: pytest.MonkeyPatch) -> None:
    stdin = io.TextIOWrapper(io.BytesIO((SAMPLES / "query.csv").read_bytes()))
    monkeypatch.setattr(sys, "stdin", stdin)
    seen = Seen()

    for observation in open_source("-").read(Window(clock=lambda: AT + 6)):
        seen.add(observation)

    assert len(seen.snapshots) == 2


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        (
            "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure that "
            "the latest NVIDIA driver is installed and running.\n\n",
            SourceError,
            "nvidia-smi failed: NVIDIA-SMI has failed because",
        ),
        ("No devices were found\n", SourceError, "No devices were found"),
        ("Failed to initialize NVML: Driver/library version mismatch\n", SourceError, "version mismatch"),
        ("index, memory.used [MiB]\n", NotEnoughData, "no figures"),
        (
            "\n==============NVSMI LOG==============\n\nTimestamp : Sun Nov 29 17:02:36 2026\n",
            NotEnoughData,
            "nvidia-smi -q",
        ),
    ],
)
def test_a_failure_of_nvidia_smi_is_told_in_its_own_words(
    tmp_path: Path, text: str, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        read(written(tmp_path, text))


@pytest.mark.parametrize("name", NAMES)
def test_output_that_is_cut_off_anywhere_is_read_or_refused_in_words(tmp_path: Path, name: str) -> None:
    text = (SAMPLES / name).read_text(encoding="utf-8")
    path = tmp_path / "cut"
    for end in range(1, len(text), 29):
        path.write_text(text[:end], encoding="utf-8")
        try:
            read(path)
        except VllmDoctorError as error:
            assert error.message


def test_lines_between_are_counted_and_do_not_stop_it(tmp_path: Path) -> None:
    text = (SAMPLES / "query.csv").read_text(encoding="utf-8")
    text = text.replace("2026/11/29 17:02:41.123", "Unable to read GPU 3\n2026/11/29 17:02:41.123")

    seen = read(written(tmp_path, text))

    assert len(seen.snapshots) == 2
    assert "1 lines of nvidia-smi" in [gap.what for gap in seen.gaps]
