"""A new cause needs one module, one runbook page and its traces: nothing else is touched."""

import math
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from vllmdoctor import runbook
from vllmdoctor.diagnosis import diagnose
from vllmdoctor.errors import UsageError
from vllmdoctor.model import Severity, Status, Verdict
from vllmdoctor.recording import Column, Recording
from vllmdoctor.render import render
from vllmdoctor.rules import all_rules, load
from vllmdoctor.sources import Window, gather_targets

MODULE = '''
"""Requests end with broken numbers in their logits."""

from collections.abc import Iterator

import numpy as np

from vllmdoctor.case import Case, Kind, Limit, Onset
from vllmdoctor.model import Severity
from vllmdoctor.rules import Yielded, rule


@rule(
    summary="requests end with broken numbers (NaN in their logits)",
    severity=Severity.CRITICAL,
    signals=("corrupted_requests",),
    limits={"share": Limit(0.01, "ratio", "one in a hundred is no cosmic ray", "test")},
    remedies={"": ("collect-evidence-then-restart",)},
)
def corrupted_requests(case: Case) -> Iterator[Yielded]:
    broken = case.frame.rate("corrupted_requests")
    share = case.now(broken) / case.now(case.vitals.finished)
    yield case.require("broken requests / finished requests", share, ">=", case.limits["share"])
    hurt = np.flatnonzero(np.nan_to_num(broken) > 0)
    if hurt.size:
        yield Onset(float(case.frame.times[hurt[0]]))
    yield Kind("", f"{share:.0%} of the requests end with broken numbers")
'''
PAGE = (
    Path(__file__).parents[1] / "runbooks" / "stall.md"
)  # a page of the house: the headings are checked elsewhere


@pytest.fixture
def rules_folder(tmp_path: Path) -> Path:
    folder = tmp_path / "rules"
    folder.mkdir()
    (folder / "corrupted_requests.py").write_text(MODULE, encoding="utf-8")
    return folder


@pytest.fixture
def page_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "runbooks"
    shutil.copytree(PAGE.parent, folder)
    text = PAGE.read_text(encoding="utf-8").split("\n", 1)[1]
    (folder / "corrupted-requests.md").write_text(
        "# corrupted-requests: answers are broken\n" + text, encoding="utf-8"
    )
    monkeypatch.setattr(runbook, "_FOLDERS", (folder,))
    runbook.folder.cache_clear()
    return folder


@pytest.fixture(autouse=True)
def pages_again() -> object:
    yield
    runbook.folder.cache_clear()


def trace(broken_share: float) -> Recording:
    """A healthy real recording in whose second half a share of the requests is counted as broken."""
    recording = gather_targets(["example:healthy"], Window())
    ((instance, columns),) = recording.columns.items()
    done = next(c for s, c in columns.items() if s.startswith("vllm:e2e_request_latency_seconds_count"))
    middle = done.times[done.times.size // 2]
    since = np.maximum(done.values - np.interp(middle, done.times, done.values), 0.0)
    broken = Column(done.times, np.floor(broken_share * since))
    label = next(s for s in columns if s.startswith("vllm:num_requests_running")).partition("{")[2]
    added = {**columns, "vllm:corrupted_requests_total{" + label: broken}
    return replace(recording, columns={instance: added})


def test_a_rule_from_a_folder_finds_its_cause_beside_all_others(rules_folder: Path) -> None:
    report = diagnose(trace(0.3), rules=(*all_rules(), *load(rules_folder)))

    assert report.verdict is not Verdict.HEALTHY
    assert report.primary == "corrupted-requests"
    found = report.engines[0].findings[0]
    assert found.severity is Severity.CRITICAL
    assert found.summary.endswith("% of the requests end with broken numbers")
    assert report.onset is not None
    assert report.start < report.onset < report.end
    assert report.coverage[1] == len(all_rules()) + 1


def test_its_finding_is_rendered_and_treated_like_any_other(rules_folder: Path) -> None:
    report = diagnose(trace(0.3), rules=(*all_rules(), *load(rules_folder)))

    assert "corrupted-requests" in render(report, "text", width=100, color=False, verbose=False)
    assert report.plan[0].slug == "collect-evidence-then-restart"


def test_it_is_clear_on_a_healthy_trace_and_cannot_tell_without_its_signal(rules_folder: Path) -> None:
    (ours,) = load(rules_folder)

    def outcome(recording: Recording) -> Status:
        return diagnose(recording, rules=(ours,)).engines[0].outcomes[0].status

    assert outcome(trace(0.0)) is Status.CLEAR
    assert outcome(gather_targets(["example:healthy"], Window())) is Status.UNKNOWN


def test_without_the_folder_nobody_knows_the_cause(rules_folder: Path) -> None:
    assert "corrupted-requests" not in {o.slug for o in diagnose(trace(0.3)).engines[0].outcomes}


def test_its_runbook_page_is_found_by_its_slug(page_folder: Path) -> None:
    assert "corrupted-requests" in runbook.slugs()
    assert runbook.title("corrupted-requests") == "answers are broken"
    assert runbook.section("corrupted-requests", "Confirm it")


def test_a_module_that_defines_no_rule_of_its_name_is_refused(tmp_path: Path) -> None:
    (tmp_path / "something.py").write_text("else_ = 1\n", encoding="utf-8")

    with pytest.raises(UsageError, match="does not define a rule named something"):
        load(tmp_path)


def test_the_trace_differs_from_the_healthy_one_in_the_new_counter_alone() -> None:
    healthy, broken = gather_targets(["example:healthy"], Window()), trace(0.3)
    ((_, before),) = healthy.columns.items()
    ((_, after),) = broken.columns.items()

    (added,) = set(after) - set(before)
    assert added.startswith("vllm:corrupted_requests_total")
    assert math.isclose(after[added].values[0], 0.0)
