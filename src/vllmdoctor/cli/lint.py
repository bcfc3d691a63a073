"""`lint`: check a launch command before it runs."""

import sys
from typing import Annotated

import typer

from vllmdoctor.cli.judging import check_version, launch_given
from vllmdoctor.cli.options import FAIL_ON, Args, ArgsFile, VllmVersion
from vllmdoctor.cli.terminal import look
from vllmdoctor.errors import EXIT_DONE, EXIT_FOUND, UnknownName, UsageError


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
    check_version(vllm_version)
    launch = launch_given(args, args_file)
    if launch is None:
        raise UsageError("nothing to check", hint="vllmdoctor lint --args-file cmd.txt")
    result = check(launch, vllm_version, facts_given(kv_cache_tokens))
    if fmt == "json":
        sys.stdout.write(result.json)
    else:
        text = page(result.head, result.rows, **look())
        sys.stdout.write(text)
    limit = FAIL_ON.index(fail_on)
    raise typer.Exit(EXIT_FOUND if limit and result.worst >= limit else EXIT_DONE)
