"""`vllmdoctor alerts --existing FILE`: the page, the JSON, the corrected file, the exit codes."""

import io
import json
import sys
from pathlib import Path

import pytest

from vllmdoctor.cli import main
from vllmdoctor.promlint import blocks, head, lint_file
from vllmdoctor.render.expressions import expressions

FILES = Path(__file__).parent / "files"
GOLDEN = Path(__file__).parents[1] / "golden"
FAULTY, RIGHT = str(FILES / "scheduler-pack.yaml"), str(FILES / "right.yaml")


@pytest.mark.parametrize("name", ["80", "100", "color", "ascii"])
def test_the_page_is_as_it_was(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(FILES)
    linted = lint_file("scheduler-pack.yaml")
    page = expressions(
        head(linted),
        blocks(linted, 80 if name == "80" else 100),
        width=80 if name == "80" else 100,
        color=name == "color",
        encoding="ascii" if name == "ascii" else "utf-8",
    )
    assert page == (GOLDEN / f"alerts-existing.{name}.txt").read_text()
    if name in ("80", "100"):
        assert max(map(len, page.splitlines())) <= int(name)


def test_a_build_without_a_release_is_checked_for_all(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["alerts", "--existing", RIGHT, "--vllm-version", "0.1.dev1", "--fail-on", "info"]) == 0
    assert "vLLM 0.1.dev1 has no names known here" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("path", "fail_on", "code"),
    [(FAULTY, "never", 0), (FAULTY, "critical", 1), (FAULTY, "info", 1), (RIGHT, "info", 0)],
)
def test_the_exit_code_says_whether_something_was_found(
    path: str, fail_on: str, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["alerts", "--existing", path, "--fail-on", fail_on]) == code
    assert capsys.readouterr().err == ""


def test_a_corrected_file_is_written_beside_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "right.yaml"
    assert main(["alerts", "--existing", FAULTY, "-o", str(path), "-f", "json"]) == 0
    said = capsys.readouterr()
    assert len(json.loads(said.out)["findings"]) == 16
    assert said.err == f"corrected file written to {path}\n"
    assert main(["alerts", "--existing", str(path), "--fail-on", "info"]) == 0
    assert "nothing to say against them" in capsys.readouterr().out
    assert main(["alerts", "--existing", FAULTY, "-o", str(path)]) == 2
    assert main(["alerts", "--existing", FAULTY, "-o", FAULTY]) == 2
    assert "nothing is ever overwritten" in capsys.readouterr().err


def test_rules_come_through_a_pipe(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO(Path(FAULTY).read_text()))
    assert main(["alerts", "--existing", "-", "--vllm-version", "0.32.0"]) == 0
    assert "standard input: 13 expressions, for vLLM 0.32.0, one scrape in 15 s" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--existing", "/no/file.yaml"], "cannot read /no/file.yaml: no such file or directory"),
        (["--existing", FAULTY, "-f", "vmrule"], "no format named 'vmrule'"),
        (["--existing", FAULTY, "--fail-on", "bad"], "no severity named 'bad'"),
        (["--existing", FAULTY, "--scrape-interval", "often"], "often"),
        (["--existing", FAULTY, "--vllm-version", "new"], "not a vLLM version: 'new'"),
        (["--existing", FAULTY, "--match", 'a="b"'], "--existing is checked as it is"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(
    arguments: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["alerts", *arguments]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert told in said.err
    assert "Traceback" not in said.err
