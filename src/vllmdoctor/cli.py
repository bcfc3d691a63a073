"""The command line: each command parses, calls one function, prints, and exits.

Only typer and the errors are imported at the top; a command imports what it needs in the order it
needs it, so that a missing file fails before anything heavy is loaded.
"""

import errno
import gc
import os
import sys
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from vllmdoctor import __version__
from vllmdoctor.errors import EXIT_DONE, EXIT_FOUND, EXIT_MISUSED, UnknownName, UsageError, VllmDoctorError

if TYPE_CHECKING:
    from collections.abc import Callable

    from vllmdoctor.launch import Launch
    from vllmdoctor.model import Report
    from vllmdoctor.recording import Recording
    from vllmdoctor.sources import History, Window
    from vllmdoctor.sources.observe import Progress

app = typer.Typer(
    name="vllmdoctor",
    help="Say why a vLLM server is slow, since when, and what to change. Reads only, changes nothing.",
    no_args_is_help=True,
    add_completion=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)

Targets = Annotated[
    list[str],
    typer.Argument(
        metavar="TARGET...",
        help="http(s)://HOST:PORT, prom+http(s)://HOST:PORT (a Prometheus), a file, - for standard input, "
        "nvml: and host: (this machine's GPUs and processes), or example:NAME. Several make one case.",
        show_default=False,
    ),
]
For = Annotated[str, typer.Option("--for", help="how long to watch a live server", metavar="DURATION")]
Every = Annotated[str, typer.Option("--every", help="time between two scrapes", metavar="DURATION")]
VllmVersion = Annotated[
    str,
    typer.Option("--vllm-version", help="the server's version, where nothing else tells it", metavar="X.Y.Z"),
]
FAIL_ON = ("never", "info", "warning", "critical")
Args = Annotated[
    str, typer.Option("--args", help="the server's command or arguments, as for a shell", metavar="TEXT")
]
ArgsFile = Annotated[
    str,
    typer.Option(
        "--args-file",
        help="a file with the command, vLLM's --config file, a Kubernetes manifest, chart values, or -",
        metavar="FILE",
    ),
]
Match = Annotated[
    str,
    typer.Option("--match", help='prom+: label matchers, as in namespace="inference"', metavar="MATCHERS"),
]
Span = Annotated[str, typer.Option("--window", help="prom+: how far back to look [24h]", metavar="DURATION")]
At = Annotated[
    str, typer.Option("--at", help="prom+: the time at which the window ends [now]", metavar="TIME")
]
MetricPrefix = Annotated[
    str, typer.Option("--metric-prefix", help="prom+: what relabelling put before the names", metavar="TEXT")
]
MaxPoints = Annotated[
    int | None,
    typer.Option("--max-points", min=1000, help="prom+: ask for no more points [5000000]", metavar="N"),
]


def _version(value: bool) -> None:
    if value:
        typer.echo(f"vllmdoctor {__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="print the version and exit")
    ] = False,
) -> None:
    """Say why a vLLM server is slow, since when, and what to change. Reads only, changes nothing."""


