"""The table of every metric that is exported: its name, its labels, and what it says.

Three answers are three series: `vllmdoctor_rule_status` has one for found, clear and unknown, and just
one of them is 1. What does not hold any more has no series at all.
"""

from dataclasses import dataclass
from typing import Literal

ENGINE = ("instance", "engine", "model_name")
"""The labels that name an engine, as vLLM's own metrics and a scrape of them have them."""


@dataclass(frozen=True, slots=True)
class Family:
    """One metric; `name` is as it is exposed."""

    name: str
    kind: Literal["gauge", "counter"]
    labels: tuple[str, ...]
    told: str


def _of(name: str, told: str, *labels: str) -> Family:
    kind: Literal["gauge", "counter"] = "counter" if name.endswith("_total") else "gauge"
    return Family(f"vllmdoctor_{name}", kind, labels, told)


FAMILIES = (
    _of(
        "verdict",
        "What is said of an engine: 1 for the verdict that holds, 0 for others.",
        *ENGINE,
        "verdict",
    ),
    _of("verdict_confidence_ratio", "How sure the verdict is, 0 to 1.", *ENGINE),
    _of(
        "finding",
        "1 for each cause that was found; absent where none was.",
        *(*ENGINE, "cause", "kind", "severity"),
    ),
    _of("finding_confidence_ratio", "How sure a finding is, 0 to 1.", *ENGINE, "cause"),
    _of("finding_primary", "1 for the cause that explains most, 0 for other findings.", *ENGINE, "cause"),
    _of(
        "finding_onset_timestamp_seconds",
        "When what was found began, unix time in seconds; absent where that cannot be told.",
        *(*ENGINE, "cause"),
    ),
    _of(
        "rule_status",
        "The answer of a rule: 1 for found, clear or unknown (it could not look), 0 for the other two.",
        *(*ENGINE, "cause", "status"),
    ),
    _of(
        "symptom_slow",
        "1 where it is slow, 0 where not; absent where that cannot be told.",
        *ENGINE,
        "symptom",
    ),
    _of("symptom_ratio", "Now as a ratio of before; absent where either was not seen.", *ENGINE, "symptom"),
    _of("rules_looked", "Rules that could look: all but those that are unknown.", *ENGINE),
    _of("rules", "Rules that there are.", *ENGINE),
    _of("up", "Whether the last reading of a target worked; absent before the first.", "target"),
    _of(
        "target_last_success_timestamp_seconds",
        "When a target was last read, unix time in seconds; absent before the first time.",
        "target",
    ),
    _of("scrapes_total", "Readings of a target, failed ones as well.", "target"),
    _of("scrape_failures_total", "Readings of a target that failed.", "target"),
    _of("diagnoses_total", "Diagnoses, failed ones as well."),
    _of(
        "diagnosis_last_success_timestamp_seconds",
        "When a diagnosis last worked, unix time in seconds; absent before the first time.",
    ),
    _of("diagnosis_last_duration_seconds", "How long the last diagnosis took, in seconds."),
    _of("diagnosis_duration_seconds_total", "The time of all diagnoses together, in seconds."),
    _of("errors_total", "What went wrong, by kind; it is tried again with the schedule.", "kind"),
    _of("engines_dropped_total", "Answers for engines beyond those that are shown; 0 is right."),
    _of("history_series", "Series in the history that is kept in memory."),
    _of("history_samples", "Numbers in the history that is kept in memory, of 8 bytes each."),
    _of("history_series_dropped", "Series of the last scrapes beyond those that are kept; 0 is right."),
    _of("build_info", "The version of vllmdoctor; always 1.", "version"),
)
