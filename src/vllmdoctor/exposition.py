"""Prometheus and OpenMetrics text: one series, one page, or a long history with timestamps.

A series is parsed once, when its text is first seen; from then on a line costs one dictionary
look-up and its numbers. That is what makes a day of scrapes readable in seconds.
"""

import math
import re
from array import array
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeAlias

from vllmdoctor.errors import UsageError
from vllmdoctor.model import Gap, Samples

MILLISECONDS = 1e11
"""Timestamps above this are milliseconds: as seconds it would be the year 5138."""

_NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
_QUOTED = r'"(?:[^"\\]++|\\.)*+"'
_BRACES = rf'\{{(?:[^"{{}}]++|{_QUOTED})*+\}}'
_FULL_SERIES = re.compile(rf"({_NAME})?\s*(?:\{{(.*)\}})?", re.DOTALL)
_LABEL = re.compile(rf"\s*(?:([a-zA-Z_][a-zA-Z0-9_]*|{_QUOTED})\s*=\s*)?({_QUOTED})\s*(?:,|$)", re.DOTALL)
# A line in full: series, value, maybe a timestamp, maybe an exemplar (left alone).
_LINE = re.compile(
    rf"\s*+((?:{_NAME})?+\s*+{_BRACES}|{_NAME}(?=\s))\s*+(\S++)(?:\s++([^\s#]\S*+))?\s*+(?:#.*)?"
)
_ESCAPE = re.compile(r"\\([\\n\"])")
_PLAIN_NAME = re.compile(_NAME)
_SHOWN = 80
_History: TypeAlias = "tuple[array[float], array[float]]"  # times and values


def split_series(key: str) -> tuple[str, dict[str, str]]:
    """The metric name and the labels of `name{a="b"}`; UsageError where the text is no series."""
    name, labels = _parse(key)
    return name, dict(labels)


def canonical_series(name: str, labels: Mapping[str, str]) -> str:
    """The one spelling of a series: labels sorted by name, values escaped as Prometheus does."""
    pairs = [f'{_label_name(label)}="{_escape(value)}"' for label, value in sorted(labels.items())]
    if not _PLAIN_NAME.fullmatch(name):
        return "{" + ",".join([f'"{_escape(name)}"', *pairs]) + "}"
    return f"{name}{{{','.join(pairs)}}}" if pairs else name


@lru_cache(maxsize=1 << 15)
def canonical(key: str) -> str:
    """`key` in its one spelling; UsageError where the text is no series."""
    name, labels = _parse(key)
    return canonical_series(name, dict(labels))


@dataclass(frozen=True, slots=True)
class Page:
    """One /metrics page: `values` by canonical series; lines that made no sense are counted."""

    values: dict[str, float]
    unread: int
    first_unread: str


@dataclass(frozen=True, slots=True)
class Sample:
    """One line of text: `time` is unix seconds, or None where the line has no timestamp."""

    series: str
    value: float
    time: float | None


def parse_page(text: str) -> Page:
    """Read one page as a server answers it; a timestamp on a line is left out of account."""
    values: dict[str, float] = {}
    unread, first_unread = 0, ""
    for number, line in enumerate(text.split("\n"), 1):
        if not line or line[0] == "#":
            continue
        series, _, value = line.rpartition(" ")
        try:
            values[canonical(series)] = float(value)
        except (UsageError, ValueError):
            sample = parse_line(line)
            if sample is not None:
                values[sample.series] = sample.value
            elif line.strip() and not line.lstrip().startswith("#"):
                unread += 1
                first_unread = first_unread or shown(line, number)
    return Page(values, unread, first_unread)


def parse_line(line: str) -> Sample | None:
    """Read one line with all that the formats allow in it; None where it is no sample."""
    match = _LINE.fullmatch(line)
    if match is None:
        return None
    series, value, time = match.groups()
    try:
        seconds = None if time is None else to_seconds(float(time))
        return Sample(canonical(series), float(value), seconds)
    except (UsageError, ValueError):
        return None


def to_seconds(timestamp: float) -> float:
    """Unix seconds of a timestamp in seconds or milliseconds; ValueError where it is no moment."""
    if not math.isfinite(timestamp):
        raise ValueError(timestamp)
    return timestamp / 1000 if timestamp > MILLISECONDS else timestamp


