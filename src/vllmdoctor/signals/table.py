"""The one table of signals, and what is looked up in it."""

from collections.abc import Mapping
from types import MappingProxyType

from vllmdoctor.signals.engine import ENGINE_SIGNALS
from vllmdoctor.signals.known import KNOWN_NOT_JUDGED
from vllmdoctor.signals.machine import MACHINE_SIGNALS
from vllmdoctor.signals.nouns import Signal
from vllmdoctor.signals.outside import OUTSIDE_SIGNALS

SIGNALS: Mapping[str, Signal] = MappingProxyType(
    {s.name: s for s in (*ENGINE_SIGNALS, *OUTSIDE_SIGNALS, *MACHINE_SIGNALS)}
)

CLAIMED: frozenset[str] = frozenset(n.text for s in SIGNALS.values() for n in s.names)
NOT_JUDGED: frozenset[str] = frozenset(text for group in KNOWN_NOT_JUDGED.values() for text in group)
FAMILIES: frozenset[str] = CLAIMED | NOT_JUDGED