@app.command()
def diagnose(
    targets: Targets,
    duration: For = "60s",
    every: Every = "5s",
    match: Match = "",
    span: Span = "",
    at: At = "",
    metric_prefix: MetricPrefix = "",
    max_points: MaxPoints = None,
    baseline: Annotated[
        str,
        typer.Option(
            "--baseline", help="a recording of the server in health, to compare with", metavar="FILE"
        ),
    ] = "",
    vllm_version: VllmVersion = "",
    args: Args = "",
    args_file: ArgsFile = "",
    fmt: Annotated[str, typer.Option("--format", "-f", help="text or json", metavar="FORMAT")] = "",
    output: Annotated[
        str,
        typer.Option(
            "--output", "-o", help="write the report here; its ending picks the format", metavar="FILE"
        ),
    ] = "",
    save: Annotated[
        str, typer.Option("--save", help="keep what was read as a recording", metavar="FILE")
    ] = "",
    fail_on: Annotated[
        str, typer.Option("--fail-on", help="exit 1 on a finding this severe: never, info, warning, critical")
    ] = "never",
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="show every comparison of every rule")
    ] = False,
) -> None:
    """Judge a server: is it slow, since when, why, and what to change."""
    from vllmdoctor.render import format_for, render
    from vllmdoctor.sources import gather_targets

    if fail_on not in FAIL_ON:
        raise UnknownName("severity", fail_on, FAIL_ON)
    chosen = fmt or (format_for(output) if output else "text")
    if chosen not in ("text", "json"):
        raise UnknownName("format", chosen, ("text", "json"))
    _check_version(vllm_version)
    _check_new(output, save)
    launch = _launch(args, args_file)
    window = _window(duration, every, _history(targets, match, span, at, metric_prefix, max_points))
    recording = gather_targets(targets, window, _watcher(targets, vllm_version))
    before = gather_targets([baseline], window) if baseline else None
    if save:
        _save(recording, save)
    report = _judge(recording, targets, before, baseline, vllm_version, launch)
    text = render(
        report,
        chosen,
        width=_width(output),
        color=not output and _color(),
        verbose=verbose,
        encoding="utf-8" if output else (sys.stdout.encoding or "utf-8"),
    )
    if output:
        _write(output, text)
    else:
        sys.stdout.write(text)
    raise typer.Exit(_exit_code(report, fail_on))


@app.command()
def plan(
    targets: Targets,
    folder: Annotated[
        str, typer.Option("--write", help="write the plan as files into this folder", metavar="DIR")
    ] = "",
    take: Annotated[
        list[str] | None,
        typer.Option("--take", help="a step to write files for; may be repeated", metavar="SLUG"),
    ] = None,
    args: Args = "",
    args_file: ArgsFile = "",
    namespace: Annotated[str, typer.Option("--namespace", help="of the workload", metavar="NAME")] = "",
    deployment: Annotated[str, typer.Option("--deployment", help="the workload", metavar="NAME")] = "",
    container: Annotated[str, typer.Option("--container", help="that runs vLLM", metavar="NAME")] = "",
    label: Annotated[
        str, typer.Option("--label", help="labels that select the pods", metavar="KEY=VALUE,...")
    ] = "",
    replicas: Annotated[int, typer.Option("--replicas", help="that run now", metavar="N", min=0)] = 0,
    service: Annotated[str, typer.Option("--service", help="in front of the pods", metavar="NAME")] = "",
    gateway: Annotated[str, typer.Option("--gateway", help="of the Gateway API", metavar="NAME")] = "",
    prometheus: Annotated[
        str, typer.Option("--prometheus", help="as the cluster sees it", metavar="URL")
    ] = "",
    duration: For = "60s",
    every: Every = "5s",
    baseline: Annotated[
        str,
        typer.Option(
            "--baseline", help="a recording of the server in health, to compare with", metavar="FILE"
        ),
    ] = "",
    vllm_version: VllmVersion = "",
) -> None:
    """Say what to change on a server, computed for it; with --write, as files. Applies nothing."""
    from vllmdoctor.launch_report import release_of
    from vllmdoctor.manifests import artefacts, place_of, taken, write
    from vllmdoctor.render.pages import plan as page
    from vllmdoctor.render.pages import written
    from vllmdoctor.sources import gather_targets

    _check_version(vllm_version)
    launch = _launch(args, args_file)
    place = place_of(
        launch,
        namespace=namespace,
        deployment=deployment,
        container=container,
        service=service,
        gateway=gateway,
        prometheus=prometheus,
        label=label,
        replicas=replicas,
    )
    window = _window(duration, every)
    recording = gather_targets(targets, window, _watcher(targets, vllm_version))
    before = gather_targets([baseline], window) if baseline else None
    report = _judge(recording, targets, before, baseline, vllm_version, launch)
    sys.stdout.write(page(report, width=_width(""), color=_color(), encoding=_encoding()))
    if folder:
        steps = taken(report.plan, take or ())
        files = artefacts(steps, launch, place, release_of(report), report.plan)
        paths = write(files, Path(folder))
        rows = [(str(path), file.what) for path, file in zip(paths, files, strict=True)]
        sys.stdout.write(written(rows, width=_width(""), color=_color(), encoding=_encoding()))
    raise typer.Exit(_exit_code(report, "never"))


