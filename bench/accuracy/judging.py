"""One history judged: a plain row of what was true, what was said, and how soon."""

import math
import time
from dataclasses import dataclass
from pathlib import Path

from bench.accuracy.baseline import DECLINING, thresholds
from bench.accuracy.detection import alert, false_alarms, found, minutes
from bench.accuracy.histories import open_history
from bench.accuracy.truth import KINDS, History, Truth

from vllmdoctor.diagnosis import diagnose
from vllmdoctor.model import Report, Severity, Verdict


@dataclass(frozen=True, slots=True)
class Row:
    """What was true and what was said. Minutes are NaN where there is nothing to measure."""

    history: History
    truth: Truth
    verdict: str
    primary: str
    kind: str
    confidence: float
    false_findings: tuple[str, ...]
    plain: str
    onset_error: float  # reported onset - true onset, min
    effect_error: float  # the same, 0 anywhere between the cause's and the effect's onset
    alerted: float  # runbook's alert after the effect began, min; NaN: it never fires
    found: float  # true cause named after the effect began, min; NaN: never
    looks: int  # hourly ones while nothing was wrong yet
    alarms: tuple[str, ...]  # the false answers to them
    seconds: float  # CPU time of the diagnosis

    @property
    def right(self) -> bool:
        """Whether the primary answer is a true cause."""
        return self.truth.is_right(self.primary, self.kind)

    @property
    def harmful(self) -> bool:
        """Whether the answer would send somebody the wrong way, or calls a fine server sick."""
        sick = self.verdict in (Verdict.SICK, Verdict.UNEXPLAINED)
        return self.primary in self.truth.must_not or (self.truth.well and sick and not self.right)

    @property
    def plain_right(self) -> bool:
        """Whether the plain thresholds name a true cause."""
        return self.truth.is_right(self.plain, "")

    @property
    def plain_harmful(self) -> bool:
        """Whether the plain thresholds would send somebody the wrong way."""
        called_sick = self.truth.well and self.plain == DECLINING and not self.plain_right
        return self.plain in self.truth.must_not or called_sick

    @property
    def kind_right(self) -> bool | None:
        """Whether the kind is right too; None where it does not matter or the cause is wrong."""
        if self.truth.kind not in KINDS or self.primary != "overload":
            return None
        return self.kind == self.truth.kind


def judged(history: History, folder: Path | None, detect: bool) -> Row:
    """Judge one history; `detect` also asks how soon the cause would have been found (slow)."""
    truth, recording = open_history(history, folder)
    begun = time.process_time()
    report = diagnose(recording)
    seconds = time.process_time() - begun
    since = truth.effect if truth.effect is not None else truth.onset
    begun_at = recording.start if truth.onset is None else truth.onset
    looks, alarms = false_alarms(recording, truth) if detect and history.seed else (0, ())
    asked = detect and since is not None and not truth.well
    return Row(
        history=history,
        truth=truth,
        verdict=report.verdict.value,
        primary=report.primary,
        kind=report.kind,
        confidence=report.confidence,
        false_findings=_false(report, truth),
        plain=thresholds(recording),
        onset_error=minutes(report.onset, truth.onset),
        effect_error=_outside(minutes(report.onset, truth.onset), minutes(report.onset, since)),
        alerted=minutes(alert(recording, begun_at), since) if asked else math.nan,
        found=minutes(found(recording, truth, begun_at), since) if asked else math.nan,
        looks=looks,
        alarms=alarms,
        seconds=seconds,
    )


def _false(report: Report, truth: Truth) -> tuple[str, ...]:
    """Serious findings beside the first that are false here; named consequences of another do not count."""
    return tuple(
        dict.fromkeys(
            o.slug
            for engine in report.engines
            for o in engine.findings
            if o.severity > Severity.INFO
            and not o.explained_by
            and o.slug in truth.must_not
            and o.slug != report.primary
        )
    )


def _outside(from_onset: float, from_effect: float) -> float:
    """0 between the two onsets, else the signed distance to the nearer one."""
    if math.isnan(from_onset):
        return math.nan
    return from_onset if from_onset < 0 else max(0.0, from_effect)
