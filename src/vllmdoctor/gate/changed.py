"""What differs between the two sides' settings, and whether they were sent the same load."""

from collections.abc import Mapping

from vllmdoctor.engines import frames
from vllmdoctor.facts import engine_facts, server_version
from vllmdoctor.gate.evidence import Given
from vllmdoctor.model_gate import Change
from vllmdoctor.vitals import Vitals

LOAD = ("probe_loop", "probe_concurrency", "probe_rate", "probe_requests_sha256")
"""Facts of a run's load: with others, neither its throughput nor its latencies can be compared."""

PROVENANCE = "baseline_"
_PLACES = ("host", "port", "uds", "root_path")  # where a server listens tells nothing of its speed
_FIRST = ("vllm_version", "model")


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
    """How the loads that were sent differ, in words; "" where they are the same or were not told."""
    before, now = _settings(baseline), _settings(candidate)
    found = []
    for key in LOAD:
        a, b = before.get(key), now.get(key)
        if a is None or b is None or a == b:
            continue
        shown = "" if key.endswith("sha256") else f" {a} -> {b}"
        found.append(f"{key.removeprefix('probe_').replace('_sha256', '')}{shown}")
    return ", ".join(found)


def closed_loop(given: Given) -> bool:
    """Whether each client waited for its answer before it sent again, so that the server set the pace."""
    return _settings(given).get("probe_loop") == "closed"


def tokens_differ(baseline: Given, candidate: Given) -> str:
    """Why times between tokens cannot be compared, where the two sides took them differently; "" else."""
    kinds = [_settings(given).get("probe_itl", "between tokens") for given in (baseline, candidate)]
    return "" if kinds[0] == kinds[1] else f"not the same was measured: {kinds[0]} -> {kinds[1]}"


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
