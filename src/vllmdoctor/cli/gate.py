"""`gate`: compare a candidate with a baseline, and fail the build on a real regression."""

import os
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from vllmdoctor.cli.judging import history_of, watcher_for, window_of
from vllmdoctor.cli.options import Every, For, Match, MetricPrefix
from vllmdoctor.cli.probing import Probing, prober
from vllmdoctor.cli.terminal import check_folders, look, say, write_report
from vllmdoctor.errors import EXIT_BLIND, EXIT_DONE, EXIT_FOUND, UnknownName, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

    from vllmdoctor.gate import Given
    from vllmdoctor.model_gate import Gate
    from vllmdoctor.sources.observe import Progress

INCONCLUSIVE = ("fail", "pass")
_SUMMARY = "GITHUB_STEP_SUMMARY"


def gate(
    candidates: Annotated[
        list[str],
        typer.Argument(
            metavar="CANDIDATE...",
            help="a recording, example:NAME, a live server, prom+http(s)://HOST@TIME/WINDOW, or results of "
            "vllm bench serve, GuideLLM or AIPerf. Several are repeat runs.",
            show_default=False,
        ),
    ],
    baselines: Annotated[
        list[str] | None,
        typer.Option(
            "--baseline",
            help="what to compare with, as CANDIDATE; repeat it for repeat runs",
            metavar="TARGET",
        ),
    ] = None,
    update_baseline: Annotated[
        str,
        typer.Option(
            "--update-baseline",
            help="write the candidate as the baseline; with --baseline only if it passes",
            metavar="FILE",
        ),
    ] = "",
    probe: Annotated[
        bool, typer.Option("--probe", help="send --requests to the sides that are URLs, and compare these")
    ] = False,
    requests: Annotated[
        str, typer.Option("--requests", help="--probe: what to send, a file as of `probe`", metavar="FILE")
    ] = "",
    concurrency: Annotated[
        int,
        typer.Option(
            "--concurrency",
            help="--probe: how many at once, at most",
            metavar="N",
            min=0,
            show_default=False,
        ),
    ] = 0,
    warmup: Annotated[
        int,
        typer.Option(
            "--warmup",
            help="--probe: so many first, which do not count",
            metavar="K",
            min=0,
            show_default=False,
        ),
    ] = 0,
    max_requests: Annotated[
        int,
        typer.Option(
            "--max-requests",
            help="--probe: send so many, the file again where it holds fewer [the file once]",
            metavar="N",
            min=0,
            show_default=False,
        ),
    ] = 0,
    duration: For = "5m",
    every: Every = "5s",
    match: Match = "",
    metric_prefix: MetricPrefix = "",
    throughput: Annotated[
        str, typer.Option("--throughput", help="how much less throughput is allowed", metavar="PERCENT")
    ] = "5",
    ttft: Annotated[
        str, typer.Option("--ttft", help="how much later first tokens may come (p95)", metavar="PERCENT")
    ] = "10",
    itl: Annotated[
        str, typer.Option("--itl", help="how much longer tokens may take (p95)", metavar="PERCENT")
    ] = "10",
    correctness: Annotated[
        str, typer.Option("--correctness", help="how many fewer answers may be right", metavar="POINTS")
    ] = "0",
    errors: Annotated[
        str, typer.Option("--errors", help="how many more requests may fail", metavar="POINTS")
    ] = "0",
    inconclusive: Annotated[
        str, typer.Option("--inconclusive", help="where the data cannot tell: fail (exit 3) or pass (exit 0)")
    ] = "fail",
    fmt: Annotated[
        str,
        typer.Option("--format", "-f", help="text, json, markdown, junit, sarif or github", metavar="FORMAT"),
    ] = "text",
    outputs: Annotated[
        list[str] | None,
        typer.Option(
            "--output",
            "-o",
            help="also write it here; the ending picks the format (.json .md .xml .sarif .txt); repeatable",
            metavar="FILE",
        ),
    ] = None,
) -> None:
    """Compare a candidate with a baseline; exit 1 on a regression, 3 where the data cannot tell."""
    from dataclasses import replace
    from pathlib import Path

    from vllmdoctor.render.gate import FORMATS, format_for

    if fmt not in FORMATS:
        raise UnknownName("format", fmt, FORMATS)
    if inconclusive not in INCONCLUSIVE:
        raise UnknownName("answer to --inconclusive", inconclusive, INCONCLUSIVE)
    if not baselines and not update_baseline:
        raise UsageError(
            "nothing to compare with", hint="give --baseline, or write one: --update-baseline FILE"
        )
    files = {path: format_for(path) for path in outputs or ()}
    check_folders(*files)
    allowed = {
        "throughput": _percent("--throughput", throughput, below=100),
        "ttft": _percent("--ttft", ttft),
        "itl": _percent("--itl", itl),
        "correctness": _percent("--correctness", correctness, below=100),
        "errors": _percent("--errors", errors, below=100),
    }
    if update_baseline:
        from vllmdoctor.gate_baseline import check_replaceable

        check_replaceable(Path(update_baseline))
    from vllmdoctor.commands_gate import causes, given
    from vllmdoctor.gate import Tolerances, compare

    targets = [*candidates, *(baselines or ())]
    asked = Probing(requests, concurrency, warmup, max_requests)
    asked.check(probe, targets)
    window = window_of(duration, every, history_of(targets, match, "", "", metric_prefix, None))
    measure = prober(asked, window.duration_s) if probe else None
    before = given(baselines, window, _watcher, measure) if baselines else None
    here = given(candidates, window, _watcher, measure)
    if before is None:
        _update(update_baseline, here)
        return
    found = compare(before, here, Tolerances(**allowed), causes(before, here))
    found = replace(found, lenient=inconclusive == "pass")
    code = _exit_code(found)
    _show(found, fmt)
    for path, form in files.items():
        _write(found, path, form)
    if update_baseline and found.passed:
        _update(update_baseline, here)
    elif update_baseline:
        say(f"baseline {update_baseline} not updated: the gate did not pass")
    raise typer.Exit(code)


