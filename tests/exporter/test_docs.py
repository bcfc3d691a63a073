"""What docs/exporter.md gives to paste is valid, and its figures are those of the code."""

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.prometheus import store

from vllmdoctor.exporting.families import FAMILIES
from vllmdoctor.exporting.history import MOST_POINTS, MOST_SERIES
from vllmdoctor.exporting.settings import MOST_ENGINES
from vllmdoctor.exporting.webconfig import read_web_config

PAGE = (Path(__file__).parents[2] / "docs" / "exporter.md").read_text(encoding="utf-8")
BLOCKS: list[Any] = [yaml.safe_load(text) for text in re.findall(r"^```yaml\n(.*?)^```", PAGE, re.M | re.S)]


def block(key: str) -> Any:
    """The only block with this key."""
    (found,) = [each for each in BLOCKS if key in each]
    return found


def tools() -> list[str]:
    found = [one.promtool for one in store.binaries()]
    if not found:
        pytest.skip("no promtool: install `prometheus`, or name a folder in " + store.PROMETHEUS)
    return found


def test_the_alerts_are_rules_that_promtool_takes(tmp_path: Path) -> None:
    (tmp_path / "rules.yml").write_text(yaml.safe_dump(block("groups")))
    for tool in tools():
        done = subprocess.run(
            [tool, "check", "rules", str(tmp_path / "rules.yml")], capture_output=True, text=True
        )
        assert (done.returncode, "4 rules found" in done.stdout) == (0, True), done.stderr


CASES = [
    (
        'vllmdoctor_finding{instance="a",cause="overload",kind="kv-bound",severity="critical"} '
        'vllmdoctor_finding{instance="a",cause="overload",kind="",severity="critical"}',
        ("1 1 1 1 1 1 _ _ _ _ _ _ _", "_ _ _ _ _ _ 1 1 1 1 1 1 1"),
        "VllmServerSick",
    ),
    ('vllmdoctor_verdict{instance="a",verdict="unexplained"}', ("1x20",), "VllmServerSlowAndNobodyKnowsWhy"),
    ('vllmdoctor_up{target="a"}', ("0x20",), "VllmDoctorCannotLook"),
    ("vllmdoctor_diagnosis_last_success_timestamp_seconds", ("0x20",), "VllmDoctorCannotLook"),
    ("vllmdoctor_diagnoses_total", ("0+1x20",), "VllmDoctorCannotLook"),
    ("vllmdoctor_nothing", ("1x20",), "VllmDoctorAbsent"),
]


@pytest.mark.parametrize(("series", "values", "alert"), CASES)
def test_each_alert_fires_when_it_should(
    tmp_path: Path, series: str, values: tuple[str, ...], alert: str
) -> None:
    (tmp_path / "rules.yml").write_text(yaml.safe_dump(block("groups")))
    given = [{"series": s, "values": v} for s, v in zip(series.split(), values, strict=True)]
    fires = f'count(ALERTS{{alertname="{alert}",alertstate="firing"}}) or vector(0)'
    late = {"expr": fires, "eval_time": "20m" if "x20" in values[0] else "12m"}
    case = {
        "interval": "1m",
        "input_series": given,
        "promql_expr_test": [{**late, "exp_samples": [{"labels": "{}", "value": 1}]}],
    }
    (tmp_path / "test.yml").write_text(
        yaml.safe_dump({"rule_files": ["rules.yml"], "evaluation_interval": "1m", "tests": [case]})
    )
    for tool in tools():
        done = subprocess.run(
            [tool, "test", "rules", "test.yml"], cwd=tmp_path, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stdout + done.stderr


def test_the_scrape_configuration_is_one_that_promtool_takes(tmp_path: Path) -> None:
    (tmp_path / "prometheus.yml").write_text(yaml.safe_dump(block("scrape_configs")))
    for tool in tools():
        done = subprocess.run(
            [tool, "check", "config", str(tmp_path / "prometheus.yml")], capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr


def test_the_alerts_use_metrics_that_exist() -> None:
    names = {family.name for family in FAMILIES}
    for rule in block("groups")["groups"][0]["rules"]:
        assert set(re.findall(r"vllmdoctor_\w+", rule["expr"])) <= names


def test_the_deployment_is_valid_and_the_sidecar_is_a_container_of_one() -> None:
    kubernetes_validate = pytest.importorskip("kubernetes_validate")
    deployment = next(each for each in BLOCKS if each.get("kind") == "Deployment")
    kubernetes_validate.validate(deployment, "1.32", strict=True)
    deployment["spec"]["template"]["spec"]["containers"] = block("containers")["containers"]
    kubernetes_validate.validate(deployment, "1.32", strict=True)


def test_the_web_config_file_is_one_that_is_read(tmp_path: Path) -> None:
    pem = (Path(__file__).parents[1] / "sources" / "self-signed.pem").read_bytes()
    for name in ("server.crt", "server.key"):
        (tmp_path / name).write_bytes(pem)
    (tmp_path / "web.yml").write_text(yaml.safe_dump(block("tls_server_config")))
    config = read_web_config(tmp_path / "web.yml")

    assert config.tls is not None
    assert config.users is not None


def test_the_limits_are_those_of_the_code() -> None:
    assert f"{MOST_ENGINES} engines" in PAGE
    assert f"{MOST_SERIES:,} series".replace(",", " ") in PAGE
    assert f"at most {MOST_POINTS}" in PAGE
