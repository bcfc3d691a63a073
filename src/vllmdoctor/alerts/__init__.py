"""Prometheus rules for the servers at hand: recordings, and an alert for each cause that metrics show.

records   the measures that alerts share
speed, queue, caches, memory, machine, liveness, sight   the alerts, by what they are about
nouns     an alert before and after names and limits are filled in
basis     names and limits that they are filled with
forms     a rules file, a PrometheusRule or a VMRule
"""

import re
from collections.abc import Collection

from vllmdoctor.alerts.basis import Basis, limit_of, settings
from vllmdoctor.alerts.caches import CACHES
from vllmdoctor.alerts.liveness import LIVENESS
from vllmdoctor.alerts.machine import MACHINE
from vllmdoctor.alerts.memory import MEMORIES
from vllmdoctor.alerts.nouns import Alert, Form, Group, Missing, Record, Rules
from vllmdoctor.alerts.queue import QUEUE
from vllmdoctor.alerts.records import lacking, records
from vllmdoctor.alerts.sight import SIGHT
from vllmdoctor.alerts.speed import SPEED
from vllmdoctor.promql import NotShown

__all__ = [
    "FORMS",
    "LIMITS",
    "SILENT_CAUSES",
    "Alert",
    "Basis",
    "Form",
    "Group",
    "Missing",
    "Record",
    "Rules",
    "limit_of",
    "of_causes",
    "rules_for",
    "settings",
]

_PARTS = {
    "speed": SPEED,
    "queue": QUEUE,
    "caches": CACHES,
    "memory": MEMORIES,
    "machine": MACHINE,
    "liveness": LIVENESS,
    "sight": SIGHT,
}
FORMS: tuple[Form, ...] = tuple(form for part in _PARTS.values() for form in part)
"""Every alert, before names and limits are filled in."""

LIMITS = tuple(sorted({key for form in FORMS for key in form.limits}))
"""The limits that stand in alerts, as cause.limit."""

SILENT_CAUSES = {
    "client-side": "nothing is wrong with the server; `vllmdoctor diagnose` tells it",
    "demand-drop": "less traffic is no fault of the server: the other alerts are written not to fire on it",
    "low-load": "an idle server is no fault",
    "noisy-neighbour": "who else is on a GPU is in no exporter's metrics: `vllmdoctor diagnose nvml:`",
}
"""Causes for which no alert is written, and why."""
_RECORDED = re.compile(r"\b(?:engine|container|gpu|job):\w+:\w+")


def rules_for(on: Basis) -> Rules:
    """The rules, the recordings first."""
    recorded = tuple(records(on))
    names = {r.name for r in recorded}
    groups, missing = [Group("vllmdoctor-recordings", recorded)], []
    for part, forms in _PARTS.items():
        written: list[Alert] = []
        for form in forms:
            try:
                told = form.write(on)
            except NotShown as error:
                missing.append(Missing(form, (error.signal,)))
                continue
            lost = [name for name in _RECORDED.findall(told.expr) if name not in names]
            if lost:
                signals = [s for name in lost for s in lacking(on.metrics, name)]
                missing.append(Missing(form, tuple(dict.fromkeys(signals))))
            else:
                written.append(Alert(form, told))
        if written:
            groups.append(Group(f"vllmdoctor-{part}", tuple(written)))
    return Rules(tuple(groups), tuple(missing))


def of_causes(rules: Rules, causes: Collection[str]) -> Rules:
    """The alerts of these causes, and the recordings that they read."""
    groups = [
        Group(g.name, tuple(r for r in g.rules if isinstance(r, Alert) and r.form.cause in causes))
        for g in rules.groups
    ]
    needed = {name for g in groups for r in g.rules for name in _RECORDED.findall(r.expr)}
    kept: list[Record] = []
    for record in reversed(rules.records):  # each reads only such as stand before it
        if record.name in needed:
            kept.insert(0, record)
            needed.update(_RECORDED.findall(record.expr))
    found = [Group(rules.groups[0].name, tuple(kept)), *groups]
    return Rules(tuple(g for g in found if g.rules), rules.missing)
