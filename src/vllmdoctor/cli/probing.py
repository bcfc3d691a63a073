"""A probe from the command line: sent with a word before and a count meanwhile; and `gate --probe`."""

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from vllmdoctor.cli.terminal import progress, say
from vllmdoctor.errors import UsageError

if TYPE_CHECKING:
    from vllmdoctor.model_probe import ProbeReport
    from vllmdoctor.probe.questions import Question
    from vllmdoctor.probe.run import Settings
    from vllmdoctor.recording import Recording

_URL = ("http://", "https://")


@dataclass(frozen=True, slots=True)
class Probing:
    """What the options say of a probe; each is empty, or 0, where it was not given."""

    requests: str
    concurrency: int
    warmup: int
    max_requests: int

    def check(self, probing: bool, targets: Sequence[str]) -> None:
        """UsageError where an option is missing, or would mean nothing."""
        given = {
            "--requests": self.requests,
            "--concurrency": self.concurrency,
            "--warmup": self.warmup,
            "--max-requests": self.max_requests,
        }
        for option, value in given.items():
            if value and not probing:
                raise UsageError(f"{option} is for a probe", hint="add --probe, and a URL as the target")
            if probing and not value and option in ("--requests", "--concurrency"):
                raise UsageError(
                    f"--probe needs {option}", hint="as in --probe --requests set.jsonl --concurrency 16"
                )
        if probing and not any(target.startswith(_URL) for target in targets):
            raise UsageError("--probe, and no side is a URL", hint="name the server as http://HOST:PORT")


def prober(asked: Probing, most_s: float) -> "Callable[[str], Recording | None]":
    """Probes a target for at most `most_s`, and reads what was kept; None for a target that is no URL.

    UsageError where the requests cannot be used, BlindError where not one was answered.
    """
    from vllmdoctor.probe.questions import read_questions
    from vllmdoctor.probe.run import Settings

    questions = read_questions(asked.requests)
    settings = Settings(
        concurrency=asked.concurrency,
        warmup=asked.warmup,
        requests=asked.max_requests,
        max_time_s=most_s,
    )

    def probed(target: str) -> "Recording | None":
        if not target.startswith(_URL):
            return None
        from tempfile import TemporaryDirectory

        from vllmdoctor.sources import Window, gather_targets

        with TemporaryDirectory(prefix="vllmdoctor-") as folder:
            path = Path(folder) / "probe.rec"
            sent(target, questions, settings, path)
            return gather_targets([str(path)], Window())

    return probed


def sent(url: str, questions: "tuple[Question, ...]", settings: "Settings", path: Path) -> "ProbeReport":
    """Say what will be sent, send it, and keep what comes in `path`; a terminal sees how far it is."""
    from vllmdoctor.probe.run import prepare, run
    from vllmdoctor.sources.http import Http

    with Http() as http:
        ready = prepare(url, questions, settings, http)
        say(ready.words)
        if not sys.stderr.isatty():
            return run(ready, path, http, None)
        try:
            return run(ready, path, http, lambda done, planned: progress(f"{done} of {planned} requests"))
        finally:
            progress("")
