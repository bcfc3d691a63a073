"""Find and read a runbook page: one Markdown page per cause and per verdict, named by its slug."""

import re
from functools import cache
from pathlib import Path

from vllmdoctor.errors import UnknownName

# The wheel carries the pages inside the package; a source tree has them at its root.
_FOLDERS = (Path(__file__).parent / "runbooks", Path(__file__).parents[2] / "runbooks")
_MARK = re.compile(r"^<!-- /?generated.*-->\n\n?", re.MULTILINE)


@cache
def folder() -> Path:
    """The folder that holds the pages; the last candidate if there is none at all."""
    return next((path for path in _FOLDERS if path.is_dir()), _FOLDERS[-1])


def slugs() -> tuple[str, ...]:
    """Every page there is, sorted; the template is none."""
    return tuple(sorted(path.stem for path in folder().glob("*.md") if not path.stem.startswith("_")))


def read(slug: str) -> str:
    """The Markdown of one page, without the generator's marks.

    Raises `UnknownName` for a slug that has no page; its hint names the nearest that has one.
    """
    known = slugs()
    if slug not in known:
        raise UnknownName("runbook page", slug, known)
    return _MARK.sub("", (folder() / f"{slug}.md").read_text(encoding="utf-8"))


def title(slug: str) -> str:
    """The page's first heading, without the slug: `KV capacity is lost`."""
    heading = read(slug).split("\n", 1)[0].removeprefix("# ")
    return heading.split(": ", 1)[-1]


def section(slug: str, heading: str) -> str:
    """The text under one `## heading` of a page; empty where the page has no such heading."""
    found = re.search(rf"^## {re.escape(heading)}\n(.*?)(?=^## |\Z)", read(slug), re.MULTILINE | re.DOTALL)
    return found.group(1).strip() if found else ""
