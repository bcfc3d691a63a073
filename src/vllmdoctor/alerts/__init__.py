"""Prometheus rules for the servers at hand: recordings and an alert for each cause that metrics show.

records   the measures that alerts share
speed, queue, memory, machine, liveness   the alerts, by what they are about
basis     names and limits they are written from
forms     a rules file, a PrometheusRule or a VMRule
"""

from collections.abc import Callable, Iterator

from vllmdoctor.alerts.basis import Basis, limit_of, settings
from vllmdoctor.alerts.liveness import liveness
from vllmdoctor.alerts.machine import machine
from vllmdoctor.alerts.memory import memory
from vllmdoctor.alerts.nouns import Alert, Group, Missing, Record
from vllmdoctor.alerts.queue import caches, queue
from vllmdoctor.alerts.records import records
from vllmdoctor.alerts.speed import speed

__all__ = ["Alert", "Basis", "Group", "Missing", "Record", "groups", "limit_of", "settings"]

_PARTS: tuple[tuple[str, Callable[[Basis], Iterator[Alert]]], ...] = (
    ("speed", speed),
    ("queue", queue),
    ("caches", caches),
    ("memory", memory),
    ("machine", machine),
    ("liveness", liveness),
)


def groups(on: Basis) -> tuple[Group, ...]:
    """All rules, the recordings first."""
    found = [Group("vllmdoctor-recordings", tuple(records(on)))]
    found += [Group(f"vllmdoctor-{name}", tuple(part(on))) for name, part in _PARTS]
    return tuple(found)
