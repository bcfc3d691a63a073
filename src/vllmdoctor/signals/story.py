"""What names say about the server: why a signal is absent, and which were renamed."""

from collections.abc import Collection

from vllmdoctor.errors import UnknownName
from vllmdoctor.release import Version, VersionRange, short, version
from vllmdoctor.signals.known import NEVER_EXISTED
from vllmdoctor.signals.naming import canonical_name, family_name, resolve
from vllmdoctor.signals.nouns import Name, Signal
from vllmdoctor.signals.table import SIGNALS

Release = Version | VersionRange | None


def absence(signal: Signal | str, release: Release = None) -> str:
    """Why a signal is not on the page, in words ("came with 0.20; this server is 0.12.0").

    Raises UnknownName for a signal that is not in the table.
    """
    if isinstance(signal, str):
        if signal not in SIGNALS:
            raise UnknownName("signal", signal, SIGNALS)
        signal = SIGNALS[signal]
    newest = signal.names[0]
    if newest.era not in ("V0", "V1"):
        return _outside(signal, newest)
    low, high = _bounds(release)
    oldest = min((version(n.since) for n in signal.names if n.since), default=None)
    if oldest is not None and high is not None and high < oldest:
        return f"came with {short(oldest)}; this server is {_told(release)}"
    if newest.era == "V0":
        if low is not None and newest.until and low > version(newest.until):
            return f"gone after {newest.until}; this server is {_told(release)}"
        hidden = f", hidden since {newest.hidden}" if newest.hidden else ""
        return f"exposed by the V0 engine only, to {newest.until}{hidden}"
    if signal.needs:
        return signal.needs
    if newest.since and oldest is not None and newest.since != "0.6.0" and high is None:
        return f"came with {short(oldest)}; the server's version is not known"
    return "not on the page: --disable-log-stats, a scrape filter or a proxy may leave it out"


def _outside(signal: Signal, newest: Name) -> str:
    if signal.needs:
        return signal.needs
    where = {
        "dcgm": "no GPU metrics were given (dcgm-exporter or NVML)",
        "nvml": "no GPU metrics were given (dcgm-exporter or NVML)",
        "cadvisor": "no container metrics were given (cAdvisor, through the kubelet)",
        "host": "no readings of the server's processes were given (the target host: on its machine)",
        "kube": "no cluster metrics were given (kube-state-metrics, through Prometheus)",
    }
    return where.get(newest.era, "not on the page")


def _bounds(release: Release) -> tuple[Version | None, Version | None]:
    if isinstance(release, VersionRange):
        return release.low, release.high
    if release is not None and not release.meaningful:
        return None, None
    return release, release


def _told(release: Release) -> str:
    if release is None:
        return "of unknown version"
    return release.span if isinstance(release, VersionRange) else release.text


# The renames that dashboards and runbooks have not followed: signals whose old name is gone.
_RENAMED = (("kv_cache_usage",), ("prefix_cache_queries", "prefix_cache_hits"), ("itl",))


def renamed(present: Collection[str], release: Release = None) -> list[str]:
    """What the names on the page mean for whoever reads them: old names, gone names, false names."""
    names = {raw: canonical_name(raw) for raw in present}
    families = {family_name(raw) for raw in present}
    found = resolve(present)
    lines: list[str] = []
    foreign = sorted(raw for raw, name in names.items() if raw != name and not raw.startswith("vllm:"))
    if foreign:
        lines.append(f"names are spelt as `{foreign[0]}`: read as `{names[foreign[0]]}`, and so on")
    lines.extend(
        f"`{name}` was never exposed by vLLM, so it was made elsewhere: not read; use {instead}"
        for name, instead in NEVER_EXISTED.items()
        if name in families
    )
    for slugs in _RENAMED:
        read = [slug for slug in slugs if slug in found and found[slug].era != "log"]
        old = [slug for slug in read if found[slug] is not SIGNALS[slug].names[0]]
        if old:
            texts = " and ".join(f"`{found[slug].text}`" for slug in old)
            lines.append(f"old name {texts} is exposed (to {found[old[0]].until}): read as {', '.join(old)}")
        elif read:
            lines.extend(_gone(read, families, release))
    if "vllm:gpu_prefix_cache_queries_total" in families:
        lines.append(
            "prefix cache counters are blocks to 0.8.5 and tokens from 0.9.0: only hits/queries is used"
        )
    return lines


def _gone(slugs: list[str], families: set[str], release: Release) -> list[str]:
    """The old names, for signals of one history, that this server does not expose any more."""
    spelt = [[name for name in SIGNALS[slug].names if name.era != "log"] for slug in slugs]
    pairs = [(names[-1], names[0]) for names in spelt]
    pairs = [(old, new) for old, new in pairs if old.text not in families]
    if not pairs:
        return []
    until, hidden = pairs[0][0].until, pairs[0][0].hidden
    low, _ = _bounds(release)
    since = short(version(hidden))
    if low is not None and low > version(until):
        server, what = f"this server is {_told(release)}", f"removed in {_after(until)}"
    else:
        server, what = f"this server is {since}+", f"hidden since {since}"
    texts = "; ".join(f"`{old.text}` ({what}) is read as `{new.text}`" for old, new in pairs)
    return [f"{server}: {texts}"]


def _after(until: str) -> str:
    """The minor release after `until`: names go with a minor release."""
    major, minor = version(until).minor
    return f"{major}.{minor + 1}"
