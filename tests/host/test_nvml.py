"""GPUs through the real pynvml and a fake driver: right units, and absence is told and never 0."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.host.conftest import FakeGpus, watch
from tests.sources.conftest import EXPOSITIONS, Server

from vllmdoctor.commands_record import record_targets
from vllmdoctor.errors import SourceError, UsageError
from vllmdoctor.model import Gap
from vllmdoctor.sources import Window, gather_targets

MIB = 2.0**20
NOT_SUPPORTED, NO_PERMISSION, LOST, MISMATCH = 3, 4, 15, 18
G0, G1 = '{gpu="0",uuid="GPU-0"}', '{gpu="1",uuid="GPU-1"}'
Start = Callable[..., "subprocess.Popen[str]"]


def test_a_gpu_is_read_in_the_units_its_series_are_named_for(gpus: FakeGpus) -> None:
    gpus.add()

    (snapshot,) = watch("nvml:").snapshots

    figures = {key.removesuffix(G0): value for key, value in snapshot.values.items()}
    assert figures == {
        "nvml:memory_total_bytes": 81559 * MIB,
        "nvml:memory_used_bytes": 71000 * MIB,
        "nvml:memory_free_bytes": 10000 * MIB,
        "nvml:memory_reserved_bytes": 559 * MIB,
        "nvml:utilization_percent": 87.0,
        "nvml:memory_utilization_percent": 40.0,
        "nvml:sm_clock_mhz": 1980.0,
        "nvml:sm_clock_max_mhz": 1980.0,
        "nvml:memory_clock_mhz": 2619.0,
        "nvml:memory_clock_max_mhz": 2619.0,
        "nvml:temperature_celsius": 56.0,
        "nvml:power_watts": 651.25,
        "nvml:power_limit_watts": 700.0,
        "nvml:clocks_event_reasons": 4.0,
        "nvml:thermal_violation_ns": 0.0,
        "nvml:power_violation_ns": 5e9,
        "nvml:ecc_corrected_total": 0.0,
        "nvml:ecc_uncorrected_total": 0.0,
        "nvml:remapped_rows": 0.0,
        "nvml:remapping_pending": 0.0,
        "nvml:remapping_failed": 0.0,
        "nvml:retired_pages_single_bit": 0.0,
        "nvml:retired_pages_double_bit": 0.0,
        "nvml:mig_mode": 0.0,
        "nvml:xid": 0.0,
    }


def test_the_driver_and_the_gpus_are_facts(gpus: FakeGpus) -> None:
    gpus.add()
    gpus.add()

    facts = {fact.key: fact.value for fact in watch("nvml:").facts}

    assert facts == {
        "gpu_driver_version": "580.95.05",
        "gpu_name": "NVIDIA H100 80GB HBM3",
        "gpu_count": 2,
    }


def test_what_a_gpu_does_not_support_is_one_gap_and_never_zero(gpus: FakeGpus) -> None:
    gpus.add()
    gpus.add()
    for function in ("nvmlDeviceGetPowerUsage", "nvmlDeviceGetViolationStatus", "nvmlDeviceGetTemperature"):
        gpus.fail(function, NOT_SUPPORTED, 1)

    seen = watch("nvml:", readings=3)

    for snapshot in seen.snapshots:
        assert snapshot.values[f"nvml:power_watts{G0}"] == 651.25
        assert f"nvml:power_watts{G1}" not in snapshot.values
        assert f"nvml:temperature_celsius{G1}" not in snapshot.values
    assert [(gap.what, gap.why) for gap in seen.gaps] == [
        ("GPU 1: temperature, power, time throttled by heat, time throttled by power", "not supported")
    ]


def test_a_driver_without_the_newer_memory_call_is_asked_with_the_older_one(gpus: FakeGpus) -> None:
    gpus.add()
    gpus.fail("nvmlDeviceGetMemoryInfo_v2", NOT_SUPPORTED)

    seen = watch("nvml:")

    assert seen.snapshots[0].values[f"nvml:memory_used_bytes{G0}"] == 71559 * MIB  # with the reserve
    assert f"nvml:memory_reserved_bytes{G0}" not in seen.snapshots[0].values
    assert seen.gaps == []


def test_a_gpu_that_is_lost_during_the_run_goes_silent_and_the_other_goes_on(gpus: FakeGpus) -> None:
    gpus.add()
    gpus.add()

    seen = watch("nvml:", readings=4, between=lambda n: gpus.fail("*", LOST, 1) if n == 2 else None)

    of_the_second = [sum(G1 in key for key in s.values) > 0 for s in seen.snapshots]
    assert of_the_second == [True, True, False, False]
    assert all(s.values[f"nvml:sm_clock_mhz{G0}"] == 1980.0 for s in seen.snapshots)
    assert [(e.kind, e.time) for e in seen.events] == [("gpu-lost", 1_800_000_002.0)]
    assert [(gap.what, gap.why) for gap in seen.gaps] == [
        ("GPU 1, from its loss on", "the GPU is lost (it has fallen off the bus)")
    ]


def test_a_gpu_that_is_lost_before_it_is_met_is_a_gap(gpus: FakeGpus) -> None:
    gpus.add()
    gpus.add()
    gpus.fail("nvmlDeviceGetHandleByIndex_v2", LOST, 1)

    seen = watch("nvml:")

    assert [gap.what for gap in seen.gaps] == ["GPU 1"]
    assert f"nvml:power_watts{G0}" in seen.snapshots[0].values


@pytest.mark.parametrize(
    ("code", "message", "hint"),
    [
        (
            MISMATCH,
            "the driver's library and its kernel module are of different versions",
            "reload it or reboot",
        ),
        (NO_PERMISSION, "the driver gives no permission", "/dev/nvidia*"),
        (9, "NVIDIA's driver is not loaded", "`nvidia-smi` must work"),
    ],
)
def test_a_driver_that_cannot_be_asked_says_why_and_what_to_do(
    gpus: FakeGpus, code: int, message: str, hint: str
) -> None:
    gpus.add()
    gpus.fail("nvmlInit", code)

    with pytest.raises(SourceError) as caught:
        watch("nvml:")

    assert caught.value.message == f"no GPU can be read: {message}"
    assert hint in caught.value.hint


def test_processes_that_may_not_be_seen_are_a_gap_and_the_figures_stay(gpus: FakeGpus) -> None:
    gpus.add()
    gpus.fail("nvmlDeviceGetComputeRunningProcesses_v3", NO_PERMISSION)

    seen = watch("nvml:", readings=2)

    assert [(gap.what, gap.why) for gap in seen.gaps] == [
        ("GPU 0: processes", "the driver gives no permission")
    ]
    assert not any("other_memory" in key for key in seen.snapshots[0].values)
    assert seen.snapshots[1].values[f"nvml:sm_clock_mhz{G0}"] == 1980.0


def test_without_the_drivers_library_there_is_one_plain_sentence() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "vllmdoctor", "diagnose", "nvml:"],
        capture_output=True,
        text=True,
        env={"PATH": "/usr/bin:/bin", "NO_COLOR": "1", "COLUMNS": "100"},
    )

    assert done.returncode == 3
    assert "no GPU can be read: there is no NVIDIA driver library on this machine" in " ".join(
        (done.stdout + done.stderr).split()
    )


def test_without_a_gpu_the_server_is_diagnosed_all_the_same(gpus: FakeGpus) -> None:
    gpus.fail("nvmlInit", 9)
    page = next(
        path for path in sorted(EXPOSITIONS.iterdir()) if path.suffix in (".prom", ".txt", ".metrics")
    )
    server = Server()
    server.serve("/metrics", 200, page.read_bytes())
    try:
        recording = gather_targets([server.url, "nvml:"], Window(1.0, 1.0))
    finally:
        server.close()

    assert any(key.startswith("vllm:") for of in recording.columns.values() for key in of)
    hint = "is the driver loaded? `nvidia-smi` must work on this machine; in a container, give it the GPU"
    expected = Gap(
        "targets beside the server", "no GPU can be read: NVIDIA's driver is not loaded", "not read", hint
    )
    assert [gap for gap in recording.gaps if "GPU" in gap.what] == [expected]


def test_an_xid_is_kept_and_told_once(gpus: FakeGpus) -> None:
    gpus.add()

    seen = watch("nvml:", readings=4, between=lambda n: gpus.change(0, xid=79) if n == 2 else None)

    assert [s.values[f"nvml:xid{G0}"] for s in seen.snapshots] == [0.0, 0.0, 79.0, 79.0]
    assert [(e.kind, e.text) for e in seen.events] == [("xid", "GPU 0: driver error XID 79")]


def test_the_parts_of_a_gpu_that_is_cut_have_memory_of_their_own(gpus: FakeGpus) -> None:
    gpus.add(mig=2)

    values = watch("nvml:").snapshots[0].values

    parts = [key for key in values if key.startswith("nvml:mig_memory_used_bytes")]
    assert parts == [
        'nvml:mig_memory_used_bytes{gpu="0",mig="0",uuid="GPU-0"}',
        'nvml:mig_memory_used_bytes{gpu="0",mig="1",uuid="GPU-0"}',
    ]


def test_another_program_on_the_servers_gpu_is_told_apart_from_the_server(
    gpus: FakeGpus, start: Start
) -> None:
    engine = start("/bin/sleep", "60", title="VLLM::EngineCore")
    stranger = start("/bin/sleep", "60", title="/opt/render/blender")
    gpus.add(procs=f"{engine.pid}:60000:70,{stranger.pid}:9000:25")
    gpus.add(procs=f"{stranger.pid}:500:1")

    values = watch("nvml:").snapshots[0].values

    assert values[f"nvml:own_memory_bytes{G0}"] == 60000 * MIB
    assert values[f"nvml:other_memory_bytes{G0}"] == 9000 * MIB
    assert values[f"nvml:other_processes{G0}"] == 1.0
    assert values[f"nvml:other_sm_percent{G0}"] == 25.0
    who = f'gpu="0",owner="other",pid="{stranger.pid}",process="blender",uuid="GPU-0"'
    assert values[f"nvml:process_memory_bytes{{{who}}}"] == 9000 * MIB
    assert f"nvml:other_memory_bytes{G1}" not in values  # the server is not on that GPU


def test_a_second_vllm_server_is_a_neighbour_of_the_larger_one(gpus: FakeGpus, start: Start) -> None:
    engine = start("/bin/sleep", "60", title="VLLM::EngineCore")
    second = start("/bin/sleep", "60", title="VLLM::EngineCore")
    gpus.add(procs=f"{engine.pid}:60000:70,{second.pid}:9000:25")

    values = watch("nvml:").snapshots[0].values

    assert values[f"nvml:own_memory_bytes{G0}"] == 60000 * MIB
    assert values[f"nvml:other_memory_bytes{G0}"] == 9000 * MIB


def test_processes_of_another_container_are_nobodys(gpus: FakeGpus) -> None:
    gpus.add(procs="4194000:60000:70")  # a number that no process here has

    values = watch("nvml:").snapshots[0].values

    key = 'nvml:process_memory_bytes{gpu="0",owner="unknown",pid="4194000",process="?",uuid="GPU-0"}'
    assert values[key] == 60000 * MIB
    assert not any("other_memory" in key for key in values)


def test_some_gpus_can_be_chosen_by_number_or_uuid(gpus: FakeGpus) -> None:
    gpus.add()
    gpus.add()

    for target in ("nvml:1", "nvml:GPU-1"):
        values = watch(target).snapshots[0].values
        assert {key[-len(G1) :] for key in values} == {G1}
    with pytest.raises(SourceError, match="there is no GPU 7"):
        watch("nvml:7")
    with pytest.raises(UsageError, match="names no GPUs"):
        watch("nvml:first")


def test_record_keeps_the_server_and_its_gpus_in_one_file(gpus: FakeGpus, tmp_path: Path) -> None:
    gpus.add()
    page = next(
        path for path in sorted(EXPOSITIONS.iterdir()) if path.suffix in (".prom", ".txt", ".metrics")
    )
    server = Server()
    server.serve("/metrics", 200, page.read_bytes())
    file = tmp_path / "night.rec"
    try:
        record_targets([server.url, "nvml:"], file, duration_s=1.0, interval_s=1.0)
    finally:
        server.close()

    recording = gather_targets([str(file)], Window())

    series = {key for of in recording.columns.values() for key in of}
    assert f"nvml:power_watts{G0}" in series
    assert any(key.startswith("vllm:") for key in series)


def test_the_driver_is_not_touched_before_it_is_asked() -> None:
    code = "import sys, vllmdoctor.sources.nvml_source; print('pynvml' in sys.modules)"

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "False"
