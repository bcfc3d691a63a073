"""Results files of load generators, read into the series of a probe and told apart by content.

A file that holds each request gives its requests; one that holds only a summary gives one number a measure.
"""

import json
from codecs import BOM_UTF8
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from vllmdoctor.errors import NotEnoughData, UsageError
from vllmdoctor.model import Gap, Observation, Samples
from vllmdoctor.probe_series import UNITS

Run = tuple[Observation, ...]
"""What one run of a load generator left."""

_LARGEST = 2**31
_HEAD = 1 << 16


def read_results(path: Path) -> tuple[Run, ...] | None:
    """The runs in a results file; None for another kind of file. UsageError for one that cannot be used."""
    try:
        with path.open("rb") as file:
            head = file.read(_HEAD)
            if (
                not head.removeprefix(BOM_UTF8).lstrip().startswith(b"{")
                or b'"vllmdoctor/recording/' in head.partition(b"\n")[0]
            ):
                return None
            if path.stat().st_size > _LARGEST:
                raise UsageError(
                    f"{path} is larger than 2 GiB", hint="split the run, or save it without each token"
                )
            text = (head + file.read()).decode("utf-8-sig", "replace")
    except OSError as error:
        raise UsageError(f"cannot read {path}: {(error.strerror or str(error)).lower()}") from None
    documents, broken = _documents(text)
    found = runs_in(documents, path.name)
    if found and broken:
        what = f"{broken} of {broken + len(documents)} lines of {path.name}"
        gap = Gap(path.name, what, "they are no JSON objects: was the file cut off?")
        found = (*found[:-1], (*found[-1], gap))
    return found


def runs_in(documents: Sequence[Mapping[str, Any]], name: str) -> tuple[Run, ...] | None:
    """The runs in the JSON objects of a file; None where no load generator writes such.

    UsageError where they cannot be used, NotEnoughData for a run of no request at all.
    """
    from vllmdoctor.results import aiperf, guidellm, vllm_bench  # here: each names this package

    for reader in (vllm_bench, guidellm, aiperf):
        if documents and reader.recognises(documents[0]):
            strange = next((n for n, d in enumerate(documents, 1) if not reader.recognises(d)), 0)
            if strange:
                raise UsageError(
                    f"{name}: object {strange} is no result of {reader.PROGRAM}, as the first one is",
                    hint="were several files joined? give each as a candidate of its own",
                )
            try:
                found: tuple[Run, ...] = reader.runs(documents, name)
            except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
                raise UsageError(
                    f"{name} looks like results of {reader.PROGRAM}, but cannot be read: {error}",
                    hint="was it cut off, or written by a release that is not known yet?",
                ) from None
            if any(map(_is_empty, found)):
                raise NotEnoughData(
                    f"{name} holds a run without a request",
                    hint="did it reach the server, and end by itself?",
                )
            return found
    return None


def _is_empty(run: Run) -> bool:
    """Whether no request was sent: a summary of zeros, or nothing."""
    return not any(
        s.series in UNITS or any(value > 0 for value in s.values) for s in run if isinstance(s, Samples)
    )


def _documents(text: str) -> tuple[list[Mapping[str, Any]], int]:
    """One JSON object, or one a line, and how many lines are none; nothing where the first is none."""
    whole = _object(text)
    if whole is not None:
        return [whole], 0
    lines = [line for line in text.split("\n") if line.strip()]
    if not lines or _object(lines[0]) is None:
        return [], 0
    found = [document for line in lines if (document := _object(line)) is not None]
    return found, len(lines) - len(found)


def _object(text: str) -> Mapping[str, Any] | None:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None
