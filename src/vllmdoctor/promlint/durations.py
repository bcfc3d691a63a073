"""PromQL's durations as numbers and back."""

import re

_TIME = re.compile(r"(\d+)(ms|[smhdwy])")
_SIZES = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800, "y": 31536000}
_UNITS = (("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000), ("ms", 1))


def duration(milliseconds: int) -> str:
    """A duration as PromQL writes it, in one unit where that is short: 90 s is 90s, 3600 s is 1h."""
    if milliseconds < 0:
        return f"-{duration(-milliseconds)}"
    for unit, size in _UNITS:
        if milliseconds % size == 0 and milliseconds >= size:
            return f"{milliseconds // size}{unit}"
    return "0s"


def seconds(text: str) -> float | None:
    """A duration of PromQL in seconds; None for a dashboard's variable."""
    found = _TIME.findall(text)
    if "".join(a + b for a, b in found) != text or not found:
        return None
    return sum(int(a) * _SIZES[b] for a, b in found)
