"""The page as a file for node_exporter's textfile collector: whole, or not there."""

import contextlib
import os
from pathlib import Path

from vllmdoctor.errors import FileExists, UsageError

_OURS = b"vllmdoctor_"
_ENDING = ".prom"


def check_textfile(path: Path) -> None:
    """Before any work is done: UsageError where it could not be read or written, FileExists for another's."""
    if path.suffix != _ENDING:
        raise UsageError(
            f"{path} would not be read: node_exporter takes only files that end in {_ENDING}",
            hint=f"--textfile {path.with_suffix(_ENDING)}",
        )
    folder = path.absolute().parent
    if not folder.is_dir():
        raise UsageError(f"no folder {path.parent} to write {path.name} into")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise UsageError(
            f"cannot write into {folder}: permission denied", hint="run it as the folder's owner"
        )
    try:
        with path.open("rb") as file:
            ours = _OURS in file.read(1 << 16)
    except FileNotFoundError:
        return
    except OSError as error:
        raise UsageError(f"cannot write {path}: {(error.strerror or str(error)).lower()}") from None
    if not ours:
        raise FileExists(f"{path} exists and is not vllmdoctor's", hint="choose another name")


def write_textfile(path: Path, page: bytes) -> None:
    """Put the page in place in one step, readable for all; UsageError where that fails."""
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with beside.open("wb") as file:
            os.fchmod(file.fileno(), 0o644)
            file.write(page)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
    except OSError as error:
        with contextlib.suppress(OSError):
            beside.unlink(missing_ok=True)
        raise UsageError(f"cannot write {path}: {(error.strerror or str(error)).lower()}") from None
