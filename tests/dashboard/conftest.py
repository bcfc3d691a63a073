"""Servers of four eras as a Prometheus has them, with the exporters beside them."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.prometheus import store

from vllmdoctor.simulator import Companions, Era, Scrape, Setup, Speculation, simulate, write_openmetrics
from vllmdoctor.simulator.draw import Draw
from vllmdoctor.simulator.faults import Restart
from vllmdoctor.simulator.load import OpenLoop

ERAS = ("0.6.6", "0.8.5", "0.10.2", "0.32.0")
START = 1_790_000_000.0
LENGTH = 5400.0
END = START + LENGTH
RESTARTED = END - 1500
EARLIER = 8 * 3600.0
EVERY = 30.0
_LINE = re.compile(r"([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (\S+ \S+)\Z")
_UNREAD = re.compile(r"python_|\w*_created\b|http_|vllm:(request_params|request_max|request_decode)")


def setup(release: str) -> Setup:
    """A busy server that restarts."""
    draw = Draw(release)
    era = Era(tuple(map(int, release.split("."))))  # type: ignore[arg-type]
    kind = draw.chat()
    server = draw.server(era, blocks=500, prefix=True, speculation=Speculation(3, 0.7))
    return Setup(
        server,
        (OpenLoop(kind, 0.7),),
        (Restart(RESTARTED - START, 0, 90),),
        duration_s=LENGTH,
        era=era,
        scrape=Scrape(EVERY),
        companions=Companions(True, True, True, True),
        start_unix_s=START,
    )


def stored(path: Path, release: str) -> Iterator[str]:
    """The lines of a history with the labels that service discovery gives, also 8 hours earlier."""
    later: list[str] = []
    place = f'namespace="v{release}",pod="vllm-{release}"'
    server = f'{place},instance="10.1.0.{ERAS.index(release)}:8000",job="vllm"'
    for line in path.read_text().splitlines():
        found = _LINE.match(line)
        if found is None or _UNREAD.match(found[1]):
            continue
        own = found[1].startswith(("vllm:", "process_", "up"))
        inside = re.sub(r'(^|,)(pod|namespace|instance|job)="[^"]*"', "", found[2] or "").strip(",")
        added = server if own else f'{place},instance="10.9.0.1:9400",job="exporters"'
        if not own and "container" in found[1] and "container=" not in inside:
            added += ',container="vllm"'
        value, at = found[3].split()
        series = f"{found[1]}{{{inside}{',' if inside else ''}{added}}} {value}"
        yield f"{series} {float(at) - EARLIER:.3f}\n"
        later.append(f"{series} {at}\n")
    yield from later


def around(release: str) -> Iterator[str]:
    """What the simulator does not tell: the cluster's own metrics, the rest of DCGM's, an alert."""
    place = f'namespace="v{release}"'
    pod = f'{place},pod="vllm-{release}",job="exporters"'
    for n in range(int(LENGTH / EVERY)):
        at = START + n * EVERY
        again = int(at >= RESTARTED)
        values = {
            f'kube_pod_container_status_restarts_total{{container="vllm",{pod}}}': again,
            f'kube_deployment_status_replicas_available{{deployment="chat",{place},job="ksm"}}': 1,
            f'kube_deployment_spec_replicas{{deployment="chat",{place},job="ksm"}}': 1,
            f'DCGM_FI_DEV_FB_FREE{{gpu="1",Hostname="node-1",{pod}}}': 4000,
            f'DCGM_FI_DEV_FB_USED{{gpu="1",Hostname="node-1",{pod}}}': 76000,
            f'DCGM_FI_DEV_GPU_TEMP{{gpu="1",Hostname="node-1",{pod}}}': 61,
            f'DCGM_FI_DEV_GPU_UTIL{{gpu="1",Hostname="node-1",{pod}}}': 93,
            f'ALERTS{{alertname="VLLMRequestsQueue",alertstate="firing",{pod}}}': 1,
        }
        yield from (f"{series} {value} {at:.3f}\n" for series, value in values.items())


@pytest.fixture(scope="session")
def history(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """All of it as one OpenMetrics file."""
    folder = tmp_path_factory.mktemp("eras")
    lines: list[str] = []
    for release in ERAS:
        raw = folder / f"{release}.om"
        write_openmetrics(simulate(setup(release), seed=1), raw)
        lines += [*stored(raw, release), *around(release)]
    path = folder / "eras.om"
    path.write_text("".join([*lines, "# EOF\n"]))
    return [path]


@pytest.fixture(scope="session", params=["2", "3"])
def prometheus(
    request: pytest.FixtureRequest, history: list[Path], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    """A Prometheus of each major release that is here, filled; its address."""
    one = next((b for b in store.binaries() if b.version.startswith(f"{request.param}.")), None)
    if one is None:
        pytest.skip(f"NOT TESTED: no Prometheus {request.param} here: see {store.PROMETHEUS}")
    with store.prometheus(one, history, tmp_path_factory.mktemp("prometheus")) as url:
        yield url


@pytest.fixture(scope="session")
def victoria(history: list[Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A VictoriaMetrics with the same history; its address."""
    binary = store.victoria()
    if binary is None:
        pytest.skip(f"NOT TESTED: no VictoriaMetrics here: see {store.VICTORIA}")
    with store.victoriametrics(binary, history, tmp_path_factory.mktemp("victoria")) as url:
        yield url
