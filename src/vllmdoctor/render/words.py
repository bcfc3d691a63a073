"""The words a diagnosis is told in, and how text from outside is made harmless."""

import math
import unicodedata
from collections.abc import Mapping, Sequence

from vllmdoctor.model import Effort, EngineReport, RemedyVerdict, Report, Role, Severity, Verdict

VERDICTS: Mapping[Verdict, tuple[str, str]] = {
    Verdict.SICK: ("SICK", "the server is slow, and the cause was found"),
    Verdict.AT_RISK: ("AT RISK", "not slow now, but something was found that needs care"),
    Verdict.UNEXPLAINED: ("UNEXPLAINED", "the server is slow, and no rule explains it"),
    Verdict.HEALTHY: ("HEALTHY", "not slow, and no cause of slowness was found"),
    Verdict.BLIND: ("BLIND", "too little was seen to say anything"),
}
# The sixteen colours of the terminal's own theme, so that they fit light and dark ones.
COLORS: Mapping[Verdict, str] = {
    Verdict.SICK: "red",
    Verdict.AT_RISK: "yellow",
    Verdict.UNEXPLAINED: "magenta",
    Verdict.HEALTHY: "green",
    Verdict.BLIND: "blue",
}
SEVERITY_COLORS: Mapping[Severity, str] = {
    Severity.INFO: "cyan",
    Severity.WARNING: "yellow",
    Severity.CRITICAL: "red",
}
ROLES: Mapping[Role, str] = {
    "required": "needed, all of them:",
    "supports": "would support it:",
    "against": "would speak against it:",
    "note": "to know:",
}
EFFORTS: Mapping[Effort, str] = {
    Effort.LIVE: "without a restart",
    Effort.RESTART: "needs a restart",
    Effort.CAPACITY: "needs more hardware",
}
REMEDIES: Mapping[RemedyVerdict, str] = {
    "helps": "",
    "unknown": "may help",
    "moot": "no use",
    "harmful": "harmful",
}
_CONFIDENCE = ((0.9, "very likely"), (0.7, "likely"), (0.5, "possible"), (0.0, "uncertain"))


def confidence(value: float) -> str:
    """A confidence of 0..1 in words and number: "very likely (93 %)"."""
    if math.isnan(value):
        return "uncertain"
    word = next((w for least, w in _CONFIDENCE if value >= least), "uncertain")
    return f"{word} ({round(100 * min(1.0, max(0.0, value)))} %)"


def verdict_words(verdict: Verdict, engines: Sequence[EngineReport]) -> tuple[str, str]:
    """The verdict's name and what it means; sick says "slow" only where slowness was measured."""
    name, meaning = VERDICTS[verdict]
    if verdict is Verdict.SICK and not any(s.slow for e in engines for s in e.symptoms):
        meaning = "a cause of slowness was found"
    if verdict is Verdict.HEALTHY and all(s.slow is None for e in engines for s in e.symptoms):
        meaning = "no cause of slowness was found"
    return name, meaning


def cause_of(judged: Report | EngineReport) -> str:
    """The slug of the primary cause; "" where the verdict's own name stands in its place."""
    return "" if judged.primary in set(Verdict) else judged.primary


def coverage(looked: int, rules: int) -> str:
    """How many of the rules could look: "9 of 11 rules"."""
    return f"{looked} of {rules} rule{'' if rules == 1 else 's'}"


def plural(count: int, noun: str) -> str:
    """ "1 gap", "3 gaps"."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def harmless(text: str) -> str:
    """`text` on one line, without what a terminal would obey: escapes, bidi marks, lone surrogates."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(map(_harmless, text))


def _harmless(char: str) -> str:
    if char in "\t\n\r\v\f\x85\u2028\u2029":
        return " "
    return "\N{REPLACEMENT CHARACTER}" if unicodedata.category(char).startswith("C") else char
