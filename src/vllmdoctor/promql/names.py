"""Which of its names each signal is asked by, for the releases at hand."""

from collections.abc import Collection, Mapping
from dataclasses import replace

from vllmdoctor.flags import Release
from vllmdoctor.release import Version, VersionRange, version
from vllmdoctor.signals import SIGNALS, Name, canonical_name, family_name

Spelling = Mapping[str, tuple[Name, ...]]
"""Signal -> its names, newest first. A signal without any is missing."""

_OURS = ("log:", "host:", "nvml:")  # names that only this project's own sources give


def all_names() -> Spelling:
    """Every name that a Prometheus can hold, of every release."""
    return names_for(None)


def names_for(release: Release) -> Spelling:
    """The names that some of these releases show; of all releases where it is not known."""
    low, high = _edges(release)
    chosen = {
        signal.name: tuple(n for n in signal.names if not n.text.startswith(_OURS) and _shown(n, low, high))
        for signal in SIGNALS.values()
    }
    return {signal: names for signal, names in chosen.items() if names}


def names_on(pages: Collection[Collection[str]]) -> Spelling:
    """The names on servers' pages (families or samples), spelt as they are there, newest first.

    One page a server: each is read by its newest name, and a fleet of several releases needs
    several. Names that are not vLLM's own come from other targets and are all kept.
    """
    chosen: dict[str, tuple[Name, ...]] = {}
    spelt = [_raw_families(page) for page in pages]
    for signal in SIGNALS.values():
        names = [n for n in signal.names if not n.text.startswith(_OURS)]
        if signal.scope != "engine":
            found = names
        else:
            found = []
            for raw_of in spelt:
                first = next((n for n in names if n.text in raw_of), None)
                if first is not None:
                    found += [replace(first, text=raw) for raw in sorted(raw_of[first.text])]
            order = {n.text: i for i, n in enumerate(names)}
            found = sorted(dict.fromkeys(found), key=lambda n: order[family_name(n.text)])
        if found:
            chosen[signal.name] = tuple(found)
    return chosen


def _raw_families(page: Collection[str]) -> dict[str, set[str]]:
    """Canonical family -> the families as the page spells them."""
    found: dict[str, set[str]] = {}
    for raw in page:
        family = family_name(raw)
        spelt = canonical_name(raw)
        suffix = spelt[len(family) :] if spelt.startswith(family) else ""
        found.setdefault(family, set()).add(raw.removesuffix(suffix) if suffix else raw)
    return found


def _edges(release: Release) -> tuple[Version | None, Version | None]:
    if isinstance(release, VersionRange):
        return release.low, release.high
    return (None, None) if release is None or not release.meaningful else (release, release)


def _shown(name: Name, low: Version | None, high: Version | None) -> bool:
    """Whether a release between the two shows the name without being asked to."""
    if name.since and high is not None and high < version(name.since):
        return False
    if low is None:
        return True
    if name.hidden:
        return low < version(name.hidden)
    return not name.until or low <= version(name.until)
