"""Moments as people write them: 2026-11-29T15:04, 2026-11-29 15:04:05+01:00, unix seconds."""

from datetime import UTC, datetime

from vllmdoctor.errors import UsageError

_EARLIEST = datetime(2000, 1, 1, tzinfo=UTC).timestamp()
_LATEST = datetime(2200, 1, 1, tzinfo=UTC).timestamp()


def parse_moment(text: str) -> float:
    """Unix seconds; a time without a zone is UTC. UsageError for what is no time."""
    hint = "write it as 2026-11-29T15:04 (UTC), 2026-11-29T15:04+01:00 or unix seconds"
    try:
        seconds = float(text)
    except ValueError:
        try:
            moment = datetime.fromisoformat(text.strip())
        except ValueError:
            raise UsageError(f"not a time: {text!r}", hint=hint) from None
        seconds = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    if not _EARLIEST <= seconds <= _LATEST:
        raise UsageError(f"not a time: {text!r}", hint=hint)
    return seconds
