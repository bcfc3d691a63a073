"""The dashboard as a file: Grafana's own types, its layout, its links; and the command that writes it."""

import json
import shutil
import subprocess
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from vllmdoctor.cli import main
from vllmdoctor.dashboard import Scope, dashboard, rows
from vllmdoctor.promql import names_for
from vllmdoctor.release import Version, version
from vllmdoctor.rules import get
from vllmdoctor.versions import releases

HERE = Path(__file__).parent
GOLDEN = HERE.parent / "golden"


def panels(text: str) -> list[dict[str, Any]]:
    return [panel for panel in json.loads(text)["panels"] if panel["type"] != "row"]


def test_it_is_of_grafanas_own_types() -> None:
    if shutil.which("node") is None or not (HERE / "node_modules").is_dir():
        pytest.skip("NOT CHECKED: no types of Grafana (npm install in tests/dashboard)")
    text = dashboard(None)
    wrong = text.replace('"mode": "absolute"', '"mode": "relative"', 1).replace('"h": 8', '"h": "8"', 1)
    told = subprocess.run(
        ["node", str(HERE / "check.mjs"), str(HERE)],
        input=f"[{text}, {dashboard(version('0.6.6'), server='instance')}, {wrong}]",
        capture_output=True,
        text=True,
    )
    assert (told.returncode, told.stderr) == (0, "")
    assert [line[:3] for line in told.stdout.splitlines()] == ["2: ", "2: "]
    assert "not assignable" in told.stdout


def test_the_dashboard_for_all_releases_is_as_it_was() -> None:
    assert dashboard(None) == (GOLDEN / "dashboard.json").read_text()


def test_no_two_panels_overlap_and_each_line_is_full() -> None:
    for server in ("pod", "instance"):
        document = json.loads(dashboard(None, server=server))
        taken: set[tuple[int, int]] = set()
        for panel in document["panels"]:
            place = panel["gridPos"]
            cells = {
                (x, y)
                for x in range(place["x"], place["x"] + place["w"])
                for y in range(place["y"], place["y"] + place["h"])
            }
            assert not cells & taken, panel["title"]
            taken |= cells
        assert taken == {(x, y) for x in range(24) for y in range(max(y for _, y in taken) + 1)}


def test_ids_titles_and_letters_are_each_given_once() -> None:
    found = json.loads(dashboard(None))["panels"]
    assert [panel["id"] for panel in found] == list(range(1, len(found) + 1))
    titles = [panel["title"] for panel in found]
    assert len(set(titles)) == len(titles)
    for panel in panels(dashboard(None)):
        assert [target["refId"] for target in panel["targets"]] == list("ABC"[: len(panel["targets"])])


def test_every_panel_says_what_it_answers_and_names_pages_that_are_there() -> None:
    linked = set()
    for row in rows(Scope.of(names_for(None))):
        for panel in row.panels:
            assert panel.answers.endswith((".", "?"))
            linked |= set(panel.causes)
    for slug in linked - {"unexplained"}:
        assert get(slug)
    text = dashboard(None, runbooks="https://wiki.example/runbooks/")
    queue = next(panel for panel in panels(text) if panel["title"] == "Queue")
    assert "[overload](https://wiki.example/runbooks/overload.md)" in queue["description"]
    assert "`vllmdoctor explain overload`" in dashboard(None)


def test_limits_are_those_of_the_rules() -> None:
    usage = next(panel for panel in panels(dashboard(None)) if panel["title"] == "KV use")
    steps = usage["fieldConfig"]["defaults"]["thresholds"]["steps"]
    limits = get("overload").limits["usage"].value, get("kv-fragmentation").limits["usage"].value
    assert [step["value"] for step in steps] == [None, *limits]
    for panel in panels(dashboard(None)):
        values = [step["value"] for step in panel["fieldConfig"]["defaults"]["thresholds"]["steps"]]
        assert values[0] is None
        assert all(low < high for low, high in pairwise(values[1:]))


def test_a_release_is_asked_for_its_own_names_only() -> None:
    assert "vllm:gpu_cache_usage_perc" not in dashboard(version("0.12.0"))
    assert "vllm:kv_cache_usage_perc" not in dashboard(version("0.8.5"))
    both = dashboard(None)
    assert "vllm:gpu_cache_usage_perc" in both
    assert "vllm:kv_cache_usage_perc" in both


@pytest.mark.parametrize("release", releases(), ids=str)
def test_every_release_has_one_and_a_panel_without_its_metric_is_left_out(release: Version) -> None:
    titles = {panel["title"] for panel in panels(dashboard(release))}
    assert ("Time in the queue" in titles) == (release >= version("0.6.4"))
    assert "Throughput" in titles


def test_without_kubernetes_nothing_is_asked_of_the_cluster() -> None:
    text = dashboard(None, server="instance")
    assert "kube_" not in text
    assert "container_" not in text
    assert "$namespace" not in text
    assert 'instance=~\\"$server\\"' in text


def test_the_command_writes_a_new_file_and_never_over_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "vllm.json"
    assert main(["dashboard", "--vllm-version", "0.10.2", "-o", str(path)]) == 0
    assert path.read_text() == dashboard(version("0.10.2"))
    assert capsys.readouterr().out == ""
    path.write_text("mine")
    assert main(["dashboard", "-o", str(path)]) == 2
    assert path.read_text() == "mine"
    assert "exists" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--server-label", "host"], "no server label named 'host'"),
        (["--runbooks", "wiki"], "not an address: wiki"),
        (["--vllm-version", "new"], "not a vLLM version: 'new'"),
        (["-o", "/no/such/folder/x.json"], "no folder /no/such/folder"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(
    arguments: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["dashboard", *arguments]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("vllmdoctor: ")
    assert told in said.err