def _percent(option: str, text: str, below: float = float("inf")) -> float:
    """A share of "10", "10%" or "2.5 %"; UsageError for what is none."""
    try:
        value = float(text.strip().removesuffix("%"))
    except ValueError:
        value = -1.0
    if not 0 <= value < below:
        raise UsageError(
            f"{option} {text}: not a percentage that can be allowed", hint=f"write it as {option} 10"
        )
    return value / 100


def _watcher(target: str) -> "Callable[[Progress], None] | None":
    return watcher_for([target], "")


def _exit_code(found: "Gate") -> int:
    from vllmdoctor.model_gate import Judgement

    match found.judgement:
        case Judgement.REGRESSED:
            return EXIT_FOUND
        case Judgement.INCONCLUSIVE:
            return EXIT_DONE if found.lenient else EXIT_BLIND
    return EXIT_DONE


def _show(found: "Gate", fmt: str) -> None:
    from vllmdoctor.render.gate import render

    sys.stdout.write(render(found, fmt, **look()))
    summary = os.environ.get(_SUMMARY, "")
    if fmt == "github" and summary:
        try:
            with open(summary, "a", encoding="utf-8") as file:
                file.write(render(found, "markdown") + "\n")
        except OSError as error:
            say(f"the step's summary was not written: {(error.strerror or str(error)).lower()}")


def _write(found: "Gate", path: str, fmt: str) -> None:
    from vllmdoctor.render.gate import render

    write_report(path, render(found, fmt))


def _update(path: str, here: "Given") -> None:
    from datetime import UTC, datetime
    from pathlib import Path

    from vllmdoctor.commands_gate import update

    older = update(Path(path), here, f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}")
    say(f"baseline written to {path}" + (f"; the older one is kept as {older}" if older else ""))