@app.command()
def lint(
    args: Args = "",
    args_file: ArgsFile = "",
    vllm_version: VllmVersion = "",
    kv_cache_tokens: Annotated[
        int, typer.Option("--kv-cache-tokens", help="of the start-up log: KV cache size", metavar="N", min=0)
    ] = 0,
    fmt: Annotated[str, typer.Option("--format", "-f", help="text or json", metavar="FORMAT")] = "text",
    fail_on: Annotated[
        str, typer.Option("--fail-on", help="exit 1 on a finding this severe: never, info, warning, critical")
    ] = "never",
) -> None:
    """Check a launch command before it runs: unknown, removed, inert and risky arguments. Needs no server."""
    from vllmdoctor.lint_report import check, facts_given
    from vllmdoctor.render.pages import findings as page

    if fail_on not in FAIL_ON:
        raise UnknownName("severity", fail_on, FAIL_ON)
    if fmt not in ("text", "json"):
        raise UnknownName("format", fmt, ("text", "json"))
    _check_version(vllm_version)
    launch = _launch(args, args_file)
    if launch is None:
        raise UsageError("nothing to check", hint="vllmdoctor lint --args-file cmd.txt")
    result = check(launch, vllm_version, facts_given(kv_cache_tokens))
    if fmt == "json":
        sys.stdout.write(result.json)
    else:
        text = page(result.head, result.rows, width=_width(""), color=_color(), encoding=_encoding())
        sys.stdout.write(text)
    limit = FAIL_ON.index(fail_on)
    raise typer.Exit(EXIT_FOUND if limit and result.worst >= limit else EXIT_DONE)


@app.command()
def remedies() -> None:
    """List the remedies that plans are made of."""
    from vllmdoctor.remedies import REMEDIES, summary
    from vllmdoctor.render.pages import remedies as page

    rows = [(slug, summary(slug)) for slug in REMEDIES]
    sys.stdout.write(page(rows, width=_width(""), color=_color(), encoding=_encoding()))


@app.command()
def record(
    targets: Targets,
    output: Annotated[str, typer.Option("--output", "-o", help="the recording to write", metavar="FILE")],
    duration: For = "8h",
    every: Every = "15s",
    match: Match = "",
    span: Span = "",
    at: At = "",
    metric_prefix: MetricPrefix = "",
    max_points: MaxPoints = None,
    append: Annotated[bool, typer.Option("--append", help="go on with a recording that exists")] = False,
    redact: Annotated[
        bool, typer.Option("--redact", help="replace model, pod and host names by aliases")
    ] = False,
    max_size: Annotated[
        str, typer.Option("--max-size", help="start a new part at this size", metavar="SIZE")
    ] = "256MiB",
) -> None:
    """Keep a server's metrics in a file: the history that diagnose needs where there is no Prometheus."""
    from vllmdoctor.commands_record import record_targets
    from vllmdoctor.units import parse_duration, parse_size
    from vllmdoctor.watching import recorder

    done = record_targets(
        targets,
        Path(output),
        duration_s=parse_duration(duration),
        interval_s=parse_duration(every),
        append=append,
        redact=redact,
        max_bytes=parse_size(max_size),
        on_progress=recorder(sys.stderr),
        history=_history(targets, match, span, at, metric_prefix, max_points),
    )
    parts = f" in {done.parts} parts, the last" if done.parts > 1 else ""
    _say(f"{done.scrapes} scrapes recorded{parts} in {done.path} ({done.size_bytes / 2**20:.2f} MiB)")
    _say(f"judge it with: vllmdoctor diagnose {output}")


