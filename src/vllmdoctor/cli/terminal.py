"""What a command says, and where: the terminal's width, colour and encoding, and the files it writes."""

import os
import sys
from pathlib import Path
from typing import TypedDict

from vllmdoctor.errors import UsageError


class Look(TypedDict):
    """What every page is rendered for."""

    width: int
    color: bool
    encoding: str


def look() -> Look:
    """Standard output as it is: its width in columns, whether it has colour, and its encoding."""
    return Look(width=width(""), color=color(), encoding=encoding())


def say(text: str) -> None:
    """A line for the person, beside the output."""
    sys.stderr.write(("\r\x1b[K" if sys.stderr.isatty() else "") + text + "\n")


def progress(text: str) -> None:
    """A line for the person that the next one replaces."""
    sys.stderr.write(f"\r\x1b[K{text}")
    sys.stderr.flush()


def write_report(path: str, text: str) -> None:
    """Write a report into a file, over an older one; UsageError, and the text on stdout, where that fails."""
    try:
        Path(path).write_text(text, encoding="utf-8")
    except OSError as error:
        sys.stdout.write(text)  # a report that took minutes to make is not thrown away
        raise UsageError(f"cannot write {path}: {(error.strerror or str(error)).lower()}") from None
    say(f"report written to {path}")


def check_new(*paths: str) -> None:
    """Before any work is done: FileExists where a file exists, UsageError without its folder."""
    from vllmdoctor.errors import FileExists

    for path in paths:
        if path and Path(path).exists():
            raise FileExists(f"{path} exists", hint="choose another name; nothing is ever overwritten")
    check_folders(*paths)


def check_folders(*paths: str) -> None:
    """Before any work is done: UsageError for a file whose folder does not exist."""
    for path in paths:
        if path and not Path(path).absolute().parent.is_dir():
            raise UsageError(f"no folder {Path(path).parent} to write {Path(path).name} into")


def color(stream: object = None) -> bool:
    """Whether a stream (standard output) is to be coloured."""
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR"):
        return True
    out = sys.stdout if stream is None else stream
    return bool(getattr(out, "isatty", lambda: False)()) and os.environ.get("TERM") != "dumb"


def width(output: str) -> int:
    """The terminal's width, at most 100; 100 where there is no terminal."""
    import shutil

    if output or not sys.stdout.isatty():
        return int(os.environ.get("COLUMNS", "100")) if os.environ.get("COLUMNS", "").isdigit() else 100
    return max(60, min(100, shutil.get_terminal_size((100, 24)).columns))


def encoding(stream: object = None) -> str:
    """The encoding of a stream (standard output)."""
    return getattr(sys.stdout if stream is None else stream, "encoding", None) or "utf-8"
