"""Remedies outside the arguments: save evidence, restart, upgrade, and look elsewhere."""

import math
from collections.abc import Sequence

from vllmdoctor.defects import Defect, matching
from vllmdoctor.flags import Release, flags
from vllmdoctor.model import Effort, Step
from vllmdoctor.release import Version, VersionRange, version
from vllmdoctor.remedies.ask import GIB, Ask, ceil, dismissed, floor, step

RUNBOOK_HOURS = 6.0
ANCIENT, KNOWN_SINCE = version("0.2.0"), version("0.6.0")  # builds without tags are 0.0 and 0.1
BUSY = ("overload", "prefill-bound", "host-cpu-bound")
LEAKS = ("memory-leak", "gpu-memory-growth", "kv-fragmentation", "spec-decode-decay", "prefix-cache-collapse")


def rolling_restart(ask: Ask) -> Step | None:
    """A stop-gap: what grew with uptime starts anew, and so does the evidence."""
    slug, title = "rolling-restart", "Restart on a schedule (stop-gap)"
    if ask.cause not in LEAKS:
        why = "nothing here grows with uptime: a restart loses the running requests and the prefix cache"
        return dismissed(slug, title, ask, "harmful", why)
    hours = _hours_to_limit(ask)
    every = min(RUNBOOK_HOURS, hours / 2) if hours > 0 else RUNBOOK_HOURS
    single = (
        "with a single replica each restart is an outage of minutes; " if ask.number("replicas") <= 1 else ""
    )
    cron = f"0 */{max(1, floor(every))} * * *"
    return step(
        slug,
        title,
        ask,
        action="Save /metrics, logs and memory of each process first; then a CronJob "
        f"`{cron}` that runs `kubectl rollout restart`, with a PodDisruptionBudget (minAvailable 1).",
        why="the decline is reset by a restart; this buys time and mends nothing",
        after=f"every {max(1, floor(every))} h",
        formula=f"min({RUNBOOK_HOURS:.0f} h, half of {hours:.1f} h to the limit)"
        if hours > 0
        else f"{RUNBOOK_HOURS:.0f} h, or half the time to the limit: (limit - used) / growth",
        effect="back to the state after start each time; the decline begins anew",
        tradeoff=f"{single}cold start of minutes, prefix cache lost, evidence lost unless saved",
        verify="throughput in the first hour after a restart against the hour before it",
        missing=ask.missing("memory_limit", "memory_used", "memory_slope_bytes_per_s")
        if ask.cause == "memory-leak"
        else (),
    )


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


def collect_evidence_then_restart(ask: Ask) -> Step | None:
    """What a restart destroys is saved first."""
    return step(
        "collect-evidence-then-restart",
        "Save the evidence, then restart",
        ask,
        action="Save /metrics twice, the log, `py-spy dump` of each vLLM process and nvidia-smi; then "
        "restart that replica.",
        why="the state that explains it is lost with the process",
        effect="serves again after a restart; what stopped it may come back"
        if ask.cause == "stall"
        else "back to the state after start; the decline begins anew",
        tradeoff="running requests are lost",
        verify="generation tokens rise; one small request is answered",
    )


def raise_memory_limit(ask: Ask) -> Step | None:
    """Time until the limit is reached, bought with memory."""
    slug, title = "raise-memory-limit", "Raise the container's memory limit (stop-gap)"
    limit, used, slope = (
        ask.number("memory_limit"),
        ask.number("memory_used"),
        ask.number("memory_slope_bytes_per_s"),
    )
    if limit == 0:
        return dismissed(slug, title, ask, "moot", "the container has no memory limit")
    target = ceil(1.5 * limit / GIB) if limit > 0 else math.nan
    hours = (target * GIB - used) / slope / 3600 if slope > 0 else math.nan
    now = _hours_to_limit(ask)
    return step(
        slug,
        title,
        ask,
        action=f"Set the memory limit to {target:.0f}Gi."
        if target > 0
        else "Raise the memory limit by half.",
        why="the container comes near its limit, where the kernel kills it",
        before=f"{limit / GIB:.1f}Gi" if limit > 0 else "",
        after=f"{target:.0f}Gi" if target > 0 else "",
        formula=f"(limit - used) / growth: {now:.0f} h now, {hours:.0f} h then"
        if hours > 0 and now > 0
        else "(limit - used) / growth",
        effect=f"{hours - now:.0f} h more until it is full; the growth goes on"
        if hours > 0 and now > 0
        else "cannot be predicted because limit, use or growth are not known",
        tradeoff="memory of the node; the growth goes on",
        verify="OOM kills, memory used / limit < 0.8",
        missing=ask.missing("memory_limit", "memory_used", "memory_slope_bytes_per_s"),
    )


def check_client(ask: Ask) -> Step | None:
    """The server did what it was asked: look at who asks."""
    return step(
        "check-client",
        "Check the client and the gateway",
        ask,
        action="Compare HTTP requests at the gateway with those of the server; look at client pools, "
        "time-outs and retries.",
        why="the server's own latencies are fine",
        effort=Effort.LIVE,
        effect="none on the server",
        verify="arrivals at the server against those at the gateway",
    )


def check_gpu_cooling_and_power(ask: Ask) -> Step | None:
    """A GPU that is held down by heat or by its power cap."""
    warm = ask.number("gpu_temperature")
    return step(
        "check-gpu-cooling-and-power",
        "Check the GPU's cooling and power cap",
        ask,
        action="Read `nvidia-smi -q -d PERFORMANCE,TEMPERATURE,POWER`; mend the cooling or the power "
        "limit; where "
        "clocks fall at idle: persistence mode (`nvidia-smi -pm 1`), locked clocks (`-lgc`), warm-up "
        "requests.",
        why="the SM clock is held down" + (f" at {warm:.0f} °C" if warm > 0 else ""),
        effort=Effort.LIVE,
        effect="compute-bound throughput rises with the SM clock",
        verify="SM clock under load, throttle reasons 0",
    )


def give_more_cpu(ask: Ask) -> Step | None:
    """CPU for the processes that feed the GPU."""
    share = ask.number("cpu_throttled_ratio")
    return step(
        "give-more-cpu",
        "Give the container more CPU",
        ask,
        action="Raise or drop the CPU limit; request 2 cores and one more per GPU, at least.",
        why="the GPU waits for the CPU"
        + (f": {share:.0%} of the periods are throttled" if share > 0 else ""),
        formula="one core each for API server, engine core and every GPU worker",
        effect="cannot be predicted because the share of CPU in a step is not measured",
        tradeoff="CPU of the node",
        verify="throttled periods near 0, GPU utilisation up",
        missing=ask.missing("cpu_throttled_ratio"),
    )


def no_action(ask: Ask) -> Step | None:
    """Nothing to change on the server."""
    return step(
        "no-action",
        "Change nothing",
        ask,
        action="Leave the server as it is.",
        why=ask.finding.summary or "this is not a fault of the server",
        effort=Effort.LIVE,
    )


def _hours_to_limit(ask: Ask) -> float:
    slope = ask.number("memory_slope_bytes_per_s")
    left = ask.number("memory_limit") - ask.number("memory_used")
    return left / slope / 3600 if slope > 0 and left > 0 else math.nan
