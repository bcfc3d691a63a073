"""Held against the labels: which alerts were right, which were false, and what was missed."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from bench.alerts.evaluation import Firing
from bench.alerts.history import Labelled

from vllmdoctor.alerts import FORMS
from vllmdoctor.rules import all_rules, get

NAIVE = "the runbook's alert, as it stands"
STATED = ("restart", "scrape-gaps", "context-exceeds-pool")  # info: it says what is written on the page
SYMPTOM = "unexplained"
CAUSES = {form.name: form.cause for form in FORMS}
SLACK_S = 60.0


@dataclass(frozen=True, slots=True)
class Judged:
    """One history: alerts that were right (with their first moment, s), beside the point, and false."""

    labelled: Labelled
    right: Mapping[str, float]
    beside: tuple[str, ...]
    false: tuple[str, ...]
    naive: bool

    @property
    def delay(self) -> float | None:
        """Seconds from the effect to the first alert of the true cause; None where there is none."""
        truth = self.labelled.truth
        since = self.labelled.effect or self.labelled.onset or 0.0
        begin = (self.labelled.onset or 0.0) - SLACK_S
        causes = (truth.label, *truth.acceptable)
        own = [t for name, t in self.right.items() if CAUSES[name] in causes and t >= begin]
        return max(0.0, min(own) - since) if own else None


def judge(labelled: Labelled, fired: Mapping[str, Sequence[tuple[float, float]]]) -> Judged:
    """What fired in a history, held against its label."""
    truth = labelled.truth
    true = {truth.label, *truth.acceptable}
    slugs = {rule.slug for rule in all_rules()}
    follows = {e for cause in true & slugs for e in get(cause).explains} if not truth.well else set[str]()
    right, beside, false = {}, [], []
    naive = False
    for name, spans in fired.items():
        first = spans[0][0]
        if first > labelled.length:  # a window that reaches beyond the last scrape
            continue
        if name == NAIVE:
            naive = True
            continue
        cause = CAUSES[name]
        early = labelled.onset is not None and first < labelled.onset - SLACK_S
        if cause in STATED and (truth.well or cause not in true):
            continue
        if truth.well or (early and cause not in true):
            false.append(name)
        elif cause in true or cause in follows or cause == SYMPTOM:
            right[name] = first
        else:
            beside.append(name)
    return Judged(labelled, right, tuple(beside), tuple(false), naive)


def all_judged(labelled: Iterable[Labelled], found: Sequence[Firing]) -> list[Judged]:
    """Every history, by what fired in it."""
    table: dict[str, dict[str, tuple[tuple[float, float], ...]]] = defaultdict(dict)
    for firing in found:
        table[firing.history][firing.alert] = firing.spans
    return [judge(one, table[one.key]) for one in labelled]


def by_release(results: Mapping[str, Sequence[Judged]]) -> str:
    """One row for each release whose names the histories were given."""
    lines = [
        "The same histories under the names of older releases, as far as these have them:",
        "",
        "| names of | fine, with an alarm | sick, any alert | sick, the true cause is named |",
        "|---|---|---|---|",
    ]
    for release, judged in results.items():
        well = [j for j in judged if j.labelled.truth.well]
        sick = [j for j in judged if not j.labelled.truth.well]
        lines.append(
            f"| vLLM {release} | {sum(bool(j.false) for j in well)} of {len(well)} "
            f"| {sum(bool(j.right) for j in sick)} of {len(sick)} "
            f"| {sum(j.delay is not None for j in sick)} of {len(sick)} |"
        )
    wrong = [
        (release, j.labelled.key, name) for release, of in results.items() for j in of for name in j.false
    ]
    if wrong:
        lines += ["", "False alarms:", ""]
        lines += [f"- names of {release}, `{key}`: {name}" for release, key, name in wrong]
    return "\n".join(lines)


def page(judged: Sequence[Judged]) -> str:
    """The tables for docs/alerts.md."""
    well = [j for j in judged if j.labelled.truth.well]
    sick = [j for j in judged if not j.labelled.truth.well]
    false = sum(bool(j.false) for j in well)
    early = sum(bool(j.false) for j in sick)
    lines = [
        f"{len(judged)} simulated histories of 10 to 24 h with known causes, {len(well)} of them of servers "
        "that are fine:",
        "",
        "| | these rules | the runbook's alert, not adjusted |",
        "|---|---|---|",
        f"| servers that are fine, with an alarm | {false} of {len(well)} "
        f"| {sum(j.naive for j in well)} of {len(well)} |",
        f"| sick servers, with an alarm before the trouble | {early} of {len(sick)} | - |",
        f"| sick servers, any alert | {sum(bool(j.right) for j in sick)} of {len(sick)} "
        f"| {sum(j.naive for j in sick)} of {len(sick)} |",
        "| sick servers, an alert that names the cause, or one that is true as well "
        f"| {sum(j.delay is not None for j in sick)} of {len(sick)} | - |",
        "",
        "| cause | histories | any alert | names the cause | median delay (min) | other alerts beside it |",
        "|---|---|---|---|---|---|",
    ]
    groups: dict[str, list[Judged]] = defaultdict(list)
    for j in sick:
        groups[j.labelled.truth.label].append(j)
    for label, of in sorted(groups.items()):
        delays = [j.delay for j in of if j.delay is not None]
        others = sorted({name for j in of for name in j.beside})
        lines.append(
            f"| [{label}](../runbooks/{label}.md) | {len(of)} | {sum(bool(j.right) for j in of)} "
            f"| {len(delays)} | {f'{median(delays) / 60:.0f}' if delays else '-'} "
            f"| {', '.join(others) or '-'} |"
        )
    wrong = [(j.labelled.key, name) for j in judged for name in j.false]
    if wrong:
        lines += ["", "False alarms:", ""]
        lines += [f"- `{key}`: {name}" for key, name in wrong]
    missed = [j.labelled.key for j in sick if not j.right]
    if missed:
        lines += ["", f"No alert at all: {', '.join(f'`{key}`' for key in missed)}."]
    return "\n".join(lines)
