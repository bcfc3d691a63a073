"""A baseline on disk: a recording that also says of what it is one, and when and by what it was written."""

import os
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from vllmdoctor import __version__
from vllmdoctor.errors import FileExists, NotEnoughData, UsageError
from vllmdoctor.gztail import MAGIC, inflate
from vllmdoctor.model import Fact, Samples
from vllmdoctor.recording import Column, Recording
from vllmdoctor.storage import Recorder, save

SCHEMA = "vllmdoctor/baseline/1"
FAMILY = "vllmdoctor/baseline/"
PREFIX = "baseline_"
_ORIGIN = "gate --update-baseline"
MOST_SAMPLES = 20_000  # a line of the file


def about(recording: Recording) -> Mapping[str, str]:
    """What a recording says of itself as a baseline; empty for another.

    UsageError for an unknown schema, NotEnoughData for one of which a part is lost.
    """
    found = {f.key.removeprefix(PREFIX): str(f.value) for f in recording.facts if f.key.startswith(PREFIX)}
    schema, told = found.pop("schema", ""), found.pop("samples", "")
    if not schema:
        return {}
    if schema != SCHEMA:
        raise UsageError(
            f"the baseline is of schema {schema!r}; this version reads {SCHEMA!r}",
            hint="upgrade vllmdoctor, or write the baseline anew with gate --update-baseline",
        )
    left = _count(recording.columns)
    if told and told != str(left):
        raise NotEnoughData(
            f"the baseline is damaged: {left} of its {told} samples are left",
            hint="write it anew with gate --update-baseline, or use its .bak, the one before it",
        )
    return found


def as_baseline(recordings: Sequence[Recording], target: str, written: str) -> Recording:
    """The runs as one recording with its provenance.

    UsageError for several histories of servers: in one file they would be told as one fleet.
    """
    servers = [r for r in recordings if any(s.startswith("vllm:") for of in r.columns.values() for s in of)]
    if len(recordings) > 1 and servers:
        raise UsageError(
            "several histories of a server make no single baseline",
            hint="write a baseline for each, and give --baseline once for each",
        )
    columns: dict[str, Mapping[str, Column]] = {}
    for number, recording in enumerate(recordings, 1):
        for instance, of in recording.columns.items():
            columns[instance if number == 1 else f"{instance}/{number}"] = of
    first = recordings[0]
    facts = tuple(f for f in first.facts if not f.key.startswith(PREFIX))
    told: dict[str, str | int] = {
        "schema": SCHEMA,
        "vllmdoctor": __version__,
        "written": written,
        "source": target,
        "runs": len(recordings),
        "samples": _count(columns),
    }
    gaps = tuple(g for r in recordings for g in r.gaps)
    mine = tuple(Fact(PREFIX + key, value, _ORIGIN) for key, value in told.items())
    return replace(first, columns=columns, facts=(*facts, *mine), gaps=gaps)


def check_replaceable(path: Path) -> None:
    """Before any work: UsageError without the folder, FileExists where there is a file and no baseline."""
    if not path.absolute().parent.is_dir():
        raise UsageError(f"no folder {path.parent} to write {path.name} into")
    if path.exists() and not _is_baseline(path):
        raise FileExists(
            f"{path} exists and is no baseline", hint="choose another name; only a baseline is replaced"
        )


def write(recording: Recording, path: Path) -> Path | None:
    """Put a baseline in its place at once; the older one is kept beside it, and its path is given back."""
    fresh = path.with_name(f".new-{os.getpid()}-{path.name}")
    try:
        seen = {i: of for i, of in recording.columns.items() if any(map(_by_client, of))}
        server = {i: of for i, of in recording.columns.items() if i not in seen}
        save(replace(recording, columns=server), fresh, {"targets": [], "baseline": SCHEMA})
        with Recorder(fresh, {}, append=True, max_bytes=sys.maxsize) as recorder:
            for samples in _samples(seen):
                recorder.write(samples)
        older = None
        if path.exists():
            older = path.with_name(path.name + ".bak")
            kept = path.with_name(f".old-{os.getpid()}-{path.name}")
            shutil.copy2(path, kept)
            kept.replace(older)
        fresh.replace(path)
    except OSError as error:
        raise UsageError(f"cannot write {path}: {(error.strerror or str(error)).lower()}") from None
    finally:
        fresh.unlink(missing_ok=True)
    return older


def _count(columns: Mapping[str, Mapping[str, Column]]) -> int:
    return sum(int(np.isfinite(column.values).sum()) for of in columns.values() for column in of.values())


def _by_client(series: str) -> bool:
    return series.startswith(("probe:", "run:"))


def _samples(columns: Mapping[str, Mapping[str, Column]]) -> Iterator[Samples]:
    """What a client saw, each series at its own times: millions of tokens are no scrapes of all series."""
    for instance, of in columns.items():
        for series, column in of.items():
            known = np.isfinite(column.values)
            times, values = column.times[known], column.values[known]
            for start in range(0, times.size, MOST_SAMPLES):
                part = slice(start, start + MOST_SAMPLES)
                yield Samples(instance, series, times[part].tolist(), values[part].tolist())


def _is_baseline(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            head = file.read(1 << 16)
    except OSError as error:
        raise UsageError(f"cannot read {path}: {(error.strerror or str(error)).lower()}") from None
    if head.startswith(MAGIC):
        head = b"".join(inflate([head], lambda _: None))
    return FAMILY.encode() in head.partition(b"\n")[0]
