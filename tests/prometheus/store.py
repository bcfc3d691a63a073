"""Real servers of history on 127.0.0.1: Prometheus filled by promtool, VictoriaMetrics by import."""

import os
import re
import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from vllmdoctor.exposition import canonical_series, split_series
from vllmdoctor.openmetrics import openmetrics
from vllmdoctor.recording import Column, Recording

PROMETHEUS = "VLLMDOCTOR_TEST_PROMETHEUS"  # folders with `prometheus` and `promtool`, beside those on PATH
VICTORIA = "VLLMDOCTOR_TEST_VICTORIAMETRICS"  # a `victoria-metrics` binary that is not on PATH
READY_S = 20.0


@dataclass(frozen=True, slots=True)
class Binaries:
    """One release of Prometheus with its promtool."""

    prometheus: str
    promtool: str
    version: str


def binaries() -> list[Binaries]:
    """Every Prometheus of this machine, the one on PATH first."""
    folders = [None, *filter(None, os.environ.get(PROMETHEUS, "").split(os.pathsep))]
    found = []
    for folder in folders:
        server, tool = (shutil.which(name, path=folder) for name in ("prometheus", "promtool"))
        if server and tool:
            told = subprocess.run([server, "--version"], capture_output=True, text=True)
            version = re.search(r"version (\S+)", told.stdout + told.stderr)
            found.append(Binaries(server, tool, version[1] if version else "?"))
    return found


def victoria() -> str | None:
    """The VictoriaMetrics of this machine."""
    return os.environ.get(VICTORIA) or shutil.which("victoria-metrics")


def stored(
    recording: Recording, place: Mapping[str, str], companions: Mapping[str, str] | None = None
) -> Recording:
    """A recording with the labels that service discovery would have given its series.

    `place` is for the server's own series, `companions` for those of exporters beside it. What no
    judgement reads is left out, to be filled in sooner.
    """
    columns: dict[str, dict[str, Column]] = {}
    for of in recording.columns.values():
        for key, column in of.items():
            name, labels = split_series(key)
            if name.endswith("_created") or name.startswith("python_"):
                continue
            own = name.startswith(("vllm:", "http_", "process_", "python_", "up"))
            added = place if own else (companions or {})
            merged = {**labels, **added}
            columns.setdefault(merged.get("instance", "?"), {})[canonical_series(name, merged)] = column
    return Recording(columns)


def write(recordings: Iterable[Recording], path: Path) -> None:
    """All recordings as one OpenMetrics file."""
    columns: dict[str, dict[str, Column]] = {}
    for recording in recordings:
        for instance, of in recording.columns.items():
            columns.setdefault(instance, {}).update(of)
    with path.open("w", encoding="utf-8") as file:
        file.writelines(openmetrics(Recording(columns)))


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@contextmanager
def prometheus(one: Binaries, histories: Sequence[Path], folder: Path, *flags: str) -> Iterator[str]:
    """A running Prometheus with histories; its address.

    promtool reads a file again for each 27 h between its first and last sample: what is far apart
    comes in files of its own.
    """
    data, config, port = folder / "data", folder / "prometheus.yml", free_port()
    backfill = ("tsdb", "create-blocks-from", "openmetrics", "-q", "--max-block-duration=27h")
    for history in () if data.exists() else histories:
        subprocess.run([one.promtool, *backfill, str(history), str(data)], check=True, capture_output=True)
    config.write_text("scrape_configs: []\n")
    command = [
        *(one.prometheus, f"--config.file={config}", f"--storage.tsdb.path={data}"),
        *("--storage.tsdb.retention.time=100y", f"--web.listen-address=127.0.0.1:{port}", "--log.level=warn"),
        *flags,
    ]
    prefix = next((flag.partition("=")[2] for flag in flags if flag.startswith("--web.route-prefix")), "")
    guarded = any(flag.startswith("--web.config.file") for flag in flags)
    with running(command, folder / "log") as process:
        wait_for(f"http://127.0.0.1:{port}{prefix}/-/ready", process, any_answer=guarded)
        yield f"http://127.0.0.1:{port}{prefix}"


@contextmanager
def victoriametrics(binary: str, histories: Sequence[Path], folder: Path) -> Iterator[str]:
    """A running VictoriaMetrics with histories; its address."""
    port = free_port()
    command = [
        *(binary, f"-storageDataPath={folder / 'data'}", f"-httpListenAddr=127.0.0.1:{port}"),
        *("-retentionPeriod=100y", "-search.latencyOffset=0s"),
    ]
    url = f"http://127.0.0.1:{port}"
    with running(command, folder / "log") as process:
        wait_for(f"{url}/health", process)
        for history in histories:
            rows = (row.rpartition(" ") for row in history.read_text().splitlines() if row[0] != "#")
            # its import wants milliseconds
            body = "\n".join(f"{head} {round(float(at) * 1000)}" for head, _, at in rows).encode()
            urllib.request.urlopen(f"{url}/api/v1/import/prometheus", data=body, timeout=60).read()
        urllib.request.urlopen(f"{url}/internal/force_flush", timeout=60).read()
        yield url


@contextmanager
def running(command: Sequence[str], log: Path) -> Iterator["subprocess.Popen[bytes]"]:
    with log.open("wb") as file:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=file)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def wait_for(url: str, process: "subprocess.Popen[bytes]", *, any_answer: bool = False) -> None:
    """Until it answers 200, or anything where it wants a login or TLS."""
    end = time.monotonic() + READY_S
    while time.monotonic() < end:
        if process.poll() is not None:
            raise RuntimeError(f"{process.args!r} ended with {process.returncode}")
        try:
            urllib.request.urlopen(url, timeout=1).read()
            return
        except OSError as error:
            if any_answer and isinstance(error, urllib.error.HTTPError):
                return
            time.sleep(0.02)
    raise RuntimeError(f"{url} did not answer in {READY_S:g} s")
