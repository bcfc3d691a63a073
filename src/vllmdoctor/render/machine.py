"""The report as JSON, for programs; schema "vllmdoctor/report/1".

The object's keys, in this order (later versions of the schema may add keys):

    schema      "vllmdoctor/report/1"
    verdict     "sick", "at-risk", "unexplained", "healthy" or "blind"
    primary     slug of the primary cause, "" if there is none
    kind        its sub-kind, e.g. "kv-bound", or ""
    confidence  0..1
    headline    one sentence
    onset       unix seconds, or null
    worst       severity of the worst finding: "info", "warning", "critical", or null
    target, start, end, scrapes, interval, version, version_origin, compared
    engines     worst first; each with engine, instance, model, version, verdict, headline, primary,
                kind, confidence, onset, and
                  symptoms  name, title, now, before, unit, ratio, limit, op, baseline, slow, ...
                  outcomes  slug, title, status ("found", "clear", "unknown"), severity, confidence,
                            evidence (what, observed, op, limit, unit, role, source, interval,
                            detail, met), reason, onset, share, explained_by, facts, ...
                  trends    signal, title, unit, start, end, points, limit
                  facts     key, value, origin, instance; sorted by key
    plan        steps in order: slug, title, action, verdict ("helps", "moot", "harmful", "unknown"),
                why, effort ("live", "restart", "capacity"), flag, before, after, formula, ...
    notes, events, gaps
    coverage    [rules that could look, rules]

Units are SI: seconds, bytes, ratios 0..1, unix time in UTC. NaN ("not seen") and infinity are null.
The text is ASCII and the same for the same report.
"""

import dataclasses
import json
import math
from collections.abc import Mapping, Sequence
from enum import Enum, StrEnum
from typing import TYPE_CHECKING

from vllmdoctor.model import EngineReport, Evidence, Fact, Report

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

SCHEMA = "vllmdoctor/report/1"
_FIRST = ("verdict", "primary", "kind", "confidence", "headline", "onset")


def render(
    report: Report,
    *,
    width: int = 100,
    color: bool = False,
    verbose: bool = False,
    encoding: str = "utf-8",
) -> str:
    """`report` as indented JSON. All of it is always given; the options are those of every format."""
    rest = [f.name for f in dataclasses.fields(report) if f.name not in _FIRST]
    document = {
        "schema": SCHEMA,
        **{name: plain(getattr(report, name)) for name in _FIRST},
        "worst": plain(report.worst),
        **{name: plain(getattr(report, name)) for name in rest},
    }
    return json.dumps(document, indent=1, allow_nan=False) + "\n"


def plain(value: object) -> object:
    """A noun of a model as JSON has it: dataclasses as objects, NaN and infinity as null."""
    match value:
        case StrEnum():
            return value.value
        case Enum():
            return value.name.lower()
        case None | bool() | str():
            return value
        case float():
            return float(value) if math.isfinite(value) else None
        case int():
            return int(value)
        case Mapping():
            return {str(k): plain(v) for k, v in sorted(value.items())}
        case Sequence():
            return [plain(v) for v in value]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return _record(value)
    raise TypeError(f"a model holds no {type(value).__name__}")


def _record(value: "DataclassInstance") -> dict[str, object]:
    record = {f.name: plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
    match value:
        case Evidence():
            record["met"] = value.met
        case EngineReport():
            record["facts"] = [plain(f) for f in sorted(value.facts, key=_fact_order)]
    return record


def _fact_order(fact: Fact) -> tuple[str, str, str]:
    return fact.key, fact.instance, fact.origin
