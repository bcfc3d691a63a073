"""Hours of a simulated server with figures of `nvml:` and `host:`: the right cause, or a plain "not seen"."""

import math
from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np
import pytest

from vllmdoctor.diagnosis import diagnose
from vllmdoctor.engines import frames
from vllmdoctor.exposition import canonical_series, split_series
from vllmdoctor.model import Outcome, Report, Severity, Status, Verdict
from vllmdoctor.prescribe import of_one_gpu
from vllmdoctor.recording import Column, Recording
from vllmdoctor.simulator import SCENARIOS, Scrape, simulate, write_openmetrics
from vllmdoctor.sources import Window, gather_targets
from vllmdoctor.statistics import FloatArray

SEED = 7
AFTER_S = 2 * 3600.0
GIB = 2.0**30
MACHINE = "nvml:node"
DCGM = {
    "DCGM_FI_DEV_SM_CLOCK": ("nvml:sm_clock_mhz", 1.0),
    "DCGM_FI_DEV_GPU_TEMP": ("nvml:temperature_celsius", 1.0),
    "DCGM_FI_DEV_FB_USED": ("nvml:memory_used_bytes", 2.0**20),
    "DCGM_FI_DEV_FB_FREE": ("nvml:memory_free_bytes", 2.0**20),
    "DCGM_FI_DEV_GPU_UTIL": ("nvml:utilization_percent", 1.0),
    "DCGM_FI_DEV_POWER_USAGE": ("nvml:power_watts", 1.0),
    "DCGM_FI_DEV_CLOCK_THROTTLE_REASONS": ("nvml:clocks_event_reasons", 1.0),
}
Histories = Callable[[str], tuple[Recording, float]]


@pytest.fixture(scope="module")
def histories(tmp_path_factory: pytest.TempPathFactory) -> Histories:
    """A scenario's history to two hours after its onset, and that onset (unix s); each is made once."""
    folder = tmp_path_factory.mktemp("histories")
    made: dict[str, tuple[Recording, float]] = {}

    def history(scenario: str) -> tuple[Recording, float]:
        if scenario not in made:
            setup = SCENARIOS[scenario].setup(SEED)
            end = 5 * 3600.0 if setup.onset_s is None else setup.onset_s + AFTER_S
            setup = replace(setup, duration_s=min(end, setup.duration_s), scrape=Scrape(60.0))
            path = folder / f"{scenario}.om.gz"
            write_openmetrics(simulate(setup, seed=SEED), path)
            onset = setup.start_unix_s + (setup.onset_s or 0.0)
            made[scenario] = (gather_targets([str(path)], Window()), onset)
        return made[scenario]

    return history


# --- changing what was seen -------------------------------------------------------------------


def without(recording: Recording, *prefixes: str) -> Recording:
    return replace(
        recording,
        columns={
            instance: kept
            for instance, of in recording.columns.items()
            if (kept := {key: column for key, column in of.items() if not key.startswith(prefixes)})
        },
    )


def found(recording: Recording, name: str) -> Column:
    return next(
        column
        for of in recording.columns.values()
        for key, column in of.items()
        if split_series(key)[0] == name
    )


def added(recording: Recording, series: Mapping[str, Column]) -> Recording:
    columns = {instance: dict(of) for instance, of in recording.columns.items()}
    columns[MACHINE] = {**columns.get(MACHINE, {}), **series}
    return replace(recording, columns=columns)


def on_gpu(name: str, gpu: int = 0, **labels: str) -> str:
    return canonical_series(name, {"gpu": str(gpu), "uuid": f"GPU-{gpu}", **labels})


def by_nvml(recording: Recording) -> Recording:
    """The GPU's figures as `nvml:` gives them, in place of the exporter's."""
    series = {}
    for name, (ours, scale) in DCGM.items():
        column = found(recording, name)
        series[on_gpu(ours)] = Column(column.times, column.values * scale)
    clock = found(recording, "DCGM_FI_DEV_SM_CLOCK")
    series[on_gpu("nvml:sm_clock_max_mhz")] = Column(clock.times, np.full(clock.times.size, 1980.0))
    return added(without(recording, "DCGM_"), series)


