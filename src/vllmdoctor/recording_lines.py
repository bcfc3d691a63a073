"""The format of our own recordings: JSON lines that can be appended to and read at any moment.

    {"schema": "vllmdoctor/recording/1", ...}      the header; again wherever writing was resumed
    {"fact": {...}} {"event": {...}} {"gap": {...}} as in the model, in the order they came
    {"set": 1, "instance": "h:8000", "series": []}  the names of a target's series, once
    {"set": 1, "more": []}                          names that appeared later
    [1, 1795960204.2, [3, 0.5, null]]               a scrape in full: set, time, a value a name
    [1, 1795960209.2, 0, 4, 2, "NaN"]               what changed since: position, value, ...
    {"samples": {...}}                              one series' history with times of its own
    {"next": "night.2.rec"}                         where the recording goes on

A null is a series that this scrape did not show. Every 240th scrape is written in full, so that
a damaged line costs at most the scrapes up to the next full one.
"""

import json
import math
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from typing import Any

from vllmdoctor.errors import UsageError
from vllmdoctor.model import Event, Fact, Gap, Observation, Samples, Snapshot

SCHEMA = "vllmdoctor/recording/1"
FAMILY = "vllmdoctor/recording/"
"""What every header's schema starts with, whatever its version."""

FULL_EVERY = 240

_COMPACT = (",", ":")
_KINDS = {"fact": Fact, "event": Event, "gap": Gap, "samples": Samples}


class Encoder:
    """Turns observations into lines; remembers what the last scrape of each target showed."""

    def __init__(self) -> None:
        self._sets: dict[str, _Set] = {}
        self._count = 0

    def encode(self, observation: Observation) -> str:
        """The lines for one observation, each with its line feed."""
        match observation:
            case Snapshot():
                return self._scrape(observation)
            case Samples(instance, series, times, values):
                spelled = {"times": list(times), "values": [_spell(v) for v in values]}
                return line({"samples": {"instance": instance, "series": series, **spelled}})
            case Fact():
                return line({"fact": asdict(observation)})
            case Event():
                return line({"event": asdict(observation)})
            case Gap():
                return line({"gap": asdict(observation)})

    def _scrape(self, snapshot: Snapshot) -> str:
        names = self._sets.get(snapshot.instance)
        lines = ""
        if names is None or len(names.index) > 2 * len(snapshot.values) + 100:
            self._count += 1
            names = self._sets[snapshot.instance] = _Set(self._count)
            names.index.update({series: at for at, series in enumerate(snapshot.values)})
            lines = line({"set": names.id, "instance": snapshot.instance, "series": list(snapshot.values)})
        elif more := [series for series in snapshot.values if series not in names.index]:
            names.index.update({series: at for at, series in enumerate(more, len(names.index))})
            lines = line({"set": names.id, "more": more})
        return lines + names.row(snapshot)


class _Set:
    """The series of one target in their order, and the row written last."""

    def __init__(self, number: int) -> None:
        self.id = number
        self.index: dict[str, int] = {}
        self._row: list[float | None] = []
        self._since_full = FULL_EVERY

    def row(self, snapshot: Snapshot) -> str:
        row = [snapshot.values.get(series) for series in self.index]
        before, self._row = self._row, row
        self._since_full += 1
        if self._since_full >= FULL_EVERY or len(before) != len(row):
            self._since_full = 0
            return line([self.id, snapshot.time, [_spell(value) for value in row]])
        changes: list[Any] = [self.id, snapshot.time]
        for at, (new, old) in enumerate(zip(row, before, strict=True)):
            if new is not old and new != old and not (new != new and old != old):
                changes += (at, _spell(new))
        return line(changes)


def line(content: object) -> str:
    """One line of the format."""
    return json.dumps(content, separators=_COMPACT) + "\n"


def header(**about: str | float | bool | list[str]) -> str:
    """The line a recording starts with."""
    return line({"schema": SCHEMA, **about})


