"""One history, filled into every Prometheus of this machine; the tests ask it over real sockets."""

import os
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from tests.prometheus import fleet, store
from tests.prometheus.gateway import Gateway

from vllmdoctor.recording import Recording
from vllmdoctor.simulator import SCENARIOS, Scrape, simulate, write_openmetrics
from vllmdoctor.sources import Window, gather_targets

SIMULATED = ("fragmentation-sudden-loss", "throttle-no-queue")
EXAMPLES = ("kv-thrash", "overload-kv", "hol-big-batch", "kv-thrash-fix-blocks")


@dataclass(frozen=True, slots=True)
class Filled:
    """A server with the history, and which it is."""

    url: str
    name: str

    @property
    def target(self) -> str:
        return f"prom+{self.url}"


@pytest.fixture(autouse=True)
def no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """No credentials of the person who runs the tests."""
    for name in list(os.environ):
        if name.startswith("VLLMDOCTOR_PROM_") or name.lower().endswith("_proxy"):
            monkeypatch.delenv(name)
    monkeypatch.delenv("VLLMDOCTOR_TOKEN", raising=False)


@pytest.fixture(scope="session")
def recordings() -> dict[str, Recording]:
    """Real recordings, as a Prometheus would have stored them: a pod each."""
    return {
        name: store.stored(
            gather_targets([f"example:{name}"], Window()),
            {"instance": f"10.1.0.{n}:8000", "job": "vllm", "namespace": "examples", "pod": name},
        )
        for n, name in enumerate(EXAMPLES, 1)
    }


@pytest.fixture(scope="session")
def simulated(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Recording]:
    """Simulated histories of some hours, each with a known fault, as they came to a file."""
    folder = tmp_path_factory.mktemp("simulated")
    found = {}
    for name in SIMULATED:
        setup = SCENARIOS[name].setup(7)
        end = (setup.onset_s or 0.0) + 2 * 3600
        setup = replace(setup, duration_s=min(end, setup.duration_s), scrape=Scrape(60.0))
        write_openmetrics(simulate(setup, seed=7), folder / f"{name}.om")
        found[name] = gather_targets([str(folder / f"{name}.om")], Window())
    return found


@pytest.fixture(scope="session")
def histories(
    recordings: dict[str, Recording],
    simulated: dict[str, Recording],
    tmp_path_factory: pytest.TempPathFactory,
) -> list[Path]:
    """All of it as OpenMetrics files."""
    folder = tmp_path_factory.mktemp("history")
    fleet.write(str(folder / "fleet.om"))
    store.write(recordings.values(), folder / "real.om")
    paths = [folder / "fleet.om", folder / "real.om"]
    for n, (name, recording) in enumerate(simulated.items(), 1):
        own = {"instance": f"10.2.0.{n}:8000", "job": "vllm", "namespace": "simulated", "pod": name}
        around = {"instance": "10.250.0.1:9400", "job": "exporters", "namespace": "simulated", "pod": name}
        paths.append(folder / f"{name}.om")
        store.write([store.stored(recording, own, around)], paths[-1])
    return paths


@pytest.fixture(scope="session")
def filled(histories: list[Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Filled]]:
    """Every server of history that can be run here, filled; what cannot is said loudly."""
    found = store.binaries()
    if not found:
        pytest.skip(
            "no Prometheus: install `prometheus` (with promtool), or name a folder in " + store.PROMETHEUS
        )
    servers: dict[str, Filled] = {}
    with ExitStack() as stack:
        for one in found:
            folder = tmp_path_factory.mktemp("prometheus")
            url = stack.enter_context(store.prometheus(one, histories, folder))
            servers[f"prometheus-{one.version.partition('.')[0]}"] = Filled(url, f"Prometheus {one.version}")
        binary = store.victoria()
        if binary:
            folder = tmp_path_factory.mktemp("victoria")
            url = stack.enter_context(store.victoriametrics(binary, histories, folder))
            servers["victoriametrics"] = Filled(url, "VictoriaMetrics")
        yield servers


@pytest.fixture(params=["prometheus-2", "prometheus-3", "victoriametrics"])
def each(request: pytest.FixtureRequest, filled: dict[str, Filled]) -> Filled:
    """Each kind of server in turn."""
    if request.param not in filled:
        pytest.skip(
            f"NOT TESTED: no {request.param} on this machine: see {store.PROMETHEUS} and {store.VICTORIA}"
        )
    return filled[request.param]


@pytest.fixture
def one(filled: dict[str, Filled]) -> Filled:
    """Any of the servers."""
    return next(iter(filled.values()))


@pytest.fixture
def gateway(one: Filled) -> Iterator[Gateway]:
    """A server in front of it that can spoil its answers."""
    gateway = Gateway(one.url)
    yield gateway
    gateway.close()
