"""Figures -> the generated part of docs/accuracy.md."""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence

from bench.accuracy.judging import Row
from bench.accuracy.score import (
    PATIENCE_MIN,
    Delays,
    calibration,
    classes,
    count,
    delays,
    kinds,
    late,
    share,
)
from bench.accuracy.truth import CASES, HELD_OUT, REAL, TUNING

TITLES = {
    REAL: "recordings of a real vLLM server",
    CASES: "public cases",
    TUNING: "simulated, tuning",
    HELD_OUT: "simulated, held out",
}


def page(rows: Sequence[Row], notes: Mapping[str, str], split: str, *, soon: bool) -> str:
    """All tables. `notes` explain misses by a history's key; `split` says what was tuned on what.

    `soon`: whether it was measured how soon the causes are found.
    """
    by = {group: [r for r in rows if r.history.group == group] for group in TITLES}
    by = {group: some for group, some in by.items() if some}
    parts = ["### The set\n", split, _overview(by)]
    for group in (HELD_OUT, TUNING):
        if group in by:
            parts += [f"\n### By cause: {TITLES[group]}\n", _classes(by[group])]
    simulated = {g: by[g] for g in (TUNING, HELD_OUT) if g in by}
    if simulated and soon:
        parts += ["\n### How soon\n", _soon(simulated)]
        parts += ["\n### Asked every hour while nothing is wrong\n", _alarms(simulated)]
    parts += ["\n### What a confidence is worth\n", _calibration(by)]
    if CASES in by:
        parts += ["\n### The public cases\n", _cases(by[CASES])]
    parts += ["\n### Every miss\n", _misses(rows, notes)]
    return "\n".join(parts).rstrip() + "\n"


def table(head: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    """A Markdown table."""
    shown = [f"| {' | '.join(head)} |", f"|{'---|' * len(head)}"]
    return "\n".join([*shown, *(f"| {' | '.join(line)} |" for line in lines)])


def of(part: int, whole: int) -> str:
    """A share with its counts: "63 of 66 (95.5 %)"."""
    return f"{part} of {whole} ({100 * share(part, whole):.1f} %)" if whole else "none"


def ratio(value: float) -> str:
    """A ratio as a percentage; a dash when there is none."""
    return "-" if math.isnan(value) else f"{100 * value:.0f} %"


def number(value: float) -> str:
    """Minutes, or a dash."""
    return "-" if math.isnan(value) else "never" if math.isinf(value) else f"{value:.0f} min"


def _overview(by: Mapping[str, Sequence[Row]]) -> str:
    lines = []
    for group, rows in by.items():
        right, asked = kinds(rows)
        lines.append(
            (
                TITLES[group],
                of(count(rows, lambda r: r.right), len(rows)),
                of(right, asked),
                str(count(rows, lambda r: r.harmful)),
                str(count(rows, lambda r: bool(r.false_findings))),
                of(count(rows, lambda r: r.plain_right), len(rows)),
                str(count(rows, lambda r: r.plain_harmful)),
            )
        )
    return table(
        (
            "histories",
            "cause right",
            "kind right",
            "harmful",
            "with a false second finding",
            "plain thresholds: right",
            "plain: harmful",
        ),
        lines,
    )


def _classes(rows: Sequence[Row]) -> str:
    return table(
        ("label", "right", "precision", "answers"),
        (
            (
                f"`{c.label}`",
                of(c.right, c.histories),
                ratio(c.precision),
                ", ".join(f"{answer} {n}" for answer, n in c.answers),
            )
            for c in classes(rows)
        ),
    )


def _soon(by: Mapping[str, Sequence[Row]]) -> str:
    measured = {TITLES[g]: delays(rows) for g, rows in by.items()}
    asked: tuple[tuple[str, Callable[[Delays], str]], ...] = (
        ("faults with an onset whose cause is found inside the history", lambda d: of(d.found, d.faults)),
        ("of them, those where the runbook's alert fires", lambda d: str(d.alerted)),
        (
            f"cause found at most {PATIENCE_MIN:.0f} min after that alert",
            lambda d: of(d.in_time, d.alerted),
        ),
        ("cause found before or with that alert", lambda d: of(d.before, d.alerted)),
        ("found after the alert, median (negative: before)", lambda d: number(d.after_alert)),
        ("found after the alert, worst", lambda d: number(d.worst_after_alert)),
        ("found after the work began to suffer, median", lambda d: number(d.after_effect)),
        ("onset, median error against that of the cause", lambda d: number(d.onset_error)),
        (
            "onset, median error; none between that of the cause and that of its effect",
            lambda d: number(d.effect_error),
        ),
    )
    shown = table(("", *measured), ((name, *(show(d) for d in measured.values())) for name, show in asked))
    slow = [f"`{r.history.key}` ({number(r.found - r.alerted)})" for some in by.values() for r in late(some)]
    return shown + (f"\n\nToo late or never (-): {', '.join(slow)}." if slow else "")


def _alarms(by: Mapping[str, Sequence[Row]]) -> str:
    """How often a server is called slow or in danger while nothing is wrong."""
    lines = []
    for group, rows in by.items():
        looks = sum(r.looks for r in rows)
        false = [answer for r in rows for answer in r.alarms]
        worst = sorted((r for r in rows if r.alarms), key=lambda r: -len(r.alarms))
        lines.append(
            (
                TITLES[group],
                of(looks - len(false), looks),
                ", ".join(f"{answer} {n}" for answer, n in Counter(false).most_common()) or "none",
                ", ".join(f"{r.history.key} {len(r.alarms)} of {r.looks}" for r in worst[:12]) or "none",
            )
        )
    return table(("histories", "looks without a false alarm", "false answers", "histories with most"), lines)


def _calibration(by: Mapping[str, Sequence[Row]]) -> str:
    rows = [r for some in by.values() for r in some]
    parts = []
    for causes, name in ((True, "answers that name a cause"), (False, "healthy, unexplained, blind")):
        lines = [(bin_, str(n), of(right, n)) for bin_, n, right in calibration(rows, causes=causes)]
        parts.append(table(("confidence", name, "right"), lines))
    return "\n\n".join(parts)


def _cases(rows: Sequence[Row]) -> str:
    sure = [r for r in rows if r.truth.confirmed]
    said = f"Of those with a confirmed cause: {of(count(sure, lambda r: r.right), len(sure))}.\n\n"
    return said + table(
        ("case", "its cause", "answer", ""),
        (
            (
                r.history.name,
                f"{r.truth.label}{'' if r.truth.confirmed else ' (not confirmed)'}",
                f"{r.primary}{f' ({r.kind})' if r.kind else ''}",
                "right"
                if r.primary == r.truth.label
                else "as far as the numbers go"
                if r.right
                else "**wrong**",
            )
            for r in rows
        ),
    )


def _misses(rows: Sequence[Row], notes: Mapping[str, str]) -> str:
    wrong = [r for r in rows if not r.right or r.harmful]
    if not wrong:
        return "None."
    return table(
        ("history", "true", "answer", "why"),
        (
            (
                f"{r.history.key}{' **harmful**' if r.harmful else ''}",
                f"{r.truth.label}{f' ({r.truth.kind})' if r.truth.kind else ''}",
                f"{r.primary}{f' ({r.kind})' if r.kind else ''} {r.confidence:.2f}",
                notes.get(r.history.key, "not explained yet"),
            )
            for r in wrong
        ),
    )
