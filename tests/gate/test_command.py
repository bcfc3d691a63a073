"""The command: exit codes, files, baselines and what is said where it cannot go on."""

import gzip
import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import pytest
from tests.gate.made import bench_serve, probe, write

from vllmdoctor.cli import main
from vllmdoctor.commands_gate import _range, _shown, given
from vllmdoctor.gate_baseline import SCHEMA
from vllmdoctor.sources import Window
from vllmdoctor.storage import save

THRASH = ("example:kv-thrash", "--baseline", "example:kv-thrash-fix-blocks")
FIX = ("example:kv-thrash-fix-blocks", "--baseline", "example:kv-thrash")
UNCLEAR = ("example:kv-thrash-fix-maxseqs", "--baseline", "example:kv-thrash")


if TYPE_CHECKING:
    from collections.abc import Callable

Gate: TypeAlias = "Callable[..., Done]"


@dataclass(frozen=True)
class Done:
    """How a command ended."""

    returncode: int
    stdout: str
    stderr: str


@pytest.fixture
def gate(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Gate:
    """Runs `vllmdoctor gate` in this process."""
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "100")

    def run(*arguments: str | Path) -> Done:
        code = main(["gate", *map(str, arguments)])
        return Done(code, *capsys.readouterr())

    return run


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (THRASH, 1),
        (FIX, 0),
        (UNCLEAR, 3),
        ((*UNCLEAR, "--inconclusive", "pass"), 0),
        ((*THRASH, "--inconclusive", "pass"), 1),
    ],
)
def test_the_exit_code_says_how_the_gate_ended(gate: Gate, arguments: tuple[str, ...], code: int) -> None:
    assert gate(*arguments).returncode == code


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("example:healthy",), "nothing to compare with"),
        ((*FIX, "--ttft", "much"), "--ttft much: not a percentage that can be allowed"),
        ((*FIX, "--throughput", "100"), "--throughput 100: not a percentage"),
        ((*FIX, "--format", "pdf"), "no format named 'pdf'"),
        ((*FIX, "--inconclusive", "maybe"), "no answer to --inconclusive named 'maybe'"),
        ((*FIX, "-o", "gate.doc"), "no format for files named '.doc'"),
        (("no.rec", "--baseline", "example:healthy"), "no such file: no.rec"),
        (("prom+http://h:9@noon/1h", *FIX[1:]), "prom+http://h:9@noon/1h: not a time: 'noon'"),
        (("example:healthy", "--update-baseline", "no/base.rec"), "no folder no"),
        ((*FIX, "-o", "no/gate.json"), "no folder no to write gate.json into"),
        ((*FIX, "--match", 'pod="a"'), "--match is for a Prometheus"),
    ],
)  # fmt: skip
def test_misuse_is_one_clear_line_and_exit_2(gate: Gate, arguments: tuple[str, ...], words: str) -> None:
    done = gate(*arguments)

    assert (done.returncode, done.stdout) == (2, "")
    assert words in done.stderr
    assert "Traceback" not in done.stderr


def test_several_files_are_written_beside_the_text(gate: Gate, tmp_path: Path) -> None:
    files = [tmp_path / f"gate.{ending}" for ending in ("json", "md", "xml", "sarif")]

    done = gate(*THRASH, *(x for f in files for x in ("-o", f)))

    assert done.stdout.splitlines()[1].startswith("│ REGRESSED: worse than the tolerance")
    assert json.loads(files[0].read_text(encoding="utf-8"))["judgement"] == "regressed"
    assert files[1].read_text(encoding="utf-8").startswith("### ❌")
    assert files[2].read_text(encoding="utf-8").startswith("<?xml")
    assert json.loads(files[3].read_text(encoding="utf-8"))["version"] == "2.1.0"


