"""The door to prometheus_client: what is published, as a page of metrics.

Three answers are three series: `vllmdoctor_rule_status` has one for found, clear and unknown, and just
one of them is 1. What does not hold any more has no series at all.
"""

import math
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest, make_wsgi_app
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from vllmdoctor import __version__
from vllmdoctor.exporting.state import State
from vllmdoctor.model import EngineReport, Status, Verdict

if TYPE_CHECKING:
    from wsgiref.types import WSGIApplication

ENGINE = ("instance", "engine", "model_name")
"""The labels that name an engine, as vLLM's own metrics and a scrape of them have them."""


def application(state: Callable[[], State], clock: Callable[[], float]) -> "WSGIApplication":
    """The page over HTTP, in the format that is asked for; with the exporter's own process."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Collector(state, clock))
    ProcessCollector(registry=registry)
    return make_wsgi_app(registry)


def page(state: State, now: float) -> bytes:
    """The page in the text format, for a file; without the process, which is over when the file is read."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Collector(lambda: state, lambda: now))
    return generate_latest(registry)


class _Collector(Collector):
    """Makes families of what is known when it is asked."""

    def __init__(self, state: Callable[[], State], clock: Callable[[], float]) -> None:
        self._state, self._clock = state, clock

    def collect(self) -> Iterable[Metric]:
        state = self._state()
        holds = self._clock() <= state.holds_until
        yield from _of_engines(state.answers if holds else ())
        yield from _of_targets(state)
        yield from _of_itself(state)


def _of_engines(answers: Iterable[EngineReport]) -> Iterator[Metric]:
    verdict = _gauge(
        "verdict", "What is said of an engine: 1 for the verdict that holds.", *ENGINE, "verdict"
    )
    sure = _gauge("verdict_confidence_ratio", "How sure the verdict is, 0 to 1.", *ENGINE)
    found = ("cause", "kind", "severity")
    finding = _gauge("finding", "1 for each cause that was found; absent where none was.", *ENGINE, *found)
    likely = _gauge("finding_confidence_ratio", "How sure a finding is, 0 to 1.", *ENGINE, "cause")
    onset = _gauge(
        "finding_onset_timestamp_seconds",
        "When what was found began, unix time in seconds.",
        *ENGINE,
        "cause",
    )
    primary = _gauge(
        "finding_primary", "1 for the cause that explains most, 0 for the others.", *ENGINE, "cause"
    )
    status = _gauge(
        "rule_status",
        "The answer of each rule: 1 for found, clear or unknown (could not look), 0 for the other two.",
        *ENGINE,
        "cause",
        "status",
    )
    slow = _gauge(
        "symptom_slow", "Whether it is slow: 1 or 0; absent where that cannot be told.", *ENGINE, "symptom"
    )
    ratio = _gauge(
        "symptom_ratio",
        "A symptom now as a ratio of before; absent where either was not seen.",
        *ENGINE,
        "symptom",
    )
    looked = _gauge("rules_looked", "How many rules could look: all but those that are unknown.", *ENGINE)
    rules = _gauge("rules", "How many rules there are.", *ENGINE)
    for answer in answers:
        own = [answer.instance, answer.engine, answer.model]
        for each in Verdict:
            verdict.add_metric([*own, each.value], answer.verdict is each)
        sure.add_metric(own, answer.confidence)
        for outcome in answer.outcomes:
            for one in Status:
                status.add_metric([*own, outcome.slug, one.value], outcome.status is one)
        for outcome in answer.findings:
            severity = outcome.severity.name.lower()
            finding.add_metric([*own, outcome.slug, outcome.kind, severity], 1)
            likely.add_metric([*own, outcome.slug], outcome.confidence)
            primary.add_metric([*own, outcome.slug], outcome.slug == answer.primary)
            if outcome.onset is not None:
                onset.add_metric([*own, outcome.slug], outcome.onset)
        for symptom in answer.symptoms:
            if symptom.slow is not None:
                slow.add_metric([*own, symptom.name], symptom.slow)
            if math.isfinite(symptom.ratio):
                ratio.add_metric([*own, symptom.name], symptom.ratio)
        looked.add_metric(own, sum(o.status is not Status.UNKNOWN for o in answer.outcomes))
        rules.add_metric(own, len(answer.outcomes))
    yield from (verdict, sure, finding, likely, primary, onset, status, slow, ratio, looked, rules)


def _of_targets(state: State) -> Iterator[Metric]:
    up = _gauge("up", "Whether the last reading of a target worked; absent before the first.", "target")
    last = _gauge(
        "target_last_success_timestamp_seconds",
        "When a target was last read, unix time in seconds; absent before the first time.",
        "target",
    )
    scrapes = _counter("scrapes", "Readings of a target, failed ones as well.", "target")
    failures = _counter("scrape_failures", "Readings of a target that failed.", "target")
    for target in state.targets:
        if target.up is not None:
            up.add_metric([target.name], target.up)
        if not math.isnan(target.last_success):
            last.add_metric([target.name], target.last_success)
        scrapes.add_metric([target.name], target.scrapes)
        failures.add_metric([target.name], target.failures)
    yield from (up, last, scrapes, failures)


def _of_itself(state: State) -> Iterator[Metric]:
    build = _gauge("build_info", "The version of vllmdoctor; always 1.", "version")
    build.add_metric([__version__], 1)
    yield build
    errors = _counter("errors", "What went wrong, by kind; it is tried again with the schedule.", "kind")
    for kind, count in state.errors.items():
        errors.add_metric([kind], count)
    yield errors
    for name, told, value in (
        (
            "diagnosis_last_success_timestamp_seconds",
            "When a diagnosis last worked, unix time in seconds.",
            state.last_success,
        ),
        (
            "diagnosis_last_duration_seconds",
            "How long the last diagnosis took, in seconds.",
            state.last_diagnosis_s,
        ),
        ("history_series", "Series in the history that is kept in memory.", state.series),
        ("history_samples", "Numbers in the history that is kept in memory, 8 bytes each.", state.samples),
        (
            "history_series_dropped",
            "Series of the last scrapes beyond what is kept; 0 is right.",
            state.series_dropped,
        ),
    ):
        gauge = _gauge(name, told)
        if not math.isnan(value):
            gauge.add_metric([], value)
        yield gauge
    for name, told, amount in (
        ("diagnoses", "Diagnoses, failed ones as well.", state.diagnoses),
        ("diagnosis_duration_seconds", "The time of all diagnoses together, in seconds.", state.diagnosis_s),
        (
            "engines_dropped",
            "Answers for engines beyond those that are shown; 0 is right.",
            state.engines_dropped,
        ),
    ):
        counter = _counter(name, told)
        counter.add_metric([], amount)
        yield counter


def _gauge(name: str, told: str, *labels: str) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"vllmdoctor_{name}", told, labels=labels)


def _counter(name: str, told: str, *labels: str) -> CounterMetricFamily:
    return CounterMetricFamily(f"vllmdoctor_{name}", told, labels=labels)