def shown(line: str, number: int) -> str:
    """A line as it is quoted to the user: numbered, printable and short."""
    text = "".join(c if c.isprintable() else "?" for c in line[: _SHOWN + 1].strip())
    return f"line {number}: {text[:_SHOWN]}{'...' if len(text) > _SHOWN else ''}"


def read_timestamped(texts: Iterable[str], instance: str, origin: str) -> Iterator[Samples | Gap]:
    """Read text whose lines carry timestamps, a series at a time when all is read.

    `texts` are pieces of whole lines, so that a file larger than memory can be streamed: only
    16 bytes a sample are kept. Seconds are told from milliseconds by their size. Lines that
    cannot be read are counted in one Gap.
    """
    history: dict[str, _History] = {}
    by_text: dict[str, _History] = {}
    unread, first_unread, before = 0, "", 0
    for text in texts:
        lines = text.split("\n")
        for number, line in enumerate(lines, before + 1):
            if not line or line[0] == "#":
                continue
            try:
                key, value, time = line.rsplit(" ", 2)
                times, values = by_text[key]
                moment, number_read = float(time), float(value)
                if not 0 <= moment <= MILLISECONDS:
                    moment = to_seconds(moment)
            except (KeyError, ValueError):
                sample = parse_line(line)
                if sample is None or sample.time is None:
                    if line.strip() and not line.lstrip().startswith("#"):
                        unread += 1
                        first_unread = first_unread or shown(line, number)
                    continue
                moment, number_read = sample.time, sample.value
                times, values = history.setdefault(sample.series, (array("d"), array("d")))
                _remember(by_text, line, sample.series, (times, values))
            times.append(moment)
            values.append(number_read)
        before += len(lines) - 1
    if unread:
        yield unread_gap(origin, unread, first_unread)
    by_text.clear()
    for series in list(history):
        times, values = history.pop(series)  # popped, so that the reader's copy is the only one
        yield Samples(instance, series, times, values)


def unread_gap(origin: str, count: int, first: str) -> Gap:
    """The Gap that tells of lines which are neither samples nor comments."""
    return Gap(
        origin, f"{count} line{'s' if count > 1 else ''} of {origin}", f"not readable as a sample ({first})"
    )


def _remember(
    by_text: dict[str, _History],
    line: str,
    series: str,
    columns: _History,
) -> None:
    """Let the next line that starts as this one take the fast path, where that path reads it alike."""
    key, _, rest = line.partition(" ") if "{" not in line else _after_brace(line)
    if len(rest.split(" ")) == 2:
        try:
            if canonical(key) == series:
                by_text[key] = columns
        except UsageError:
            return


def _after_brace(line: str) -> tuple[str, str, str]:
    head, brace, rest = line.rpartition("}")
    return head + brace, " ", rest[1:] if rest.startswith(" ") else ""


@lru_cache(maxsize=1 << 15)
def _parse(key: str) -> tuple[str, tuple[tuple[str, str], ...]]:
    match = _FULL_SERIES.fullmatch(key)
    if match is None:
        raise UsageError(f"not a series: {key[:_SHOWN]!r}")
    name, inside = match.groups()
    labels: dict[str, str] = {}
    position = 0
    text = (inside or "").strip()
    while position < len(text):
        label = _LABEL.match(text, position)
        if label is None or label.end() == position:
            raise UsageError(f"not a series: {key[:_SHOWN]!r}")
        position = label.end()
        key_text, value = label.groups()
        if key_text is None:  # a quoted name that stands among the labels: {"my.metric", a="b"}
            if name or labels:
                raise UsageError(f"not a series: {key[:_SHOWN]!r}")
            name = _unescape(value[1:-1])
            continue
        plain = _unescape(key_text[1:-1]) if key_text.startswith('"') else key_text
        if plain in labels:
            raise UsageError(f"not a series, label {plain!r} stands twice: {key[:_SHOWN]!r}")
        labels[plain] = _unescape(value[1:-1])
    if not name:
        raise UsageError(f"not a series, it has no name: {key[:_SHOWN]!r}")
    return name, tuple(sorted(labels.items()))


def _unescape(text: str) -> str:
    return _ESCAPE.sub(lambda m: "\n" if m[1] == "n" else m[1], text) if "\\" in text else text


def _escape(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')


def _label_name(label: str) -> str:
    return label if _PLAIN_NAME.fullmatch(label) and ":" not in label else f'"{_escape(label)}"'
