"""The real promtool, and histories in the form of its unit tests."""

import math
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.prometheus import store

from vllmdoctor.launch_yaml import dump_all, load_all
from vllmdoctor.recording import Recording

MINUTE_S = 60.0
EVERY = "10m"  # in life once a minute, which takes minutes here: bench.alerts does so
BINARIES = store.binaries()


def params() -> list[Any]:
    """A parameter for each promtool of this machine; one that skips where there is none."""
    if not BINARIES:
        why = "NOT CHECKED: no promtool (apt-get install prometheus; VLLMDOCTOR_TEST_PROMETHEUS for more)"
        return [pytest.param(None, marks=pytest.mark.skip(reason=why))]
    return [pytest.param(one, id=one.version) for one in BINARIES]


def run(one: store.Binaries, *words: str) -> str:
    """What promtool says; the test fails with it where it finds fault."""
    done = subprocess.run([one.promtool, *words], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def series_of(recording: Recording, start: float, minutes: int) -> list[dict[str, str]]:
    """A recording as input series: a value a minute, `_` where nothing was seen."""
    found = []
    for of in recording.columns.values():
        for series, column in of.items():
            at = np.rint((column.times - start) / MINUTE_S).astype(int)
            values = np.full(minutes + 1, np.nan)
            inside = (at >= 0) & (at <= minutes)
            values[at[inside]] = column.values[inside]
            found.append({"series": series, "values": written(values)})
    return found


def written(values: Sequence[float] | np.ndarray) -> str:
    """Values in promtool's notation, equal and evenly rising ones in short."""
    words: list[str] = []
    n = 0
    numbers = [float(v) for v in values]
    while n < len(numbers):
        run = 1
        while n + run < len(numbers) and _same(numbers[n], numbers[n + run]):
            run += 1
        word = "_" if math.isnan(numbers[n]) else f"{numbers[n]:.12g}"
        words.append(word if run == 1 else f"{word}x{run - (word != '_')}")
        n += run
    return " ".join(words)


def _same(a: float, b: float) -> bool:
    return a == b or (math.isnan(a) and math.isnan(b))


def ever_fired(alerts: str, hours: int = 26) -> str:
    """Which alerts whose names match have fired until now."""
    return f'max by (alertname) (max_over_time(ALERTS{{alertstate="firing",{alerts}}}[{hours}h]))'


def expect(expr: str, minutes: int, names: Sequence[str]) -> dict[str, Any]:
    """A test that these alerts, and no others of the expression, have a value of 1."""
    samples = [{"labels": f'{{alertname="{name}"}}', "value": 1} for name in sorted(names)]
    return {"expr": expr, "eval_time": f"{minutes}m", "exp_samples": samples}


def test_file(folder: Path, rules: Path, tests: Sequence[Mapping[str, Any]]) -> Path:
    """A file of unit tests beside the rules that it is about."""
    path = folder / "test.yml"
    (told,) = load_all(rules.read_text(), str(rules))
    order = [group["name"] for group in told["groups"]]  # type: ignore[index]
    body = {
        "rule_files": [str(rules)],
        "evaluation_interval": EVERY,
        "group_eval_order": order,  # a recording of ten minutes ago is out of sight
        "tests": [dict(t) for t in tests],
    }
    path.write_text(dump_all([body]))
    return path
