"""Which vLLM this is, told from the names on its metrics page when nothing else says so.

A name that is present limits the release to those that have it; a name that is always shown and
is absent rules out those that would show it. Presence is trusted before absence, since a scrape
filter may drop names and none can invent them.
"""

from collections.abc import Collection
from dataclasses import dataclass
from functools import cache

from vllmdoctor.release import Span, Version, VersionRange, version
from vllmdoctor.tables import rows

__all__ = ["Version", "VersionRange", "infer", "releases", "version"]

_ENGINES = ("V0", "V1", "rust")
_RUST_SINCE = version("0.22.0")
# Names that only the Python front end shows; the Rust one leaves all of them out.
_PYTHON_ONLY = ("python_info", "process_start_time_seconds")


@cache
def releases() -> tuple[Version, ...]:
    """The releases whose metrics are known, oldest first."""
    return tuple(version(row["release"]) for row in rows("releases"))


@dataclass(frozen=True, slots=True)
class _Life:
    """When one name can be present and when it must be."""

    span: Span
    hidden: Version | None
    always: bool

    def certain(self, release: Version) -> bool:
        shown = self.hidden is None or release < self.hidden
        return self.always and shown and self.span.holds(release)


@cache
def _lives(engine: str) -> dict[str, _Life]:
    """The vLLM names of one engine. The Rust front end has V1's, without what Python alone shows."""
    lives = {}
    for row in rows("metrics"):
        if row["engine"] != ("V0" if engine == "V0" else "V1") or (engine == "rust" and row["rust"] == "no"):
            continue
        lives[row["name"]] = _Life(
            Span(version(row["since"]), version(row["last"]) if row["last"] else None),
            version(row["hidden"]) if row["hidden"] else None,
            row["always"] in ("yes", "python"),
        )
    return lives


@cache
def _vllm_names() -> frozenset[str]:
    return frozenset(row["name"] for row in rows("metrics") if row["engine"])


def _family(name: str) -> str:
    """A sample of a known histogram as its family."""
    for suffix in ("_bucket", "_sum", "_count"):
        if name.endswith(suffix) and name.removesuffix(suffix) in _vllm_names():
            return name.removesuffix(suffix)
    return name


def infer(families: Collection[str], *, complete: bool = True) -> VersionRange:
    """The releases and the engine that can have exposed these names.

    `families` are the names on the page as vLLM spells them, of families or of samples. `complete`
    says that they are the whole page: only then does an absent name count. A range that is open at
    the top reaches the newest known release and beyond.
    """
    present = {_family(name) for name in families}
    known = present & _vllm_names()
    if not known:
        return VersionRange(None, None)
    fits = {
        (engine, release): _missing(engine, release, present) if complete else frozenset()
        for engine in _ENGINES
        for release in releases()
        if _possible(engine, release, known, present)
    }
    if not fits:
        return VersionRange(None, None)
    # What every candidate would show was dropped on the way, so it tells them not apart.
    dropped = frozenset.intersection(*fits.values())
    whole = [fit for fit, missing in fits.items() if missing <= dropped]
    return _span(whole or list(fits))


def _possible(engine: str, release: Version, known: set[str], present: set[str]) -> bool:
    if engine == "rust" and (release < _RUST_SINCE or not present.isdisjoint(_PYTHON_ONLY)):
        return False
    lives = _lives(engine)
    return all(name in lives and lives[name].span.holds(release) for name in known)


def _missing(engine: str, release: Version, present: set[str]) -> frozenset[str]:
    lives = _lives(engine)
    return frozenset(name for name, life in lives.items() if life.certain(release) and name not in present)


def _span(fits: list[tuple[str, Version]]) -> VersionRange:
    engines = {engine for engine, _ in fits}
    found = [release for _, release in fits]
    low, high = min(found), max(found)
    newest, oldest = releases()[-1], releases()[0]
    return VersionRange(
        None if low == oldest else low,
        None if high == newest else high,
        engines.pop() if len(engines) == 1 else "",
    )
