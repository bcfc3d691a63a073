"""The runbook pages: whole, honest about names, and made of commands that can be pasted."""

import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from vllmdoctor import runbook
from vllmdoctor.errors import UnknownName
from vllmdoctor.rules import all_rules
from vllmdoctor.signals import KNOWN_NOT_JUDGED, NEVER_EXISTED, SIGNALS

ROOT = Path(__file__).parents[1]
PAGES = sorted(path.stem for path in (ROOT / "runbooks").glob("[!_]*.md"))
VERDICTS = ["at-risk", "blind", "healthy", "unexplained"]
CAUSES = [page for page in PAGES if page not in VERDICTS]
CAUSE_HEADINGS = [
    "What it is",
    "Why it slows the server",
    "How vllmdoctor sees it",
    "Confirm it",
    "False alarms",
    "Treat it",
    "Prevent it",
    "References",
]
VERDICT_HEADINGS = ["What it means", "How vllmdoctor decides", "Confirm it", "What to do next", "References"]


def source(slug: str) -> str:
    return (ROOT / "runbooks" / f"{slug}.md").read_text(encoding="utf-8")


def blocks(text: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


def test_every_rule_has_a_page_and_every_page_a_rule_or_a_verdict() -> None:
    assert sorted([*(one.slug for one in all_rules()), *VERDICTS]) == PAGES


@pytest.mark.parametrize("slug", PAGES)
def test_a_page_begins_with_its_slug_and_with_what_to_do_first(slug: str) -> None:
    lines = source(slug).splitlines()

    assert lines[0].startswith(f"# {slug}: ")
    assert lines[2].startswith("> **First:** ")


@pytest.mark.parametrize("slug", CAUSES)
def test_the_page_of_a_cause_has_the_headings_of_the_template(slug: str) -> None:
    assert re.findall(r"^## (.*)$", source(slug), re.MULTILINE) == CAUSE_HEADINGS


def test_the_template_has_them_as_well() -> None:
    assert re.findall(r"^## (.*)$", source("_template"), re.MULTILINE) == CAUSE_HEADINGS


@pytest.mark.parametrize("slug", VERDICTS)
def test_the_page_of_a_verdict_has_its_headings(slug: str) -> None:
    assert re.findall(r"^## (.*)$", source(slug), re.MULTILINE) == VERDICT_HEADINGS


@pytest.mark.parametrize("slug", CAUSES)
def test_the_page_of_a_cause_has_room_for_its_card(slug: str) -> None:
    section = source(slug).split("## How vllmdoctor sees it")[1].split("## Confirm it")[0]

    assert f"<!-- generated:rule {slug} -->" in section


@pytest.mark.parametrize("slug", PAGES)
def test_no_part_of_a_page_is_empty(slug: str) -> None:
    for heading in CAUSE_HEADINGS if slug in CAUSES else VERDICT_HEADINGS:
        assert len(runbook.section(slug, heading)) > 20, heading


@pytest.mark.parametrize("slug", PAGES)
def test_shell_commands_can_be_parsed_and_use_only_the_agreed_variables(slug: str) -> None:
    for block in blocks(source(slug), "sh"):
        subprocess.run(["bash", "-n"], input=block, text=True, check=True)
        assert set(re.findall(r"\$\{?([A-Z_]+)", block)) <= {"URL", "NS", "DEPLOY", "MODEL"}


@pytest.mark.parametrize("slug", PAGES)
def test_a_command_fits_the_terminal_so_that_it_can_be_copied_from_it(slug: str) -> None:
    commands = "".join(blocks(source(slug), "sh") + blocks(source(slug), "promql"))

    assert [line for line in commands.splitlines() if len(line) > 96] == []


@pytest.mark.parametrize("slug", CAUSES)
def test_a_cause_can_be_confirmed_by_hand(slug: str) -> None:
    section = runbook.section(slug, "Confirm it")

    assert blocks(section, "sh") or blocks(section, "promql")


@pytest.mark.parametrize("slug", PAGES)
def test_every_vllm_metric_named_on_a_page_exists_in_some_version(slug: str) -> None:
    judged = {name.text for signal in SIGNALS.values() for name in signal.names}
    known = judged | {text for group in KNOWN_NOT_JUDGED.values() for text in group}
    families = known | {family + suffix for family in known for suffix in ("_bucket", "_sum", "_count")}

    named = set(re.findall(r"vllm:[a-z_0-9]*[a-z0-9]\b", source(slug)))

    assert {name for name in named if name not in families} == set()


@pytest.mark.parametrize("slug", PAGES)
def test_no_command_asks_for_a_metric_that_never_existed(slug: str) -> None:
    commands = "\n".join(blocks(source(slug), "sh") + blocks(source(slug), "promql"))

    assert [name for name in NEVER_EXISTED if re.search(rf"{name}\b", commands)] == []


def test_every_query_on_a_page_is_promql(tmp_path: Path) -> None:
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("NOT CHECKED: promtool is not on the PATH, so no query of any page was parsed")
    texts = [
        path.read_text(encoding="utf-8")
        for path in [*(ROOT / "runbooks").glob("*.md"), *(ROOT / "docs").glob("*.md")]
    ]
    queries = [query for text in texts for query in blocks(text, "promql")]
    rules = ["groups:", "- name: pages", "  rules:"]
    for number, query in enumerate(queries):
        indented = query.strip().replace("\n", "\n      ")
        rules += [f"  - record: query_{number}", f"    expr: |\n      {indented}"]
    file = tmp_path / "rules.yml"
    file.write_text("\n".join(rules) + "\n", encoding="utf-8")

    done = subprocess.run([promtool, "check", "rules", str(file)], capture_output=True, text=True)

    assert (done.returncode, len(queries) > 20) == (0, True), done.stdout + done.stderr


def test_a_page_is_read_without_the_marks_of_the_generator() -> None:
    page = runbook.read("overload")

    assert page.startswith("# overload: more work arrives than can be done\n")
    assert "generated" not in page


def test_a_page_tells_its_title() -> None:
    assert runbook.title("stall") == "work is there and nothing moves"


def test_a_slug_without_a_page_is_answered_with_the_nearest_one() -> None:
    with pytest.raises(UnknownName) as caught:
        runbook.read("kv-fragmentaton")

    assert caught.value.message == "no runbook page named 'kv-fragmentaton'"
    assert caught.value.hint == "did you mean 'kv-fragmentation'?"


def test_the_template_is_no_page() -> None:
    assert "_template" not in runbook.slugs()


def test_a_heading_that_a_page_lacks_reads_as_nothing() -> None:
    assert runbook.section("overload", "No such heading") == ""


def test_the_wheel_carries_every_page(tmp_path: Path) -> None:
    pytest.importorskip("hatchling", reason="NOT CHECKED: hatchling is not installed, so no wheel was built")
    # From a copy: building must not leave anything in the source tree.
    for name in ("src", "runbooks"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, tmp_path / name)
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path / "dist")]
    subprocess.run(build, cwd=tmp_path, check=True, capture_output=True)
    (wheel,) = (tmp_path / "dist").glob("*.whl")
    unpacked = tmp_path / "unpacked"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(unpacked)

    code = "from vllmdoctor import runbook; print(runbook.folder(), *runbook.slugs())"
    environment = os.environ | {"PYTHONPATH": str(unpacked)}
    read = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env=environment,
        check=True,
        capture_output=True,
        text=True,
    )

    assert read.stdout.split() == [str(unpacked / "vllmdoctor" / "runbooks"), *PAGES]
