"""What is wrong with a launch command before it runs: names first, then what the values do together."""

import difflib
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from vllmdoctor.flags import Argument, Release, arguments, bounds, flags, newest
from vllmdoctor.launch import SHORT, Given, Launch
from vllmdoctor.lint_values import CHECKS, Remark
from vllmdoctor.model import Fact, Severity

__all__ = ["LINTS", "Finding", "lint"]

# slug -> what it means; the order is that of the documentation
LINTS: Mapping[str, str] = MappingProxyType(
    {
        "unknown-argument": "no release that is known accepts it: the server exits at start-up",
        "not-yet-argument": "a later release accepts it: this one exits at start-up",
        "removed-argument": "this release no longer accepts it: the server exits at start-up",
        "impossible-value": "the server refuses the value, or two values together, at start-up",
        "stray-word": "a word that belongs to no argument: the server exits at start-up",
        "context-above-pool": "a request as long as the context never fits the KV pool and blocks the queue",
        "memory-without-headroom": "so large a part of the device leaves no room for peaks outside the pool",
        "blinding": "it switches the metrics off, so nothing can be diagnosed",
        "risky-value": "accepted, and known to harm",
        "repeated-argument": "given more than once: the last one counts",
        "abbreviated-argument": "a part of a name, taken as long as one name alone begins so",
        "inert-argument": "accepted and ignored by this release or engine",
        "default-argument": "the value is the default: it changes nothing",
        "trade-off": "accepted, with a price worth knowing",
        "secret-in-arguments": "every user of the machine sees the arguments of its processes",
    }
)


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing about a launch: `argument` as it is named, `what` in one sentence, `hint` what to do."""

    slug: str
    severity: Severity
    argument: str
    what: str
    hint: str = ""

    @property
    def line(self) -> str:
        """All of it in one line."""
        return f"{self.argument}: {self.what}" + (f"; {self.hint}" if self.hint else "")


def lint(
    launch: Launch, release: Release, known: Mapping[str, Fact] = MappingProxyType({})
) -> tuple[Finding, ...]:
    """Everything to say of a launch for a release, worst first.

    `known` are further facts of the server (`pool_tokens`, `gpu_memory_total`, ...) by their names.
    """
    found = list(_names(launch, release))
    bad = {f.argument for f in found if f.severity is Severity.CRITICAL}
    facts = {**known, **{f.key: f for f in launch.facts}}
    named = {g.name: g for g in launch.given}
    for check in CHECKS:
        for remark in check(named, facts, release):
            if remark.argument not in bad:
                found.append(_finding(remark))
    refused = {f.argument for f in found if f.severity is Severity.CRITICAL or f.slug == "risky-value"}
    found += _without_effect(launch, release, refused)
    return tuple(sorted(found, key=lambda f: -int(f.severity)))


def _finding(remark: Remark) -> Finding:
    return Finding(remark.slug, remark.severity, remark.argument, remark.what, remark.hint)


# --- names


def _names(launch: Launch, release: Release) -> Iterator[Finding]:
    low, high = bounds(release)
    for each in launch.given:
        base = each.name.partition(".")[0]
        known = arguments().get(base)
        if known is None:
            yield _unknown(each, base, release)
            continue
        if known.since is not None and high < known.since:
            yield Finding(
                "not-yet-argument", Severity.CRITICAL, each.name,
                f"{high} does not know it (it came in {known.since}): the server exits at start-up",
                "leave it out, or upgrade",
            )  # fmt: skip
        elif known.last is not None and known.last < low:
            yield _removed(each, known)
        elif not (known.known_in(low) and known.known_in(high)):
            span = f"{known.since or 'the first releases'} to {known.last or 'now'}"
            yield Finding(
                "removed-argument", Severity.WARNING, each.name,
                f"only {span} accept it, and the release is not known exactly",
                known.instead or "give the version: --vllm-version",
            )  # fmt: skip
        if (known.switch and each.value not in ("True", "False")) or (known.switch and not each.bare):
            yield Finding(
                "impossible-value", Severity.CRITICAL, each.name, f"a switch takes no value ({each.value!r})",
                f"write {each.name} or --no-{each.name[2:]}",
            )  # fmt: skip
    for word in launch.stray:
        yield Finding(
            "stray-word", Severity.CRITICAL, word, "belongs to no argument: the server exits at start-up",
            "quote values that hold spaces",
        )  # fmt: skip
    counted = Counter(g.name for g in launch.given if "." not in g.name and g.name != "--model")
    for name, times in counted.items():
        if times > 1:
            values = " then ".join(g.value for g in launch.given if g.name == name)
            yield Finding(
                "repeated-argument",
                Severity.WARNING,
                name,
                f"given {times} times ({values}): the last one counts",
            )


def _removed(each: Given, known: Argument) -> Finding:
    return Finding(
        "removed-argument",
        Severity.CRITICAL,
        each.name,
        f"removed in {known.removed_in}: the server exits at start-up",
        known.instead
        if known.instead.startswith("leave")
        else f"use {known.instead}"
        if known.instead
        else "leave it out",
    )


def _unknown(each: Given, base: str, release: Release) -> Finding:
    begun = [name for name in arguments() if name.startswith(base)]
    if base.startswith("--") and len(base) > 4 and len(begun) == 1:
        return Finding(
            "abbreviated-argument",
            Severity.WARNING,
            each.written,
            f"is taken for {begun[0]}",
            "write the name in full",
        )
    near = difflib.get_close_matches(base, [*arguments(), *SHORT], n=1, cutoff=0.75)
    _, high = bounds(release)
    if high > newest() and not near:
        return Finding(
            "unknown-argument", Severity.WARNING, each.written,
            f"no release up to {newest()} knows it; {high} is newer than that",
        )  # fmt: skip
    return Finding(
        "unknown-argument",
        Severity.CRITICAL,
        each.written,
        "no release knows it: the server exits at start-up",
        f"did you mean {near[0]}?" if near else "leave it out",
    )


# --- effect


def _without_effect(launch: Launch, release: Release, bad: set[str]) -> Iterator[Finding]:
    for name in dict.fromkeys(g.name for g in launch.given):
        value = launch.value(name)
        table = flags().get(name)
        if table is None or name in bad or value is None or not table.known_in(release):
            continue
        if not table.works_in(release):
            instead = arguments()[name].instead
            yield Finding(
                "inert-argument",
                Severity.INFO,
                name,
                "accepted, and ignored by this engine",
                instead or "leave it out",
            )
        elif _same(value, table.default_in(release)):
            yield Finding(
                "default-argument", Severity.INFO, name, f"{value} is the default: it changes nothing", ""
            )


def _same(value: str, default: str | None) -> bool:
    if default is None:
        return False
    try:
        return float(value) == float(default)
    except ValueError:
        return value.lower() == default.lower()
