"""What rules give over histories in a real Prometheus: recordings first, then alerts with `for`."""

import json
import shutil
import subprocess
import urllib.parse
import urllib.request
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from bench.alerts.history import START, STEP_S, lines_of, names_in
from tests.prometheus import store

from vllmdoctor.alerts import Alert, Group, Record
from vllmdoctor.units import parse_duration

LOOKBACK = "--query.lookback-delta=90s"  # a series that stopped is stale after a scrape, as it is in life


@dataclass(frozen=True, slots=True)
class Firing:
    """One alert over one history: when it fired, in seconds from the start."""

    alert: str
    history: str
    spans: tuple[tuple[float, float], ...]


Row = tuple[dict[str, str], np.ndarray, np.ndarray]


def asked(url: str, expr: str, end: float) -> list[Row]:
    """The rows of a range query over all of the histories, a step a minute."""
    form = {"query": expr, "start": f"{START}", "end": f"{end}", "step": f"{STEP_S:g}"}
    body = urllib.parse.urlencode(form).encode()
    with urllib.request.urlopen(f"{url}/api/v1/query_range", data=body, timeout=600) as answer:
        found = json.load(answer)["data"]["result"]
    rows = []
    for series in found:
        labels = {k: v for k, v in series["metric"].items() if k != "__name__"}
        values = np.array([float(v) for _, v in series["values"]])
        rows.append((labels, np.array([float(t) for t, _ in series["values"]]), values))
    return rows


def levels(records: Sequence[Record]) -> list[list[Record]]:
    """Recordings in the order in which they can be made: each after those that it reads."""
    left, made, found = list(records), set[str](), []
    names = {r.name for r in records}
    while left:
        ready = [r for r in left if not (names_in([r.expr]) & names) - made - {r.name}]
        ready = [r for r in ready if r.name not in names_in([r.expr])] or ready
        found.append(ready)
        made |= {r.name for r in ready}
        left = [r for r in left if r not in ready]
    return found


def evaluate(
    one: store.Binaries, history: Path, folder: Path, groups: Sequence[Group], length: float
) -> list[Firing]:
    """When each alert of the groups fires over the histories of a file."""
    shutil.rmtree(folder / "data", ignore_errors=True)
    end = START + length
    fill(one, history, folder)
    for n, level in enumerate(levels([r for g in groups for r in g.rules if isinstance(r, Record)])):
        part = folder / f"recorded-{n}.om"
        with store.prometheus(one, (), folder, LOOKBACK) as url, part.open("w") as file:
            for record in level:
                file.writelines(lines_of(record.name, asked(url, record.expr, end)))
            file.write("# EOF\n")
        fill(one, part, folder)
    found = []
    with store.prometheus(one, (), folder, LOOKBACK) as url:
        for alert in (r for g in groups for r in g.rules if isinstance(r, Alert)):
            found += firings(alert, asked(url, alert.expr, end))
    return found


def fill(one: store.Binaries, part: Path, folder: Path) -> None:
    """Put a file's samples into the store, which does not run."""
    words = ("tsdb", "create-blocks-from", "openmetrics", "-q", "--max-block-duration=27h")
    subprocess.run([one.promtool, *words, str(part), str(folder / "data")], check=True, capture_output=True)


def firings(alert: Alert, rows: Sequence[Row]) -> list[Firing]:
    """Pending becomes firing after `for`, and stays for `keep_firing_for`; series of a history are joined."""
    spans: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for labels, times, _ in rows:
        spans[labels.get("namespace", "")] += fired(
            times - START, seconds(alert.form.wait), seconds(alert.form.linger)
        )
    return [Firing(alert.name, history, joined(found)) for history, found in spans.items() if found]


def seconds(text: str) -> float:
    return 0.0 if text in ("", "0m") else parse_duration(text)


def fired(times: np.ndarray, wait: float, linger: float) -> list[tuple[float, float]]:
    """The spans in which one series fires."""
    edges = np.flatnonzero(np.diff(times) > 1.5 * STEP_S)
    found = []
    for first, last in zip(np.r_[0, edges + 1], np.r_[edges, times.size - 1], strict=True):
        begin, end = float(times[first]), float(times[last])
        if end - begin >= wait:
            found.append((begin + wait, end + linger))
    return found


def joined(spans: Sequence[tuple[float, float]]) -> tuple[tuple[float, float], ...]:
    """Spans in order, those that touch as one."""
    found: list[tuple[float, float]] = []
    for begin, end in sorted(spans):
        if found and begin <= found[-1][1] + STEP_S:
            found[-1] = (found[-1][0], max(found[-1][1], end))
        else:
            found.append((begin, end))
    return tuple(found)
