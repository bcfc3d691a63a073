"""A server's log and its metrics, given together, are one server: what the log tells goes to its metrics."""

import math
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from vllmdoctor.exposition import canonical_series, split_series
from vllmdoctor.recording import Column, FloatArray, Recording
from vllmdoctor.sources.strangers import is_vllm

_LOG = "log:"
_SHARED = 0.5  # the part of the log's time that the metrics must cover to make one history with it
_QUARTER_S, _ZONES = 900.0, 14 * 4  # a log's clock may be in any zone


def joined(recording: Recording) -> Recording:
    """The recording with each log joined to the one server whose time and models it shares.

    Where metrics cover only a smaller part of the log's time, the log stays a history of its own and only
    its settings are shared.
    """
    logs = [name for name, columns in recording.columns.items() if any(map(_of_log, columns))]
    servers = [
        name
        for name, columns in recording.columns.items()
        if any(is_vllm(s) and not _of_log(s) for s in columns)
    ]
    if not logs or not servers:
        return recording
    for log in logs:
        if log in servers:
            continue
        found = [
            (share, shift, server)
            for server in servers
            if (fit := _fit(recording, log, server))
            for share, shift in (fit,)
        ]
        if not found and len(servers) == len(logs) == 1 and _same_models(recording, log, servers[0]):
            recording = _with_facts(recording, log, servers[0])
        elif len(found) == 1 or (found and max(found)[0] > 2 * sorted(found)[-2][0]):
            share, shift, server = max(found)
            recording = _with_facts(recording, log, server)
            if share >= _SHARED:
                recording = _moved(recording, log, server, shift)
    return recording


def _of_log(series: str) -> bool:
    return series.startswith(_LOG)


def _models(columns: Mapping[str, Column]) -> set[str]:
    return {split_series(s)[1].get("model_name", "") for s in columns} - {""}


def _same_models(recording: Recording, log: str, server: str) -> bool:
    told, known = _models(recording.columns[log]), _models(recording.columns[server])
    return not told or not known or bool(told & known)


def _axis(columns: Mapping[str, Column], words: str) -> tuple[FloatArray, FloatArray]:
    """Times of a history and its requests running, all engines added up where they share their times."""
    found = [c for s, c in columns.items() if words in s]
    if not found:
        found = list(columns.values())[:1]
    first = max(found, key=lambda c: c.times.size)
    return first.times, np.nansum([c.values for c in found if c.times is first.times], axis=0)


def _fit(recording: Recording, log: str, server: str) -> tuple[float, float] | None:
    """(part of the log's time that the metrics cover, seconds to add to the log's times), or None."""
    if not _same_models(recording, log, server):
        return None
    times, running = _axis(recording.columns[log], "num_requests_running")
    own, at_server = _axis(recording.columns[server], "num_requests_running")
    span = max(float(times[-1] - times[0]), 1.0)
    best: tuple[float, float, float] | None = None
    for zone in sorted(range(-_ZONES, _ZONES + 1), key=abs):
        shift = zone * _QUARTER_S
        covered = min(times[-1] + shift, own[-1]) - max(times[0] + shift, own[0])
        if covered < 0.5 * min(span, float(own[-1] - own[0])):
            continue
        inside = (times + shift >= own[0]) & (times + shift <= own[-1])
        there = at_server[np.clip(np.searchsorted(own, times[inside] + shift, "right") - 1, 0, own.size - 1)]
        error = float(np.mean(np.abs(running[inside] - there))) if inside.any() else math.inf
        if best is None or error < 0.5 * best[0] - 0.1:
            best = (error, float(covered) / span, shift)
    return None if best is None else (best[1], best[2])


def _with_facts(recording: Recording, log: str, server: str) -> Recording:
    """The log's settings count for the server too."""
    facts = tuple(replace(fact, instance=server) for fact in recording.facts if fact.instance == log)
    return replace(recording, facts=recording.facts + facts)


def _moved(recording: Recording, log: str, server: str, shift: float) -> Recording:
    """The log's series, events and gaps under the server's name, cut to the server's time."""
    own = recording.columns[server]
    names = {
        labels.get("engine", "0"): labels["model_name"]
        for s in own
        if (labels := split_series(s)[1]).get("model_name")
    }
    start = min(float(c.times[0]) for c in own.values())
    end = max(float(c.times[-1]) for c in own.values())
    shifted: dict[int, tuple[FloatArray, slice]] = {}
    columns = dict(own)
    for series, column in recording.columns[log].items():
        name, labels = split_series(series)
        labels = {**labels, "model_name": names.get(labels.get("engine", "0"), labels.get("model_name", ""))}
        if id(column.times) not in shifted:
            times = column.times + shift
            cut = slice(int(np.searchsorted(times, start)), int(np.searchsorted(times, end, "right")))
            shifted[id(column.times)] = (times[cut], cut)
        times, cut = shifted[id(column.times)]
        if times.size:
            columns[canonical_series(name, labels)] = Column(times, column.values[cut])
    rest = {name: of for name, of in recording.columns.items() if name not in (log, server)}
    events = [
        replace(e, instance=server, time=e.time + shift) if e.instance == log else e for e in recording.events
    ]
    return replace(
        recording,
        columns=dict(sorted({**rest, server: columns}.items())),
        facts=tuple(f for f in recording.facts if f.instance != log),
        events=tuple(sorted(events, key=lambda e: (e.time, e.kind, e.text, e.instance))),
        gaps=tuple(replace(gap, origin=server) if gap.origin == log else gap for gap in recording.gaps),
    )