def with_neighbour(
    recording: Recording, held: Callable[[FloatArray], FloatArray], share: float = 30.0
) -> Recording:
    """Another program on the server's GPU that holds so many bytes at each time."""
    times = found(recording, "nvml:sm_clock_mhz").times
    bytes_held = held(times)
    return added(
        recording,
        {
            on_gpu("nvml:own_memory_bytes"): Column(times, np.full(times.size, 60 * GIB)),
            on_gpu("nvml:other_memory_bytes"): Column(times, bytes_held),
            on_gpu("nvml:other_sm_percent"): Column(times, np.where(bytes_held > 0, share, 0.0)),
            on_gpu("nvml:process_memory_bytes", owner="other", pid="999", process="blender"): Column(
                times, np.where(bytes_held > 0, bytes_held, math.nan)
            ),
        },
    )


def with_leak(recording: Recording, onset: float, per_hour: float) -> Recording:
    """The container's memory with a steady growth in place of what it did."""
    memory = found(recording, "container_memory_working_set_bytes")
    grown = 7 * GIB + per_hour * np.maximum(0.0, memory.times - onset) / 3600
    columns = {
        instance: {
            key: Column(memory.times, grown) if column is memory else column for key, column in of.items()
        }
        for instance, of in recording.columns.items()
    }
    return replace(recording, columns=columns)


def by_host(recording: Recording) -> Recording:
    """The container's memory as the processes in it: what moves is the engine core's."""
    memory = found(recording, "container_memory_working_set_bytes")
    limit = found(recording, "container_spec_memory_limit_bytes")
    steady = {("10", "APIServer"): 1.0 * GIB, ("12", "Worker_TP0"): 2.0 * GIB}
    series = {
        canonical_series("host:resident_memory_bytes", {"pid": pid, "role": role}): Column(
            memory.times, np.where(np.isfinite(memory.values), size, math.nan)
        )
        for (pid, role), size in steady.items()
    }
    rest = memory.values - sum(steady.values())
    engine = canonical_series("host:resident_memory_bytes", {"pid": "11", "role": "EngineCore"})
    series[engine] = Column(memory.times, rest)
    series["host:cgroup_memory_limit_bytes"] = limit
    return added(without(recording, "container_"), series)


def outcome(report: Report, slug: str) -> Outcome:
    return next(one for one in report.engines[0].outcomes if one.slug == slug)


# --- memory -----------------------------------------------------------------------------------


def test_a_leak_is_found_with_the_process_it_is_in_and_the_time_to_its_limit(histories: Histories) -> None:
    recording, _ = histories("healthy-memory-steps")
    onset = recording.start + 3600

    report = diagnose(by_host(with_leak(recording, onset, per_hour=1.2 * GIB)))

    leak = outcome(report, "memory-leak")
    assert (report.primary, leak.kind) == ("memory-leak", "host")
    assert "% of it in EngineCore" in leak.summary
    assert "h to its limit" in leak.summary
    (part,) = [e for e in leak.evidence if e.detail == "EngineCore"]
    assert part.observed > 0.95
    assert report.onset == pytest.approx(onset, abs=45 * 60)


def test_memory_that_follows_load_in_steps_is_no_leak(histories: Histories) -> None:
    recording, _ = histories("healthy-memory-steps")

    report = diagnose(by_host(recording))

    assert report.verdict is Verdict.HEALTHY
    assert outcome(report, "memory-leak").status is Status.CLEAR


def test_a_leak_that_only_the_tree_would_show_is_not_guessed_from_the_api_server(
    histories: Histories,
) -> None:
    recording, _ = histories("healthy-memory-steps")

    report = diagnose(without(recording, "container_"))

    leak = outcome(report, "memory-leak")
    assert leak.status is Status.UNKNOWN
    assert leak.reason.startswith("only the API server's process was seen")
    assert "memory-leak" not in [o.slug for o in report.engines[0].findings]


