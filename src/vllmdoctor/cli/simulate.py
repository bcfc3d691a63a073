"""`simulate`: a server in a known condition, as a file or as a page."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from vllmdoctor.cli.terminal import check_new, look, say
from vllmdoctor.errors import UsageError


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
        sys.stdout.write(page(act.scenarios(), hint=hint, **look()))
        return
    if bool(output) == bool(port):
        raise UsageError(
            "give either -o FILE or --serve PORT", hint=f"vllmdoctor simulate {scenario} -o x.om.gz"
        )
    if output:
        act.scenario_of(scenario)
        check_new(output)
        pages = act.write(scenario, Path(output), seed=seed)
        say(f"{pages} scrapes written to {output}")
        say(f"judge it with: vllmdoctor diagnose {output}")
        return
    if not port.isdigit() or int(port) > 65535:
        raise UsageError(f"not a port: {port!r}", hint="for example --serve 8000")
    server = act.serve(scenario, int(port), seed=seed, speed=speed)
    say(f"{scenario} is played on http://127.0.0.1:{server.server_port}/metrics; Ctrl-C ends it")
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        say("ended")
    finally:
        server.server_close()
