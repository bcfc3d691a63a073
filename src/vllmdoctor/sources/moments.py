"""Finding the time of a page that carries none: in a line above it, or in the name of its file."""

import re
from datetime import UTC, datetime
from email.utils import mktime_tz, parsedate_tz

from vllmdoctor.exposition import MILLISECONDS

_EARLIEST, _LATEST = 1.0e9, 4.2e9  # 2001 to 2103: other numbers are taken for no unix time
_LEADING = re.compile(r"^#?\s*(?:(?:date|time|timestamp|scraped(?: at)?|at)\s*[:=]?\s+)?", re.IGNORECASE)
_ISO = re.compile(
    r"(\d{4})-?(\d\d)-?(\d\d)[T_ -](\d\d)[:_-]?(\d\d)[:_-]?(\d\d)(?:[.,](\d{1,9}))?\s*(Z|UTC|[+-]\d\d:?\d\d)?"
)
_NUMBER = re.compile(r"(?<![\d.])(\d{13}|\d{10})(?:\.(\d{1,9}))?(?!\d)")


def moment_of_line(line: str) -> float | None:
    """Unix seconds of a line that is only a time (`date`, `date +%s`, `date -Is`, `# time ...`), or None."""
    text = _LEADING.sub("", line.strip(), count=1).strip()
    if number := _NUMBER.fullmatch(text):
        return _plausible(float(number[0]))
    if iso := _ISO.fullmatch(text):
        return _from_iso(iso)
    return _from_date(text)


def moment_of_name(name: str) -> float | None:
    """Unix seconds that stand in a file's name, or None."""
    if iso := _ISO.search(name):
        return _from_iso(iso)
    number = _NUMBER.search(name)
    return _plausible(float(number[0])) if number else None


def _plausible(number: float) -> float | None:
    seconds = number / 1000 if number > MILLISECONDS else number
    return seconds if _EARLIEST <= seconds <= _LATEST else None


def _from_iso(match: re.Match[str]) -> float | None:
    year, month, day, hour, minute, second = (int(match[i]) for i in range(1, 7))
    try:
        moment = datetime(year, month, day, hour, minute, second, tzinfo=UTC)
    except ValueError:
        return None
    zone, offset = match[8] or "Z", 0
    if zone[0] in "+-":
        offset = (int(zone[1:3]) * 60 + int(zone[-2:])) * (60 if zone[0] == "+" else -60)
    return _plausible(moment.timestamp() - offset + float(f"0.{match[7] or 0}"))


def _from_date(text: str) -> float | None:
    """What `date` and HTTP's Date header print: a weekday or day, a month's name, a clock, a zone."""
    if len(text) > 60 or text.count(":") != 2:
        return None
    try:
        fields = parsedate_tz(text)
        return None if fields is None else _plausible(float(mktime_tz(fields)))
    except (ValueError, OverflowError, IndexError, TypeError):
        return None
