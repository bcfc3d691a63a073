"""How often the alerts are right: ``python -m bench.alerts print|write``.

Every labelled simulated history is put into a real Prometheus, the rules that `vllmdoctor alerts` writes
are evaluated over all of it, a step a minute, and what fires is held against the labels. Beside them runs the
runbook's alert without the demand taken off. `write` puts the tables into docs/alerts.md. Needs
`prometheus` and `promtool` on PATH (or VLLMDOCTOR_TEST_PROMETHEUS); simulating takes some seconds a
history, --cache keeps it.
"""

import argparse
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from bench.accuracy.histories import histories
from bench.accuracy.truth import HELD_OUT, TUNING
from bench.alerts import history, score
from bench.alerts.evaluation import Firing, evaluate
from tests.prometheus import store

from vllmdoctor.alerts import Alert, Basis, Group, rules_for
from vllmdoctor.alerts.nouns import Told
from vllmdoctor.alerts.speed import throughput
from vllmdoctor.promql import Metrics, all_names
from vllmdoctor.release import version
from vllmdoctor.symptoms import THROUGHPUT

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "alerts.md"
PARTS = {"": "alerts", "names": "alerts-names"}  # what is written where in the page


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; the exit code."""
    parser = argparse.ArgumentParser(prog="python -m bench.alerts", description=__doc__.split("\n\n", 1)[0])
    parser.add_argument("mode", choices=("print", "write"), nargs="?", default="print")
    parser.add_argument("--seeds", default="1", help="of the tuning histories")
    parser.add_argument("--held-out", default="5", help="seeds of the held-out histories")
    parser.add_argument("--only", default="", help="histories whose name holds one of these words")
    parser.add_argument("--names", default="", help="releases whose names the same histories get instead")
    parser.add_argument("--cache", type=Path, help="folder that keeps simulated histories")
    options = parser.parse_args(arguments)
    found = store.binaries()
    if not found:
        sys.exit("needs `prometheus` and `promtool` on PATH")
    words = options.only.split(",")
    results: dict[str, list[score.Judged]] = {}
    for release in options.names.split(","):
        judged = results.setdefault(release, [])
        for group, seeds in ((TUNING, options.seeds), (HELD_OUT, options.held_out)):
            for seed in _numbers(seeds):
                judged += matrix(found[-1], group, seed, words, options.cache, release)
                print(f"{release} {group} {seed}: {len(judged)} histories", file=sys.stderr, flush=True)
    told = score.by_release(results) if options.names else score.page(results[""])
    print(told)
    if options.mode == "write":
        part = PARTS["names" if options.names else ""]
        begin, end = f"<!-- {part}:begin -->", f"<!-- {part}:end -->"
        head, _, rest = PAGE.read_text(encoding="utf-8").partition(begin)
        tail = rest.partition(end)[2]
        PAGE.write_text(f"{head}{begin}\n\n{told}\n\n{end}{tail}", encoding="utf-8")
    return 0


def matrix(
    one: store.Binaries, group: str, seed: int, words: Sequence[str], cache: Path | None, release: str
) -> list[score.Judged]:
    """Every scenario of a seed at once: a namespace each. `release` is whose names they get, "" their own."""
    groups = with_naive(rules_for(Basis(Metrics(all_names()))).groups)
    names = history.names_in([rule.expr for g in groups for rule in g.rules])
    chosen = [h for h in histories([group], (seed,), (seed,)) if any(word in h.key for word in words)]
    with tempfile.TemporaryDirectory() as folder:
        path, told = Path(folder) / "history.om", []
        recordings = []
        for each in chosen:
            labelled, recording = history.labelled(each, cache)
            told.append(labelled)
            if release:
                recording = history.named(recording, version(release))
            recordings.append(history.read_by(recording, names))
        history.write(recordings, path)
        found: list[Firing] = evaluate(one, path, Path(folder), groups, max(t.length for t in told))
    return score.all_judged(told, found)


def with_naive(groups: Sequence[Group]) -> tuple[Group, ...]:
    """The rules, and the runbook's alert as many have it: no demand taken off, no least amount."""
    m = Metrics(all_names())
    now, then = m.rate("generation_tokens", "30m"), m.rate("generation_tokens", "30m", offset="6h")
    told = Told(f"{now} / ({then} > 0) < {THROUGHPUT.value:g}", "", "")
    form = replace(throughput, name=score.NAIVE, linger="")
    return (*groups, Group("naive", (Alert(form, told),)))


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(",") if part)


if __name__ == "__main__":
    sys.exit(main())
