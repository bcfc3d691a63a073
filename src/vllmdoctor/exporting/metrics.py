"""The door to prometheus_client: what is published, as a page of metrics."""

import math
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest, make_wsgi_app
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from vllmdoctor import __version__
from vllmdoctor.exporting.families import FAMILIES
from vllmdoctor.exporting.state import State
from vllmdoctor.model import EngineReport, Status, Verdict

if TYPE_CHECKING:
    from wsgiref.types import WSGIApplication


def application(state: Callable[[], State], clock: Callable[[], float]) -> "WSGIApplication":
    """The page over HTTP, in the format that is asked for; with the exporter's own process."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Collector(lambda: _filled(state(), clock())))
    ProcessCollector(registry=registry)
    return make_wsgi_app(registry)


def page(state: State, now: float) -> bytes:
    """The page in the text format, for a file; without the process, which is over when the file is read."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Collector(lambda: _filled(state, now)))
    return generate_latest(registry)


class _Collector(Collector):
    """Makes the page when it is asked for, of what is known then."""

    def __init__(self, filled: Callable[[], Iterable[Metric]]) -> None:
        self._filled = filled

    def collect(self) -> Iterable[Metric]:
        return self._filled()


class _Page:
    """Every family of the table; what is not a number is not said."""

    def __init__(self) -> None:
        self.families: dict[str, GaugeMetricFamily | CounterMetricFamily] = {}
        for one in FAMILIES:
            make = CounterMetricFamily if one.kind == "counter" else GaugeMetricFamily
            self.families[one.name] = make(one.name, one.told, labels=one.labels)

    def say(self, name: str, value: float | None, *labels: str) -> None:
        if value is not None and not math.isnan(value):
            self.families[f"vllmdoctor_{name}"].add_metric(labels, float(value))


def _filled(state: State, now: float) -> Iterable[Metric]:
    page = _Page()
    for answer in state.answers if now <= state.holds_until else ():
        _answer(page, answer)
    for target in state.targets:
        page.say("up", target.up, target.name)
        page.say("target_last_success_timestamp_seconds", target.last_success, target.name)
        page.say("scrapes_total", target.scrapes, target.name)
        page.say("scrape_failures_total", target.failures, target.name)
    for kind, count in state.errors.items():
        page.say("errors_total", count, kind)
    page.say("diagnoses_total", state.diagnoses)
    page.say("diagnosis_last_success_timestamp_seconds", state.last_success)
    page.say("diagnosis_last_duration_seconds", state.last_diagnosis_s)
    page.say("diagnosis_duration_seconds_total", state.diagnosis_s)
    page.say("engines_dropped_total", state.engines_dropped)
    page.say("history_series", state.series)
    page.say("history_samples", state.samples)
    page.say("history_series_dropped", state.series_dropped)
    page.say("build_info", 1, __version__)
    return page.families.values()


def _answer(page: _Page, answer: EngineReport) -> None:
    own = (answer.instance, answer.engine, answer.model)
    for verdict in Verdict:
        page.say("verdict", answer.verdict is verdict, *own, verdict.value)
    page.say("verdict_confidence_ratio", answer.confidence, *own)
    for outcome in answer.outcomes:
        for status in Status:
            page.say("rule_status", outcome.status is status, *own, outcome.slug, status.value)
    for outcome in answer.findings:
        page.say("finding", 1, *own, outcome.slug, outcome.kind, outcome.severity.name.lower())
        page.say("finding_confidence_ratio", outcome.confidence, *own, outcome.slug)
        page.say("finding_primary", outcome.slug == answer.primary, *own, outcome.slug)
        page.say("finding_onset_timestamp_seconds", outcome.onset, *own, outcome.slug)
    for symptom in answer.symptoms:
        page.say("symptom_slow", symptom.slow, *own, symptom.name)
        page.say("symptom_ratio", symptom.ratio if math.isfinite(symptom.ratio) else None, *own, symptom.name)
    page.say("rules_looked", sum(o.status is not Status.UNKNOWN for o in answer.outcomes), *own)
    page.say("rules", len(answer.outcomes), *own)
