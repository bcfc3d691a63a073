"""Recording -> report: frame, compare, judge, rank, plan. A pure function: no clock, no network.

Read `diagnose` aloud: it frames each engine, asks whether it is slow, lets every rule judge it,
tells primary causes from consequences, and makes one plan.
"""

import math
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from vllmdoctor.case import Case, Fleet
from vllmdoctor.engines import frames
from vllmdoctor.errors import NotEnoughData
from vllmdoctor.facts import VersionFound, engine_facts, server_version
from vllmdoctor.frame import Frame, after
from vllmdoctor.model import (
    EngineReport,
    Gap,
    Outcome,
    Report,
    Severity,
    Status,
    Trend,
    Verdict,
)
from vllmdoctor.prescribe import plan_for
from vllmdoctor.recording import Recording
from vllmdoctor.rules import Rule, all_rules, judge
from vllmdoctor.signals import SIGNALS, absence, renamed
from vllmdoctor.statistics import FloatArray
from vllmdoctor.symptoms import is_slow, symptoms
from vllmdoctor.vitals import Vitals
from vllmdoctor.windows import signs, windows

TREND_POINTS = 60
FEWEST_SCRAPES = 6  # a clean bill needs more than a glance
LOG_LACKS = "a server's log does not tell it; its metrics do (http://HOST:PORT, or a saved /metrics page)"
FEWEST_LINES = 2  # of a log, each of which sums up the time since the one before
# of two findings as severe, the one that names a mechanism says more than the one that names its effect
GENERAL = ("overload", "prefill-bound", "head-of-line-blocking", "memory-leak", "gpu-memory-growth")
SETTINGS_TELL = ("context-exceeds-pool", "kv-fragmentation")
WELL = ("demand-drop", "client-side")


def diagnose(
    recording: Recording,
    *,
    target: str = "",
    rules: Sequence[Rule] | None = None,
    baseline: Recording | None = None,
    baseline_name: str = "",
    vllm_version: str = "",
) -> Report:
    """Judge a recording. Raises NotEnoughData when it holds no vLLM series with two scrapes."""
    # NaN and Inf are answers here, not accidents
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "All-NaN|Mean of empty|Degrees of freedom", RuntimeWarning)
        return _diagnose(recording, target, rules, baseline, baseline_name, vllm_version)


def _diagnose(
    recording: Recording,
    target: str,
    rules: Sequence[Rule] | None,
    baseline: Recording | None,
    baseline_name: str,
    vllm_version: str,
) -> Report:
    framed = frames(recording)
    if not framed:
        raise NotEnoughData("no vLLM metrics to judge", hint="point vllmdoctor at a vLLM server's /metrics")
    if max(f.end - f.start for f in framed) <= 0:
        raise NotEnoughData(
            "one scrape only: rates need at least two",
            hint="watch for a minute (--for 60s), or record one: vllmdoctor record TARGET -o FILE --for 60s",
        )
    chosen = tuple(all_rules() if rules is None else rules)
    if baseline is not None:
        framed = _with_baseline(framed, frames(baseline))
    everyone = tuple(Vitals(f) for f in framed)
    fleet = Fleet(framed, everyone)
    versions = [server_version(recording, f, vllm_version) for f in framed]
    reports = []
    cases = []
    for vitals, version in zip(everyone, versions, strict=True):
        case = _case(recording, vitals, fleet, version, baseline_name)
        outcomes = _rank(chosen, [judge(r, case) for r in chosen])
        reports.append(_engine_report(case, outcomes, version))
        cases.append(case)
    order = sorted(range(len(reports)), key=lambda i: _badness(reports[i]), reverse=True)
    reports = [reports[i] for i in order]
    worst, worst_case, version = reports[0], cases[order[0]], versions[order[0]]
    treatments = {r.slug: r for r in chosen}
    plan = plan_for(worst.findings, worst_case, version, lambda o: treatments[o.slug].treatment(o.kind))
    if worst.verdict is Verdict.BLIND:
        # who could not look does not advise to leave things as they are
        plan = tuple(each for each in plan if each.slug != "no-action")
    looked = {o.slug for r in reports for o in r.outcomes if o.status is not Status.UNKNOWN}
    return Report(
        target=target,
        start=recording.start,
        end=recording.end,
        scrapes=recording.scrapes,
        interval=recording.interval,
        version=version.words,
        version_origin=version.origin,
        verdict=worst.verdict,
        headline=worst.headline,
        primary=worst.primary,
        kind=worst.kind,
        confidence=worst.confidence,
        onset=worst.onset,
        compared=worst_case.windows.baseline,
        engines=tuple(reports),
        plan=plan,
        notes=tuple(_notes(framed, versions)),
        events=recording.events,
        gaps=recording.gaps + tuple(_blind_spots(worst_case.frame, version, chosen)),
        coverage=(len(looked), len(chosen)),
    )