def test_the_github_format_annotates_and_adds_to_the_steps_summary(
    gate: Gate, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    summary = tmp_path / "summary.md"
    summary.write_text("before\n", encoding="utf-8")

    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary))

    done = gate(*THRASH, "-f", "github")

    assert done.stdout.startswith("::error title=throughput regressed::290 tokens/s -> 215 tokens/s")
    assert summary.read_text(encoding="utf-8").startswith("before\n### ❌ vllmdoctor gate: REGRESSED")


def test_a_baseline_is_written_with_its_provenance_and_compared_with(gate: Gate, tmp_path: Path) -> None:
    base = tmp_path / "base.rec.gz"

    written = gate("example:kv-thrash-fix-blocks", "--update-baseline", base)
    done = gate("example:kv-thrash", "--baseline", base, "-f", "json")
    about = json.loads(done.stdout)["baseline"]["about"]

    assert (written.returncode, written.stdout) == (0, "")
    assert written.stderr == f"baseline written to {base}\n"
    assert SCHEMA in gzip.decompress(base.read_bytes()).decode().partition("\n")[0]
    assert done.returncode == 1
    assert about["source"] == "example:kv-thrash-fix-blocks"
    assert {"vllmdoctor", "written", "runs"} <= about.keys()
    assert json.loads(done.stdout)["baseline"]["version"] == "0.32.0"


def test_an_older_baseline_is_kept_beside_the_new_one(gate: Gate, tmp_path: Path) -> None:
    base = tmp_path / "base.rec.gz"
    gate("example:healthy", "--update-baseline", base)
    first = base.read_bytes()

    done = gate("example:prefix-on", "--update-baseline", base)

    assert done.stderr == f"baseline written to {base}; the older one is kept as {base}.bak\n"
    assert (tmp_path / "base.rec.gz.bak").read_bytes() == first
    assert base.read_bytes() != first
    assert sorted(p.name for p in tmp_path.iterdir()) == ["base.rec.gz", "base.rec.gz.bak"]


def test_a_file_that_is_no_baseline_is_never_replaced(gate: Gate, tmp_path: Path) -> None:
    mine = tmp_path / "notes.txt"
    mine.write_text("mine", encoding="utf-8")

    done = gate("example:healthy", "--update-baseline", mine)

    assert done.returncode == 2
    assert f"{mine} exists and is no baseline" in done.stderr
    assert mine.read_text(encoding="utf-8") == "mine"


def test_a_baseline_is_updated_only_by_a_candidate_that_passes(gate: Gate, tmp_path: Path) -> None:
    base = tmp_path / "base.rec.gz"
    gate("example:kv-thrash-fix-blocks", "--update-baseline", base)
    before = base.read_bytes()

    worse = gate("example:kv-thrash", "--baseline", base, "--update-baseline", base)

    assert (worse.returncode, base.read_bytes()) == (1, before)
    assert f"baseline {base} not updated: the gate did not pass" in worse.stderr


def test_what_the_data_cannot_tell_updates_no_baseline_even_where_it_may_pass(
    gate: Gate, tmp_path: Path
) -> None:
    base = tmp_path / "new.rec.gz"

    done = gate(*UNCLEAR, "--inconclusive", "pass", "--update-baseline", base)

    assert (done.returncode, base.exists()) == (0, False)
    assert f"baseline {base} not updated: the gate did not pass" in done.stderr


def test_a_baseline_of_a_later_schema_is_refused_with_what_to_do(gate: Gate, tmp_path: Path) -> None:
    base = tmp_path / "base.rec"
    gate("example:healthy", "--update-baseline", base)
    base.write_text(
        base.read_text(encoding="utf-8").replace(SCHEMA, "vllmdoctor/baseline/9"), encoding="utf-8"
    )

    done = gate("example:healthy", "--baseline", base)

    assert done.returncode == 2
    assert "the baseline is of schema 'vllmdoctor/baseline/9'" in done.stderr


