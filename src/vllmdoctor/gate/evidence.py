"""What was given for a side, and which form of evidence both sides have."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property

import numpy as np

from vllmdoctor.engines import frames
from vllmdoctor.errors import NotEnoughData
from vllmdoctor.facts import server_version
from vllmdoctor.frame import Frame
from vllmdoctor.gate.lined_up import fleet
from vllmdoctor.gate.requests import Run, runs_of
from vllmdoctor.gate.summaries import Summary, summaries_of, summary_of
from vllmdoctor.model_gate import Side
from vllmdoctor.recording import Column, Recording
from vllmdoctor.run_series import COMPLETED


class Kind(StrEnum):
    """The forms of evidence."""

    REQUESTS = "requests"
    METRICS = "server metrics"
    SUMMARIES = "summaries of runs"


@dataclass(frozen=True)
class Given:
    """One side: what was read of each target. Several recordings are repeat runs."""

    targets: tuple[str, ...]
    recordings: tuple[Recording, ...]
    about: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def runs(self) -> tuple[Run, ...]:
        """The runs whose requests are known."""
        return tuple(run for recording in self.recordings for run in runs_of(recording))

    @cached_property
    def summaries(self) -> tuple[Summary, ...]:
        """The runs' summaries, also of those whose requests are known."""
        told = tuple(s for recording in self.recordings for s in summaries_of(recording))
        return (*told, *map(summary_of, self.runs))

    @cached_property
    def servers(self) -> tuple[Frame, ...]:
        """The server's metrics of each recording that has them; all its engines as one."""
        return tuple(frame for recording in self.recordings if (frame := fleet(recording)) is not None)

    @property
    def kinds(self) -> tuple[Kind, ...]:
        """The forms of evidence that this side has, the most telling first."""
        told_only = len(self.summaries) > len(self.runs)
        found = [Kind.REQUESTS] if self.runs and not told_only else []
        found += [Kind.SUMMARIES] if self.summaries else []
        return (*found, Kind.METRICS) if self.servers else tuple(found)


def common_kind(baseline: Given, candidate: Given) -> Kind:
    """The most telling form that both sides have; NotEnoughData without any."""
    for kind in (Kind.REQUESTS, Kind.SUMMARIES, Kind.METRICS):
        if kind in baseline.kinds and kind in candidate.kinds:
            return kind
    names = [" and ".join(g.kinds) or "nothing to compare" for g in (baseline, candidate)]
    raise NotEnoughData(
        f"the two sides cannot be compared: the baseline has {names[0]}, the candidate {names[1]}",
        hint="measure both in the same way",
    )


def left_out(given: Given, kind: Kind) -> int:
    """How many recordings of a side hold nothing of the form that is compared."""
    if kind is Kind.METRICS:
        return len(given.recordings) - len(given.servers)
    told = kind is Kind.SUMMARIES
    return sum(not runs_of(r) and not (told and summaries_of(r)) for r in given.recordings)


def side(given: Given, kind: Kind) -> Side:
    """What is shown of a side."""
    facts = {f.key: str(f.value) for r in given.recordings for f in reversed(r.facts)}
    model, version = facts.get("model", ""), facts.get("vllm_version", "")
    framed = frames(given.recordings[0])
    if framed:
        model = framed[0].model or model
        version = server_version(given.recordings[0], framed[0], "").words
    match kind:
        case Kind.REQUESTS:
            runs, requests = len(given.runs), float(sum(run.completed for run in given.runs))
        case Kind.SUMMARIES:
            runs, requests = (
                len(given.summaries),
                float(sum(s.get(COMPLETED, np.nan) for s in given.summaries)),
            )
        case Kind.METRICS:
            runs, requests = len(given.servers), np.nan
    start, end = min(r.start for r in given.recordings), max(r.end for r in given.recordings)
    return Side(given.targets, kind.value, model, version, start, end, runs, requests, given.about)


def same_data(baseline: Given, candidate: Given) -> bool:
    """Whether both sides hold the very same samples."""
    if len(baseline.recordings) != len(candidate.recordings):
        return False
    return all(equal(a, b) for a, b in zip(baseline.recordings, candidate.recordings, strict=True))


def equal(a: Recording, b: Recording) -> bool:
    """Whether two recordings hold the very same samples."""
    one, other = _columns(a), _columns(b)
    return one.keys() == other.keys() and all(
        np.array_equal(c.times, other[key].times)
        and np.array_equal(c.values, other[key].values, equal_nan=True)
        for key, c in one.items()
    )


def _columns(recording: Recording) -> dict[str, Column]:
    """By instance and series; instances are told by their place, since a copy may be named otherwise."""
    return {
        f"{number} {series}": column
        for number, instance in enumerate(recording.instances)
        for series, column in recording.columns[instance].items()
    }
