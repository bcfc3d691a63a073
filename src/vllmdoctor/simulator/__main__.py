"""``python -m vllmdoctor.simulator OUTDIR``: write scenario histories and their truths."""

from __future__ import annotations

import argparse
import json
import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from vllmdoctor.simulator import SCENARIOS, simulate, truth, write_openmetrics


def write(name: str, seed: int, folder: Path) -> str:
    """Write one history and its truth; a line to print."""
    scenario = SCENARIOS[name]
    stem = f"{name}-{seed}"
    pages = write_openmetrics(simulate(scenario, seed=seed), folder / f"{stem}.om.gz")
    text = json.dumps(truth(scenario, seed=seed), indent=1)
    (folder / f"{stem}.truth.json").write_text(text + "\n", encoding="utf-8")
    return f"{stem}: {pages} pages, {scenario.label}"


def _tell(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def main(arguments: list[str] | None = None) -> int:
    """Run the command line; the exit status."""
    parser = argparse.ArgumentParser(prog="python -m vllmdoctor.simulator", description=__doc__)
    parser.add_argument("outdir", type=Path, nargs="?", help="folder to write to")
    parser.add_argument("--seeds", default="1", help="comma-separated seeds (default 1)")
    parser.add_argument("--only", default="", help="comma-separated scenario names (default all)")
    parser.add_argument("--jobs", type=int, default=1, help="processes (default 1)")
    parser.add_argument("--list", action="store_true", help="list the scenarios and stop")
    options = parser.parse_args(arguments)
    if options.list:
        for scenario in SCENARIOS.values():
            _tell(f"{scenario.name:34} {scenario.label:22} {scenario.about}")
        return 0
    if options.outdir is None:
        parser.error("OUTDIR is needed unless --list is given")
    names = [name for name in options.only.split(",") if name] or list(SCENARIOS)
    unknown = [name for name in names if name not in SCENARIOS]
    if unknown:
        parser.error(f"unknown scenarios: {', '.join(unknown)} (see --list)")
    options.outdir.mkdir(parents=True, exist_ok=True)
    work = [(name, int(seed), options.outdir) for name in names for seed in options.seeds.split(",")]
    if options.jobs <= 1:
        for item in work:
            _tell(write(*item))
        return 0
    with ProcessPoolExecutor(options.jobs) as pool:
        for line in pool.map(write, *zip(*work, strict=True)):
            _tell(line)
    return 0


if __name__ == "__main__":
    sys.exit(main())