class Decoder:
    """Turns lines back into observations. After reading, `next_part` names where it goes on."""

    def __init__(self, origin: str) -> None:
        self._origin = origin
        self._sets: dict[int, _Columns] = {}
        self._bad: list[int] = []
        self.next_part = ""

    def decode(self, lines: Iterable[bytes]) -> Iterator[Observation]:
        """Read all lines; what is damaged is left out and told in a Gap at the end.

        UsageError where the recording is of a schema this version does not know.
        """
        torn = False
        for number, text in enumerate(lines, 1):
            if not text.strip():
                continue
            torn = False
            try:
                observation = self._line(json.loads(text))
            except (ArithmeticError, LookupError, RecursionError, TypeError, ValueError):
                self._bad.append(number)
                torn = not text.endswith(b"\n")
                for columns in self._sets.values():
                    columns.trusted = False
                continue
            if observation is not None:
                yield observation
        if torn:
            self._bad.pop()
            yield Gap(self._origin, "last line", "it was cut off in the middle and left out")
        if self._bad:
            what = f"{len(self._bad)} line{'s' if len(self._bad) > 1 else ''}"
            yield Gap(self._origin, what, f"damaged, or following a damaged one (first: line {self._bad[0]})")

    def _line(self, content: Any) -> Observation | None:
        if isinstance(content, list):
            columns = self._sets[content[0]]
            return Snapshot(_time(content[1]), columns.instance, columns.values(content[2:]))
        for kind, noun in _KINDS.items():
            if kind in content:
                return _checked(noun(**content[kind]))
        if "schema" in content:
            _check_schema(content["schema"], self._origin)
            self._sets.clear()
        elif "more" in content:
            self._sets[content["set"]].extend(_texts(content["more"]))
        elif "set" in content:
            instance, series = _texts([content["instance"]])[0], _texts(content["series"])
            self._sets[content["set"]] = _Columns(instance, series)
        elif "next" in content:
            self.next_part = _texts([content["next"]])[0]
        return None


class _Columns:
    """One set while reading: the names and the current row."""

    def __init__(self, instance: str, series: list[str]) -> None:
        self.instance = instance
        self._series = series
        self._row: list[float | None] = []
        self.trusted = False  # until a full row

    def extend(self, series: list[str]) -> None:
        self._series += series
        self.trusted = False

    def values(self, changes: list[Any]) -> dict[str, float]:
        """The scrape's values after a row's content; ValueError where the row cannot be trusted."""
        if changes and isinstance(changes[0], list):
            if len(changes[0]) != len(self._series):
                self.trusted = False
                raise ValueError("as many values as names are wanted")
            self._row = [_number(value) for value in changes[0]]
            self.trusted = True
        elif not self.trusted or len(changes) % 2:
            raise ValueError("a change needs the row before it")
        else:
            pairs = [(at, _number(v)) for at, v in zip(changes[::2], changes[1::2], strict=True)]
            for at, value in pairs:
                self._row[at] = value
        if None in self._row:
            return {s: v for s, v in zip(self._series, self._row, strict=True) if v is not None}
        return dict(zip(self._series, self._row, strict=True))  # type: ignore[arg-type]  # no None in it


def _spell(value: float | None) -> float | int | str | None:
    """A value as JSON has it: whole numbers short, and what JSON lacks as a word."""
    if value is None:
        return None
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else "+Inf" if value > 0 else "-Inf"
    return int(value) if abs(value) < 1e15 and value == int(value) else value


def _number(value: object) -> float | None:
    if value is None or type(value) is float:
        return value
    if isinstance(value, int | str):
        return float(value)
    raise ValueError("a value is a number")


def _time(value: object) -> float:
    if isinstance(value, float | int):
        return float(value)
    raise ValueError("a time is a number")


def _texts(values: object) -> list[str]:
    if isinstance(values, list) and all(isinstance(value, str) for value in values):
        return values
    raise ValueError("names are texts")


def _checked(noun: Fact | Event | Gap | Samples) -> Observation:
    """The noun, if what was read into it has the right kinds of values; ValueError else."""
    match noun:
        case Samples(instance, series, times, values):
            _texts([instance, series])
            if len(times) != len(values) or None in values:
                raise ValueError("a value a time is wanted")
            return Samples(instance, series, [_time(t) for t in times], [_number(v) or 0.0 for v in values])
        case Event(time, kind, text, instance, origin):
            _texts([kind, text, instance, origin])
            _time(time)
        case Gap(origin, what, why, hint):
            _texts([origin, what, why, hint])
        case Fact(key, value, origin, instance):
            _texts([key, origin, instance])
            if not isinstance(value, str | float | int):
                raise ValueError("a fact is a text or a number")
    return noun


def _check_schema(schema: object, origin: str) -> None:
    if schema == SCHEMA:
        return
    if isinstance(schema, str) and schema.startswith(FAMILY):
        raise UsageError(
            f"{origin} is a recording of schema {schema!r}; this version reads {SCHEMA!r}",
            hint="upgrade vllmdoctor",
        )
    raise UsageError(f"{origin} has the schema {schema!r}, which is no recording")
