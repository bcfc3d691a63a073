"""A newer release, only where this one has a known defect that looks like the finding."""

import math
from collections.abc import Sequence

from vllmdoctor.defects import Defect, matching
from vllmdoctor.flags import Release, flags
from vllmdoctor.model import Step
from vllmdoctor.release import Version, VersionRange, version
from vllmdoctor.remedies.ask import Ask, dismissed, step

ANCIENT, KNOWN_SINCE = version("0.2.0"), version("0.6.0")  # builds without tags are 0.0 and 0.1
BUSY = ("overload", "prefill-bound", "host-cpu-bound")


def upgrade(ask: Ask) -> Step | None:
    """A newer release, only where this one has a known defect that looks like the finding."""
    slug, title = "upgrade", "Upgrade vLLM"
    found = [defect for defect in matching(ask.cause, ask.release) if _may_apply(ask, defect) is not False]
    mended = [defect for defect in found if defect.fixed is not None]
    if ask.cause in BUSY:  # a finding of every day: a defect that may or may not apply is no advice
        mended = [defect for defect in mended if _may_apply(ask, defect)]
        found = [defect for defect in found if _may_apply(ask, defect) and ask.cause != "overload"]
    if mended:
        # a feature that is seen in use says more than a defect that anybody may have
        first = sorted(mended, key=lambda d: not (d.needs and _may_apply(ask, d)))
        return _upgrade_to(ask, slug, title, first[0], first[1:])
    worked = [
        defect for defect in found if defect.workaround and _known_flags(defect.workaround, ask.release)
    ]
    if worked:
        return _work_around(ask, slug, worked[0])
    if isinstance(ask.release, Version) and ANCIENT <= ask.release < KNOWN_SINCE:
        return _from_before_the_tables(ask, slug, title)
    if ask.cause == "kv-fragmentation" and ask.release is not None:
        known = f"no known defect of {_told(ask.release)} looks like this"
        why = f"{known}, and no release of vLLM defragments the pool"
        return dismissed(slug, title, ask, "moot", why)
    return None


def _upgrade_to(ask: Ask, slug: str, title: str, defect: Defect, others: Sequence[Defect]) -> Step | None:
    open_question = bool(defect.needs) and _may_apply(ask, defect) is None
    condition = f" Applies with {defect.needs}." if open_question else ""
    told = [f"{d.title} ({d.needs or d.ref or d.id}, until {d.fixed})" for d in others[:2]]
    condition += f" Also known in it: {'; '.join(told)}." if told else ""
    return step(
        slug,
        title,
        ask,
        verdict="helps" if not open_question and defect.sure else "unknown",
        action=f"Upgrade to {defect.fixed} or newer; compare answers and speed before and after.",
        why=f"this release has a known defect ({defect.ref or defect.id}): {defect.title}.{condition}",
        before=_told(ask.release),
        after=f"{defect.fixed} or newer",
        formula=f"signature: {defect.signature}",
        effect="the defect's part of the decline ends; other causes stay",
        tradeoff="another release: other defaults and metric names",
        verify=f"no longer seen: {defect.signature}",
        missing=(f"whether this applies: {defect.needs}",) if open_question else (),
    )


def _from_before_the_tables(ask: Ask, slug: str, title: str) -> Step | None:
    return step(
        slug,
        title,
        ask,
        verdict="unknown",
        action=f"Upgrade to {KNOWN_SINCE} or newer; compare answers and speed before and after.",
        why=f"{_told(ask.release)} is older than any release whose defects are known here",
        before=_told(ask.release),
        after=f"{KNOWN_SINCE} or newer",
        effect="cannot be predicted because the defects of that release are not known",
        tradeoff="another release: other arguments, defaults and metric names",
        verify="the finding does not come back",
    )


def _work_around(ask: Ask, slug: str, defect: Defect) -> Step | None:
    return step(
        slug,
        f"Work around a known defect ({defect.ref or defect.id})",
        ask,
        verdict="unknown",
        action=f"Try: {defect.workaround}.",
        why=f"this release has a known defect without a fix: {defect.title}",
        formula=f"signature: {defect.signature}",
        effect="cannot be predicted because the defect was reported, not measured here",
        verify=f"no longer seen: {defect.signature}",
        missing=(f"whether this applies: {defect.needs}",) if _may_apply(ask, defect) is None else (),
    )


def _may_apply(ask: Ask, defect: Defect) -> bool | None:
    """Whether the figures show the feature that the defect needs; None when they do not tell."""
    needs = defect.needs
    if not needs:
        return True
    answers: list[bool | None] = []
    if "max_model_len above the pool" in needs:
        answers.append(_above(ask.number("max_model_len"), ask.number("pool_tokens")))
    if "NIXL" in needs or "Mooncake" in needs:
        told = ask.figures.text("kv_transfer_config").lower()
        answers.append((("nixl" if "NIXL" in needs else "mooncake") in told) if told else None)
    if "KV connector" in needs or "offload" in needs.lower():
        connected = ask.figures.fact("kv_transfer_config") is not None
        answers.append(True if connected or ask.number("kv_offloading_size") > 0 else None)
    if "data parallel" in needs:
        answers.append(_above(ask.number("data_parallel_size"), 1.0))
    if needs.startswith("tensor or pipeline parallel"):
        split = _above(ask.number("tensor_parallel_size"), 1.0)
        answers.append(split or None)  # pipeline parallel is not known
    if "prefix caching" in needs and ask.figures.switch("enable_prefix_caching") is False:
        return False
    return answers[0] if answers else None


def _above(value: float, limit: float) -> bool | None:
    return None if math.isnan(value) or math.isnan(limit) else value > limit


def _known_flags(text: str, release: Release) -> bool:
    """Whether the release accepts every argument that the text names."""
    table = flags()
    names = [word.strip(".,;()") for word in text.split() if word.startswith("--")]
    positive = [name.replace("--no-", "--") for name in names]
    return all(name in table and table[name].known_in(release) for name in positive)


def _told(release: Release) -> str:
    if isinstance(release, VersionRange):
        return release.span
    return release.text if isinstance(release, Version) else "not known"