def test_without_any_figure_of_memory_the_report_says_that_it_is_missing(histories: Histories) -> None:
    recording, _ = histories("healthy-memory-steps")

    report = diagnose(without(recording, "container_", "process_"))

    leak = outcome(report, "memory-leak")
    assert (leak.status, leak.reason) == (
        Status.UNKNOWN,
        "not seen: host_memory or container_memory or process_memory",
    )
    assert any("memory-leak" in gap.why for gap in report.gaps)


# --- the GPU ----------------------------------------------------------------------------------


def test_throttling_is_found_from_nvml_with_its_reason(histories: Histories) -> None:
    recording, onset = histories("throttle-no-queue")

    report = diagnose(by_nvml(recording))

    assert (report.primary, report.kind) == ("gpu-throttle", "thermal")
    assert "(hardware thermal slowdown)" in report.headline
    assert report.onset == pytest.approx(onset, abs=40 * 60)


def test_one_throttled_gpu_among_those_of_the_server_is_found_and_named(histories: Histories) -> None:
    recording, _ = histories("throttle-no-queue")
    recording = by_nvml(recording)
    times = found(recording, "nvml:sm_clock_mhz").times
    steady = np.full(times.size, 1980.0)
    others = {
        on_gpu("nvml:sm_clock_mhz", 1): Column(times, steady),
        on_gpu("nvml:utilization_percent", 1): Column(times, np.full(times.size, 80.0)),
        on_gpu("nvml:sm_clock_mhz", 2): Column(times, np.full(times.size, 210.0)),  # not the server's
        on_gpu("nvml:utilization_percent", 2): Column(times, np.zeros(times.size)),
        **{on_gpu("nvml:own_memory_bytes", n): Column(times, steady) for n in (0, 1)},
    }

    report = diagnose(added(recording, others))

    throttled = outcome(report, "gpu-throttle")
    assert report.primary == "gpu-throttle"
    assert "the SM clock of GPU 0 under load" in throttled.summary
    assert throttled.evidence[0].detail == "GPU 0 of 2"


def test_without_gpu_figures_throttling_is_not_guessed(histories: Histories) -> None:
    recording, _ = histories("throttle-no-queue")

    report = diagnose(without(recording, "DCGM_"))

    assert outcome(report, "gpu-throttle").reason == "not seen: gpu_sm_clock"
    assert report.primary not in ("gpu-throttle", "noisy-neighbour")
    assert any("gpu-throttle" in gap.why for gap in report.gaps)
    assert any("noisy-neighbour" in gap.why for gap in report.gaps)


def steady_clock(recording: Recording) -> Recording:
    """The same slowness, with a clock and a temperature that do not explain it."""
    recording = by_nvml(recording)
    times = found(recording, "nvml:sm_clock_mhz").times
    return added(
        recording,
        {
            on_gpu("nvml:sm_clock_mhz"): Column(times, np.full(times.size, 1980.0)),
            on_gpu("nvml:temperature_celsius"): Column(times, np.full(times.size, 60.0)),
            on_gpu("nvml:clocks_event_reasons"): Column(times, np.zeros(times.size)),
        },
    )


def test_a_neighbour_that_came_when_it_became_slow_is_the_cause(histories: Histories) -> None:
    recording, onset = histories("throttle-no-queue")
    recording = with_neighbour(steady_clock(recording), lambda t: np.where(t >= onset, 9 * GIB, 0.0))

    report = diagnose(recording)

    assert (report.verdict, report.primary, report.kind) == (Verdict.SICK, "noisy-neighbour", "arrived")
    neighbour = outcome(report, "noisy-neighbour")
    assert neighbour.severity is Severity.CRITICAL
    assert neighbour.summary.startswith("blender (pid 999) holds 9.0 GiB of GPU 0 and 30 % of its time")
    assert report.onset == pytest.approx(onset, abs=10 * 60)
    assert "move-the-neighbour" in [step.slug for step in report.plan]


