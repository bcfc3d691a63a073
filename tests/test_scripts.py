"""The scripts that make and use .venv: clear when the machine lacks something, and quick the second time."""

import os
import shutil
import subprocess
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SCRIPTS = ["setup", "demo", "test", "lint", "generate", "krew", "servers"]
NO_PYTHON = "#!/bin/sh\n[ \"$1\" = --version ] && { echo 'Python 3.9.2'; exit 0; }\nexit 1\n"


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A folder with the scripts and pyproject.toml, and nothing installed."""
    shutil.copytree(ROOT / "script", tmp_path / "script")
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    return tmp_path


def setup(checkout: Path, *arguments: str, path: Path | None = None) -> subprocess.CompletedProcess[str]:
    environment = {k: v for k, v in os.environ.items() if k != "PYTHON"}
    if path is not None:
        environment["PATH"] = str(path)
    return subprocess.run(
        ["/bin/sh", str(checkout / "script" / "setup"), *arguments],
        cwd="/",
        env=environment,
        capture_output=True,
        text=True,
    )


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_can_be_run_and_is_plain_shell(name: str) -> None:
    script = ROOT / "script" / name

    assert os.access(script, os.X_OK)
    assert script.read_text(encoding="utf-8").startswith("#!/bin/sh\n")
    subprocess.run(["/bin/sh", "-n", str(script)], check=True)


def test_ci_runs_the_same_script_as_a_person() -> None:
    run = ROOT / ".ci" / "run"

    assert os.access(run, os.X_OK)
    assert run.read_text(encoding="utf-8").splitlines()[-1] == "exec script/test"


def test_an_old_python_is_said_to_be_too_old(checkout: Path) -> None:
    tools = checkout / "bin"
    tools.mkdir()
    for tool in ("dirname", "cksum", "cat"):
        (tools / tool).symlink_to(shutil.which(tool) or tool)
    for python in ("python3", "python"):
        (tools / python).write_text(NO_PYTHON, encoding="utf-8")
        (tools / python).chmod(0o755)

    done = setup(checkout, path=tools)

    assert done.returncode == 2
    assert done.stderr == (
        "setup: vllmdoctor needs Python 3.11 or newer; found Python 3.9.2\n"
        "setup:   hint: install it, or name one: PYTHON=/path/to/python3.12 script/setup\n"
    )


def stamp(checkout: Path, kind: str) -> None:
    """Make `checkout` look as if it had been set up."""
    (checkout / ".venv" / "bin").mkdir(parents=True)
    (checkout / ".venv" / "bin" / "python").symlink_to("/bin/false")
    text = (checkout / "pyproject.toml").read_text(encoding="utf-8")
    sums = subprocess.run(["cksum"], input=text, capture_output=True, text=True, check=True)
    installed = f"{kind} {sums.stdout.strip()} {checkout.resolve()}"
    (checkout / ".venv" / ".vllmdoctor-installed").write_text(installed, encoding="utf-8")


@pytest.mark.parametrize(
    ("installed", "wanted"), [("dev", []), ("dev", ["--runtime"]), ("runtime", ["--runtime"])]
)
def test_a_second_run_does_nothing_at_once(checkout: Path, installed: str, wanted: list[str]) -> None:
    stamp(checkout, installed)

    begun = time.perf_counter()
    done = setup(checkout, *wanted)

    assert (done.returncode, done.stderr) == (0, "")
    assert time.perf_counter() - begun < 1.0


def test_a_changed_pyproject_is_installed_anew(checkout: Path) -> None:
    stamp(checkout, "dev")
    with (checkout / "pyproject.toml").open("a", encoding="utf-8") as file:
        file.write("\n# changed\n")
    tools = checkout / "bin"
    tools.mkdir()
    for tool in ("dirname", "cksum", "cat"):
        (tools / tool).symlink_to(shutil.which(tool) or tool)

    done = setup(checkout, path=tools)

    assert done.returncode == 2
    assert "needs Python 3.11 or newer; found none" in done.stderr
