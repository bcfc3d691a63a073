"""Labelled histories as a Prometheus would have stored them: one sample a minute, only what rules read.

Each history is a namespace of its own and all of them begin at one moment, so that one query asks them all.
"""

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from bench.accuracy.histories import open_history, setup_of
from bench.accuracy.truth import History, Truth

from vllmdoctor.exposition import canonical_series, split_series
from vllmdoctor.openmetrics import openmetrics
from vllmdoctor.promql import names_for
from vllmdoctor.recording import Column, Recording
from vllmdoctor.release import Span, Version, version
from vllmdoctor.signals import SIGNALS, Name, family_name
from vllmdoctor.simulator.companions import CONTAINER

START = 1_789_992_000.0  # unix time: on a whole day, so that steps of any width fall on it
STEP_S = 60.0
FIRST_HOST = 10  # of the simulator's pods: 10.0.0.10
EXPORTERS = ("container_", "kube_", "DCGM_")
NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")


@dataclass(frozen=True, slots=True)
class Labelled:
    """A history's key, its truth with times from its start (s), its length (s) and the era of its names."""

    key: str
    truth: Truth
    onset: float | None
    effect: float | None
    length: float
    era: str


def names_in(expressions: Collection[str]) -> frozenset[str]:
    """Every word of the expressions that may be a metric's name."""
    return frozenset(word for e in expressions for word in NAME.findall(e))


def labelled(history: History, folder: Path | None) -> tuple[Labelled, Recording]:
    """A simulated history with its labels, shifted to START."""
    setup = setup_of(history)
    truth, recording = open_history(history, folder)
    begin = setup.start_unix_s

    def since(moment: float | None) -> float | None:
        return None if moment is None else moment - begin

    told = Labelled(
        history.key, truth, since(truth.onset), since(truth.effect), setup.duration_s, setup.era.name
    )
    return told, placed(recording, history.key, START - begin)


def placed(recording: Recording, key: str, shift: float) -> Recording:
    """The series with the labels that service discovery gives, a sample a minute, moved in time."""
    columns: dict[str, dict[str, Column]] = {}
    for instance, of in recording.columns.items():
        for series, column in of.items():
            name, labels = split_series(series)
            pod = labels.get("pod") or pod_of(instance)
            if name.startswith(EXPORTERS):
                place = {"namespace": key, "pod": pod, "instance": f"exporter-{pod}", "job": "exporter"}
                if name.startswith("container_"):
                    place["container"] = CONTAINER
            else:
                place = {"namespace": key, "pod": pod, "instance": f"{pod}:8000", "job": "vllm"}
            columns.setdefault(f"{key}/{instance}", {})[canonical_series(name, labels | place)] = thinned(
                column, shift
            )
    return Recording(columns)


def pod_of(instance: str) -> str:
    """The pod behind an address of the simulator's: 10.0.0.10 is the first."""
    last = instance.partition(":")[0].rpartition(".")[2]
    return f"vllm-{int(last) - FIRST_HOST}" if last.isdigit() else instance


def thinned(column: Column, shift: float) -> Column:
    """The last sample of each minute; samples that are a minute apart are all kept."""
    times = column.times + shift
    if times.size > 2 and float(np.median(np.diff(times))) < 0.9 * STEP_S:
        minutes = np.floor((times - START) / STEP_S)
        last = np.append(np.diff(minutes) > 0, True)
        return Column(times[last], column.values[last])
    return Column(times, column.values)


def read_by(recording: Recording, names: Collection[str]) -> Recording:
    """The series whose names rules read."""
    return Recording(
        {
            i: {s: c for s, c in of.items() if s.partition("{")[0] in names}
            for i, of in recording.columns.items()
        }
    )


def labelled_series(recording: Recording, key: str, shift: float, names: Collection[str]) -> Recording:
    """Both: the series that rules read, with the labels of discovery."""
    return read_by(placed(recording, key, shift), names)


def named(recording: Recording, release: Version) -> Recording:
    """The same history under the names of another release; what that release does not show is left out.

    Releases before 0.8.3 have no label for the engine.
    """
    names = names_for(release)
    spelt: dict[str, str | None] = {}
    for signal in SIGNALS.values():
        if signal.scope == "engine" or signal.name == "http_requests":
            shown = [n.text for n in names.get(signal.name, ()) if in_release(n, release)]
            spelt |= {n.text: (shown[0] if shown else None) for n in signal.names}
    columns: dict[str, dict[str, Column]] = {}
    for instance, of in recording.columns.items():
        for series, column in of.items():
            raw, labels = split_series(series)
            family = family_name(raw)
            name = spelt.get(family, family)
            if name is None:
                continue
            if raw.startswith("vllm:") and release < version("0.8.3"):
                labels = {k: v for k, v in labels.items() if k != "engine"}
            placed = canonical_series(name + raw[len(family) :], labels)
            columns.setdefault(instance, {})[placed] = column
    return Recording(columns)


def in_release(name: Name, release: Version) -> bool:
    """Whether a release has the name, be it hidden or not."""
    low = version(name.since) if name.since else None
    return Span(low, version(name.until) if name.until else None).holds(release)


def write(recordings: Collection[Recording], path: Path) -> None:
    """One OpenMetrics file of all of them."""
    columns: dict[str, Mapping[str, Column]] = {}
    for recording in recordings:
        columns |= recording.columns
    with path.open("w", encoding="utf-8") as file:
        file.writelines(openmetrics(Recording(columns)))


def lines_of(name: str, rows: Collection[tuple[Mapping[str, str], np.ndarray, np.ndarray]]) -> Iterator[str]:
    """A recorded series as OpenMetrics lines."""
    yield f"# TYPE {name} gauge\n"
    for labels, times, values in rows:
        series = canonical_series(name, labels)
        for time, value in zip(times, values, strict=True):
            if np.isnan(value):
                continue
            yield f"{series} {float(value):.12g} {time:.0f}\n"
