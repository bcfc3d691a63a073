"""Remedies outside the arguments: save evidence, restart, upgrade, and look elsewhere."""

import math

from vllmdoctor.model import Effort, Step
from vllmdoctor.remedies.ask import GIB, Ask, ceil, dismissed, floor, step

RUNBOOK_HOURS = 6.0
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


def read_why_it_happened(ask: Ask) -> Step | None:
    """What is over, or comes again and again, is explained by what was written when it happened."""
    died = ask.cause == "restart"
    return step(
        "read-why-it-happened",
        "Read why the process dies" if died else "Read what was logged at that time",
        ask,
        action="Read `kubectl describe pod` (last state: reason, exit code; OOMKilled is 137) and the "
        "end of the log before a restart: `kubectl logs --previous`."
        if died
        else "Read the log of that time (worker died, RPC timed out, shm broadcast), and `dmesg` for Xid.",
        why="another restart mends nothing: each one only begins the same again"
        if died
        else "it runs again, so nothing needs a restart now; it may come back",
        effort=Effort.LIVE,
        effect="names the cause: out of memory, a failing probe, a crash",
        verify="restarts no longer counted" if died else "no such stretch in the next day",
        restart=False,
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
