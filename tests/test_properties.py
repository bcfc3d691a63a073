"""Whatever a source delivers, the judge answers or raises an error a user can act on; nothing else."""

import math
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from vllmdoctor.diagnosis import diagnose
from vllmdoctor.errors import VllmDoctorError
from vllmdoctor.model import Observation, Report, Snapshot
from vllmdoctor.recording import gather
from vllmdoctor.render import render
from vllmdoctor.rules import all_rules
from vllmdoctor.signals import SIGNALS
from vllmdoctor.sources import Window, gather_targets

VALUES = st.one_of(
    st.floats(allow_nan=True, allow_infinity=True),
    st.sampled_from([0.0, 1.0, -1.0, math.nan, math.inf, -math.inf, 1e18, 1e-18]),
    st.floats(0, 1000),
)


def spellings() -> list[str]:
    """Series of every signal a rule looks at, under each of its names, for two engines."""
    out = []
    wanted = {n for r in all_rules() for s in r.signals for n in ((s,) if isinstance(s, str) else s)}
    wanted |= {n for r in all_rules() for n in r.helpful}
    for name in sorted(wanted):
        signal = SIGNALS[name]
        for spelling in signal.names:
            for engine in ("0", "1"):
                labels = f'engine="{engine}",model_name="m"'
                if signal.kind == "histogram":
                    out += [
                        f'{spelling.text}_bucket{{{labels},le="{le}"}}' for le in ("0.3", "1.0", "+Inf", "x")
                    ]
                    out += [f"{spelling.text}_sum{{{labels}}}", f"{spelling.text}_count{{{labels}}}"]
                else:
                    out.append(f"{spelling.text}{{{labels}}}")
    return out


SPELLINGS = spellings()


@st.composite
def histories(draw: st.DrawFn) -> list[Observation]:
    series = draw(st.lists(st.sampled_from(SPELLINGS), min_size=1, max_size=25, unique=True))
    count = draw(st.integers(1, 40))
    every = draw(st.sampled_from([0.0, 0.5, 1.0, 15.0, 3600.0]))
    out: list[Observation] = []
    for i in range(count):
        shown = series if draw(st.booleans()) else series[: len(series) // 2]
        values = {s: draw(VALUES) for s in shown}
        out.append(Snapshot(1e9 + i * every, "s", values))
    return out


def judged(observations: list[Observation]) -> Report | None:
    try:
        return diagnose(gather(observations))
    except VllmDoctorError:
        return None


@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(histories())
def test_no_recording_trips_the_judge_or_the_renderers(observations: list[Observation]) -> None:
    report = judged(observations)
    if report is not None:
        assert render(report, "text", verbose=True)
        assert render(report, "json")
        for engine in report.engines:
            assert all(0 <= o.confidence <= 1 for o in engine.outcomes)


@settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
@given(
    st.one_of(
        st.binary(max_size=2000),
        st.text(max_size=2000).map(lambda t: t.encode("utf-8", "surrogatepass")),
        st.lists(
            st.tuples(
                st.sampled_from(SPELLINGS), VALUES, st.sampled_from(["", " 1700000000", " 1700000015.5"])
            ),
            max_size=40,
        ).map(lambda rows: "".join(f"{s} {v}{t}\n" for s, v, t in rows).encode()),
    )
)
def test_no_file_trips_the_reader_or_the_judge(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "anything"
    path.write_bytes(content)
    try:
        report = diagnose(gather_targets([str(path)], Window()))
    except VllmDoctorError:
        return
    assert report.headline


@pytest.mark.parametrize("value", [math.nan, math.inf, -1.0, 0.0])
def test_a_server_that_shows_only_nonsense_is_not_called_healthy_from_it(value: float) -> None:
    observations: list[Observation] = [
        Snapshot(1e9 + 10 * i, "s", dict.fromkeys(SPELLINGS, value)) for i in range(60)
    ]
    report = judged(observations)
    if math.isnan(value):
        assert report is None or report.verdict.value in ("blind", "unexplained")
