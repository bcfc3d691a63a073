"""What a Prometheus answers leads to the verdict that the file it was filled from leads to."""

import pytest
from tests.prometheus.conftest import Filled

from vllmdoctor.diagnosis import diagnose
from vllmdoctor.recording import Recording
from vllmdoctor.sources import History, Window, gather_targets


def asked(filled: Filled, match: str, end: float, window_s: float = 600.0) -> Recording:
    history = History(window_s=window_s, at=end, match=match)
    return gather_targets([filled.target], Window(history=history))


@pytest.mark.parametrize("name", ["kv-thrash", "overload-kv", "hol-big-batch"])
def test_a_real_recording_gets_the_same_verdict_from_a_prometheus(
    each: Filled, name: str, recordings: dict[str, Recording]
) -> None:
    recording = recordings[name]
    from_file = diagnose(recording)

    report = diagnose(asked(each, f'pod="{name}"', recording.end + 5))

    assert [e.instance for e in report.engines] == [name]
    assert (report.verdict, report.primary, report.kind) == (
        from_file.verdict,
        from_file.primary,
        from_file.kind,
    )
    assert report.version == from_file.version
    assert report.onset == pytest.approx(from_file.onset, abs=15)
    findings = [sorted(o.slug for o in r.engines[0].findings) for r in (report, from_file)]
    assert findings[0] == findings[1]


def test_the_window_is_narrowed_to_what_there_is(each: Filled, recordings: dict[str, Recording]) -> None:
    recording = recordings["kv-thrash"]

    found = asked(each, 'pod="kv-thrash"', recording.end + 900, window_s=86400)

    assert found.interval == pytest.approx(recording.interval)
    assert found.start == pytest.approx(recording.start, abs=3)
    assert found.end == pytest.approx(recording.end, abs=3)


@pytest.mark.parametrize(
    ("name", "cause"),
    [("fragmentation-sudden-loss", "kv-fragmentation"), ("throttle-no-queue", "gpu-throttle")],
)
def test_a_simulated_fault_gets_the_same_verdict_from_a_prometheus(
    each: Filled, name: str, cause: str, simulated: dict[str, Recording]
) -> None:
    from_file = diagnose(simulated[name])

    report = diagnose(asked(each, f'pod="{name}"', simulated[name].end + 30, window_s=86400))

    assert (report.verdict, report.primary) == (from_file.verdict, cause)
    assert (from_file.primary, from_file.kind) == (cause, report.kind)
    assert report.onset == pytest.approx(from_file.onset, abs=10 * 60)
