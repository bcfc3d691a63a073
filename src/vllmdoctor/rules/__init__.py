"""Rules: one cause a module, found by name. A rule yields evidence; the engine here decides.

A module `rules/kv_fragmentation.py` defines the function `kv_fragmentation`, decorated with
`@rule(...)`; its slug is `kv-fragmentation`. Nothing is registered anywhere else.
"""

import importlib
import importlib.util
import math
import pkgutil
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from vllmdoctor.case import CannotTell, Case, Felt, Kind, Limit, Onset
from vllmdoctor.errors import UnknownName, UsageError
from vllmdoctor.model import Evidence, Outcome, Severity, Status

Yielded = Evidence | Kind | Onset | Severity | Felt | CannotTell
Judge = Callable[[Case], Iterator[Yielded]]


@dataclass(frozen=True, slots=True)
class Rule:
    """One cause: what it needs to see, its limits, and what treats it.

    `signals` must have been exposed or the rule cannot tell; any one of a tuple inside suffices.
    `remedies` maps a kind ("" for any) to remedy slugs, best first. `explains` names causes that
    are consequences when this one is found.
    """

    slug: str
    summary: str
    severity: Severity
    signals: tuple[str | tuple[str, ...], ...]
    helpful: tuple[str, ...]
    limits: Mapping[str, Limit]
    remedies: Mapping[str, tuple[str, ...]]
    explains: tuple[str, ...]
    judge: Judge

    def treatment(self, kind: str) -> tuple[str, ...]:
        """The remedies for a kind of this cause, best first."""
        return self.remedies.get(kind) or self.remedies.get("", ())


def rule(
    *,
    summary: str,
    severity: Severity,
    signals: tuple[str | tuple[str, ...], ...],
    helpful: tuple[str, ...] = (),
    limits: Mapping[str, Limit],
    remedies: Mapping[str, tuple[str, ...]],
    explains: tuple[str, ...] = (),
) -> Callable[[Judge], Rule]:
    """Make a rule of a function that yields evidence; its name becomes the slug."""

    def decorate(judge: Judge) -> Rule:
        return Rule(
            slug=judge.__name__.replace("_", "-"),
            summary=summary,
            severity=severity,
            signals=signals,
            helpful=helpful,
            limits=limits,
            remedies=remedies,
            explains=explains,
            judge=judge,
        )

    return decorate


@cache
def all_rules() -> tuple[Rule, ...]:
    """Every rule of the package, by slug."""
    names = sorted(m.name for m in pkgutil.iter_modules(__path__))
    return tuple(_rule_of(importlib.import_module(f"{__name__}.{n}"), n) for n in names)


def load(folder: Path) -> tuple[Rule, ...]:
    """Rules from the modules of a folder, for a cause that does not live in the package."""
    found = []
    for path in sorted(folder.glob("*.py")):
        spec = importlib.util.spec_from_file_location(f"vllmdoctor_rule_{path.stem}", path)
        if spec is None or spec.loader is None:
            raise UsageError(f"cannot load a rule from {path}")
        module = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = module
        spec.loader.exec_module(module)
        found.append(_rule_of(module, path.stem))
    return tuple(found)


def _rule_of(module: object, name: str) -> Rule:
    found = getattr(module, name, None)
    if not isinstance(found, Rule):
        raise UsageError(f"rule module {name}.py does not define a rule named {name}")
    return found


def get(slug: str) -> Rule:
    """The rule of a slug, or UnknownName with the nearest."""
    rules = {r.slug: r for r in all_rules()}
    if slug not in rules:
        raise UnknownName("rule", slug, rules)
    return rules[slug]


def judge(one: Rule, case: Case) -> Outcome:
    """Let a rule yield its evidence about a case and decide: found, clear or unknown.

    Any required evidence that was measured and does not hold: clear. Else any that could not be
    measured: unknown. Else found, with a confidence from the share of supports that hold, lowered by
    what speaks against it.
    """
    case = replace(case, limits=one.limits)
    absent = tuple(_missing(one, case))
    evidence: list[Evidence] = []
    kind, onset, severity, doubt = Kind(""), None, one.severity, ""
    felt = False
    if not absent:
        for item in one.judge(case):
            match item:
                case Evidence():
                    evidence.append(item)
                case Kind():
                    kind = item
                case Onset():
                    onset = item.time
                case Severity():
                    severity = item
                case Felt():
                    felt = True
                case CannotTell():
                    doubt = item.reason
    status, reason = (Status.UNKNOWN, doubt) if doubt else _decide(evidence, absent)
    return Outcome(
        slug=one.slug,
        title=one.summary,
        status=status,
        severity=severity,
        confidence=_confidence(evidence) if status is Status.FOUND else 0.0,
        engine=case.frame.engine,
        kind=kind.name,
        summary=kind.summary,
        evidence=tuple(evidence),
        reason=reason,
        onset=onset,
        felt=felt and status is Status.FOUND,
    )


def _missing(one: Rule, case: Case) -> Iterator[str]:
    for needed in one.signals:
        names = (needed,) if isinstance(needed, str) else needed
        if not any(case.frame.has(n) for n in names):
            yield " or ".join(names)


def _decide(evidence: Iterable[Evidence], absent: tuple[str, ...]) -> tuple[Status, str]:
    if absent:
        return Status.UNKNOWN, f"not seen: {', '.join(absent)}"
    required = [e for e in evidence if e.role == "required"]
    for e in required:
        if e.met is False:
            return Status.CLEAR, ""
    unknown = [e.what for e in required if e.met is None]
    if unknown or not required:
        return Status.UNKNOWN, f"could not be measured: {', '.join(unknown) or 'anything'}"
    return Status.FOUND, ""


def _confidence(evidence: Iterable[Evidence]) -> float:
    """0.6 for the required evidence alone, up to 0.97 with all supports; each `against` costs 0.15."""
    supports = [e.met for e in evidence if e.role == "supports" and e.met is not None]
    against = sum(1 for e in evidence if e.role == "against" and e.met)
    base = 0.6 + 0.37 * (sum(supports) / len(supports) if supports else 0.5)
    return max(0.3, math.floor(100 * (base - 0.15 * against)) / 100)