@app.command()
def convert(
    source: Annotated[
        str, typer.Argument(metavar="FILE", help="a recording or metrics text", show_default=False)
    ],
    output: Annotated[
        str, typer.Option("--output", "-o", help="the OpenMetrics file to write", metavar="FILE")
    ],
) -> None:
    """Write a recording as OpenMetrics text, for `promtool tsdb create-blocks-from openmetrics`."""
    from vllmdoctor.commands_record import convert as write

    done = write(source, Path(output))
    _say(f"{done.samples} samples of {done.series} series written to {output}")
    if done.left_out:
        _say(f"{done.left_out} facts, events and gaps have no place in OpenMetrics and were left out")


@app.command()
def simulate(
    scenario: Annotated[
        str,
        typer.Argument(metavar="[SCENARIO]", help="which one; without, all are listed", show_default=False),
    ] = "",
    output: Annotated[
        str, typer.Option("--output", "-o", help="write its history as OpenMetrics text", metavar="FILE")
    ] = "",
    port: Annotated[
        str,
        typer.Option("--serve", help="play it on http://127.0.0.1:PORT/metrics until Ctrl-C", metavar="PORT"),
    ] = "",
    seed: Annotated[int, typer.Option("--seed", help="which variant of it")] = 1,
    speed: Annotated[float, typer.Option("--speed", help="how much faster than time it is played")] = 1.0,
) -> None:
    """Make the metrics of a vLLM server in a known condition, to try alerts and diagnoses on."""
    from vllmdoctor import commands_simulate as act

    if not scenario:
        from vllmdoctor.render.pages import examples as page

        hint = "vllmdoctor simulate SCENARIO -o FILE"
        sys.stdout.write(
            page(act.scenarios(), hint=hint, width=_width(""), color=_color(), encoding=_encoding())
        )
        return
    if bool(output) == bool(port):
        raise UsageError(
            "give either -o FILE or --serve PORT", hint=f"vllmdoctor simulate {scenario} -o x.om.gz"
        )
    if output:
        act.scenario_of(scenario)
        _check_new(output)
        pages = act.write(scenario, Path(output), seed=seed)
        _say(f"{pages} scrapes written to {output}")
        _say(f"judge it with: vllmdoctor diagnose {output}")
        return
    if not port.isdigit() or int(port) > 65535:
        raise UsageError(f"not a port: {port!r}", hint="for example --serve 8000")
    server = act.serve(scenario, int(port), seed=seed, speed=speed)
    _say(f"{scenario} is played on http://127.0.0.1:{server.server_port}/metrics; Ctrl-C ends it")
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        _say("ended")
    finally:
        server.server_close()


@app.command()
def examples() -> None:
    """List the bundled recordings of a real vLLM server."""
    from vllmdoctor.render.pages import examples as page
    from vllmdoctor.sources.example import examples as bundled

    rows = [(e.name, e.shows) for e in bundled()]
    sys.stdout.write(page(rows, width=_width(""), color=_color(), encoding=_encoding()))


@app.command()
def explain(
    slug: Annotated[
        str,
        typer.Argument(
            metavar="SLUG", help="a cause, a verdict or a remedy, as reports name it", show_default=False
        ),
    ],
) -> None:
    """Show the runbook page of a cause or a verdict, or what a remedy is."""
    from vllmdoctor.render.pages import runbook as page
    from vllmdoctor.runbook import read, slugs

    text = read(slug) if slug in slugs() else _remedy_page(slug)
    sys.stdout.write(page(text, width=_width(""), color=_color(), encoding=_encoding()))


@app.command()
def rules() -> None:
    """List the causes that are looked for."""
    from vllmdoctor.render.pages import rules as page
    from vllmdoctor.rules import all_rules

    rows = [(r.slug, r.severity.name.lower(), r.summary) for r in all_rules()]
    sys.stdout.write(page(rows, width=_width(""), color=_color(), encoding=_encoding()))


