"""The walls of the house: imports go one way, and each library has one door."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def lint_imports(folder: Path) -> subprocess.CompletedProcess[str]:
    """Run import-linter with the project's own contracts over the package in `folder`/src."""
    return subprocess.run(
        [
            str(Path(sys.executable).parent / "lint-imports"),
            "--no-cache",
            "--config",
            str(ROOT / "pyproject.toml"),
        ],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(folder / "src"), "NO_COLOR": "1", "COLUMNS": "200"},
        capture_output=True,
        text=True,
    )


def test_the_package_keeps_its_layers() -> None:
    done = lint_imports(ROOT)

    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize(
    ("module", "line", "broken"),
    [
        ("rules/overload.py", "import vllmdoctor.sources", "one direction"),
        ("rules/overload.py", "import pandas", "pandas"),
        ("rules/overload.py", "from vllmdoctor.rules import stall", "strangers"),
        ("render/machine.py", "import vllmdoctor.diagnosis", "one direction"),
        ("render/machine.py", "import vllmdoctor.recording", "renderer sees only the model"),
        ("model.py", "import vllmdoctor.frame", "one direction"),
        ("sources/__init__.py", "import rich", "rich"),
        ("diagnosis.py", "import httpx", "httpx"),
        ("runbook.py", "import typer", "typer"),
        ("cli/__init__.py", "import click", "click"),
    ],
)
def test_a_wall_holds_against_an_import_hidden_in_a_function(
    tmp_path: Path, module: str, line: str, broken: str
) -> None:
    shutil.copytree(
        ROOT / "src", tmp_path / "src", ignore=shutil.ignore_patterns("__pycache__", "*.gz", "*.xz")
    )
    target = tmp_path / "src" / "vllmdoctor" / module
    hidden = f"\n\ndef _hidden() -> None:\n    {line}\n"
    target.write_text(target.read_text(encoding="utf-8") + hidden, encoding="utf-8")

    done = lint_imports(tmp_path)

    assert done.returncode == 1, done.stdout
    assert broken in done.stdout
