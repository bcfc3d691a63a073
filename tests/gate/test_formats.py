"""A gate in every format: goldens, the schemas of JUnit and SARIF, and text from outside that stays text."""

import json
import os
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from rich.cells import cell_len
from tests.gate.sample_gate import NASTY, PASSED, REGRESSED, SAMPLES, UNCLEAR

from vllmdoctor.errors import UnknownName
from vllmdoctor.render.gate import FORMATS, format_for, render

GOLDEN = Path(__file__).parents[1] / "golden"
HERE = Path(__file__).parent
SARIF = HERE / "node_modules/@microsoft/jest-sarif/lib/schemas/sarif-2.1.0-rtm.5.json"
ENDINGS = {
    "text": "txt",
    "json": "json",
    "markdown": "md",
    "junit": "xml",
    "sarif": "sarif",
    "github": "github.txt",
}


def check_golden(name: str, text: str) -> None:
    """Compare with a golden file; UPDATE_GOLDEN=1 in the environment writes it instead."""
    path = GOLDEN / name
    if os.environ.get("UPDATE_GOLDEN") == "1":
        path.write_text(text, encoding="utf-8")
    expected = path.read_text(encoding="utf-8") if path.exists() else ""

    assert expected == text, f"{path} differs; if the new text is right: UPDATE_GOLDEN=1 pytest {__file__}"


@pytest.mark.parametrize("fmt", FORMATS)
@pytest.mark.parametrize("name", SAMPLES)
def test_a_gate_in_each_format_is_its_golden_file(name: str, fmt: str) -> None:
    check_golden(f"gate-{name}.{ENDINGS[fmt]}", render(SAMPLES[name], fmt))


def test_a_narrow_and_a_coloured_gate_are_their_golden_files() -> None:
    check_golden("gate-regressed.80.txt", render(REGRESSED, "text", width=80))
    check_golden("gate-regressed.color.txt", render(REGRESSED, "text", color=True))
    check_golden("gate-regressed.ascii.txt", render(REGRESSED, "text", encoding="ascii"))


@pytest.mark.parametrize("width", [60, 80, 100])
@pytest.mark.parametrize("name", SAMPLES)
def test_no_line_of_the_text_is_wider_than_the_terminal(name: str, width: int) -> None:
    lines = render(SAMPLES[name], "text", width=width).splitlines()

    assert max(map(cell_len, lines)) <= width


@pytest.mark.parametrize("name", SAMPLES)
def test_junit_is_valid_by_its_schema(name: str) -> None:
    xmlschema = pytest.importorskip("xmlschema", reason="NOT CHECKED: no XML schemas (pip install xmlschema)")

    xmlschema.XMLSchema(str(HERE / "junit.xsd")).validate(render(SAMPLES[name], "junit"))


def test_the_junit_schema_does_judge() -> None:
    xmlschema = pytest.importorskip("xmlschema", reason="NOT CHECKED: no XML schemas (pip install xmlschema)")
    wrong = render(REGRESSED, "junit").replace('failures="1"', 'failures="some"')

    assert not xmlschema.XMLSchema(str(HERE / "junit.xsd")).is_valid(wrong)


@pytest.fixture(scope="module")
def sarif_schema() -> Any:
    jsonschema = pytest.importorskip(
        "jsonschema", reason="NOT CHECKED: no JSON schemas (pip install jsonschema)"
    )
    if not SARIF.exists():
        pytest.skip(f"NOT CHECKED: no schema of SARIF (npm install in {HERE})")
    return jsonschema.Draft4Validator(json.loads(SARIF.read_text(encoding="utf-8")))


@pytest.mark.parametrize("name", SAMPLES)
def test_sarif_is_valid_by_its_schema(name: str, sarif_schema: Any) -> None:
    errors = sarif_schema.iter_errors(json.loads(render(SAMPLES[name], "sarif")))

    assert [error.message for error in errors] == []


def test_the_sarif_schema_does_judge(sarif_schema: Any) -> None:
    wrong = json.loads(render(REGRESSED, "sarif"))
    wrong["runs"][0]["results"][0]["level"] = "fatal"

    assert not sarif_schema.is_valid(wrong)


def test_a_regression_fails_a_case_and_what_cannot_be_told_is_an_error() -> None:
    suite = ElementTree.fromstring(render(REGRESSED, "junit"))[0]

    assert (suite.get("failures"), suite.get("errors"), suite.get("skipped")) == ("1", "1", "0")
    assert [case[0].tag for case in suite.iter("testcase")] == [
        "failure",
        "error",
        "system-out",
        "system-out",
    ]


def test_what_may_pass_is_skipped_in_junit_a_note_in_sarif_and_a_notice_on_github() -> None:
    suite = ElementTree.fromstring(render(UNCLEAR, "junit"))[0]
    levels = [r["level"] for r in json.loads(render(UNCLEAR, "sarif"))["runs"][0]["results"]]

    assert suite.get("skipped") == "1"
    assert levels == ["note"]
    assert render(UNCLEAR, "github").startswith("::notice title=time to first token (p95)%3A cannot tell::")


def test_sarif_holds_a_result_for_what_is_worse_or_unknown_and_none_for_a_pass() -> None:
    results = json.loads(render(REGRESSED, "sarif"))["runs"][0]["results"]

    assert [(r["ruleId"], r["level"]) for r in results] == [
        ("gate/throughput", "error"),
        ("gate/ttft_p95", "warning"),
    ]
    assert json.loads(render(PASSED, "sarif"))["runs"][0]["results"] == []


def test_json_says_its_schema_and_has_no_nan() -> None:
    document = json.loads(render(REGRESSED, "json"))

    assert document["schema"] == "vllmdoctor/gate/1"
    assert document["judgement"] == "regressed"
    assert document["measures"][3]["low"] is None
    assert document["measures"][0]["tolerance"] == 0.95


def test_text_from_outside_makes_no_command_no_markup_and_no_line_of_its_own() -> None:
    github = render(UNCLEAR, "github")
    markdown = render(UNCLEAR, "markdown")

    assert all(re.match(r"::(notice|warning|error) title=", line) for line in github.splitlines())
    assert "<b>" not in markdown
    assert not re.search(r"(?<!\\)\]\(http", markdown)
    assert all("\x1b" not in render(UNCLEAR, fmt) for fmt in FORMATS)
    assert NASTY not in markdown


def test_the_ending_of_a_file_picks_its_format() -> None:
    assert [format_for(f"gate.{e}") for e in ("json", "md", "xml", "sarif", "txt")] == [
        "json", "markdown", "junit", "sarif", "text",
    ]  # fmt: skip
    with pytest.raises(UnknownName):
        format_for("gate.pdf")


@pytest.mark.parametrize("width", [60, 80, 100])
def test_at_any_width_each_measure_keeps_its_sign_and_the_columns_their_heads(width: int) -> None:
    lines = render(REGRESSED, "text", width=width).splitlines()

    assert max(map(cell_len, lines)) <= width
    assert [line[2] for line in lines if re.match(r"  [✓✗?] ", line)] == ["✗", "?", "✓", "✓"]
    assert any(line.split() == ["baseline", "candidate", "change", "allowed"] for line in lines)
