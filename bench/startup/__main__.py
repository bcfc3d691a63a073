"""What starting costs, against the libraries that cannot be avoided: `python bench/startup`.

CPU time (user + system) rather than wall time, and the least of several runs, so that a busy machine does not
decide. Exits 1 when a ratio is above its limit.
"""

import os
import resource
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass

DOCTOR = (sys.executable, "-m", "vllmdoctor")


@dataclass(frozen=True, slots=True)
class Comparison:
    """One command against the imports that it is held against."""

    what: str
    command: Sequence[str]
    imports: str
    limit: float
    rounds: int


COMPARISONS = (
    Comparison("vllmdoctor --help", (*DOCTOR, "--help"), "import typer, rich", 1.3, 20),
    Comparison(
        "vllmdoctor diagnose (a 4-minute recording)",
        (*DOCTOR, "diagnose", "example:overload-kv"),
        "import pandas",
        2.0,
        10,
    ),
)


def cpu(command: Sequence[str]) -> float:
    """CPU seconds of one run of a command, all its children included.

    Compiled modules are kept, as for a person; else our own are compiled anew in each run, and pandas is not.
    """
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, env=environment, check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def least(one: Comparison) -> tuple[float, float]:
    """The least CPU seconds of the command and of the imports; they alternate, to meet the same machine."""
    ours, theirs = [], []
    for _ in range(one.rounds):
        ours.append(cpu(one.command))
        theirs.append(cpu((sys.executable, "-c", one.imports)))
    return min(ours), min(theirs)


def main() -> int:
    """Print both ratios; the exit code says whether both are within their limits."""
    within = True
    for one in COMPARISONS:
        ours, theirs = least(one)
        ratio = ours / theirs
        within = within and ratio <= one.limit
        print(
            f"{'ok  ' if ratio <= one.limit else 'OVER'} {one.what}: {1000 * ours:.0f} ms, {one.imports!r}: "
            f"{1000 * theirs:.0f} ms, ratio {ratio:.2f}, limit {one.limit}"
        )
    return 0 if within else 1


if __name__ == "__main__":
    sys.exit(main())
