"""What is behind `gate`: from targets to two sides, and what the diagnosis says of the candidate."""

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from vllmdoctor import gate_baseline
from vllmdoctor.diagnosis import diagnose
from vllmdoctor.errors import NotEnoughData, NotVllm, UsageError
from vllmdoctor.gate import Given
from vllmdoctor.gate.changed import loads_mixed
from vllmdoctor.gate.evidence import equal
from vllmdoctor.model import Report
from vllmdoctor.model_gate import Cause
from vllmdoctor.recording import Recording, gather
from vllmdoctor.results import read_results
from vllmdoctor.sources import Window, gather_targets, without_login
from vllmdoctor.sources.observe import Progress
from vllmdoctor.sources.prom.when import parse_moment
from vllmdoctor.units import parse_duration

Tell = Callable[[Progress], None]
_RANGE = re.compile(r"(prom\+https?://.+)@([^@/]+)/([^@/]+)")
_RUNBOOKS = "runbooks"
_WHAT_IS_KEPT = "was it scraped then, and are --match and --metric-prefix right?"
_WHAT_IS_READ = (
    "a recording, saved metrics or a log is read, and results of vllm bench serve, GuideLLM and AIPerf: "
    "was it cut off?"
)


def given(
    targets: Sequence[str],
    window: Window,
    watcher: Callable[[str], Tell | None] = lambda _: None,
    measure: Callable[[str], Recording | None] | None = None,
) -> Given:
    """Read each target of a side as a run of its own.

    VllmDoctorError where one cannot be read, UsageError where two hold the same run: its spread would vanish.
    What `measure` measures itself is not read; it gives None for a target that it leaves alone.
    """
    runs: list[tuple[str, Recording]] = []
    about: dict[str, str] = {}
    for target in targets:
        measured = measure(target) if measure else None
        found = [measured] if measured else _read(target, window, watcher)
        for recording in found:
            about |= gate_baseline.about(recording)
            same = next((shown for shown, other in runs if equal(other, recording)), "")
            if same:
                raise UsageError(
                    f"{same} and {_shown(target)} hold the same run",
                    hint="repeat runs are measured one after the other; give each once",
                )
            runs.append((_shown(target), recording))
    return Given(tuple(map(_shown, targets)), tuple(recording for _, recording in runs), about)


def causes(baseline: Given, candidate: Given) -> tuple[Cause, ...]:
    """What the diagnosis finds on the candidate, the primary cause first; nothing where it cannot look."""
    before = [r for r in baseline.recordings if _is_server(r)]
    here = [r for r in candidate.recordings if _is_server(r)]
    if not here:
        return ()
    report = _diagnosed(here[-1], before[-1] if before else None)
    known = _diagnosed(before[-1], None) if before else None
    if report is None:
        return ()
    old = {o.slug for e in known.engines for o in e.findings} if known else set()
    found = {
        o.slug: Cause(
            o.slug,
            o.title,
            o.summary,
            o.severity.name.lower(),
            o.confidence,
            o.slug not in old,
            f"{_RUNBOOKS}/{o.slug}.md",
        )
        for e in report.engines
        for o in reversed(e.findings)
    }
    return tuple(sorted(found.values(), key=lambda c: (c.slug != report.primary, not c.new)))


def update(path: Path, candidate: Given, written: str) -> Path | None:
    """Write the candidate as a baseline; the path under which an older one was kept, if there was one."""
    loads = loads_mixed(candidate)
    if loads:
        raise UsageError(
            f"the runs are of several loads: {loads}", hint="a gate compares one load: give the runs of one"
        )
    recording = gate_baseline.as_baseline(candidate.recordings, " ".join(candidate.targets), written)
    return gate_baseline.write(recording, path)


def _diagnosed(recording: Recording, baseline: Recording | None) -> Report | None:
    try:
        return diagnose(recording, baseline=baseline, baseline_name="baseline")
    except NotEnoughData:
        return None


def _is_server(recording: Recording) -> bool:
    return any(series.startswith("vllm:") for columns in recording.columns.values() for series in columns)


def _read(target: str, window: Window, watcher: Callable[[str], Tell | None]) -> list[Recording]:
    path = Path(target)
    if path.is_file():
        runs = read_results(path)
        if runs is not None:
            return [gather(run) for run in runs]
    place, window = _range(target, window)
    try:
        return [gather_targets([place], window, watcher(place))]
    except NotVllm as error:
        if path.is_file():
            raise NotVllm(error.message, hint=_WHAT_IS_READ) from None
        if place != target:
            raise NotVllm(f"{_shown(target)}: {error.message}", hint=_WHAT_IS_KEPT) from None
        raise


def _range(target: str, window: Window) -> tuple[str, Window]:
    """A Prometheus and its window, where the target names a range of it: prom+http://HOST@TIME/WINDOW."""
    found = _RANGE.fullmatch(target)
    if not found:
        return target, window
    try:
        at, length = parse_moment(found[2]), parse_duration(found[3])
    except UsageError as error:
        hint = "a range of a Prometheus is written prom+http://HOST:PORT@2026-11-29T15:04/1h"
        raise UsageError(f"{_shown(target)}: {error.message}", hint=hint) from None
    return found[1], replace(window, history=replace(window.history, at=at, window_s=length))


def _shown(target: str) -> str:
    """The target as it is shown and kept: without a login, with its range."""
    found = _RANGE.fullmatch(target)
    return f"{without_login(found[1])}@{found[2]}/{found[3]}" if found else without_login(target)