@pytest.mark.parametrize("target", ["results", "example:healthy"])
def test_a_baseline_that_was_cut_off_is_not_compared_with(gate: Gate, tmp_path: Path, target: str) -> None:
    base = tmp_path / "base.rec"
    if target == "results":
        target = str(write(tmp_path / "main.json", bench_serve(1, count=400)))
    gate(target, "--update-baseline", base)
    lines = base.read_text(encoding="utf-8").splitlines(keepends=True)
    base.write_text("".join(lines[:-2]), encoding="utf-8")

    done = gate(target, "--baseline", base)

    assert (done.returncode, done.stdout) == (3, "")
    assert "the baseline is damaged: " in done.stderr


def test_runs_of_several_loads_make_no_baseline(gate: Gate, tmp_path: Path) -> None:
    sweep = write(tmp_path / "sweep.json", *(bench_serve(n, count=20, clients=n) for n in (4, 8)))
    base = tmp_path / "base.rec"

    done = gate(sweep, "--update-baseline", base)

    assert (done.returncode, base.exists()) == (2, False)
    assert "the runs are of several loads: concurrency 4 and 8" in done.stderr


def test_a_file_that_was_cut_off_is_told_with_what_is_read(gate: Gate, tmp_path: Path) -> None:
    cut = tmp_path / "pr.json"
    cut.write_text(json.dumps(bench_serve(1, count=20))[:-40], encoding="utf-8")

    done = gate(cut, *FIX[1:])

    assert done.returncode == 3
    assert "results of vllm bench serve, GuideLLM and AIPerf: was it cut off?" in done.stderr


def test_results_of_a_load_generator_go_through_the_gate_and_into_a_baseline(
    gate: Gate, tmp_path: Path
) -> None:
    good = write(tmp_path / "main.json", bench_serve(1))
    slow = write(tmp_path / "pr.json", bench_serve(2, gap=0.036))
    base = tmp_path / "base.rec.gz"

    gate(good, "--update-baseline", base)

    assert gate(slow, "--baseline", base).returncode == 1
    assert gate(write(tmp_path / "same.json", bench_serve(3)), "--baseline", base).returncode == 0


def test_a_recording_of_a_probe_goes_through_the_gate(gate: Gate, tmp_path: Path) -> None:
    for number in (1, 2):
        save(probe(number, count=400), tmp_path / f"{number}.rec")

    done = gate(tmp_path / "2.rec", "--baseline", tmp_path / "1.rec", "-f", "json", "--inconclusive", "pass")

    assert done.returncode == 0
    assert json.loads(done.stdout)["candidate"]["kind"] == "requests"
    assert json.loads(done.stdout)["candidate"]["requests"] == 400


@pytest.mark.parametrize("option", ["--baseline", "--update-baseline"])
def test_one_run_given_twice_is_no_repeat_run(gate: Gate, tmp_path: Path, option: str) -> None:
    one = write(tmp_path / "one.json", bench_serve(1, count=400))
    copy = write(tmp_path / "copy.json", bench_serve(1, count=400))

    done = gate(one, copy, option, tmp_path / "new.rec" if "update" in option else "example:healthy")

    assert (done.returncode, done.stdout) == (2, "")
    assert f"{one} and {copy} hold the same run" in done.stderr


def test_repeat_runs_are_one_side() -> None:
    targets = ["example:healthy", "example:demand-drop"]

    assert len(given(targets, Window()).servers) == 2


def test_a_range_of_a_prometheus_is_a_target_and_its_login_is_not_shown() -> None:
    target, window = _range("prom+http://me:secret@h:9090@2026-11-29T15:04/90m", Window())

    assert target == "prom+http://me:secret@h:9090"
    assert (window.history.at, window.history.window_s) == (1_795_964_640.0, 5400.0)
    assert (
        _shown("prom+http://me:secret@h:9090@2026-11-29T15:04/90m")
        == "prom+http://h:9090@2026-11-29T15:04/90m"
    )
    assert _range("prom+http://me:secret@h:9090", Window())[0] == "prom+http://me:secret@h:9090"
