"""Autoscaling on the queue and on KV use: an HPA over a metrics adapter, or KEDA over Prometheus."""

from vllmdoctor.flags import Release
from vllmdoctor.manifests.files import Document, File, manifest
from vllmdoctor.manifests.metrics import name_of
from vllmdoctor.manifests.place import Place
from vllmdoctor.model import Step

WAITING = 5  # requests waiting per replica: the published rules of gateways and charts agree on it
USAGE = 0.8  # of the KV pool
CALM_S = 600  # a model takes minutes to load, so replicas are not given up for a short lull


def autoscaling(step: Step, place: Place, release: Release) -> tuple[File, File]:
    """An HPA and a ScaledObject: one of the two is used."""
    least = max(1, place.replicas)
    most = max(least + 1, int(float(step.after.replace(",", ""))) if step.after else 0)
    waiting, usage = name_of("requests_waiting", release), name_of("kv_cache_usage", release)
    warning = "use the HPA or the ScaledObject, not both: KEDA makes an HPA of its own"
    note = (
        f"Needs prometheus-adapter (or the like) to serve {_adapted(waiting)} and {_adapted(usage)} per "
        f"pod from "
        f"{waiting} and {usage}: see README.md."
    )
    return (
        manifest(
            "hpa.yaml",
            f"HorizontalPodAutoscaler: {least} to {most} replicas by queue and KV use",
            (_hpa(place, least, most, waiting, usage),),
            warning=warning,
            note=note,
        ),
        manifest(
            "scaledobject.yaml",
            f"KEDA ScaledObject: {least} to {most} replicas by queue and KV use",
            (_keda(place, least, most, waiting, usage),),
            warning=warning,
        ),
    )


def _adapted(name: str) -> str:
    return name.replace(":", "_")


def adapter_rules(release: Release) -> Document:
    """Rules for prometheus-adapter, to be merged into its values."""
    rules = []
    for signal in ("requests_waiting", "kv_cache_usage"):
        name = name_of(signal, release)
        rules.append(
            {
                "seriesQuery": f'{name}{{namespace!="",pod!=""}}',
                "resources": {
                    "overrides": {"namespace": {"resource": "namespace"}, "pod": {"resource": "pod"}}
                },
                "name": {"as": _adapted(name)},
                "metricsQuery": "max by (<<.GroupBy>>) (<<.Series>>{<<.LabelMatchers>>})",
            }
        )
    return {"rules": {"custom": rules}}


def _hpa(place: Place, least: int, most: int, waiting: str, usage: str) -> Document:
    return {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": place.meta,
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": place.kind, "name": place.name},
            "minReplicas": least,
            "maxReplicas": most,
            "metrics": [
                _pods(_adapted(waiting), str(WAITING)),
                _pods(_adapted(usage), f"{USAGE * 1000:.0f}m"),
            ],
            "behavior": {
                "scaleUp": {
                    "stabilizationWindowSeconds": 60,
                    "policies": [{"type": "Pods", "value": 1, "periodSeconds": 180}],
                },
                "scaleDown": {
                    "stabilizationWindowSeconds": CALM_S,
                    "policies": [{"type": "Pods", "value": 1, "periodSeconds": 300}],
                },
            },
        },
    }


def _pods(name: str, value: str) -> Document:
    return {
        "type": "Pods",
        "pods": {"metric": {"name": name}, "target": {"type": "AverageValue", "averageValue": value}},
    }


def _keda(place: Place, least: int, most: int, waiting: str, usage: str) -> Document:
    pods = f'namespace="{place.namespace}",pod=~"{place.name}-.*"'
    return {
        "apiVersion": "keda.sh/v1alpha1",
        "kind": "ScaledObject",
        "metadata": place.meta,
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": place.kind, "name": place.name},
            "minReplicaCount": least,
            "maxReplicaCount": most,
            "pollingInterval": 15,
            "cooldownPeriod": CALM_S,
            "triggers": [
                _trigger(place, f"sum({waiting}{{{pods}}})", str(WAITING), "AverageValue"),
                _trigger(place, f"avg({usage}{{{pods}}})", str(USAGE), "Value"),
            ],
        },
    }


def _trigger(place: Place, query: str, threshold: str, kind: str) -> Document:
    return {
        "type": "prometheus",
        "metricType": kind,
        "metadata": {"serverAddress": place.prometheus, "query": query, "threshold": threshold},
    }
