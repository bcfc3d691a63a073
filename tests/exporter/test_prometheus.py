"""A real Prometheus scrapes the exporter, and the exporter asks a real Prometheus."""

import json
import re
import threading
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from bench.export.stage import Stage
from tests.prometheus import store
from tests.prometheus.store import Binaries

from vllmdoctor.exporting.loop import Exporter
from vllmdoctor.exporting.metrics import application
from vllmdoctor.exporting.settings import Clock, Settings
from vllmdoctor.exporting.web import Web
from vllmdoctor.model import Verdict
from vllmdoctor.simulator import SCENARIOS
from vllmdoctor.sources import History, Window, gather_targets

if TYPE_CHECKING:
    from vllmdoctor.exporting.state import State

FOUND = store.binaries()
PATIENCE_S = 30.0


@pytest.fixture(params=["2", "3"])
def prometheus(request: pytest.FixtureRequest) -> Binaries:
    for one in FOUND:
        if one.version.startswith(f"{request.param}."):
            return one
    pytest.skip(f"NOT TESTED: no Prometheus {request.param} here: install it, or see {store.PROMETHEUS}")


@contextmanager
def scraping(one: Binaries, place: str, folder: Path) -> Iterator[str]:
    """A Prometheus that scrapes a place every second, as docs/exporter.md says."""
    port = store.free_port()
    config = folder / "prometheus.yml"
    config.write_text(
        "global: {scrape_interval: 1s}\n"
        "scrape_configs:\n"
        f"  - {{job_name: vllmdoctor, honor_labels: true, static_configs: [{{targets: ['{place}']}}]}}\n"
    )
    command = [
        *(one.prometheus, f"--config.file={config}", f"--storage.tsdb.path={folder / 'data'}"),
        *(f"--web.listen-address=127.0.0.1:{port}", "--log.level=warn"),
    ]
    with store.running(command, folder / "log") as process:
        store.wait_for(f"http://127.0.0.1:{port}/-/ready", process)
        yield f"http://127.0.0.1:{port}"


def asked(url: str, query: str) -> list[dict[str, Any]]:
    text = urllib.request.urlopen(
        f"{url}/api/v1/query?{urllib.parse.urlencode({'query': query})}", timeout=10
    )
    found: list[dict[str, Any]] = json.load(text)["data"]["result"]
    return found


def until(url: str, query: str, *, there: bool) -> list[dict[str, Any]]:
    """The answer to a query once there is one, or once there is none."""
    end = time.monotonic() + PATIENCE_S
    while bool(found := asked(url, query)) != there:
        assert time.monotonic() < end, query
        time.sleep(0.1)
    return found


def test_a_finding_is_in_prometheus_and_goes_when_the_server_does(
    prometheus: Binaries, tmp_path: Path
) -> None:
    setup = SCENARIOS["overload-kv-step"].setup(1)
    seen, ended = threading.Event(), threading.Event()
    begin = float((setup.onset_s or 0.0) // 60 * 60 + 600)  # the fault is ten minutes old
    dies = begin + 600
    with Stage(setup, outages=[(dies, 9e9)]) as stage:
        stage.at(begin)

        def sleep(seconds: float) -> bool:
            """As fast as it can until the server dies; before and after, it stands still for Prometheus."""
            if stage.passed_s == dies - 15:
                seen.wait(2 * PATIENCE_S)
            stage.at(stage.passed_s + seconds)
            if stage.passed_s == dies + 120:
                ended.wait(2 * PATIENCE_S)
            return stage.passed_s >= dies + 120

        clock = Clock(lambda: stage.now, lambda: stage.passed_s, sleep)
        exporter = Exporter([stage.url], Settings(), clock)
        web = Web("127.0.0.1:0", application(lambda: exporter.state, clock.now), lambda: True)
        loop = threading.Thread(target=exporter.run)
        with scraping(prometheus, web.url.removeprefix("http://"), tmp_path) as url:
            loop.start()
            query = 'vllmdoctor_finding{cause="overload"} == 1'
            (found,) = until(url, query, there=True)
            labels = found["metric"]
            assert labels["severity"] == "critical"
            assert labels["instance"] == stage.url.removeprefix("http://")
            seen.set()
            assert until(url, "vllmdoctor_up == 0", there=True)
            until(url, "vllmdoctor_finding", there=False)
            until(url, "vllmdoctor_rule_status", there=False)
            assert asked(url, "vllmdoctor_diagnoses_total")
            ended.set()
        loop.join(PATIENCE_S)
        web.close()


def test_a_prometheus_as_the_target_of_an_exporter(prometheus: Binaries, tmp_path: Path) -> None:
    """Each diagnosis asks it again; when it is gone there is no answer."""
    recording = gather_targets(["example:overload-kv"], Window())
    own = {"instance": "10.1.0.1:8000", "job": "vllm", "namespace": "examples", "pod": "overload-kv"}
    store.write([store.stored(recording, own)], tmp_path / "history.om")
    states: list[State] = []
    passed = 0.0

    def sleep(seconds: float) -> bool:
        nonlocal passed
        states.append(exporter.state)
        passed += seconds
        return passed > 60

    ask = History(300.0, recording.end)
    settings = Settings(keep_s=300.0, prometheus=ask)
    told: list[str] = []
    with store.prometheus(prometheus, [tmp_path / "history.om"], tmp_path) as url:
        clock = Clock(lambda: recording.end, lambda: passed, sleep)
        exporter = Exporter([f"prom+{url}"], settings, clock, told.append)
        exporter.run()
        (answer,) = states[0].answers
        assert (answer.verdict, answer.primary) == (Verdict.SICK, "overload")
        assert states[0].targets[0].up

        late = Clock(lambda: recording.end + 3600, lambda: passed, lambda _: True)
        belated = Exporter([f"prom+{url}"], settings, late, told.append)
        belated.run()
        assert belated.state.answers == ()
        assert re.fullmatch(
            r"diagnosis: no server was seen lately: the newest sample is 36\d\d s old", told[-1]
        )

    passed = 0.0
    exporter.run()  # it is gone now
    assert exporter.state.answers == ()
    assert exporter.state.targets[0].up is False
    assert exporter.state.errors["unreachable"] == 2
