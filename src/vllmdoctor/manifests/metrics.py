"""Names of metrics as a release exposes them."""

from vllmdoctor.flags import Release, bounds
from vllmdoctor.release import version
from vllmdoctor.signals import SIGNALS


def name_of(signal: str, release: Release) -> str:
    """The newest name that the release has for a signal, as it stands in Prometheus."""
    low, high = bounds(release)
    known = [n.text for n in SIGNALS[signal].names if n.era in ("V1", "cadvisor", "dcgm")]
    for name in SIGNALS[signal].names:
        since = not name.since or version(name.since) <= low
        until = not name.until or high <= version(name.until)
        if name.era in ("V1", "V0") and since and until:
            return name.text
    return known[0]
