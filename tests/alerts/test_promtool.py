"""Every alert before the real promtool: sound, fires on its fault, is silent on what looks like it."""

from pathlib import Path
from typing import Any

import pytest
from tests.alerts import promtool
from tests.alerts.cases import FAULTS, LOOK_ALIKES, MINUTES, world
from tests.prometheus.store import Binaries

from vllmdoctor.alerts import FORMS, Basis, Rules, rules_for
from vllmdoctor.alerts.forms import text
from vllmdoctor.promql import Metrics, all_names, matchers_of, names_for
from vllmdoctor.release import Version, version

RELEASES = (None, *(version(v) for v in ("0.6.0", "0.6.6", "0.8.5", "0.10.2", "0.11.0", "0.12.0", "0.33.0")))


def written(folder: Path, release: Version | None = None, match: str = "") -> tuple[Path, Rules]:
    names = names_for(release) if release else all_names()
    rules = rules_for(Basis(Metrics(names, matchers_of(match))))
    path = folder / "rules.yml"
    path.write_text(text(rules, "rules", "a test", release, "runbooks/"))
    return path, rules


@pytest.mark.parametrize("one", promtool.params())
@pytest.mark.parametrize("release", RELEASES, ids=str)
def test_rules_of_every_release_are_sound(one: Binaries, release: Version | None, tmp_path: Path) -> None:
    path, rules = written(tmp_path, release, 'namespace="prod",pod=~"chat-.+"')
    told = promtool.run(one, "check", "rules", str(path))
    assert f"{len(rules.alerts) + len(rules.records)} rules found" in told


def test_each_alert_has_a_fault_and_a_look_alike() -> None:
    names = {form.name for form in FORMS} - {"VLLMMetricsAbsent"}
    assert set(FAULTS) == names
    assert set(LOOK_ALIKES) == names


def fired(alert: str, namespace: str) -> str:
    chosen = f'alertname="{alert}",namespace="{namespace}",alertstate="firing"'
    return f"max by (alertname) (max_over_time(ALERTS{{{chosen}}}[12h]))"


@pytest.mark.parametrize("one", promtool.params())
def test_each_alert_fires_on_its_fault_and_not_on_what_looks_like_it(one: Binaries, tmp_path: Path) -> None:
    rules, _ = written(tmp_path)
    asked: list[dict[str, Any]] = [
        promtool.expect(fired(alert, f"fault-{alert}"), MINUTES, [alert]) for alert in FAULTS
    ]
    asked += [promtool.expect(fired(alert, f"like-{alert}"), MINUTES, []) for alert in LOOK_ALIKES]
    asked.append(promtool.expect(promtool.ever_fired('alertname="VLLMMetricsAbsent"'), MINUTES, []))
    world_test = {"interval": "1m", "input_series": list(world()), "promql_expr_test": asked}
    promtool.run(one, "test", "rules", str(promtool.test_file(tmp_path, rules, [world_test])))


@pytest.mark.parametrize("one", promtool.params())
def test_where_nothing_is_scraped_one_alert_says_so(one: Binaries, tmp_path: Path) -> None:
    rules, _ = written(tmp_path)
    nothing = {
        "interval": "1m",
        "input_series": [{"series": 'up{job="web"}', "values": "1x60"}],
        "promql_expr_test": [
            promtool.expect(promtool.ever_fired('alertname!=""'), 60, ["VLLMMetricsAbsent"])
        ],
    }
    promtool.run(one, "test", "rules", str(promtool.test_file(tmp_path, rules, [nothing])))
