"""plan, lint, remedies and the arguments of diagnose, from the outside."""

import json
from pathlib import Path

import pytest

from vllmdoctor.cli import main

Capture = pytest.CaptureFixture[str]


def run(capsys: Capture, *words: str) -> tuple[int, str, str]:
    code = main(list(words))
    said = capsys.readouterr()
    return code, said.out, said.err


@pytest.fixture
def command(tmp_path: Path) -> Path:
    path = tmp_path / "cmd.txt"
    path.write_text(
        "vllm serve ./mid \\\n  --max-num-seqs 64 \\\n  --disable-log-requests\n", encoding="utf-8"
    )
    return path


def test_lint_needs_no_server(capsys: Capture, command: Path) -> None:
    code, out, _ = run(capsys, "lint", "--args-file", str(command), "--vllm-version", "0.32.0")

    assert code == 0
    assert "for vLLM 0.32.0 (given)" in out
    assert "--disable-log-requests: removed in 0.17.0: the server exits at start-up" in " ".join(out.split())


@pytest.mark.parametrize(
    ("version", "limit", "code"),
    [("0.32.0", "critical", 1), ("0.16.0", "critical", 0), ("0.32.0", "never", 0), ("0.16.0", "info", 0)],
)
def test_lint_fails_a_pipeline_only_where_it_was_asked_to(
    capsys: Capture, command: Path, version: str, limit: str, code: int
) -> None:
    words = ("lint", "--args-file", str(command), "--vllm-version", version, "--fail-on", limit)

    assert run(capsys, *words)[0] == code


def test_lint_speaks_json(capsys: Capture) -> None:
    words = ("--args", "vllm serve m --swap-space 4", "--vllm-version", "0.32.0")
    code, out, _ = run(capsys, "lint", *words, "-f", "json")

    told = json.loads(out)
    assert code == 0
    assert told["schema"] == "vllmdoctor/lint/1"
    assert told["findings"] == [
        {
            "severity": "critical",
            "slug": "removed-argument",
            "argument": "--swap-space",
            "what": "removed in 0.18.0: the server exits at start-up",
            "hint": "leave it out: the V1 engine recomputes instead of swapping",
        }
    ]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("lint",), "nothing to check"),
        (("lint", "--args", "x", "--fail-on", "much"), "no severity named 'much'"),
        (("lint", "--args", "'"), "no shell command"),
        (("lint", "--args", "x", "--args-file", "y"), "both a command and a file"),
        (("plan", "example:healthy", "--namespace", "A B"), "not a name for Kubernetes"),
        (("explain", "more-kv-block"), "did you mean 'more-kv-blocks'?"),
    ],
)
def test_a_slip_is_one_line_and_exit_2(capsys: Capture, words: tuple[str, ...], says: str) -> None:
    code, _, err = run(capsys, *words)

    assert code == 2
    assert says in err


def test_plan_is_said_without_writing(capsys: Capture) -> None:
    code, out, _ = run(capsys, "plan", "example:kv-thrash")

    assert code == 0
    assert out.index("--num-gpu-blocks-override from 64 to") < out.index("--max-num-seqs from 64 to 4")
    assert "preemptions 47.3 -> at most 23.6 per minute" in " ".join(out.split())
    assert "WRITTEN" not in out


def test_plan_writes_files_for_the_target_and_never_over_them(capsys: Capture, tmp_path: Path) -> None:
    folder = tmp_path / "plan"
    words = ("plan", "example:kv-thrash", "--write", str(folder), "--namespace", "ai", "--deployment", "vllm")

    code, out, _ = run(capsys, *words)

    assert code == 0
    assert "nothing was applied" in out
    assert "-n ai patch deployment/vllm" in (folder / "README.md").read_text(encoding="utf-8")
    before = {p.name: p.read_bytes() for p in folder.iterdir()}
    code, _, err = run(capsys, *words)
    assert (code, "exists" in err) == (2, True)
    assert {p.name: p.read_bytes() for p in folder.iterdir()} == before


def test_a_step_can_be_chosen(capsys: Capture, tmp_path: Path) -> None:
    folder = tmp_path / "plan"

    run(capsys, "plan", "example:kv-thrash", "--write", str(folder), "--take", "lower-max-num-seqs")

    assert (folder / "args.txt").read_text(encoding="utf-8") == "--max-num-seqs 4\n"


def test_arguments_that_are_given_are_not_proposed_again(capsys: Capture) -> None:
    out = run(capsys, "plan", "example:hol-big-batch", "--args", "--long-prefill-token-threshold 256")[1]

    assert "--long-prefill-token-threshold is 256 already" in " ".join(out.split())


def test_diagnose_notes_what_is_wrong_with_the_arguments(capsys: Capture, command: Path) -> None:
    out = run(capsys, "diagnose", "example:healthy", "--args-file", str(command), "-f", "json")[1]

    notes = json.loads(out)["notes"]
    assert [n for n in notes if "--disable-log-requests: removed in 0.17.0" in n]


def test_diagnose_says_where_the_arguments_are_not_the_servers(capsys: Capture) -> None:
    words = ("--args", "vllm serve ./mid --max-num-seqs 7", "-f", "json")
    out = run(capsys, "diagnose", "example:kv-thrash", *words)[1]

    assert [
        n for n in json.loads(out)["notes"] if "--max-num-seqs is 7.0 in --args, and 64 at the server" in n
    ]


def test_arguments_alone_lint_what_the_server_itself_says(capsys: Capture) -> None:
    out = run(capsys, "diagnose", "example:kv-thrash", "-f", "json")[1]

    assert [n for n in json.loads(out)["notes"] if "--num-gpu-blocks-override: is meant for tests" in n]


def test_remedies_are_listed_and_explained(capsys: Capture) -> None:
    listed = run(capsys, "remedies")[1]
    assert "more-kv-blocks" in listed and "rolling-restart" in listed

    page = run(capsys, "explain", "lower-max-num-seqs")[1]
    assert "raise-max-num-seqs" in page
    assert run(capsys, "explain", "overload")[0] == 0
