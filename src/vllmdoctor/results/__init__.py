"""Results files of load generators, read into the series of a probe and told apart by content.

A file that holds each request gives its requests; one that holds only a summary gives one number a measure.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from vllmdoctor.errors import UsageError
from vllmdoctor.model import Observation

Run = tuple[Observation, ...]
"""What one run of a load generator left."""

_LARGEST = 2**31
_HEAD = 1 << 16


def read_results(path: Path) -> tuple[Run, ...] | None:
    """The runs in a results file; None for another kind of file. UsageError for one that cannot be used."""
    try:
        with path.open("rb") as file:
            head = file.read(_HEAD)
            if not head.lstrip().startswith(b"{") or b'"vllmdoctor/recording/' in head.partition(b"\n")[0]:
                return None
            if path.stat().st_size > _LARGEST:
                raise UsageError(
                    f"{path} is larger than 2 GiB", hint="split the run, or save it without each token"
                )
            text = (head + file.read()).decode("utf-8", "replace")
    except OSError as error:
        raise UsageError(f"cannot read {path}: {(error.strerror or str(error)).lower()}") from None
    return runs_in(list(_documents(text)), path.name)


def runs_in(documents: Sequence[Mapping[str, Any]], name: str) -> tuple[Run, ...] | None:
    """The runs in the JSON objects of a file; None where no load generator writes such."""
    from vllmdoctor.results import aiperf, guidellm, vllm_bench  # here: each names this package

    for reader in (vllm_bench, guidellm, aiperf):
        if documents and reader.recognises(documents[0]):
            try:
                found: tuple[Run, ...] = reader.runs(documents, name)
            except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
                raise UsageError(
                    f"{name} looks like results of {reader.PROGRAM}, but cannot be read: {error}",
                    hint="was it cut off, or written by a release that is not known yet?",
                ) from None
            return found
    return None


def _documents(text: str) -> Iterator[Mapping[str, Any]]:
    """One JSON object, or one a line; what is no object ends it."""
    try:
        whole = json.loads(text)
        if isinstance(whole, dict):
            yield whole
        return
    except ValueError:
        pass
    for line in text.splitlines():
        if not line.strip():
            continue
        try:
            found = json.loads(line)
        except ValueError:
            return
        if not isinstance(found, dict):
            return
        yield found
