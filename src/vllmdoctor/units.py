"""Durations and sizes as people write them: "90s", "8h", "1h30m", "256MiB"."""

import re

from vllmdoctor.errors import UsageError

SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}
BYTES = {
    "": 1, "B": 1, "kB": 10**3, "KB": 10**3, "MB": 10**6, "GB": 10**9,
    "KiB": 2**10, "MiB": 2**20, "GiB": 2**30,
}  # fmt: skip
_PART = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|min|[smhdw])")
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([kKMG]?i?B?)")


def parse_duration(text: str) -> float:
    """Seconds of "60s", "8h" or "1h30m"; a bare number is seconds. UsageError for anything else."""
    text = text.strip()
    if re.fullmatch(r"\d+(\.\d+)?", text):
        seconds = float(text)
    else:
        parts = _PART.findall(text)
        if not parts or _PART.sub("", text).strip():
            raise UsageError(f"not a duration: {text!r}", hint="write it as 90s, 15m, 8h or 1h30m")
        seconds = sum(float(number) * SECONDS[unit] for number, unit in parts)
    if not 0 < seconds < float("inf"):
        raise UsageError(
            f"a duration must be longer than nothing: {text!r}", hint="write it as 90s, 15m or 8h"
        )
    return seconds


def parse_size(text: str) -> int:
    """Bytes of "256MiB" or "10MB"; a bare number is bytes. UsageError for anything else."""
    found = _SIZE.fullmatch(text.strip())
    if not found or found[2] not in BYTES:
        raise UsageError(f"not a size: {text!r}", hint="write it as 64MiB or 10MB")
    return int(float(found[1]) * BYTES[found[2]])
