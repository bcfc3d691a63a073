"""Alerts that tell whether the plan worked, and when the trouble comes back."""

from collections.abc import Collection

from vllmdoctor.alerts import Basis, of_causes, rules_for
from vllmdoctor.alerts.forms import document
from vllmdoctor.flags import Release
from vllmdoctor.manifests.files import File, manifest
from vllmdoctor.manifests.place import Place
from vllmdoctor.promql import Metrics, literal, names_for, quoted

_RUNBOOKS = "runbooks/"


def alerts(causes: Collection[str], place: Place, release: Release) -> File | None:
    """A PrometheusRule with the alerts of these causes; None where there are none for them."""
    pods = quoted(f"{literal(place.name)}-.*")
    chosen = (f"namespace={quoted(place.namespace)}", f"pod=~{pods}")
    rules = of_causes(rules_for(Basis(Metrics(names_for(release), chosen))), causes)
    if not rules.alerts:
        return None
    body = document(rules.groups, "prometheusrule", _RUNBOOKS)
    body["metadata"] = place.named(f"{place.name}-vllmdoctor")
    return manifest(
        "alerts.yaml",
        f"PrometheusRule: {', '.join(a.name for a in rules.alerts)}",
        (body,),
        note="The operator picks it up by its ruleSelector: add the labels that yours asks for.",
    )
