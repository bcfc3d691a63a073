"""Fast start is a promise: what a command does not need, it does not load."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from vllmdoctor.cli import app
from vllmdoctor.cli import main as run

HEAVY = {
    "pandas",
    "numpy",
    "httpx",
    "kubernetes",
    "pynvml",
    "prometheus_client",
    "prometheus_api_client",
    "bcrypt",
    "promql_parser",
}
PROBE = """
import json, sys
from vllmdoctor.cli import main
sys.argv[0] = "vllmdoctor"
code = 0
try:
    code = main() or 0
except SystemExit as end:
    code = end.code or 0
print(json.dumps([code, sorted({name.partition(".")[0] for name in sys.modules})]), file=sys.stderr)
"""


def loaded(*arguments: str) -> tuple[int, set[str]]:
    """The exit code of a command and the top-level modules it ended with."""
    done = subprocess.run([sys.executable, "-c", PROBE, *arguments], capture_output=True, text=True)
    code, modules = json.loads(done.stderr.splitlines()[-1])
    return code, set(modules)


@pytest.mark.parametrize(
    "arguments",
    [
        ("--help",),
        ("diagnose", "--help"),
        ("record", "--help"),
        ("probe", "--help"),
        ("validate", "--help"),
        ("export", "--help"),
        ("explain", "kv-fragmentation"),
        ("examples",),
        ("rbac", "-n", "inference"),
    ],
)
def test_a_command_that_reads_no_data_loads_nothing_heavy(arguments: tuple[str, ...]) -> None:
    code, modules = loaded(*arguments)

    assert (code, modules & HEAVY) == (0, set())


def test_a_missing_file_is_said_before_anything_heavy_is_loaded() -> None:
    code, modules = loaded("diagnose", "no-such-file.rec")

    assert code in (2, 3)
    assert modules & {"pandas", "httpx"} == set()


def test_a_missing_file_of_requests_is_said_before_anything_heavy_is_loaded(tmp_path: Path) -> None:
    code, modules = loaded(
        "probe", "localhost:1", "--requests", "no.jsonl", "--concurrency", "1", "-o", str(tmp_path / "x.rec")
    )

    assert code == 2
    assert modules & HEAVY == set()


def test_the_list_of_commands_is_that_of_the_whole_application(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--help"]) == 0
    quick = capsys.readouterr().out
    with pytest.raises(SystemExit):
        app(["--help"], prog_name="vllmdoctor")
    assert quick == capsys.readouterr().out
    assert "diagnose" in quick
