"""VictoriaMetrics reads the rules as Prometheus does: the same series, about the same values."""

import json
import math
import urllib.parse
import urllib.request
from dataclasses import replace

import pytest
from bench.alerts.history import START, labelled_series, names_in, write
from tests.prometheus import store

from vllmdoctor.alerts import Basis, rules_for
from vllmdoctor.model import Snapshot
from vllmdoctor.promql import Metrics, all_names
from vllmdoctor.recording import gather
from vllmdoctor.simulator import SCENARIOS, Scrape, simulate

HOURS = 7.0
SCENARIOS_SEEN = ("low-load", "stall-gauges-zero")
RULES = rules_for(Basis(Metrics(all_names())))
RECORDED = frozenset(r.name for r in RULES.records)
WRITTEN = {r.name: r.expr for r in RULES.records} | {a.name: a.expr for a in RULES.alerts}
EXPRESSIONS = {name: expr for name, expr in WRITTEN.items() if not names_in([expr]) & RECORDED}
"""What is read from scrapes alone."""

Answer = dict[tuple[tuple[str, str], ...], float]


def asked(url: str, expr: str) -> Answer:
    form = urllib.parse.urlencode({"query": expr, "time": f"{START + HOURS * 3600:.0f}"})
    with urllib.request.urlopen(f"{url}/api/v1/query?{form}", timeout=60) as answer:
        rows = json.load(answer)["data"]["result"]
    return {
        tuple(sorted((k, v) for k, v in row["metric"].items() if k != "__name__")): float(row["value"][1])
        for row in rows
    }


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Answer, Answer]]:
    found, victoria = store.binaries(), store.victoria()
    if not found or victoria is None:
        pytest.skip("NOT CHECKED: no prometheus or no victoria-metrics (apt-get install both)")
    folder = tmp_path_factory.mktemp("both")
    names = names_in(list(EXPRESSIONS.values()))
    recordings = []
    for name in SCENARIOS_SEEN:
        setup = replace(SCENARIOS[name].setup(7), duration_s=HOURS * 3600 + 120, scrape=Scrape(60.0))
        pages = simulate(setup, seed=7)
        recording = gather(Snapshot(p.time_s, p.instance, p.values) for p in pages)
        recordings.append(labelled_series(recording, name, START - setup.start_unix_s, names))
    history = folder / "history.om"
    write(recordings, history)
    for each in ("prometheus", "victoria"):
        (folder / each).mkdir()
    with (
        store.prometheus(found[-1], [history], folder / "prometheus") as first,
        store.victoriametrics(victoria, [history], folder / "victoria") as second,
    ):
        return {name: (asked(first, e), asked(second, e)) for name, e in EXPRESSIONS.items()}


@pytest.mark.parametrize("name", EXPRESSIONS)
def test_both_give_the_same_series_and_values(name: str, answers: dict[str, tuple[Answer, Answer]]) -> None:
    ours, theirs = answers[name]
    known = {labels: value for labels, value in ours.items() if not math.isnan(value)}
    assert set(theirs) == set(known)
    for labels, value in known.items():
        assert theirs[labels] == pytest.approx(value, rel=0.1, abs=0.01), labels


def test_many_of_them_have_an_answer(answers: dict[str, tuple[Answer, Answer]]) -> None:
    assert sum(bool(ours) for ours, _ in answers.values()) >= 12
