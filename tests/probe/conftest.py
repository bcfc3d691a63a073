"""A real server that speaks the OpenAI API, and a way to probe it from the command line."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from bench.probe.server import Behave, Server

from vllmdoctor.cli import main
from vllmdoctor.recording import Recording, gather
from vllmdoctor.recording_lines import Decoder

Serve = Callable[..., Server]


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Start servers that behave as told; they end with the test."""
    servers: list[Server] = []

    def start(behave: Behave, **about: Any) -> Server:
        servers.append(Server(behave, **about))
        return servers[-1]

    yield start
    for server in servers:
        server.close()


@dataclass
class Probed:
    """What a probe left behind."""

    code: int
    out: str
    err: str
    path: Path

    @property
    def report(self) -> dict[str, Any]:
        told: dict[str, Any] = json.loads(self.out)
        return told

    @property
    def recording(self) -> Recording:
        with self.path.open("rb") as file:
            return gather(Decoder("test").decode(file))


Probe = Callable[..., Probed]


@pytest.fixture
def probe(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Probe:
    """`vllmdoctor probe` on a server with some requests; JSON unless told otherwise."""

    def run(url: str, requests: list[Any], *options: str, fmt: str = "json") -> Probed:
        file, path = tmp_path / "requests.jsonl", tmp_path / "probe.rec"
        file.write_text("".join(json.dumps(r) + "\n" for r in requests))
        path.unlink(missing_ok=True)
        told = ["--concurrency", "4"] if "--concurrency" not in options else []
        code = main(["probe", url, "--requests", str(file), "-o", str(path), "-f", fmt, *told, *options])
        said = capsys.readouterr()
        return Probed(code, said.out, said.err, path)

    return run
