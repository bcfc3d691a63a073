"""What differs between the two sides' settings, and whether they were sent the same load."""

from collections.abc import Mapping

from vllmdoctor import probe_series as series
from vllmdoctor.engines import frames
from vllmdoctor.facts import engine_facts, server_version
from vllmdoctor.gate.evidence import Given
from vllmdoctor.model_gate import Change
from vllmdoctor.vitals import Vitals

LOAD = {
    series.LOOP: "loop",
    series.CONCURRENCY: "concurrency",
    series.RATE: "rate",
    series.REQUESTS_SHA256: "other requests, or not as many",
}
"""Facts of a run's load, and how each is called: with others, nothing of its speed can be compared."""

PROVENANCE = "baseline_"
_PLACES = ("host", "port", "uds", "root_path")  # where a server listens tells nothing of its speed
_FIRST = (series.VLLM_VERSION, series.MODEL)


def changes(baseline: Given, candidate: Given) -> tuple[Change, ...]:
    """The settings that differ, version and model first."""
    before, now = _settings(baseline), _settings(candidate)
    keys = sorted({*before, *now}, key=lambda k: (_FIRST.index(k) if k in _FIRST else len(_FIRST), k))
    return tuple(
        Change(key, before.get(key, ""), now.get(key, ""))
        for key in keys
        if key not in _PLACES and before.get(key) != now.get(key)
    )


def load_differs(baseline: Given, candidate: Given) -> str:
    """How the loads that were sent differ, in words; "" where they are the same or were not told.

    A side whose runs were of several loads is like no other.
    """
    found = []
    for key, name in LOAD.items():
        before, now = _told(baseline, key), _told(candidate, key)
        if not before or not now or (before == now and len(now) == 1):
            continue
        shown = "" if key == series.REQUESTS_SHA256 else f" {_words(before)} -> {_words(now)}"
        found.append(f"{name}{shown}")
    return ", ".join(found)


def loads_mixed(given: Given) -> str:
    """The loads of a side whose runs were of several, in words; "" else."""
    mixed = ((name, _told(given, key)) for key, name in LOAD.items())
    return ", ".join(f"{name} {_words(values)}" for name, values in mixed if len(values) > 1)


def requests_differ(baseline: Given, candidate: Given) -> bool:
    """Whether other requests were sent, so that even right and wrong cannot be compared."""
    before, now = (_told(given, series.REQUESTS_SHA256) for given in (baseline, candidate))
    return bool(before and now and len(before | now) > 1)


def closed_loop(given: Given) -> bool:
    """Whether each client waited for its answer before it sent again, so that the server set the pace."""
    return _told(given, series.LOOP) == {"closed"}


def tokens_differ(baseline: Given, candidate: Given) -> str:
    """Why times between tokens cannot be compared, where the two sides took them differently; "" else."""
    before, now = (_told(given, series.ITL_KIND, "between tokens") for given in (baseline, candidate))
    if len(before | now) == 1:
        return ""
    return f"not the same was measured: {_words(before)} -> {_words(now)}"


def _told(given: Given, key: str, usual: str = "") -> set[str]:
    """What the runs of a side say of themselves; `usual` is what one means that does not say it."""
    said = ({f.key: _spelt(f.value) for f in run.facts}.get(key, usual) for run in given.recordings)
    return {value for value in said if value}


def _words(values: set[str]) -> str:
    return " and ".join(sorted(values, key=lambda v: (len(v), v)))


def _settings(given: Given) -> Mapping[str, str]:
    recording = given.recordings[0]
    found = {f.key: f.value for f in recording.facts}
    framed = frames(recording)
    if framed:
        version = server_version(recording, framed[0], "")
        found |= {k: f.value for k, f in engine_facts(recording, Vitals(framed[0]), version).items()}
    return {k: _spelt(v) for k, v in found.items() if not k.startswith(PROVENANCE)}


def _spelt(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
