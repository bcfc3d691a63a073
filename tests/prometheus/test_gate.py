"""A range of a Prometheus as a side of the gate ends as the recording that it was filled from does."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from tests.prometheus.conftest import Filled

from vllmdoctor.cli import main
from vllmdoctor.recording import Recording

CANDIDATE, BASELINE = "kv-thrash", "kv-thrash-fix-blocks"
EITHER = f'pod=~"{CANDIDATE}|{BASELINE}"'


def gate(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, dict[str, Any]]:
    code = main(["gate", *arguments, "-f", "json"])
    said = capsys.readouterr()
    assert said.out, said.err
    return code, json.loads(said.out)


def span(recording: Recording) -> str:
    """The minutes of a recording, as a person writes them."""
    end = datetime.fromtimestamp(recording.end + 5, UTC)
    return f"@{end:%Y-%m-%dT%H:%M:%S}/{round(recording.end - recording.start) + 10}s"


def test_two_ranges_of_a_prometheus_are_judged_as_the_recordings_in_it(
    each: Filled, recordings: dict[str, Recording], capsys: pytest.CaptureFixture[str]
) -> None:
    ranges = [each.target + span(recordings[name]) for name in (CANDIDATE, BASELINE)]
    from_files = gate(capsys, f"example:{CANDIDATE}", "--baseline", f"example:{BASELINE}")

    code, found = gate(capsys, ranges[0], "--baseline", ranges[1], "--match", EITHER)

    assert (code, found["judgement"]) == (1, "regressed") == (from_files[0], from_files[1]["judgement"])
    assert [found[side]["targets"] for side in ("candidate", "baseline")] == [[r] for r in ranges]
    for one, other in zip(found["measures"], from_files[1]["measures"], strict=True):
        assert (one["name"], one["judgement"]) == (other["name"], other["judgement"])
        assert (one["baseline"], one["candidate"]) == pytest.approx(
            (other["baseline"], other["candidate"]), rel=0.05
        )
    assert found["causes"][0]["slug"] == from_files[1]["causes"][0]["slug"]


def test_a_range_becomes_a_baseline_and_one_without_data_is_blind(
    one: Filled, recordings: dict[str, Recording], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    base, usual = tmp_path / "base.rec.gz", ("--match", f'pod="{BASELINE}"')
    target = one.target + span(recordings[BASELINE])

    assert main(["gate", target, *usual, "--update-baseline", str(base)]) == 0
    code, found = gate(capsys, f"example:{CANDIDATE}", "--baseline", str(base))
    assert (code, found["baseline"]["about"]["source"]) == (1, target)

    empty = one.target + "@2020-01-01T00:00/1h"
    assert main(["gate", empty, *usual, "--baseline", str(base)]) == 3
    assert capsys.readouterr().err.startswith(f"vllmdoctor: {empty}: ")
