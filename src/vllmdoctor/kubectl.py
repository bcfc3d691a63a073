"""The plugin: `kubectl vllmdoctor ...` runs the program of this name, with its arguments unchanged."""

import sys

from vllmdoctor.cli import main as run
from vllmdoctor.cli.calling import PLUGIN


def main() -> int:
    """`kubectl-vllmdoctor`: the command line, in which words name objects of the cluster."""
    return run(called=PLUGIN)


def complete() -> int:
    """`kubectl_complete-vllmdoctor`: what may follow the words that kubectl hands over, one a line.

    The last word is being typed. The line `:4` at the end says that no file names are to be offered.
    """
    from vllmdoctor.cli.completion import following

    sys.stdout.write("".join(f"{each}\n" for each in following(sys.argv[1:])) + ":4\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
