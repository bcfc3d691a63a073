"""Simulated histories of some hours, from the simulator's file to the verdict: the whole path."""

import math
from dataclasses import replace
from pathlib import Path

import pytest

from vllmdoctor.diagnosis import diagnose
from vllmdoctor.model import Report, Severity, Verdict
from vllmdoctor.simulator import SCENARIOS, Scrape, simulate, write_openmetrics
from vllmdoctor.sources import Window, gather_targets

SEED = 7
AFTER_S = 2 * 3600.0  # this long after its onset a cause must be plain
CALM_S = 5 * 3600.0  # the length of a history without one


def judged(scenario: str, folder: Path) -> tuple[Report, float]:
    """The report on a scenario's history, read back from a file, and its true onset (unix s)."""
    setup = SCENARIOS[scenario].setup(SEED)
    end = CALM_S if setup.onset_s is None else setup.onset_s + AFTER_S
    setup = replace(setup, duration_s=min(end, setup.duration_s), scrape=Scrape(60.0))
    path = folder / f"{scenario}.om.gz"
    write_openmetrics(simulate(setup, seed=SEED), path)
    onset = setup.start_unix_s + (setup.onset_s or 0.0)
    return diagnose(gather_targets([str(path)], Window())), onset


@pytest.mark.parametrize("scenario", ["healthy-steady", "healthy-pauses", "low-load"])
def test_a_server_that_is_well_is_called_so(scenario: str, tmp_path: Path) -> None:
    report, _ = judged(scenario, tmp_path)

    assert (report.verdict, report.primary) == (Verdict.HEALTHY, Verdict.HEALTHY)
    assert all(found.severity is Severity.INFO for found in report.engines[0].findings)


@pytest.mark.parametrize("scrapes", [3, 5, 8])
def test_a_glance_is_not_compared_with_itself(scrapes: int, tmp_path: Path) -> None:
    scrape = Scrape(60.0)
    setup = replace(SCENARIOS["healthy-steady"].setup(SEED), duration_s=60.0 * scrapes, scrape=scrape)
    path = tmp_path / "glance.om"
    write_openmetrics(simulate(setup, seed=SEED), path)
    engine = diagnose(gather_targets([str(path)], Window())).engines[0]

    by = {symptom.name: symptom for symptom in engine.symptoms}
    assert by["ttft"].baseline == "none: it was watched too briefly"
    assert (by["ttft"].slow, by["tail"].slow) == (None, None)
    assert all(math.isnan(symptom.ratio) for symptom in engine.symptoms)
    assert by["ttft"].now > 0


@pytest.mark.parametrize(
    ("scenario", "cause", "kind"),
    [
        ("overload-slots", "overload", "slot-bound"),
        ("fragmentation-sudden-loss", "kv-fragmentation", ""),
        ("throttle-no-queue", "gpu-throttle", ""),
        ("spec-decay", "spec-decode-decay", ""),
        ("stall-gauges-zero", "stall", ""),
    ],
)
def test_a_fault_is_found_with_its_onset_from_a_file_of_its_metrics(
    scenario: str, cause: str, kind: str, tmp_path: Path
) -> None:
    report, onset = judged(scenario, tmp_path)

    assert report.primary == cause
    assert report.kind == kind or not kind
    assert report.onset is not None
    assert abs(report.onset - onset) <= 40 * 60


def test_a_fall_in_demand_is_no_fault(tmp_path: Path) -> None:
    report, onset = judged("demand-drop-sudden", tmp_path)

    assert (report.verdict, report.primary) == (Verdict.HEALTHY, "demand-drop")
    assert report.onset == pytest.approx(onset, abs=20 * 60)
