"""From findings to a plan: each remedy once, in the order to try it, without contradictions."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

from vllmdoctor.flags import Release
from vllmdoctor.model import Outcome, RemedyVerdict, Step
from vllmdoctor.remedies import Figures, prescribe, summary

# Advice that guides give for a cause whether or not it fits: shown when it is moot or harmful here.
WELL_KNOWN: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "kv-fragmentation": (
            "enable-prefix-caching",
            "lower-gpu-memory-utilization",
            "split-traffic-by-length",
        ),
        "overload": ("lower-gpu-memory-utilization", "enable-prefix-caching", "rolling-restart"),
        "head-of-line-blocking": ("enable-prefix-caching",),
    }
)

# Further remedies that are asked for a finding: what they say is shown only where it is of use here.
ALSO: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "overload": (
            "more-kv-blocks", "upgrade", "reserve-full-prompt", "disable-async-scheduling",
            "spread-over-ranks", "cap-output-length", "drop-enforce-eager", "tensor-parallel",
            "quantized-weights", "limit-admission", "lower-max-num-batched-tokens",
        ),
        "head-of-line-blocking": ("lower-max-model-len", "spread-over-ranks", "cap-output-length"),
        "prefill-bound": ("upgrade", "reserve-full-prompt", "split-traffic-by-length"),
        "kv-fragmentation": (
            "upgrade", "disable-kv-connector", "disable-async-scheduling", "lower-max-num-seqs",
            "rolling-restart",
        ),
        "prefix-cache-collapse": ("mamba-cache-mode", "kv-offload", "lower-max-num-batched-tokens"),
        "memory-leak": ("shrink-mm-cache",),
        "gpu-memory-growth": ("expandable-segments",),
        "stall": ("disable-kv-connector", "shrink-mm-cache", "lower-max-model-len", "probe-progress"),
        "context-exceeds-pool": ("more-kv-blocks",),
        "host-cpu-bound": ("upgrade", "more-api-servers", "tune-structured-output"),
        "client-side": ("more-api-servers", "drop-enforce-eager", "cap-output-length"),
    }
)  # fmt: skip

# Two ways to turn one screw: never both in a plan.
OPPOSITES = (
    ("raise-gpu-memory-utilization", "lower-gpu-memory-utilization"),
    ("raise-max-num-seqs", "lower-max-num-seqs"),
    ("raise-max-num-batched-tokens", "lower-max-num-batched-tokens"),
    ("fp8-kv-cache", "lower-gpu-memory-utilization"),
    ("disable-kv-connector", "disable-async-scheduling"),
)

# What a remedy gains, coarsely: 0 removes the cause or adds capacity (the default), 1 stops waste or
# eases a part of it, 2 sheds load, 3 buys time. From measured pairs: more KV comes before a cap on
# requests, and the long-prefill threshold before a smaller token budget.
GAIN: Mapping[str, int] = MappingProxyType(
    {
        "lower-max-num-seqs": 1,
        "kv-watermark": 1,
        "lower-max-num-batched-tokens": 1,
        "lower-max-model-len": 1,
        "priority-scheduling": 1,
        "cap-output-length": 1,
        "quantized-weights": 1,
        "probe-progress": 2,
        "limit-admission": 2,
        "raise-memory-limit": 3,
        "rolling-restart": 3,
    }
)
# What ends a cause for sure, whatever it gains elsewhere.
SURE: Mapping[str, tuple[str, ...]] = MappingProxyType({"context-exceeds-pool": ("lower-max-model-len",)})
_FALL_BACK = 2  # from here on a remedy comes after all others, whatever it costs

_ORDER: Mapping[RemedyVerdict, int] = MappingProxyType({"helps": 0, "unknown": 1, "moot": 2, "harmful": 3})

RemediesOf = Callable[[Outcome], tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class _Candidate:
    """A step with what ranks it: its finding's place and its own place in that finding's list."""

    step: Step
    finding: int
    place: int

    @property
    def rank(self) -> tuple[int, int, int, int, int, int, str]:
        sure = self.step.slug in SURE.get(self.step.treats[0], ())
        gain = 0 if sure else GAIN.get(self.step.slug, 0)
        return (
            _ORDER[self.step.verdict],
            gain if gain >= _FALL_BACK else 0,
            int(self.step.effort),
            self.finding,
            gain,
            self.place,
            self.step.slug,
        )


def make_plan(
    findings: Sequence[Outcome], figures: Figures, version: Release, remedies_of: RemediesOf
) -> tuple[Step, ...]:
    """The steps for these findings, best first; moot and harmful advice comes last, with its reason.

    Order: what helps, what may help, what does not; in each, live before restart before capacity,
    then the finding that weighs most, then the predicted gain; shedding load and stop-gaps last.
    `remedies_of` names the remedies of a finding, best first. Give the version as a range with the
    engine "V0" where a release that has both engines runs the old one. Raises UnknownName for a
    remedy that does not exist.
    """
    ordered = sorted(findings, key=_weight)
    candidates = [
        c
        for place, finding in enumerate(ordered)
        for c in _asked(place, finding, figures, version, remedies_of)
    ]
    merged = _merge(candidates)
    kept = _without_opposites(merged)
    steps = [c.step for c in sorted(kept, key=lambda c: c.rank)]
    if any(s.verdict == "helps" and s.slug != "no-action" for s in steps):
        steps = [s for s in steps if s.slug != "no-action"]
    return tuple(steps)


def page(slug: str, treats: Sequence[str] = ()) -> str:
    """What a remedy is, as Markdown: what it does, what it `treats`, what stands against it."""
    lines = [f"# {slug}", summary(slug)]
    if treats:
        lines.append("## Treats\n\n" + "\n".join(f"- {cause}" for cause in treats))
    for heading, table in (("Also asked for", ALSO), ("Shown where it is of no use", WELL_KNOWN)):
        causes = [cause for cause, slugs in table.items() if slug in slugs and cause not in treats]
        if causes:
            lines.append(f"## {heading}\n\n" + "\n".join(f"- {cause}" for cause in causes))
    against = [other for pair in OPPOSITES if slug in pair for other in pair if other != slug]
    if against:
        lines.append("## Never together with\n\n" + "\n".join(f"- {other}" for other in against))
    rank = {
        0: "removes the cause or adds capacity",
        1: "eases a part",
        2: "comes after what mends: it sheds load or watches",
        3: "buys time",
    }
    lines.append(f"## Rank\n\nIt {rank[GAIN.get(slug, 0)]}.")
    lines.append("Its values are computed for each server: `vllmdoctor plan TARGET`.")
    return "\n\n".join(lines) + "\n"


def _weight(finding: Outcome) -> tuple[bool, int, float, str]:
    """Causes before their consequences, severe before mild, sure before unsure."""
    return bool(finding.explained_by), -int(finding.severity), -finding.confidence, finding.slug


def _asked(
    index: int, finding: Outcome, figures: Figures, version: Release, remedies_of: RemediesOf
) -> list[_Candidate]:
    own = remedies_of(finding)
    found = []
    well_known, also = WELL_KNOWN.get(finding.slug, ()), ALSO.get(finding.slug, ())
    for place, slug in enumerate(dict.fromkeys((*own, *well_known, *also))):
        given = prescribe(slug, figures, version, finding)
        if given is None:
            continue
        useless = given.verdict in ("moot", "harmful")
        if slug in own or (useless and slug in well_known) or (not useless and slug in also):
            found.append(_Candidate(given, index, place))
    return found


def _merge(candidates: Sequence[_Candidate]) -> list[_Candidate]:
    """One candidate a remedy: the first finding's; those that agree with it are treated as well."""
    merged: dict[str, _Candidate] = {}
    for new in candidates:
        first = merged.get(new.step.slug)
        if first is None:
            merged[new.step.slug] = new
        elif first.step.verdict == new.step.verdict:
            treats = tuple(dict.fromkeys((*first.step.treats, *new.step.treats)))
            merged[new.step.slug] = replace(first, step=replace(first.step, treats=treats))
        elif _contradict(first.step, new.step):
            merged[new.step.slug] = replace(first, step=_noting(first.step, new.step))
        elif {first.step.verdict, new.step.verdict} == {"moot", "harmful"}:
            merged[new.step.slug] = first if first.step.verdict == "harmful" else new
        elif _ORDER[new.step.verdict] < _ORDER[first.step.verdict]:
            merged[new.step.slug] = new
    return list(merged.values())


