"""The rules over simulated histories with known causes, under the names of three eras of vLLM.

A few of them; `python -m bench.alerts` holds all alerts against all histories.
"""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from bench.alerts.history import START, labelled_series, names_in
from tests.alerts import promtool
from tests.alerts.test_promtool import written

from vllmdoctor.model import Snapshot
from vllmdoctor.recording import gather
from vllmdoctor.simulator import SCENARIOS, Era, Scrape, simulate

V0, EARLY, NOW = Era((0, 6, 6)), Era((0, 9, 1)), Era((0, 32, 0))
LEAST_S, SEEN_S = 7.5 * 3600, 1.5 * 3600  # six hours to compare with, and so long after the effect
SEED = 7
# scenario, the names it has, alerts that must fire
SICK = (
    ("overload-slots", V0, {"VLLMRequestsQueue"}),
    ("fragmentation-idle-floor", EARLY, {"VLLMBlocksHeldWhileIdle", "VLLMKVPoolFull", "VLLMRequestsQueue"}),
    ("throttle-no-queue", NOW, {"VLLMGpuThrottled", "VLLMTokensSlower"}),
)
# as well as the doctor sees, nothing is wrong; some of them lose half of their throughput
WELL = (("low-load", V0), ("demand-drop-sudden", EARLY), ("demand-drop-night", NOW))
STATED = "VLLMContextExceedsPool"  # what the page says of its settings


def unit_test(scenario: str, era: Era, names: frozenset[str]) -> dict[str, Any]:
    """A history as a unit test without questions, and its last minute."""
    setup = SCENARIOS[scenario].setup(SEED)
    since = setup.effect_s or setup.onset_s or 0.0
    length = min(setup.duration_s, max(LEAST_S, since + SEEN_S))
    setup = replace(setup, duration_s=length, scrape=Scrape(60.0), era=era)
    pages = simulate(setup, seed=SEED)
    recording = gather(Snapshot(p.time_s, p.instance, p.values) for p in pages)
    placed = labelled_series(recording, scenario, START - setup.start_unix_s, names)
    minutes = int(length / promtool.MINUTE_S)
    return {"interval": "1m", "input_series": promtool.series_of(placed, START, minutes), "minutes": minutes}


def test_alerts_fire_on_faults_and_stay_silent_where_only_the_demand_moved(tmp_path: Path) -> None:
    if not promtool.BINARIES:
        pytest.skip("NOT CHECKED: no promtool (apt-get install prometheus)")
    rules, told = written(tmp_path)
    names = names_in([*(r.expr for r in told.records), *(a.expr for a in told.alerts)])
    tests = []
    for scenario, era, alerts in SICK:
        test = unit_test(scenario, era, names)
        words = "|".join(alerts)
        asked = promtool.expect(
            promtool.ever_fired(f'alertname=~"{words}"'), test.pop("minutes"), sorted(alerts)
        )
        tests.append(test | {"promql_expr_test": [asked]})
    for scenario, era in WELL:
        test = unit_test(scenario, era, names)
        asked = promtool.expect(promtool.ever_fired(f'alertname!="{STATED}"'), test.pop("minutes"), [])
        tests.append(test | {"promql_expr_test": [asked]})
    promtool.run(promtool.BINARIES[-1], "test", "rules", str(promtool.test_file(tmp_path, rules, tests)))
