"""What is said on stderr while a live server is watched or recorded."""

import time
from typing import TYPE_CHECKING, TextIO

from vllmdoctor.errors import BlindError

if TYPE_CHECKING:
    from collections.abc import Callable

    from vllmdoctor.commands_record import Recorded
    from vllmdoctor.sources.observe import Progress

QUIET_S = 30.0  # between lines where stderr is no terminal


def watcher(out: TextIO, vllm_version: str) -> "Callable[[Progress], None]":
    """Tell how far a live reading is, and the first findings as soon as two scrapes are there."""
    told = False
    last = 0.0

    def tell(progress: "Progress") -> None:
        nonlocal told, last
        # of several servers the last one's second scrape is awaited, not one that shows no more
        if not told and (progress.fewest >= 2 or progress.scrapes > 2):
            told = True
            _line(out, _first_findings(progress, vllm_version))
        if out.isatty():
            out.write(f"\r\x1b[K{_so_far(progress)}")
            if progress.elapsed_s >= progress.duration_s:
                out.write("\r\x1b[K")
            out.flush()
        elif time.monotonic() - last > QUIET_S:
            last = time.monotonic()
            _line(out, _so_far(progress))

    return tell


def recorder(out: TextIO) -> "Callable[[Recorded], None]":
    """Tell how far a recording is: one line that is rewritten, or one in thirty seconds."""
    last = 0.0

    def tell(progress: "Recorded") -> None:
        nonlocal last
        text = (
            f"recording {progress.path}: {progress.scrapes} scrapes, {progress.size_bytes / 2**20:.2f} MiB, "
            f"{progress.elapsed_s:.0f} s" + (f", {progress.failures} failed" if progress.failures else "")
        )
        if out.isatty():
            out.write(f"\r\x1b[K{text} (Ctrl-C ends it)")
            out.flush()
        elif time.monotonic() - last > QUIET_S:
            last = time.monotonic()
            _line(out, text)

    return tell


def _so_far(progress: "Progress") -> str:
    failed = f", {progress.failures} failed" if progress.failures else ""
    return (
        f"watching: {progress.scrapes} scrape{'s'[: progress.scrapes != 1]}{failed}, "
        f"{progress.elapsed_s:.0f} of {progress.duration_s:.0f} s"
        " (Ctrl-C judges what is there)"
    )


def _first_findings(progress: "Progress", vllm_version: str) -> str:
    from vllmdoctor.diagnosis import diagnose
    from vllmdoctor.model import Verdict

    try:
        report = diagnose(progress.recording(), vllm_version=vllm_version)
    except BlindError:
        return "first look: nothing to judge yet"
    if report.verdict is Verdict.BLIND or not report.engines[0].findings:
        return "first look after two scrapes: nothing stands out yet"
    now = {s.name: s.now for s in report.engines[0].symptoms}
    rate = now.get("rate", float("nan"))
    words = f"first look after two scrapes: {report.headline.rstrip('.')}"
    return words + (f"; {rate:.0f} tokens/s" if rate == rate else "")


def _line(out: TextIO, text: str) -> None:
    out.write(("\r\x1b[K" if out.isatty() else "") + text + "\n")
    out.flush()
