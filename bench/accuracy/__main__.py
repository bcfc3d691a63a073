"""How often the diagnosis is right: ``python -m bench.accuracy print|write|check``.

`print` judges the histories and shows the tables, `write` also puts them into docs/accuracy.md, `check` says
whether what stands there is what comes out now (exit 1 if not). Simulating takes some seconds a history;
--cache FOLDER keeps the simulated ones, --jobs 2 uses two processes. Fewer histories: --groups, --seeds,
--held-out, --only; `write` and `check` want them all.
"""

import argparse
import sys
import tomllib
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

from bench.accuracy.histories import HELD_OUT_SEEDS, TUNING_SEEDS, histories
from bench.accuracy.judging import Row, judged
from bench.accuracy.page import page
from bench.accuracy.truth import GROUPS

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "accuracy.md"
NOTES = Path(__file__).parent / "notes.toml"
BEGIN, END = "<!-- accuracy:begin -->", "<!-- accuracy:end -->"
SPLIT = """Limits were set while looking at the real recordings, the public cases and the simulated
histories of seeds {tuning}. Seeds {held_out} were not used for that, and they are scraped as no
tuning history is (every 20 or 45 s, unevenly, one scrape in a hundred lost). Versions, speeds,
lengths, moments and exporters are drawn anew for each seed. "Plain thresholds" are a runbook's three:
KV use above 0.95, any preemption, rate below 0.7 of that 8 h earlier (`bench/accuracy/baseline.py`).
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; the exit code."""
    parser = argparse.ArgumentParser(prog="python -m bench.accuracy", description=__doc__.split("\n\n", 1)[0])
    parser.add_argument("mode", choices=("print", "write", "check"), nargs="?", default="print")
    parser.add_argument("--groups", default=",".join(GROUPS), help="of: " + ", ".join(GROUPS))
    parser.add_argument("--seeds", default=_join(TUNING_SEEDS), help="of the tuning histories")
    parser.add_argument("--held-out", default=_join(HELD_OUT_SEEDS), help="seeds of the held-out histories")
    parser.add_argument("--only", default="", help="histories whose name holds one of these words")
    parser.add_argument("--cache", type=Path, help="folder that keeps simulated histories")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--quick", action="store_true", help="do not ask how soon a cause is found")
    options = parser.parse_args(arguments)
    tuning, held_out = _numbers(options.seeds), _numbers(options.held_out)
    words = options.only.split(",")
    chosen = [
        h
        for h in histories(options.groups.split(","), tuning, held_out)
        if any(word in h.key for word in words)
    ]
    partial_set = options.groups != parser.get_default("groups") or options.only or options.quick
    if options.mode != "print" and (partial_set or (tuning, held_out) != (TUNING_SEEDS, HELD_OUT_SEEDS)):
        parser.error(f"{options.mode} wants the whole set")
    one = partial(judged, folder=options.cache, detect=not options.quick)
    rows: list[Row] = []
    with ProcessPoolExecutor(options.jobs) as pool:
        for row in map(one, chosen) if options.jobs <= 1 else pool.map(one, chosen):
            rows.append(row)
            sys.stderr.write(_line(row))
    split = SPLIT.format(tuning=" and ".join(map(str, tuning)), held_out=" and ".join(map(str, held_out)))
    notes = tomllib.loads(NOTES.read_text(encoding="utf-8"))
    return _told(options.mode, page(rows, notes, split, soon=not options.quick))


def _told(mode: str, made: str) -> int:
    if mode == "print":
        sys.stdout.write(made)
        return 0
    stands = PAGE.read_text(encoding="utf-8")
    before, _, rest = stands.partition(BEGIN)
    _, _, behind = rest.partition(END)
    wanted = f"{before}{BEGIN}\n{made}{END}{behind}"
    if mode == "write":
        PAGE.write_text(wanted, encoding="utf-8")
        return 0
    if wanted != stands:
        sys.stderr.write(
            f"stale: {PAGE.name}\n  hint: python -m bench.accuracy write --cache FOLDER --jobs 2\n"
        )
        return 1
    return 0


def _line(row: Row) -> str:
    told = "ok  " if row.right else "BAD "
    harm = "HARM " if row.harmful else "     "
    also = f" also {', '.join(row.false_findings)}" if row.false_findings else ""
    kind = f"/{row.kind}" if row.kind else ""
    return (
        f"{told}{harm}{row.history.group:8} {row.history.key:36} {row.truth.label}"
        f" -> {row.verdict} {row.primary}{kind} {row.confidence:.2f}{also}"
        f" | onset {row.onset_error:.0f} alert {row.alerted:.0f} found {row.found:.0f} min"
        f" | false alarms {len(row.alarms)} of {row.looks}\n"
    )


def _join(numbers: Sequence[int]) -> str:
    return ",".join(map(str, numbers))


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(x) for x in text.split(",") if x)


if __name__ == "__main__":
    sys.exit(main())
