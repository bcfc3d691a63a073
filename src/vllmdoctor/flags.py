"""What is known of vLLM's arguments: since when, until when, with which default, to what effect.

An argument that a release does not know makes the server exit, so advice is asked here first.
"""

from dataclasses import dataclass
from functools import cache

from vllmdoctor.errors import UnknownName
from vllmdoctor.release import Span, Version, VersionRange, version
from vllmdoctor.tables import rows

Release = Version | VersionRange | None

_V1_DEFAULT = version("0.8.0")


@dataclass(frozen=True, slots=True)
class Flag:
    """One argument of `vllm serve`.

    `defaults` are resolved ones, as text, by span: what is not covered depends on the model or on
    the hardware. `works` are the releases where it does what it says, `engine` the only engine
    that heeds it.
    """

    name: str
    span: Span
    defaults: tuple[tuple[Span, str], ...]
    works: Span
    engine: str

    def known_in(self, release: Release) -> bool:
        """Whether the server accepts it: for a range, whether all of the range does.

        A release that is not known may be any with the V1 engine by default (0.8 and newer).
        """
        return _holds(self.span, release)

    def works_in(self, release: Release) -> bool:
        """Whether it is accepted and has an effect (V1 accepts some arguments and ignores them)."""
        if not self.known_in(release) or not _holds(self.works, release):
            return False
        return self.engine == "" or self.engine == engine_of(release)

    def default_in(self, release: Release) -> str | None:
        """The value in force when it is not given; None when it cannot be told."""
        low, high = bounds(release)
        found = {value for edge in (low, high) for span, value in self.defaults if span.holds(edge)}
        covered = all(any(span.holds(edge) for span, _ in self.defaults) for edge in (low, high))
        return found.pop() if len(found) == 1 and covered else None

    @property
    def removed_in(self) -> Version | None:
        """The first release that refuses it; None while it is accepted."""
        return _after(self.span.last)


@cache
def _releases() -> tuple[Version, ...]:
    return tuple(version(row["release"]) for row in rows("releases"))


def _after(last: Version | None) -> Version | None:
    """The first known release after `last`; None where there is none, or no last one."""
    return None if last is None else next((release for release in _releases() if release > last), None)


def bounds(release: Release) -> tuple[Version, Version]:
    """The oldest and newest release it may be; unknown is any from 0.8 on."""
    newest = _releases()[-1]
    if isinstance(release, VersionRange):
        if release.low is None and release.high is None:
            return _V1_DEFAULT, newest
        return release.low or _releases()[0], release.high or max(newest, release.low or newest)
    if release is None or not release.meaningful:
        return _V1_DEFAULT, newest
    return release, release


def _holds(span: Span, release: Release) -> bool:
    low, high = bounds(release)
    return span.holds(low) and span.holds(high)


def engine_of(release: Release) -> str:
    """The engine that runs: told by the range, else V0 before 0.8 and V1 from there on."""
    if isinstance(release, VersionRange) and release.engine:
        return "V0" if release.engine == "V0" else "V1"
    low, _ = bounds(release)
    return "V0" if low < _V1_DEFAULT else "V1"


@cache
def flags() -> dict[str, Flag]:
    """Every argument in the table, by name."""
    table = {}
    for row in rows("flags"):
        span = _span(row["since"], row["last"])
        defaults = tuple(_default(part) for part in row["defaults"].split("; ") if part)
        works = Span(version(row["works_since"]), None) if row["works_since"] else span
        table[row["flag"]] = Flag(row["flag"], span, defaults, works, row["engine"])
    return table


def flag(name: str) -> Flag:
    """The argument of that name (`--max-num-seqs`). Raises UnknownName."""
    table = flags()
    if name not in table:
        raise UnknownName("argument", name, table)
    return table[name]


def _span(since: str, last: str) -> Span:
    return Span(version(since), version(last) if last else None)


def _default(part: str) -> tuple[Span, str]:
    """From `0.6.0..0.19.1=0.9` or `0.20.0..=0.92`."""
    span, _, value = part.partition("=")
    since, _, last = span.partition("..")
    return _span(since, last), value


@dataclass(frozen=True, slots=True)
class Argument:
    """One name that some release of the server accepts: `since` is None where it was always there
    or its beginning is not known, `last` is None while it is accepted."""

    name: str
    since: Version | None
    last: Version | None
    switch: bool
    instead: str

    def known_in(self, release: Version) -> bool:
        """Whether that release accepts it."""
        return Span(self.since, self.last).holds(release)

    @property
    def removed_in(self) -> Version | None:
        """The first known release that refuses it; None while it is accepted."""
        return _after(self.last)


@cache
def arguments() -> dict[str, Argument]:
    """Every name that any known release accepts, by name: many more than `flags()`, and less of each."""
    return {
        row["argument"]: Argument(
            row["argument"],
            version(row["since"]) if row["since"] else None,
            version(row["last"]) if row["last"] else None,
            row["kind"] == "switch",
            row["instead"],
        )
        for row in rows("arguments")
    }


def newest() -> Version:
    """The newest release that the tables know."""
    return _releases()[-1]
