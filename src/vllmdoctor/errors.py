"""Every error a user can meet, with its exit code and the next step.

    VllmDoctorError          exit 2
     ├ UsageError            exit 2   the command line, a setting or an input file is wrong
     │  ├ UnknownName        exit 2   a name that does not exist, with the nearest one that does
     │  └ FileExists         exit 2   writing would overwrite something the user has
     └ BlindError            exit 3   nothing could be diagnosed
        ├ SourceError        exit 3   a target could not be read
        │  ├ Unreachable     exit 3   refused, no such host, TLS failure, time-out
        │  ├ Unauthorized    exit 3   401 or 403
        │  └ NotVllm         exit 3   it answered, but not with vLLM's metrics
        └ NotEnoughData      exit 3   read, but too short or too empty to judge

They are raised anywhere and caught once, in `vllmdoctor.cli.main`.
"""

import difflib
from collections.abc import Iterable
from typing import ClassVar

EXIT_DONE = 0
EXIT_FOUND = 1
EXIT_MISUSED = 2
EXIT_BLIND = 3


class VllmDoctorError(Exception):
    """Something the user can act on: one line of what, and a hint of what to do."""

    exit_code: ClassVar[int] = EXIT_MISUSED

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class UsageError(VllmDoctorError):
    """The command line, a setting or an input file is wrong."""


class UnknownName(UsageError):
    """A name that does not exist; the hint names the nearest one that does."""

    def __init__(self, kind: str, name: str, known: Iterable[str]) -> None:
        known = sorted(known)
        near = difflib.get_close_matches(name, known, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(known)}"
        super().__init__(f"no {kind} named {name!r}", hint=hint)


class FileExists(UsageError):
    """Writing would overwrite something the user has."""


class BlindError(VllmDoctorError):
    """Nothing could be diagnosed."""

    exit_code: ClassVar[int] = EXIT_BLIND


class SourceError(BlindError):
    """A target could not be read."""


class Unreachable(SourceError):
    """Refused, no such host, TLS failure or time-out."""


class Unauthorized(SourceError):
    """The target answered 401 or 403."""


class NotVllm(SourceError):
    """The target answered, but not with vLLM's metrics."""


class NotEnoughData(BlindError):
    """Something was read, but it is too short or too empty to judge."""
