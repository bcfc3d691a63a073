"""`probe`: a fixed set of requests against a server."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from vllmdoctor.cli.probing import sent
from vllmdoctor.cli.terminal import check_new, look, say
from vllmdoctor.errors import EXIT_DONE, EXIT_FOUND, UnknownName, UsageError

FAIL_ON_PROBE = ("never", "wrong")


def probe(
    url: Annotated[str, typer.Argument(metavar="URL", help="http(s)://HOST:PORT[/path]", show_default=False)],
    requests: Annotated[
        str, typer.Option("--requests", help="JSON lines: prompts, and what is expected", metavar="FILE")
    ],
    output: Annotated[str, typer.Option("--output", "-o", help="the recording to write", metavar="FILE")],
    concurrency: Annotated[
        int, typer.Option("--concurrency", help="how many requests at once, at most", metavar="N")
    ],
    rate: Annotated[
        float | None,
        typer.Option(
            "--rate",
            help="requests per second, arriving by chance [the next when one ends]",
            metavar="R",
            show_default=False,
        ),
    ] = None,
    warmup: Annotated[
        int, typer.Option("--warmup", help="so many requests first, which do not count", metavar="K", min=0)
    ] = 0,
    seed: Annotated[int, typer.Option("--seed", help="of the order and of the arrivals")] = 1,
    max_requests: Annotated[
        int | None,
        typer.Option(
            "--max-requests",
            help="send so many, the file again where it holds fewer [the file once]",
            metavar="N",
            min=1,
            show_default=False,
        ),
    ] = None,
    max_time: Annotated[
        str, typer.Option("--max-time", help="end after this, whatever is left", metavar="DURATION")
    ] = "10m",
    timeout: Annotated[
        str,
        typer.Option("--timeout", help="give a request up after so long without a token", metavar="DURATION"),
    ] = "60s",
    model: Annotated[
        str, typer.Option("--model", help="where the server serves several", metavar="NAME")
    ] = "",
    fmt: Annotated[str, typer.Option("--format", "-f", help="text or json", metavar="FORMAT")] = "text",
    fail_on: Annotated[
        str, typer.Option("--fail-on", help="exit 1 when an answer is wrong or a request fails: never, wrong")
    ] = "never",
) -> None:
    """Send a server a fixed set of requests: are the answers right, and how fast are they?"""
    if fail_on not in FAIL_ON_PROBE:
        raise UnknownName("occasion to fail", fail_on, FAIL_ON_PROBE)
    if fmt not in ("text", "json"):
        raise UnknownName("format", fmt, ("text", "json"))
    if rate is not None and not rate > 0:
        raise UsageError(
            "a rate is a number of requests per second above 0",
            hint="without --rate the next request is sent when one ends",
        )
    check_new(output)
    from vllmdoctor.probe.questions import read_questions
    from vllmdoctor.units import parse_duration

    questions = read_questions(requests)
    from vllmdoctor.probe.run import Settings

    settings = Settings(
        concurrency=concurrency,
        rate=rate or 0.0,
        warmup=warmup,
        seed=seed,
        requests=max_requests or 0,
        max_time_s=parse_duration(max_time),
        idle_s=parse_duration(timeout),
        model=model,
    )
    report = sent(url, questions, settings, Path(output))
    from vllmdoctor.render import probe as page

    sys.stdout.write(page.machine(report) if fmt == "json" else page.text(report, **look()))
    say(f"kept in {output}")
    bad = report.failed or report.correct < report.judged
    raise typer.Exit(EXIT_FOUND if fail_on == "wrong" and bad else EXIT_DONE)