def _with_baseline(framed: tuple[Frame, ...], before: tuple[Frame, ...]) -> tuple[Frame, ...]:
    """Each frame with the baseline's history of the same engine, or of its first one, before it."""
    if not before:
        raise NotEnoughData("the baseline holds no vLLM metrics")
    by = {(f.model, f.engine): f for f in before}
    return tuple(after(f, by.get((f.model, f.engine), before[0])) for f in framed)


def _case(recording: Recording, vitals: Vitals, fleet: Fleet, version: VersionFound, baseline: str) -> Case:
    found = signs(vitals)
    compared = windows(vitals, found, baseline)
    return Case(
        vitals=vitals,
        windows=compared,
        symptoms=symptoms(vitals, found, compared),
        facts=engine_facts(recording, vitals, version),
        events=recording.events,
        fleet=fleet,
    )


def _rank(rules: Iterable[Rule], outcomes: list[Outcome]) -> tuple[Outcome, ...]:
    """Primary causes first, then consequences, then what is unknown, then what is clear."""
    explains = {r.slug: r.explains for r in rules}
    found = [o for o in outcomes if o.status is Status.FOUND]
    by: dict[str, str] = {}
    for cause in sorted((o for o in found if o.severity > Severity.INFO), key=lambda o: -o.severity):
        for slug in explains[cause.slug]:
            if cause.slug not in by:
                by.setdefault(slug, cause.slug)
    outcomes = [
        replace(o, explained_by=by[o.slug]) if o.status is Status.FOUND and o.slug in by else o
        for o in outcomes
    ]
    standing = {Status.FOUND: 0, Status.UNKNOWN: 1, Status.CLEAR: 2}
    return tuple(
        sorted(
            outcomes,
            key=lambda o: (
                standing[o.status],
                bool(o.explained_by),
                -o.severity,
                GENERAL.index(o.slug) + 1 if o.slug in GENERAL else 0,
                -o.confidence,
                o.slug,
            ),
        )
    )


def verdict_of(slow: bool | None, outcomes: Iterable[Outcome], blind: bool) -> Verdict:
    """The verdict from the symptoms and the findings; a readable table stands in the tests."""
    serious = any(o.status is Status.FOUND and o.severity > Severity.INFO for o in outcomes)
    if serious:
        return Verdict.SICK if slow else Verdict.AT_RISK
    if slow:
        return Verdict.UNEXPLAINED
    return Verdict.BLIND if blind else Verdict.HEALTHY


def _engine_report(case: Case, outcomes: tuple[Outcome, ...], version: VersionFound) -> EngineReport:
    frame = case.frame
    slow = True if any(o.felt for o in outcomes) else is_slow(case.symptoms)
    well = next((o for o in outcomes if o.status is Status.FOUND and o.slug in WELL), None)
    blind = _blind(case)
    verdict = verdict_of(slow if well is None else False, outcomes, blind)
    first = next((o for o in outcomes if o.status is Status.FOUND and o.severity > Severity.INFO), None)
    primary, kind, confidence, onset = verdict.value, "", _clean_confidence(case, outcomes), None
    if first is not None:
        primary, kind, confidence = first.slug, first.kind, first.confidence
        onset = first.onset if first.onset is not None else case.windows.onset
    elif well is not None and verdict is Verdict.HEALTHY:
        primary, confidence, onset = well.slug, well.confidence, well.onset
    elif verdict is Verdict.BLIND and (told := next((o for o in outcomes if _by_settings(o)), None)):
        primary, kind, confidence, well = told.slug, told.kind, told.confidence, told
    elif verdict is Verdict.UNEXPLAINED:
        onset, confidence = case.windows.onset, 0.6
    return EngineReport(
        engine=frame.engine,
        instance=frame.instance,
        model=frame.model,
        version=version.words,
        verdict=verdict,
        headline=_headline(verdict, first or well, case),
        primary=primary,
        kind=kind,
        confidence=confidence,
        onset=onset,
        symptoms=case.symptoms,
        outcomes=outcomes,
        trends=tuple(_trends(case.vitals)),
        facts=tuple(case.facts.values()),
    )


def _by_settings(outcome: Outcome) -> bool:
    """Whether it was found from the server's settings, which tell it also where nothing else was seen."""
    return outcome.status is Status.FOUND and outcome.slug in SETTINGS_TELL


def _blind(case: Case) -> bool:
    """Whether too little was seen for a clean bill: no load, no progress, or too few scrapes."""
    v = case.vitals
    load = np.isfinite(v.running).any()
    progress = np.isfinite(v.generation).any() or np.isfinite(v.finished).any()
    return not (load and progress) or _short(case)


