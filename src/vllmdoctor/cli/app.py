"""The application that each command joins by its decorator."""

from typing import Annotated

import typer

from vllmdoctor import __version__

app = typer.Typer(
    name="vllmdoctor",
    help="Say why a vLLM server is slow, since when, and what to change. Reads only, changes nothing.",
    no_args_is_help=True,
    add_completion=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


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
