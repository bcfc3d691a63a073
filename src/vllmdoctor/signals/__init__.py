"""One table for every name a metric has had, and the verbs that read it.

Signals are resolved by presence, newest name first: a page describes itself, and forks,
backports and `--show-hidden-metrics-for-version` would make a version test lie.
"""

from vllmdoctor.signals.known import KNOWN_NOT_JUDGED, NEVER_EXISTED
from vllmdoctor.signals.naming import canonical_name, family_name, resolve, unclaimed
from vllmdoctor.signals.nouns import Name, Signal
from vllmdoctor.signals.story import absence, renamed
from vllmdoctor.signals.table import SIGNALS

__all__ = [
    "KNOWN_NOT_JUDGED",
    "NEVER_EXISTED",
    "SIGNALS",
    "Name",
    "Signal",
    "absence",
    "canonical_name",
    "family_name",
    "renamed",
    "resolve",
    "unclaimed",
]