def _contradict(one: Step, other: Step) -> bool:
    return {one.verdict, other.verdict} in ({"helps", "harmful"}, {"unknown", "harmful"})


def _noting(kept: Step, other: Step) -> Step:
    """The step that is kept, telling what the finding that weighs less would say."""
    cause = ", ".join(other.treats)
    note = f"for {cause} alone it is {'harmful' if other.verdict == 'harmful' else 'of use'}: {other.why}"
    return replace(kept, tradeoff="; ".join(part for part in (kept.tradeoff, note) if part))


def _without_opposites(candidates: Sequence[_Candidate]) -> list[_Candidate]:
    """Of two ways to turn one screw the finding that weighs more decides; the other is told there."""
    kept = {c.step.slug: c for c in candidates}
    for one, other in OPPOSITES:
        if one not in kept or other not in kept:
            continue
        pair = (kept[one], kept[other])
        if any(c.step.verdict not in ("helps", "unknown") for c in pair):
            continue
        winner, loser = sorted(pair, key=lambda c: (_ORDER[c.step.verdict], c.finding, c.place))
        cause = ", ".join(loser.step.treats)
        note = f"{cause} asks for the opposite ({loser.step.slug}): {loser.step.why}"
        tradeoff = "; ".join(part for part in (winner.step.tradeoff, note) if part)
        kept[winner.step.slug] = replace(winner, step=replace(winner.step, tradeoff=tradeoff))
        del kept[loser.step.slug]
    return list(kept.values())
