"""When a line was written: by its container's timestamp, else by vLLM's own, which lacks year and zone."""

import re
from datetime import UTC, datetime, timedelta
from functools import lru_cache

_HEAD = 160  # a line's own time stands at its start; further on it may be anything's
_FIRST = 70  # that of a container or of another log format at the very start
_ISO = re.compile(
    r"(?<!\d)(\d{4})-(\d\d)-(\d\d)[T ](\d\d):(\d\d):(\d\d)(?:[.,](\d{1,9}))?\s?(Z|[+-]\d\d:?\d\d)?(?![\d:])"
)
_VLLM = re.compile(r"\b(?:DEBUG|INFO|WARNING|ERROR|CRITICAL)\s+(\d\d)-(\d\d)\s(\d\d):(\d\d):(\d\d)")
_SYSLOG = re.compile(r"^([A-Z][a-z]{2})\s+(\d{1,2})\s(\d\d):(\d\d):(\d\d)")
_BARE = re.compile(r"(?<![\d:.])(\d\d):(\d\d):(\d\d)(?:[.,](\d{1,9}))?(?![\d:])")
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_HALF_YEAR_S, _HALF_DAY_S, _DAY_S = 183 * 86400.0, 43200.0, 86400.0
_QUARTER_S = 900.0  # zones differ by quarters of an hour


class Clock:
    """Reads the times of one log's lines, in the order in which they stand.

    `reference` (unix seconds: when the file was written, or now) supplies what the lines lack. Times
    without a zone are taken for UTC, unless a line shows both kinds: then the difference is known.
    """

    def __init__(self, reference: float) -> None:
        self._reference = reference
        self._year = 0
        self._last = 0.0  # the last time without a year, to see a new year
        self._day = 0.0
        self._last_of_day = -1.0
        self._zone = 0.0
        self.dateless = False

    def read(self, line: str) -> float | None:
        """Unix seconds of a line, or None where it shows none."""
        head = line[:_HEAD]
        own = _VLLM.search(head)
        iso = None
        if own is None or own.start() > 40 or (not head[0].isalpha() and head[0] != "("):
            iso = _ISO.search(line if line.startswith("{") else line[:_FIRST])
        if iso and iso[8]:
            exact = _from_iso(iso)
            if exact is not None:
                if own:
                    self._learn(exact, own)
                return exact
        if own:
            return self._yearless(int(own[1]), int(own[2]), _seconds(own, 3))
        if iso:
            moment = _from_iso(iso)
            return None if moment is None else moment + self._zone
        if (syslog := _SYSLOG.match(head)) and syslog[1] in _MONTHS:
            return self._yearless(_MONTHS.index(syslog[1]) + 1, int(syslog[2]), _seconds(syslog, 3))
        if bare := _BARE.search(head[:80]):
            return self._of_day(_seconds(bare, 1) + float(f"0.{bare[4] or 0}"))
        return None

    def _learn(self, exact: float, own: re.Match[str]) -> None:
        """The zone that vLLM's own times are in, from a line that shows both."""
        try:
            year = datetime.fromtimestamp(exact, UTC).year
            naive = datetime(year, int(own[1]), int(own[2]), tzinfo=UTC).timestamp() + _seconds(own, 3)
        except ValueError:
            return
        zone = round((exact - naive) / _QUARTER_S) * _QUARTER_S
        if abs(zone) <= _DAY_S:
            self._zone = zone

    def _yearless(self, month: int, day: int, seconds: float) -> float | None:
        if not self._year:
            self._year = datetime.fromtimestamp(self._reference, UTC).year
            moment = self._moment(month, day)
            # a log is not from the future; a day's grace is for zones
            if moment is None or moment + seconds > self._reference + 1.5 * _DAY_S:
                self._year -= 1
        moment = self._moment(month, day)
        if moment is None:
            return None
        moment += seconds
        if self._last and moment < self._last - _HALF_YEAR_S:
            self._year += 1
            following = self._moment(month, day)
            moment = moment if following is None else following + seconds
        self._last = max(self._last, moment)
        return moment + self._zone

    def _moment(self, month: int, day: int) -> float | None:
        """The day's start; a 29 February is looked for in the last leap year."""
        return _day(self._year, month, day)

    def _of_day(self, seconds: float) -> float | None:
        """A time without any date: the day is that of the reference, and midnights are counted."""
        if seconds >= _DAY_S:
            return None
        if not self.dateless:
            self.dateless = True
            midnight = datetime.fromtimestamp(self._reference, UTC).replace(
                hour=0, minute=0, second=0, microsecond=0
            )
            self._day = (
                midnight - timedelta(days=1 if seconds > self._reference % _DAY_S else 0)
            ).timestamp()
        if self._last_of_day >= 0 and seconds < self._last_of_day - _HALF_DAY_S:
            self._day += _DAY_S
        self._last_of_day = seconds
        return self._day + seconds


@lru_cache(maxsize=1024)
def _day(year: int, month: int, day: int) -> float | None:
    """When a day starts (unix s)."""
    years = range(year, year - 4, -1) if (month, day) == (2, 29) else (year,)
    for y in years:
        try:
            return datetime(y, month, day, tzinfo=UTC).timestamp()
        except ValueError:
            continue
    return None


def _seconds(match: re.Match[str], first: int) -> float:
    return int(match[first]) * 3600.0 + int(match[first + 1]) * 60.0 + int(match[first + 2])


def _from_iso(match: re.Match[str]) -> float | None:
    try:
        day = datetime(int(match[1]), int(match[2]), int(match[3]), tzinfo=UTC).timestamp()
    except ValueError:
        return None
    zone = match[8] or "Z"
    offset = 0.0
    if zone != "Z":
        offset = (int(zone[1:3]) * 3600.0 + int(zone[-2:]) * 60.0) * (1 if zone[0] == "+" else -1)
    return day + _seconds(match, 4) + float(f"0.{match[7] or 0}") - offset
