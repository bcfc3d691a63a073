"""The GitHub Action's steps, run as a runner would: by bash, with its inputs in the environment."""

import json
import os
import re
import shutil
import site
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
ACTION: dict[str, Any] = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
EXPRESSION = re.compile(r"\$\{\{ (\S+) \}\}")


class Runner:
    """What a runner keeps between the steps: its folders, and the values of expressions."""

    def __init__(self, folder: Path, inputs: dict[str, str]) -> None:
        self.folder = folder
        self.output, self.summary = folder / "output", folder / "summary.md"
        defaults = {name: str(each.get("default", "")) for name, each in ACTION["inputs"].items()}
        self.values = {f"inputs.{k}": v for k, v in (defaults | inputs).items()} | {
            "github.action_path": str(ROOT)
        }

    def run(self, step: dict[str, Any]) -> subprocess.CompletedProcess[str]:
        """Run one `run:` step."""
        given = {k: EXPRESSION.sub(lambda m: self.values[m[1]], v) for k, v in step.get("env", {}).items()}
        libraries = os.pathsep.join([*site.getsitepackages(), *filter(None, [os.environ.get("PYTHONPATH")])])
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.folder),
            "RUNNER_TEMP": str(self.folder),
            "GITHUB_OUTPUT": str(self.output),
            "GITHUB_STEP_SUMMARY": str(self.summary),
            # the step's own pip builds and installs the project; what it depends on is already here
            "PYTHONPATH": libraries,
            "PIP_NO_DEPS": "1",
            "PIP_NO_BUILD_ISOLATION": "0",
            "PIP_NO_INDEX": "1",
        }
        return subprocess.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]],
            cwd=self.folder,
            env=environment | given,
            capture_output=True,
            text=True,
        )


def step(name: str) -> dict[str, Any]:
    found: dict[str, Any] = next(s for s in ACTION["runs"]["steps"] if s["name"] == name)
    return found


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A runner's folder after the first step."""
    if shutil.which("bash") is None:
        pytest.skip("NOT CHECKED: no bash")
    pytest.importorskip("hatchling", reason="NOT CHECKED: nothing to build with (pip install hatchling)")
    folder = tmp_path_factory.mktemp("runner")
    done = Runner(folder, {}).run(step("Install vllmdoctor"))
    assert done.returncode == 0, done.stderr
    return folder


def test_no_step_has_an_expression_in_its_script() -> None:
    scripts = [s["run"] for s in ACTION["runs"]["steps"] if "run" in s]

    assert len(scripts) == 2
    assert not any("${{" in script for script in scripts)


def test_a_regression_fails_the_step_annotates_and_leaves_reports(installed: Path) -> None:
    runner = Runner(
        installed,
        {"candidate": "example:kv-thrash\n", "baseline": "example:kv-thrash-fix-blocks\n", "reports": "bad"},
    )

    done = runner.run(step("Gate"))

    assert done.returncode == 1, done.stderr
    assert done.stdout.startswith("::error title=throughput regressed::")
    assert runner.output.read_text(encoding="utf-8").splitlines()[-1] == "judgement=regressed"
    assert "### ❌ vllmdoctor gate: REGRESSED" in runner.summary.read_text(encoding="utf-8")
    assert sorted(p.name for p in (installed / "bad").iterdir()) == [
        "gate.json",
        "gate.md",
        "gate.sarif",
        "gate.xml",
    ]


def test_a_side_that_cannot_be_read_leaves_no_judgement_of_an_earlier_gate(installed: Path) -> None:
    inputs = {"candidate": "example:healthy", "baseline": "example:healthy", "reports": "twice"}
    assert Runner(installed, inputs).run(step("Gate")).returncode == 0
    folder = installed / "empty"
    folder.mkdir()
    (folder / "pr.json").write_text("", encoding="utf-8")
    again = Runner(installed, inputs | {"candidate": str(folder / "pr.json")})
    again.output = folder / "output"

    done = again.run(step("Gate"))

    assert done.returncode == 3
    assert not again.output.exists()
    assert list((installed / "twice").iterdir()) == []


def test_arguments_are_passed_on_and_what_cannot_be_told_may_pass(installed: Path) -> None:
    runner = Runner(
        installed,
        {
            "candidate": "example:kv-thrash-fix-maxseqs",
            "baseline": "example:kv-thrash",
            "arguments": "--ttft 20 --throughput 3",
            "inconclusive": "pass",
            "reports": "unclear reports",
        },
    )

    done = runner.run(step("Gate"))
    gate = json.loads((installed / "unclear reports" / "gate.json").read_text(encoding="utf-8"))

    assert done.returncode == 0, done.stderr
    assert [m["tolerance"] for m in gate["measures"][:2]] == [0.97, 1.2]
    assert runner.output.read_text(encoding="utf-8").splitlines()[-1] == "judgement=inconclusive"
