"""The command line: each command parses, calls one function, prints, and exits.

Only typer and the errors are imported at the top; a command imports what it needs in the order it
needs it, so that a missing file fails before anything heavy is loaded.
"""

import copy
import errno
import gc
import os
import sys
import traceback

import typer

from vllmdoctor.cli.alerts import alerts
from vllmdoctor.cli.app import app
from vllmdoctor.cli.calling import PROGRAM, call_as, program
from vllmdoctor.cli.dashboard import dashboard
from vllmdoctor.cli.diagnose import diagnose
from vllmdoctor.cli.export import export
from vllmdoctor.cli.gate import gate
from vllmdoctor.cli.lint import lint
from vllmdoctor.cli.pages import examples, explain, remedies, rules, signals
from vllmdoctor.cli.plan import plan
from vllmdoctor.cli.probe import probe
from vllmdoctor.cli.rbac import rbac
from vllmdoctor.cli.record import convert, record
from vllmdoctor.cli.simulate import simulate
from vllmdoctor.cli.terminal import color, encoding
from vllmdoctor.cli.validate import validate
from vllmdoctor.errors import EXIT_DONE, EXIT_MISUSED, VllmDoctorError

__all__ = ["app", "main"]

# in the order of --help
COMMANDS = (
    diagnose,
    plan,
    validate,
    gate,
    probe,
    record,
    export,
    convert,
    simulate,
    alerts,
    dashboard,
    lint,
    rbac,
    remedies,
    rules,
    explain,
    signals,
    examples,
)
for _command in COMMANDS:
    app.command()(_command)


def _listed() -> typer.Typer:
    """The application for its own --help: every command by its name and docstring alone.

    To build the options of all commands takes a seventh of the time, and that page shows none.
    """
    listed = copy.copy(app)
    listed.registered_commands = []
    for command in COMMANDS:

        def named() -> None: ...

        named.__name__, named.__doc__ = command.__name__, command.__doc__
        listed.command()(named)
    return listed


def main(arguments: list[str] | None = None, called: str = PROGRAM) -> int:
    """Run the command line and return the exit code; the one place where errors are caught.

    `called` is the name it was called by.
    """
    call_as(called)
    # one short run that keeps what it makes: collecting garbage every 700 objects is a tenth of its time
    gc.set_threshold(100_000, 50, 50)
    given = sys.argv[1:] if arguments is None else arguments
    try:
        (_listed() if given in ([], ["--help"]) else app)(
            args=given, prog_name=program(), standalone_mode=True
        )
    except VllmDoctorError as error:
        from vllmdoctor.render.pages import error as line

        sys.stderr.write(
            line(error.message, error.hint, color=color(sys.stderr), encoding=encoding(sys.stderr))
        )
        return error.exit_code
    except SystemExit as done:
        if isinstance(done.__context__, OSError) and done.__context__.errno == errno.EPIPE:
            return EXIT_DONE  # typer makes a reader that went away a 1, which is a finding here
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
