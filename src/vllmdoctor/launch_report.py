"""A launch joined to what was measured: its facts into the recording, its findings into the report."""

from collections.abc import Iterable
from dataclasses import replace

from vllmdoctor.flags import Release
from vllmdoctor.launch import Given, Launch
from vllmdoctor.lint import lint
from vllmdoctor.model import Fact, Report
from vllmdoctor.recording import Recording
from vllmdoctor.release import Version

# facts of a recording that were arguments of the server, by where they come from
STARTED = ("launch command", "non-default args", "start-up log", "command line")
_QUIET = frozenset({"default-argument", "trade-off"})


def with_launch(recording: Recording, launch: Launch) -> Recording:
    """The recording with the launch's facts. What the server said of its version stays in front."""
    return replace(recording, facts=recording.facts + launch.facts)


def launch_of(facts: Iterable[Fact]) -> Launch:
    """The launch that a server's own facts tell, as far as they do."""
    given = tuple(
        Given(
            f"--{f.key.replace('_', '-')}",
            f"{f.value:g}" if isinstance(f.value, float) else str(f.value),
            f"--{f.key.replace('_', '-')}",
            bare=isinstance(f.value, bool),
        )
        for f in facts
        if any(word in f.origin for word in STARTED)
        and "/version" not in f.origin
        and f.key != "vllm_version"
    )
    return Launch(given, "the server's own arguments", ())


def with_findings(report: Report, recording: Recording, launch: Launch | None) -> Report:
    """The report with a note for each thing that is wrong with the arguments, given or told by the server."""
    if not report.engines:
        return report
    facts = {f.key: f for f in report.engines[0].facts}
    told = launch or launch_of(facts.values())
    if not told.given:
        return report
    release = release_of(report)
    found = [f for f in lint(told, release, facts) if f.slug not in _QUIET]
    notes = [*(f"arguments: {f.line}" for f in found), *(_differences(recording, launch) if launch else ())]
    return replace(report, notes=(*report.notes, *(n for n in notes if n not in report.notes)))


def release_of(report: Report) -> Release:
    """The release that a report names; None where it names a range or none."""
    parsed = Version.parse(report.version)
    return parsed if parsed is not None and parsed.meaningful else None


def _differences(recording: Recording, launch: Launch) -> Iterable[str]:
    """Arguments that are not those the server runs with."""
    for fact in recording.facts:
        if fact.origin.startswith(launch.origin) or fact.key == "vllm_version":
            continue
        own = next((f for f in launch.facts if f.key == fact.key), None)
        if own is not None and not _equal(own.value, fact.value):
            yield (
                f"arguments: --{fact.key.replace('_', '-')} is {own.value} in {own.origin}, and "
                f"{fact.value} at the "
                f"server ({fact.origin}): are they of the same server?"
            )
    version = next((f for f in launch.facts if f.key == "vllm_version"), None)
    said = next(
        (
            f
            for f in recording.facts
            if f.key == "vllm_version" and f.origin != getattr(version, "origin", "")
        ),
        None,
    )
    if version is not None and said is not None and str(version.value) != str(said.value):
        yield f"arguments: the image is vLLM {version.value}, the server says {said.value} ({said.origin})"


def _equal(one: object, other: object) -> bool:
    if isinstance(one, bool) or isinstance(other, bool):
        return str(one) == str(other)
    try:
        return float(str(one)) == float(str(other))
    except ValueError:
        return str(one) == str(other)