@app.command()
def signals(
    targets: Annotated[
        list[str] | None,
        typer.Argument(metavar="[TARGET]...", help="a server or recording; without one, the whole table"),
    ] = None,
    vllm_version: VllmVersion = "",
) -> None:
    """Show which signals a server offers, under which names, and why others are absent."""
    from vllmdoctor.render.pages import signals as page
    from vllmdoctor.signals import SIGNALS, absence, canonical_name, renamed, resolve, unclaimed

    _check_version(vllm_version)
    if not targets:
        table = [(s.name, ", ".join(n.text for n in s.names), s.what) for s in SIGNALS.values()]
        sys.stdout.write(page(table, width=_width(""), color=_color(), encoding=_encoding()))
        return
    from vllmdoctor.sources import gather_targets

    recording = gather_targets(targets, _window("1s", "1s"))
    from vllmdoctor.engines import frames
    from vllmdoctor.facts import server_version

    found: dict[str, tuple[str, str, str]] = {}
    names: set[str] = set()
    notes: dict[str, None] = {}
    release = None
    for frame in frames(recording):
        release = server_version(recording, frame, vllm_version).release
        names |= set(frame.families)
        for signal, name in frame.names.items():
            found[signal] = (signal, name.text, SIGNALS[signal].what)
        notes |= dict.fromkeys(renamed(frame.families.keys(), release))
    if not names:
        names = {canonical_name(k.split("{")[0]) for columns in recording.columns.values() for k in columns}
        found = {s: (s, n.text, SIGNALS[s].what) for s, n in resolve(names).items()}
    absent = [(s, absence(s, release)) for s in SIGNALS if s not in found]
    sys.stdout.write(
        page(
            [found[s] for s in SIGNALS if s in found],
            absent,
            unclaimed(names),
            tuple(notes),
            width=_width(""),
            color=_color(),
            encoding=_encoding(),
        )
    )


def main(arguments: list[str] | None = None) -> int:
    """Run the command line and return the exit code; the one place where errors are caught."""
    # one short run that keeps what it makes: collecting garbage every 700 objects is a tenth of its time
    gc.set_threshold(100_000, 50, 50)
    try:
        app(args=arguments, prog_name="vllmdoctor", standalone_mode=True)
    except VllmDoctorError as error:
        from vllmdoctor.render.pages import error as line

        sys.stderr.write(
            line(error.message, error.hint, color=_color(sys.stderr), encoding=_encoding(sys.stderr))
        )
        return error.exit_code
    except SystemExit as done:
        return done.code if isinstance(done.code, int) else EXIT_MISUSED if done.code else EXIT_DONE
    except BrokenPipeError:
        # the reader went away (| head): nothing is wrong, and nothing more can be said
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_DONE
    except KeyboardInterrupt:
        sys.stderr.write("\nvllmdoctor: interrupted\n")
        return 130
    except Exception as error:  # noqa: BLE001 - the one boundary: a bug must not look like a finding (exit 1)
        if isinstance(error, OSError) and error.errno == errno.ENOSPC:
            sys.stderr.write("vllmdoctor: no space left to write to\n")
            return EXIT_MISUSED
        traceback.print_exc()
        sys.stderr.write("vllmdoctor: this is a bug; please report it with the recording (--save FILE)\n")
        return EXIT_MISUSED
    return EXIT_DONE


def _launch(args: str, args_file: str) -> "Launch | None":
    """What the server was started with, as far as a person said."""
    if not args and not args_file:
        return None
    from vllmdoctor.launch_text import read_launch

    stdin = sys.stdin.read() if args_file == "-" else ""
    return read_launch(args=args, path=args_file, stdin=stdin)


