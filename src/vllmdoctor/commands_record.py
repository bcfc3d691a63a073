"""What is behind `record` and `convert`: from targets to a file, and from a file to OpenMetrics."""

import math
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from vllmdoctor.errors import UsageError
from vllmdoctor.kube.nouns import Cluster
from vllmdoctor.model import Snapshot
from vllmdoctor.openmetrics import openmetrics
from vllmdoctor.recording import Recording
from vllmdoctor.redaction import Redactor
from vllmdoctor.sources import History, Window, gather_targets, open_sources, without_login
from vllmdoctor.sources.observe import failure_of, observe
from vllmdoctor.storage import DEFAULT_MAX_BYTES, About, Recorder, check_free, save


@dataclass(frozen=True, slots=True)
class Recorded:
    """How far a recording is: scrapes and failures in all, the part being written and its size."""

    path: Path
    parts: int
    scrapes: int
    failures: int
    size_bytes: int
    elapsed_s: float
    duration_s: float


@dataclass(frozen=True, slots=True)
class Converted:
    """What was written by `convert`; facts, events and gaps have no place in OpenMetrics."""

    series: int
    samples: int
    left_out: int


def record_targets(
    targets: Sequence[str],
    path: Path,
    *,
    duration_s: float = math.inf,
    interval_s: float = 15.0,
    append: bool = False,
    redact: bool = False,
    max_bytes: int = DEFAULT_MAX_BYTES,
    on_progress: Callable[[Recorded], None] | None = None,
    history: History | None = None,
    cluster: Cluster | None = None,
) -> Recorded:
    """Record what the targets show until the time is over or Ctrl-C; each scrape is on the disk at once.

    Files are read, and written in our own form. VllmDoctorError where nothing can be read or the
    file cannot be written; no file that holds nothing is left then.
    """
    window = Window(duration_s, interval_s, history=history or History(), cluster=cluster or Cluster())
    sources = open_sources(targets)
    if not append:
        check_free(path)
    redactor = Redactor(targets) if redact else None
    shown = [redactor.target(t) if redactor else without_login(t) for t in targets]
    about: About = {"targets": shown, "interval": interval_s}
    start = time.monotonic()
    if not any(source.live for source in sources):
        if append:
            raise UsageError(
                "only a live server can be appended to a recording",
                hint="give both files to diagnose instead",
            )
        recording = gather_targets(targets, window)
        save(recording, path, about, redactor=redactor)
        size, elapsed = path.stat().st_size, time.monotonic() - start
        return Recorded(path, 1, recording.scrapes, 0, size, elapsed, duration_s)
    recorder: Recorder | None = None
    done = Recorded(path, 0, 0, 0, 0, 0.0, duration_s)
    try:
        with closing(observe(sources, window)) as stream:
            for observation in stream:
                if recorder is None:
                    recorder = Recorder(path, about, append=append, max_bytes=max_bytes, redactor=redactor)
                recorder.write(observation)
                failed = bool(failure_of(observation))
                done = Recorded(
                    path=recorder.paths[-1],
                    parts=len(recorder.paths),
                    scrapes=done.scrapes + isinstance(observation, Snapshot),
                    failures=done.failures + failed,
                    size_bytes=recorder.size,
                    elapsed_s=time.monotonic() - start,
                    duration_s=duration_s,
                )
                if on_progress is not None and (failed or isinstance(observation, Snapshot)):
                    on_progress(done)
    except KeyboardInterrupt:
        if recorder is None:
            raise
    finally:
        if recorder is not None:
            recorder.close()
    return done


def save_recording(recording: Recording, path: Path) -> None:
    """Write a Recording that was gathered; FileExists where there is a file."""
    save(recording, path)


def convert(target: str, out: Path, *, interval_s: float = 15.0) -> Converted:
    """Write what a file or an example holds as OpenMetrics text.

    `interval_s` is for pages that carry no time. FileExists where `out` exists, UsageError where
    the target is a live server.
    """
    if any(source.live for source in open_sources([target])):
        raise UsageError(f"{target} is a live server", hint="record it first, then convert the recording")
    check_free(out)
    recording = gather_targets([target], Window(interval_s=interval_s))
    samples, whole = 0, False
    try:
        with out.open("x", encoding="utf-8") as file:
            for text in openmetrics(recording):
                file.write(text)
                samples += not text.startswith("#")
        whole = True
    except OSError as error:
        raise UsageError(f"cannot write {out}: {(error.strerror or str(error)).lower()}") from None
    finally:
        if not whole:
            out.unlink(missing_ok=True)
    series = sum(map(len, recording.columns.values()))
    return Converted(series, samples, sum(map(len, (recording.facts, recording.events, recording.gaps))))
