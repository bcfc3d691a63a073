"""The verdict as a table a person can read: slow? x what the rules found."""

import pytest

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