def _judge(
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


def _remedy_page(slug: str) -> str:
    """What a remedy is; UnknownName names pages and remedies alike."""
    from vllmdoctor.plan import page
    from vllmdoctor.remedies import REMEDIES
    from vllmdoctor.rules import all_rules
    from vllmdoctor.runbook import slugs

    if slug not in REMEDIES:
        raise UnknownName("runbook page or remedy", slug, (*slugs(), *REMEDIES))
    treated = ((r.slug, kind) for r in all_rules() for kind, used in r.remedies.items() if slug in used)
    return page(slug, [f"{cause}, {kind}" if kind else cause for cause, kind in treated])


def _window(duration: str, every: str, history: "History | None" = None) -> "Window":
    from vllmdoctor.sources import History, Window
    from vllmdoctor.units import parse_duration

    return Window(parse_duration(duration), parse_duration(every), history=history or History())


def _history(
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
    asked = any(target.startswith("prom+") for target in targets)
    for option, value in given.items():
        if value and not asked:
            raise UsageError(f"{option} is for a Prometheus", hint="name it as prom+http://HOST:PORT")
    usual = History()
    tell = _progress if asked and sys.stderr.isatty() else None
    return History(
        window_s=parse_duration(span) if span else usual.window_s,
        at=parse_moment(at) if at else None,
        match=match,
        prefix=prefix,
        max_points=max_points or usual.max_points,
        tell=tell,
    )


def _progress(text: str) -> None:
    """A line for the person that the next one replaces."""
    sys.stderr.write(f"\r\x1b[K{text}")
    sys.stderr.flush()


def _check_version(text: str) -> None:
    from vllmdoctor.release import Version

    if text and Version.parse(text) is None:
        raise UsageError(f"not a vLLM version: {text!r}", hint="write it as in --vllm-version 0.12.0")


def _write(path: str, text: str) -> None:
    try:
        Path(path).write_text(text, encoding="utf-8")
    except OSError as error:
        sys.stdout.write(text)  # a report that took minutes to make is not thrown away
        raise UsageError(f"cannot write {path}: {(error.strerror or str(error)).lower()}") from None
    _say(f"report written to {path}")


def _check_new(*paths: str) -> None:
    from vllmdoctor.errors import FileExists

    for path in paths:
        if path and Path(path).exists():
            raise FileExists(f"{path} exists", hint="choose another name; nothing is ever overwritten")
        if path and not Path(path).absolute().parent.is_dir():
            raise UsageError(f"no folder {Path(path).parent} to write {Path(path).name} into")


def _save(recording: "Recording", path: str) -> None:
    from vllmdoctor.commands_record import save_recording

    save_recording(recording, Path(path))
    _say(f"recording saved to {path}")


def _say(text: str) -> None:
    """A line for the person, beside the output."""
    sys.stderr.write(("\r\x1b[K" if sys.stderr.isatty() else "") + text + "\n")


def _exit_code(report: "Report", fail_on: str) -> int:
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


def _watcher(targets: list[str], vllm_version: str) -> "Callable[[Progress], None] | None":
    """Tells how far a live reading is; files need no such thing."""
    from vllmdoctor.sources import open_sources

    if not any(source.live for source in open_sources(targets)):
        return None
    from vllmdoctor.watching import watcher

    return watcher(sys.stderr, vllm_version)


def _color(stream: object = None) -> bool:
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR"):
        return True
    out = sys.stdout if stream is None else stream
    return bool(getattr(out, "isatty", lambda: False)()) and os.environ.get("TERM") != "dumb"


def _width(output: str) -> int:
    """The terminal's width, at most 100; 100 where there is no terminal."""
    import shutil

    if output or not sys.stdout.isatty():
        return int(os.environ.get("COLUMNS", "100")) if os.environ.get("COLUMNS", "").isdigit() else 100
    return max(60, min(100, shutil.get_terminal_size((100, 24)).columns))


def _encoding(stream: object = None) -> str:
    return getattr(sys.stdout if stream is None else stream, "encoding", None) or "utf-8"
