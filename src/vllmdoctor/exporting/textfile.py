"""The page as a file for node_exporter's textfile collector: whole, or not there."""

import contextlib
import errno
import os
from pathlib import Path

from vllmdoctor.errors import FileExists, UsageError

_OURS = b"vllmdoctor_"
_ENDING = ".prom"
_HEAD = 1 << 16
_OWNER = "run it as the owner of that folder"


def check_textfile(path: Path) -> None:
    """Before any work is done: UsageError where it could not be read or written, FileExists for another's."""
    if path.suffix != _ENDING:
        raise UsageError(
            f"{path} would not be read: node_exporter takes only files that end in {_ENDING}",
            hint=f"--textfile {path.with_suffix(_ENDING)}",
        )
    folder = path.absolute().parent
    try:
        folder.stat()
        if not os.access(folder, os.W_OK | os.X_OK, effective_ids=True):
            raise PermissionError(errno.EACCES, "Permission denied")
        ours = not path.exists() or _OURS in path.read_bytes()[:_HEAD]
    except (FileNotFoundError, NotADirectoryError):
        raise UsageError(f"no folder {path.parent} to write {path.name} into") from None
    except OSError as error:
        raise UsageError(
            f"cannot write {path}: {(error.strerror or str(error)).lower()}", hint=_OWNER
        ) from None
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
