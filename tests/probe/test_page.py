"""What the page of a probe looks like, at 100 and 80 columns and as JSON; the manual shows the same."""

import math
import os
import re
from pathlib import Path

import pytest

from vllmdoctor import probe_series as names
from vllmdoctor.model import Gap
from vllmdoctor.model_probe import Failed, Failure, ProbeReport, Spread, Wrong
from vllmdoctor.render import probe as page

GOLDEN = Path(__file__).parents[1] / "golden"
MANUAL = Path(__file__).parents[2] / "docs" / "probe.md"
TARGET = "http://localhost:8000"
REPORT = ProbeReport(
    target=TARGET,
    model="my-model",
    version="0.32.0",
    loop="closed",
    rate=math.nan,
    concurrency=16,
    seed=1,
    warmup=16,
    planned=200,
    answered=198,
    failed=2,
    cut=0,
    ended="",
    seconds=41.3,
    spreads=(
        Spread(names.TTFT, "time to first token", "s", 198, 0.121, 0.104, 0.243, 0.291),
        Spread(names.ITL, "time between tokens", "s", 25042, 0.0212, 0.0201, 0.0248, 0.0613),
        Spread(names.E2E, "whole answer", "s", 198, 2.81, 2.77, 4.1, 4.62),
    ),
    output_tokens=25343.0,
    prompt_tokens=61200.0,
    output_rate=613.6,
    judged=150,
    correct=148,
    wrong=(
        Wrong("france", "Paris", "The capital of France is Paris."),
        Wrong(
            "line 118",
            "contains 4",
            "2 + 2 = five, said the ministry, and nobody who heard it laughed",
        ),
    ),
    failures=(
        Failed(
            Failure.TIMED_OUT, 2, "line 61: http://localhost:8000/v1/completions did not answer within 60 s"
        ),
    ),
    refused=3,
    late=0,
    gaps=(),
)
CUT_OFF = ProbeReport(
    target=TARGET,
    model="",
    version="",
    loop="open",
    rate=4.0,
    concurrency=2,
    seed=1,
    warmup=0,
    planned=40,
    answered=9,
    failed=0,
    cut=31,
    ended="Ctrl-C",
    seconds=3.2,
    spreads=(
        Spread(names.TTFT, "time to first token", "s", 9, 0.5, 0.45, math.nan, math.nan),
        Spread(names.ITL, "time between tokens", "s", 0, math.nan, math.nan, math.nan, math.nan),
        Spread(names.E2E, "whole answer", "s", 9, 0.5, 0.45, math.nan, math.nan),
    ),
    output_tokens=math.nan,
    prompt_tokens=math.nan,
    output_rate=math.nan,
    judged=0,
    correct=0,
    wrong=(),
    failures=(),
    refused=0,
    late=6,
    gaps=(Gap(TARGET, "time between tokens", "every answer came in one piece"),),
)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("probe.100.txt", page.text(REPORT)),
        ("probe.80.txt", page.text(REPORT, width=80)),
        ("probe.ascii.txt", page.text(REPORT, encoding="ascii")),
        ("probe.color.txt", page.text(REPORT, color=True)),
        ("probe.json", page.machine(REPORT)),
        ("probe-cut.100.txt", page.text(CUT_OFF)),
    ],
)
def test_the_page_looks_as_it_did(name: str, text: str) -> None:
    path = GOLDEN / name
    if os.environ.get("UPDATE_GOLDEN") == "1":
        path.write_text(text, encoding="utf-8")

    assert text == path.read_text(encoding="utf-8")


def test_the_manual_shows_the_page() -> None:
    shown = f"<!-- probe:page -->\n\n```text\n{page.text(REPORT)}```\n\n<!-- /probe:page -->"
    told = MANUAL.read_text(encoding="utf-8")
    part = re.compile("<!-- probe:page -->.*<!-- /probe:page -->", re.DOTALL)
    if os.environ.get("UPDATE_GOLDEN") == "1":
        MANUAL.write_text(part.sub(lambda _: shown, told), encoding="utf-8")
        told = MANUAL.read_text(encoding="utf-8")

    assert shown in told
