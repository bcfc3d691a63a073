"""The pages are true: every console block is run, every link resolves, everything is mentioned."""

import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest
from typer.main import get_command

from vllmdoctor import cli, symptoms
from vllmdoctor.case import Limit
from vllmdoctor.rules import all_rules

ROOT = Path(__file__).parents[1]
PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")),
    *sorted((ROOT / "docs").glob("*.md")),
    *sorted((ROOT / "runbooks").glob("*.md")),
]
CONSOLE = re.compile(r"^```console\n(.*?)^```", re.MULTILINE | re.DOTALL)


def load_generator() -> ModuleType:
    """script/generate.py, which runs commands as the pages show them."""
    spec = importlib.util.spec_from_file_location("generate", ROOT / "script" / "generate.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["generate"] = module
    spec.loader.exec_module(module)
    return module


GENERATE = load_generator()


def named(path: Path) -> str:
    return str(path.relative_to(ROOT))


def matches(shown: str, real: str) -> bool:
    """Whether real output is what a page shows; a line `...` stands for any lines, also for none."""
    pattern = "\n".join(r"(?:.*\n)*?.*" if line == "..." else re.escape(line) for line in shown.splitlines())
    return re.fullmatch(pattern, real) is not None


def transcripts(page: Path) -> list[tuple[str, str]]:
    """The commands of a page's console blocks, each with the output that the page shows."""
    found = []
    for block in CONSOLE.findall(page.read_text(encoding="utf-8")):
        for piece in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, shown = piece.partition("\n")
            found.append((command, shown.rstrip("\n")))
    return found


def test_an_ellipsis_stands_for_any_lines() -> None:
    assert matches("a\n...\nd", "a\nb\nc\nd")
    assert not matches("a\n...\nd", "a\nb\nc")
    assert not matches("a", "a\nb")


@pytest.mark.parametrize("page", [p for p in PAGES if transcripts(p)], ids=named)
def test_every_console_block_shows_what_the_command_really_prints(page: Path, tmp_path: Path) -> None:
    for command, shown in transcripts(page):
        assert command.startswith("vllmdoctor "), f"use a sh block for {command!r}: console blocks are run"
        real = GENERATE.shell(command, tmp_path)
        assert matches(shown, real), f"$ {command}\n{real}\n\n  hint: script/generate write"


@pytest.mark.parametrize("page", [p for p in PAGES if p.stem != "_template"], ids=named)
def test_the_generated_parts_are_up_to_date(page: Path) -> None:
    for part in GENERATE.PART.finditer(page.read_text(encoding="utf-8")):
        if part["kind"] != "console":  # those are run by the test above
            wanted = GENERATE.KINDS[part["kind"]](part["argument"])
            assert part["body"].strip() == wanted.strip(), "hint: script/generate write"


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_every_link_to_a_page_of_ours_resolves(page: Path) -> None:
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if "://" in target:
            continue
        path, _, anchor = target.partition("#")
        linked = (page.parent / path) if path else page
        assert linked.exists(), target
        if anchor:
            headings = re.findall(r"^#+ (.*)$", linked.read_text(encoding="utf-8"), re.MULTILINE)
            slugs = {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
            assert anchor in slugs, target


def all_text(folder: str) -> str:
    return "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / folder).glob("*.md"))


def command_names() -> list[str]:
    return sorted(get_command(cli.app).commands)  # type: ignore[attr-defined]


@pytest.mark.parametrize("command", command_names())
def test_every_command_is_in_the_reference_and_says_what_it_does(command: str) -> None:
    assert f"### {command}\n" in (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")
    assert get_command(cli.app).commands[command].help  # type: ignore[attr-defined]


@pytest.mark.parametrize("command", command_names())
def test_every_command_is_in_the_changelog(command: str) -> None:
    assert f"`{command}`" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("slug", [one.slug for one in all_rules()])
def test_every_rule_is_in_the_readme_and_among_the_thresholds(slug: str) -> None:
    assert f"runbooks/{slug}.md" in (ROOT / "README.md").read_text(encoding="utf-8")
    assert slug in (ROOT / "docs" / "thresholds.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "name",
    [
        "quickstart",
        "plan",
        "cli",
        "exit-codes",
        "exporter",
        "recording",
        "signals",
        "thresholds",
        "architecture",
    ],
)
def test_the_readme_leads_to_every_page(name: str) -> None:
    assert f"docs/{name}.md" in (ROOT / "README.md").read_text(encoding="utf-8")


def test_every_source_of_a_limit_is_explained() -> None:
    slow = [value for value in vars(symptoms).values() if isinstance(value, Limit)]
    sources = {limit.source for limit in (*slow, *(v for one in all_rules() for v in one.limits.values()))}

    text = (ROOT / "docs" / "thresholds.md").read_text(encoding="utf-8")

    assert {source for source in sources if f"| {source} |" not in text.split("## The limits")[0]} == set()


# Written so that this file does not contain what it looks for.
FOREIGN_PATHS = [r"/wor" + r"k/", r"\bshare" + r"d/", r"/tm" + r"p/"]
FOREIGN_WORDS = [
    r"\bsess" + r"ions?\b",
    r"(?<!User-)\bagen" + r"ts?\b",
    r"\bhelp" + r"ers?\b",
    r"\bregis" + r"tr(?:y|ies)\b",
]


def found_in(path: Path, patterns: list[str]) -> list[str]:
    text = path.read_text(encoding="utf-8")
    return [f"{named(path)}: {match}" for p in patterns for match in re.findall(p, text, re.IGNORECASE)]


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_a_page_speaks_of_the_project_alone(page: Path) -> None:
    assert found_in(page, FOREIGN_PATHS + FOREIGN_WORDS) == []


@pytest.mark.parametrize("folder", ["src", "tests", "script", "bench", ".ci"])
def test_no_file_names_a_place_that_only_its_author_had(folder: str) -> None:
    files = [
        p
        for p in (ROOT / folder).rglob("*")
        if p.is_file() and p.suffix in {".py", ".toml", ".csv", ".json", ""}
    ]

    assert [
        hit for path in files if "__pycache__" not in path.parts for hit in found_in(path, FOREIGN_PATHS)
    ] == []
