"""Numbers with units, for people: percent, ms, GiB, times and changes, with at most three significant digits.

Input is SI (ratios 0..1, seconds, bytes, unix time); NaN is "not seen".
"""

import math
from datetime import UTC, datetime

NOT_SEEN = "not seen"
_BINARY = ((1024.0**4, "TiB"), (1024.0**3, "GiB"), (1024.0**2, "MiB"), (1024.0, "KiB"), (1.0, "B"))
_HERTZ = ((1e9, "GHz"), (1e6, "MHz"), (1e3, "kHz"), (1.0, "Hz"))
_SECONDS = ((0.1, 1.0, "s"), (1e-3, 1e-3, "ms"), (0.0, 1e-6, "µs"))
_LARGE = ((1e12, " T"), (1e9, " G"), (1e6, " M"))
_SPELLED = {"celsius": " °C", "1/s": "/s", "x": "x", "": "", "p-value": ""}
_LENGTHS = ((86400, "d", 3600, "h"), (3600, "h", 60, "min"), (60, "min", 1, "s"))
_SINGULAR = {" requests": " request", " tokens": " token"}
# Beyond a few months a duration in seconds is a mistake upstream; datetime ends with the year 9999.
_LAST_SECOND = 253402300799.0


def number(value: float) -> str:
    """`value` with three significant digits; whole numbers below a million are given exactly."""
    if math.isnan(value):
        return NOT_SEEN
    if math.isinf(value):
        return "infinite" if value > 0 else "-infinite"
    size = abs(value)
    if size < 1e6 and value == int(value):
        return f"{int(value):,}"
    for scale, letter in _LARGE:
        if size >= scale:
            return f"{float(f'{value / scale:.3g}'):g}{letter}" if size < 1000 * scale else f"{value:.3g}"
    rounded = float(f"{value:.3g}")
    return f"{rounded:,.0f}" if abs(rounded) >= 1000 else f"{rounded:g}"


def quantity(value: float, unit: str) -> str:
    """`value` in `unit` as a person writes it: `0.0186, "s"` is "18.6 ms", `0.988, "ratio"` is "98.8 %"."""
    if not math.isfinite(value):
        return number(value)
    if unit == "s" and abs(value) >= 120:
        return duration(value)
    if unit == "h":
        return duration(3600 * value)
    factor, label = _scale(abs(value), unit)
    text = number(value / factor)
    return text + (_SINGULAR.get(label, label) if text in ("1", "-1") else label)


def span(low: float, high: float, unit: str) -> str:
    """An interval in one unit, e.g. a quantile's bucket: "0.30-0.50 s", "at most 0.30 s", "over 10 s"."""
    if math.isnan(low) or math.isnan(high):
        return NOT_SEEN
    if math.isinf(high):
        return f"over {quantity(low, unit)}"
    factor, label = _scale(abs(high), unit)
    top = high / factor
    decimals = min(6, max(0, 1 - math.floor(math.log10(abs(top))))) if top else 0
    end = f"{top:,.{decimals}f}{label}" if abs(top) < 1e6 else quantity(high, unit)
    if low <= 0 <= high:
        return f"at most {end}"
    if abs(top) >= 1e6 or not math.isfinite(low):
        return f"{quantity(low, unit)} to {end}"
    return f"{low / factor:,.{decimals}f}-{end}"


def extent(low: float, high: float, unit: str) -> str:
    """The range of a line for the eye: "0 to 299 tokens/s"; the unit is said once where it is the same."""
    if math.isnan(low) or math.isnan(high):
        return NOT_SEEN
    if low == high:
        return quantity(low, unit)
    first, last = quantity(low, unit), quantity(high, unit)
    return f"{short_of(first, last) if low else first.partition(' ')[0]} to {last}"


def short_of(first: str, last: str) -> str:
    """`first` without its unit, where `last` says the same unit: "4.3" of "4.3 requests" and "1 request"."""
    head, _, label = first.rpartition(" ")
    same = label.rstrip("s") == last.rpartition(" ")[2].rstrip("s")
    return head if head and " " not in head and label not in ("s", "min", "h") and same else first


def duration(seconds: float) -> str:
    """A length of time in its two largest units: "3 min 28 s", "8 h 20 min", "2 d 4 h"."""
    if not math.isfinite(seconds):
        return number(seconds)
    sign, left = ("-", -seconds) if seconds < 0 else ("", seconds)
    if left < 60:
        return sign + quantity(left, "s")
    if left >= 1e11:
        return f"{sign}{number(left / 86400)} d"
    for big, big_name, small, small_name in _LENGTHS:
        if round(left / small) * small >= big:
            whole, rest = divmod(round(left / small), big // small)
            return f"{sign}{whole:,} {big_name}" + (f" {rest} {small_name}" if rest else "")
    return f"{sign}{number(left)} s"


def change(ratio: float) -> str:
    """now/before as a change: "-32 %", "+12 %", from threefold on "61x"; "from none" where before was 0."""
    if math.isnan(ratio):
        return "-"
    if math.isinf(ratio):
        return "from none"
    if ratio >= 3:
        return f"{number(float(f'{ratio:.2g}'))}x"
    percent = float(f"{100 * (ratio - 1):.2g}")
    if abs(percent) < 0.1:
        return "same"
    return f"{percent:+g} %" if ratio >= 0 else f"{number(ratio)}x"


def clock(time: float, beside: float = math.nan) -> str:
    """A moment in UTC; the date is left out where it is the day of `beside`. Both in unix seconds."""
    if math.isnan(time) or not 0 <= time <= _LAST_SECOND:
        return "at an unknown time"
    moment = datetime.fromtimestamp(time, UTC)
    if 0 <= beside <= _LAST_SECOND and datetime.fromtimestamp(beside, UTC).date() == moment.date():
        return f"{moment:%H:%M:%S}"
    return f"{moment:%Y-%m-%d %H:%M:%S}"


def _scale(size: float, unit: str) -> tuple[float, str]:
    """What to divide by, and the label with its space, for a number as big as `size`."""
    match unit:
        case "ratio":
            return 0.01, " %"
        case "ratio/h":
            return 0.01, " % per hour"
        case "s":
            if size == 0:
                return 1.0, " s"
            return next((factor, f" {label}") for least, factor, label in _SECONDS if size >= least)
        case "bytes" | "bytes/s":
            tail = unit.removeprefix("bytes")
            return next(((f, f" {label}{tail}") for f, label in _BINARY if size >= f), (1.0, f" B{tail}"))
        case "Hz":
            return next(((f, f" {label}") for f, label in _HERTZ if size >= f), (1.0, " Hz"))
    return 1.0, _SPELLED.get(unit, f" {unit}")
