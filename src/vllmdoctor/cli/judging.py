"""From what a person gave on the command line to a report and an exit code."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from vllmdoctor.cli.terminal import progress, say
from vllmdoctor.errors import EXIT_DONE, EXIT_FOUND, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

    from vllmdoctor.kube.nouns import Cluster
    from vllmdoctor.launch import Launch
    from vllmdoctor.model import Report
    from vllmdoctor.recording import Recording
    from vllmdoctor.release import Version
    from vllmdoctor.sources import History, Window
    from vllmdoctor.sources.observe import Progress


def launch_given(args: str, args_file: str) -> "Launch | None":
    """What the server was started with, as far as a person said."""
    if not args and not args_file:
        return None
    from vllmdoctor.launch_text import read_launch

    stdin = sys.stdin.read() if args_file == "-" else ""
    return read_launch(args=args, path=args_file, stdin=stdin)


def judged(
    recording: "Recording",
    targets: list[str],
    baseline: "Recording | None",
    baseline_name: str,
    vllm_version: str,
    launch: "Launch | None",
) -> "Report":
    """The report, with what the arguments of the launch add to it."""
    from vllmdoctor.diagnosis import diagnose as judge
    from vllmdoctor.launch_report import with_findings, with_launch
    from vllmdoctor.sources import without_login

    told = with_launch(recording, launch) if launch else recording
    report = judge(
        told,
        target=" ".join(map(without_login, targets)),
        baseline=baseline,
        baseline_name=baseline_name,
        vllm_version=vllm_version,
    )
    return with_findings(report, recording, launch)


def kept_before(path: str, option: str, window: "Window") -> "Recording | None":
    """What was kept of an earlier time, None without it; UsageError where it could only be looked at now.

    Read it ahead of the targets: who has watched a server for hours must not then hear of a wrong name.
    """
    from vllmdoctor.sources import gather_targets, open_source, without_login

    if not path:
        return None
    if open_source(path).live:
        raise UsageError(
            f"{option} is a recording of an earlier time; {without_login(path)} can only be looked at now",
            hint="keep one beforehand: vllmdoctor record",
        )
    return gather_targets([path], window)


def window_of(
    duration: str, every: str, history: "History | None" = None, cluster: "Cluster | None" = None
) -> "Window":
    """How long and how often a live server is looked at; UsageError for what is no duration."""
    from vllmdoctor.kube.nouns import Cluster
    from vllmdoctor.sources import History, Window
    from vllmdoctor.units import parse_duration

    return Window(
        parse_duration(duration),
        parse_duration(every),
        history=history or History(),
        cluster=cluster or Cluster(),
    )


def history_of(
    targets: list[str], match: str, span: str, at: str, prefix: str, max_points: int | None
) -> "History":
    """What of a Prometheus' history is asked for; these options mean nothing to other targets."""
    from vllmdoctor.sources import History
    from vllmdoctor.sources.prom.when import parse_moment
    from vllmdoctor.units import parse_duration

    given = {
        "--match": match,
        "--window": span,
        "--at": at,
        "--metric-prefix": prefix,
        "--max-points": max_points,
    }
    asked = any(target.startswith(("prom+", "k8s://")) for target in targets)
    for option, value in given.items():
        if value and not asked:
            raise UsageError(f"{option} is for a Prometheus", hint="name it as prom+http://HOST:PORT")
    usual = History()
    tell = progress if asked and sys.stderr.isatty() else None
    return History(
        window_s=parse_duration(span) if span else usual.window_s,
        at=parse_moment(at) if at else None,
        match=match,
        prefix=prefix,
        max_points=max_points or usual.max_points,
        tell=tell,
    )


def check_version(text: str) -> None:
    """UsageError where a person gave a version that is none."""
    from vllmdoctor.release import Version

    if text and Version.parse(text) is None:
        raise UsageError(f"not a vLLM version: {text!r}", hint="write it as in --vllm-version 0.12.0")


def release_of(text: str) -> "Version | None":
    """The release whose metric names are asked for, None for all of them; told where it has none of its own.

    UsageError where a person gave a version that is none.
    """
    from vllmdoctor.release import Version
    from vllmdoctor.versions import releases

    check_version(text)
    release = Version.parse(text) if text else None
    known = releases()
    if release is not None and not release.meaningful:
        say(f"vLLM {release} has no names known here ({known[0]} to {known[-1]}): all of these are used")
        return None
    if release is not None and release > known[-1]:
        say(f"vLLM {release} is newer than the names known here ({known[0]} to {known[-1]})")
    return release


def keep(recording: "Recording", path: str) -> None:
    """Write what was read as a recording, and say so; FileExists where there is a file."""
    from vllmdoctor.commands_record import save_recording

    save_recording(recording, Path(path))
    say(f"recording saved to {path}")


def exit_code(report: "Report", fail_on: str) -> int:
    """The exit code that docs/exit-codes.md promises for this report."""
    from vllmdoctor.errors import EXIT_BLIND
    from vllmdoctor.model import Severity, Verdict

    unread = any(gap.origin == "targets" for gap in report.gaps)
    if report.verdict is Verdict.BLIND or (unread and report.verdict is Verdict.HEALTHY):
        return EXIT_BLIND
    if fail_on == "never":
        return EXIT_DONE
    limit = Severity[fail_on.upper()]
    worst = report.worst or 0
    if report.verdict is Verdict.UNEXPLAINED:
        worst = max(worst, Severity.WARNING)
    return EXIT_FOUND if worst >= limit else EXIT_DONE


def watcher_for(targets: list[str], vllm_version: str) -> "Callable[[Progress], None] | None":
    """Tells how far a live reading is; files need no such thing."""
    from vllmdoctor.sources import open_sources

    if not any(source.live for source in open_sources(targets)):
        return None
    from vllmdoctor.watching import watcher

    return watcher(sys.stderr, vllm_version)
