"""The ways that are compared, each run in a process of its own: WAY URL END WINDOW QUERIES MAX_POINTS.

The clock runs while asking and taking in; what starting Python costs is measured elsewhere.
"""

import json
import resource
import subprocess
import sys
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

MOST_KEPT = 30_000_000  # points, about 5 GB as lists


def ours(url: str, end: float, window: float, queries: str, points: int) -> dict[str, float]:
    from vllmdoctor.sources import History, Window, gather_targets
    from vllmdoctor.sources.http import Http
    from vllmdoctor.sources.prom import source
    from vllmdoctor.sources.prom.api import Api
    from vllmdoctor.sources.prom.place import Place

    sent: list[tuple[str, list[tuple[str, str]]]] = []
    apis: list[Api] = []
    ask = Http.ask

    def noted(self: Http, asked: str, query: Sequence[tuple[str, str]], whole_s: float = 30.0) -> Any:
        sent.append((asked, list(query)))
        return ask(self, asked, query, whole_s)

    class Noted(Api):
        def __init__(self, place: Place) -> None:
            super().__init__(place)
            apis.append(self)

    vars(source)["Api"] = Noted
    type.__setattr__(Http, "ask", noted)
    history = History(window_s=window, at=end)
    if points:
        history = History(window_s=window, at=end, max_points=points)
    started = time.monotonic()
    recording = gather_targets([f"prom+{url}"], Window(history=history))
    wall = time.monotonic() - started
    Path(queries).write_text(json.dumps(sent))
    assert recording.instances
    pieces = [dict(query) for _, query in sent if "sum by (__name__" in dict(query).get("query", "")]
    steps = sorted({float(piece["step"]) for piece in pieces if "step" in piece})
    return {
        "wall": wall,
        "requests": apis[0].requests,
        "bytes": apis[0].bytes,
        "points": apis[0].points,
        "fine": steps[0],
        "coarse": steps[-1],
    }


def curl(url: str, end: float, window: float, queries: str, points: int) -> dict[str, float]:
    read = 0
    sent = json.loads(Path(queries).read_text())
    started = time.monotonic()
    for asked, query in sent:
        form = urlencode([tuple(pair) for pair in query])
        command = ["curl", "-sS", "-o", "/dev/null", "-w", "%{size_download}"]
        command += [f"{asked}?{form}"] if len(asked) + len(form) < 6000 else ["--data", form, asked]
        read += int(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return {"wall": time.monotonic() - started, "requests": len(sent), "bytes": read, "points": 0}


def naive(url: str, end: float, window: float, queries: str, points: int) -> dict[str, float]:
    from prometheus_api_client import PrometheusConnect
    from requests import Session

    read = requests = 0

    def count(response: Any, **_: object) -> None:
        nonlocal read, requests
        read += len(response.content)
        requests += 1

    started = time.monotonic()
    with Session() as session:
        session.hooks["response"].append(count)
        prometheus = PrometheusConnect(url=url, session=session, timeout=600)
        moment = datetime.fromtimestamp(end, UTC)
        start = datetime.fromtimestamp(end - window, UTC)
        pulled = 0
        kept = []  # to judge it, all of it must be there; a day of a hundred engines does not fit into memory
        for name in prometheus.all_metrics():
            if name.startswith(("vllm:", "process_", "http_")):
                found = prometheus.get_metric_range_data(name, start_time=start, end_time=moment)
                pulled += sum(len(series["values"]) for series in found)
                if pulled < MOST_KEPT:
                    kept.append(found)
    wall = time.monotonic() - started
    return {"wall": wall, "requests": requests, "bytes": read, "points": pulled}


def main() -> None:
    way, url, end, window, queries, points = sys.argv[1:]
    run = {"ours": ours, "curl": curl, "naive": naive}[way]
    found = run(url, float(end), float(window), queries, int(points))
    usage = resource.getrusage(resource.RUSAGE_SELF)
    spent = {"cpu": usage.ru_utime + usage.ru_stime, "rss_mb": usage.ru_maxrss / 1024}
    print(json.dumps(found | spent))


if __name__ == "__main__":
    main()