def _short(case: Case) -> bool:
    """Whether too few scrapes were seen for a clean bill."""
    fewest = FEWEST_LINES + 1 if case.frame.from_log else FEWEST_SCRAPES
    return _scrapes(case) < fewest


def _scrapes(case: Case) -> float:
    return (case.frame.end - case.frame.start) / case.frame.interval + 1


def _clean_confidence(case: Case, outcomes: Sequence[Outcome]) -> float:
    """How sure a clean bill is: the share of the rules that could look; half of it without a comparison."""
    looked = sum(o.status is not Status.UNKNOWN for o in outcomes) / max(1, len(outcomes))
    sure = 0.5 + 0.45 * looked * float(np.mean(case.vitals.seen))
    return math.floor(100 * (sure if is_slow(case.symptoms) is not None else min(0.5, sure))) / 100


def _headline(verdict: Verdict, cause: Outcome | None, case: Case) -> str:
    slow = [s for s in case.symptoms if s.slow]
    if cause is not None:
        told = cause.summary or cause.title
        return told[0].upper() + told[1:]
    if verdict is Verdict.UNEXPLAINED and all(s.absolute for s in slow):
        return "It is slow by any measure, and no rule explains it: " + "; ".join(s.title for s in slow)
    if verdict is Verdict.UNEXPLAINED:
        return "It is slower at equal load, and no rule explains it: " + "; ".join(s.title for s in slow)
    if verdict is Verdict.BLIND and _short(case) and not case.frame.from_log:
        seen = max(1, round(_scrapes(case)))
        return (
            f"Too little was seen to judge this server: {seen} scrape{'s'[: seen != 1]}, "
            f"and nothing stands out; a clean bill takes {FEWEST_SCRAPES}"
        )
    if verdict is Verdict.BLIND:
        return "Too little was seen to judge this server"
    if not case.vitals.active.any():
        return "It had no work in all this time, so its speed cannot be told; nothing stands out"
    if is_slow(case.symptoms) is None:
        return "Nothing stands out; whether it was faster before cannot be told from this"
    return "No decline at equal load, and no cause of one found"


def _badness(report: EngineReport) -> tuple[int, int, float]:
    order = {
        Verdict.SICK: 4,
        Verdict.UNEXPLAINED: 3,
        Verdict.AT_RISK: 2,
        Verdict.BLIND: 1,
        Verdict.HEALTHY: 0,
    }
    return (
        order[report.verdict],
        max((o.severity for o in report.findings), default=0),
        report.confidence,
    )


def _trends(vitals: Vitals) -> Iterable[Trend]:
    frame = vitals.frame
    for signal, title, unit, values, limit in (
        ("generation_tokens", "throughput", "tokens/s", vitals.generation, None),
        ("arrivals", "demand", "requests/s", vitals.arrivals, None),
        ("kv_cache_usage", "KV usage", "ratio", vitals.usage, 0.95),
        ("requests_waiting", "waiting", "requests", vitals.waiting, None),
    ):
        if np.isfinite(values).any():
            shown = slice(0 if frame.seam is None else int((frame.seam - frame.start) / frame.step) + 1, None)
            start = frame.start + (shown.start or 0) * frame.step
            yield Trend(signal, title, unit, start, frame.end, _points(values[shown]), limit)


def _points(values: FloatArray) -> tuple[float, ...]:
    """At most TREND_POINTS means of equally long pieces."""
    pieces = np.array_split(values, min(TREND_POINTS, values.size))
    return tuple(float(np.nanmean(p)) if np.isfinite(p).any() else math.nan for p in pieces)


def _notes(framed: Sequence[Frame], versions: Sequence[VersionFound]) -> Iterable[str]:
    told: dict[str, None] = {}
    for frame, version in zip(framed, versions, strict=True):
        for line in renamed(frame.families.keys(), version.release):
            told.setdefault(line)
    return told


def _blind_spots(frame: Frame, version: VersionFound, rules: Sequence[Rule]) -> Iterable[Gap]:
    """What no rule could look at, one gap for each reason."""
    by_reason: dict[str, tuple[dict[str, None], dict[str, None]]] = {}
    for rule in rules:
        for needed in rule.signals:
            names = (needed,) if isinstance(needed, str) else needed
            if not any(frame.has(n) for n in names):
                of_vllm = SIGNALS[names[0]].names[0].era in ("V0", "V1", "process")
                why = LOG_LACKS if frame.from_log and of_vllm else absence(names[0], version.release)
                signals, slugs = by_reason.setdefault(why, ({}, {}))
                signals[names[0].replace("_", " ")] = None
                slugs[rule.slug] = None
    for why, (signals, slugs) in by_reason.items():
        yield Gap(frame.instance, ", ".join(signals), f"{why}; so no word on {', '.join(slugs)}")