def test_a_neighbour_that_was_there_all_along_explains_no_decline(histories: Histories) -> None:
    recording, _ = histories("throttle-no-queue")
    recording = with_neighbour(steady_clock(recording), lambda t: np.full(t.size, 9 * GIB), share=2.0)

    report = diagnose(recording)

    neighbour = outcome(report, "noisy-neighbour")
    assert report.primary != "noisy-neighbour"
    assert (neighbour.status, neighbour.severity) == (Status.FOUND, Severity.INFO)
    assert neighbour.kind == "from the start"
    assert "move-the-neighbour" not in [step.slug for step in report.plan]


def test_headroom_is_that_of_the_fullest_gpu_and_not_the_sum_of_all(histories: Histories) -> None:
    recording, _ = histories("throttle-no-queue")
    recording = by_nvml(recording)
    times = found(recording, "nvml:memory_free_bytes").times
    frame = frames(
        added(
            recording,
            {
                on_gpu("nvml:memory_free_bytes", gpu): Column(times, np.full(times.size, free * GIB))
                for gpu, free in ((0, 9.0), (1, 2.0))
            },
        )
    )[0]

    free = frame.each("gpu_memory_free", "gpu")

    assert {gpu: values[-1] / GIB for gpu, values in free.items()} == {"0": 9.0, "1": 2.0}
    assert frame.gauge("gpu_memory_free")[-1] / GIB == 11.0
    assert of_one_gpu(frame, "gpu_memory_free", min) / GIB == 2.0


def test_a_gpu_of_its_own_is_clear_and_a_healthy_server_stays_so(histories: Histories) -> None:
    recording, onset = histories("throttle-no-queue")
    healthy = recording.window(recording.start, onset - 60)

    report = diagnose(with_neighbour(by_nvml(healthy), lambda t: np.zeros(t.size)))

    assert report.verdict is Verdict.HEALTHY
    assert outcome(report, "noisy-neighbour").status is Status.CLEAR
    assert outcome(report, "gpu-memory-growth").status is Status.CLEAR


def test_gpu_memory_that_grows_is_the_servers_only_where_it_is_not_the_neighbours(
    histories: Histories,
) -> None:
    recording, onset = histories("throttle-no-queue")
    recording = by_nvml(recording.window(recording.start, onset - 60))
    used = found(recording, "nvml:memory_used_bytes")
    growth = 0.5 * GIB * (used.times - used.times[0]) / 3600
    recording = added(recording, {on_gpu("nvml:memory_used_bytes"): Column(used.times, used.values + growth)})

    own = diagnose(recording)
    theirs = diagnose(with_neighbour(recording, lambda _: growth))

    assert own.primary == "gpu-memory-growth"
    assert outcome(theirs, "gpu-memory-growth").status is Status.CLEAR
    assert theirs.primary == "noisy-neighbour"


# --- the CPU ----------------------------------------------------------------------------------


def test_a_starved_step_loop_is_found_with_the_process_that_is_at_its_end(histories: Histories) -> None:
    recording, onset = histories("throttle-no-queue")
    recording = steady_clock(recording)
    busy = found(recording, "nvml:utilization_percent")
    periods = 10.0 * (busy.times - busy.times[0])
    late = np.maximum(0.0, busy.times - onset)
    series = {
        on_gpu("nvml:utilization_percent"): Column(busy.times, np.where(late > 0, 0.5, 1.0) * busy.values),
        "host:cgroup_cpu_periods_total": Column(busy.times, periods),
        "host:cgroup_cpu_throttled_periods_total": Column(busy.times, 4.0 * late),
    }
    for pid, role, cores in (("11", "EngineCore", 0.98), ("12", "Worker_TP0", 1.0), ("10", "APIServer", 0.2)):
        key = canonical_series("host:cpu_seconds_total", {"pid": pid, "role": role})
        series[key] = Column(busy.times, cores * (busy.times - busy.times[0]))

    report = diagnose(added(recording, series))

    assert report.primary == "host-cpu-bound"
    (cpu,) = [
        e for e in outcome(report, "host-cpu-bound").evidence if e.what.startswith("CPU of the busiest")
    ]
    assert (cpu.detail, round(cpu.observed, 2)) == ("EngineCore", 0.98)
    assert "EngineCore uses 0.98 cores" in outcome(report, "host-cpu-bound").summary
