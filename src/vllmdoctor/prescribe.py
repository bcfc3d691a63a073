"""From a case to the figures that remedies compute with."""

from collections.abc import Callable, Sequence

from vllmdoctor.case import Case
from vllmdoctor.facts import VersionFound
from vllmdoctor.model import Outcome, Step


def plan_for(
    findings: Sequence[Outcome],
    case: Case,
    version: VersionFound,
    remedies_of: Callable[[Outcome], tuple[str, ...]],
) -> tuple[Step, ...]:
    """The plan for the findings of one engine."""
    return ()
