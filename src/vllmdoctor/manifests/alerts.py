"""Alerts that tell whether the plan worked, and when the trouble comes back."""

from collections.abc import Iterable

from vllmdoctor.flags import Release
from vllmdoctor.manifests.files import Document, File, manifest
from vllmdoctor.manifests.metrics import name_of
from vllmdoctor.manifests.place import Place

GENERAL = ("overload", "kv-fragmentation", "prefill-bound")


def alerts(causes: Iterable[str], place: Place, release: Release) -> File | None:
    """A PrometheusRule with the alerts of these causes; None where there are none for them."""
    rules = [rule for cause in dict.fromkeys(causes) for rule in _rules(cause, place, release)]
    unique = list({rule["alert"]: rule for rule in rules}.values())
    if not unique:
        return None
    body: Document = {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "PrometheusRule",
        "metadata": place.named(f"{place.name}-vllmdoctor"),
        "spec": {"groups": [{"name": "vllmdoctor", "rules": unique}]},
    }
    return manifest(
        "alerts.yaml",
        f"PrometheusRule: {', '.join(r['alert'] for r in unique)}",
        (body,),
        note="The operator picks it up by its ruleSelector: add the labels that yours asks for.",
    )


def _alert(name: str, expr: str, wait: str, severity: str, text: str) -> Document:
    return {
        "alert": name,
        "expr": expr,
        "for": wait,
        "labels": {"severity": severity},
        "annotations": {"summary": text},
    }


def _rules(cause: str, place: Place, release: Release) -> list[Document]:
    pods = f'{{namespace="{place.namespace}",pod=~"{place.name}-.*"}}'

    def series(signal: str, suffix: str = "") -> str:
        return f"{name_of(signal, release)}{suffix}{pods}"

    waiting, running, usage = series("requests_waiting"), series("requests_running"), series("kv_cache_usage")
    made = f"increase({series('generation_tokens')}[2m]) + increase({series('prompt_tokens')}[2m])"
    container = f'{{namespace="{place.namespace}",pod=~"{place.name}-.*",container="{place.container}"}}'
    used, limit = (
        f"container_memory_working_set_bytes{container}",
        f"container_spec_memory_limit_bytes{container}",
    )
    first = f"rate({series('ttft', '_bucket')}[10m])"
    hits, asked = series("prefix_cache_hits"), series("prefix_cache_queries")
    preempting = _alert(
        "VllmPreempting", f"rate({series('preemptions')}[10m]) * 60 > 1", "10m", "warning",
        "more than one preemption a minute: the KV pool is short",
    )  # fmt: skip
    table: dict[str, list[Document]] = {
        "overload": [
            preempting,
            _alert("VllmQueueing", f"avg_over_time({waiting}[5m]) > "
            f"5", "5m", "warning", "requests wait for the server"),
            _alert(
                "VllmPoolFull", f"{usage} > 0.95 and {waiting} > 0", "10m", "warning",
                "the KV pool is full and requests wait",
            ),
        ],
        "prefill-bound": [
            _alert("VllmQueueing", f"avg_over_time({waiting}[5m]) > "
            f"5", "5m", "warning", "requests wait for the server")
        ],
        "head-of-line-blocking": [
            _alert(
                "VllmTailRunsAway",
                f"histogram_quantile(0.95, sum by (le) ({first})) > 3 * histogram_quantile(0.5, sum by "
                f"(le) ({first})) "
                f"and histogram_quantile(0.95, sum by (le) ({first})) > 1",
                "15m", "warning", "TTFT p95 is more than three times the median",
            )
        ],
        "kv-fragmentation": [
            preempting,
            _alert(
                "VllmPoolHeldAtIdle", f"{usage} > 0.05 and {running} == 0 and {waiting} == "
                f"0", "15m", "warning",
                "KV blocks are held while nothing runs",
            ),
        ],
        "memory-leak": [
            _alert(
                "VllmMemoryNearLimit", f"{used} > 0.8 * ({limit} > 0)", "15m", "warning",
                "the container uses more than 80 % of its memory limit",
            ),
            _alert(
                "VllmMemoryGrows", f"deriv({used}[2h]) * 3600 > 0.1 * {used}", "1h", "warning",
                "the container's memory grows by more than 10 % an hour",
            ),
        ],
        "gpu-memory-growth": [
            _alert(
                "VllmDeviceMemoryShort", f"DCGM_FI_DEV_FB_FREE{pods} < 1024", "15m", "warning",
                "less than 1 GiB of the device is free",
            )
        ],
        "stall": [
            _alert(
                "VllmStandsStill", f"({made}) == 0 and ({running} + {waiting}) > 0", "1m", "critical",
                "requests are there and no token counter moves",
            )
        ],
        "prefix-cache-collapse": [
            _alert(
                "VllmPrefixHitsFell",
                f"rate({hits}[30m]) / (rate({asked}[30m]) > 0) < 0.6 * "
                f"(rate({hits}[30m] offset 1d) / (rate({asked}[30m] offset 1d) > 0))",
                "30m", "warning", "prefixes are found much less often than a day ago",
            )
        ],
    }  # fmt: skip
    return table.get(cause, [])
