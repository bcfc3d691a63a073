"""The rules as text: a rules file, a PrometheusRule or a VMRule."""

from typing import Any

from vllmdoctor.alerts.nouns import Alert, Group, Record


def rules(groups: tuple[Group, ...], runbooks: str) -> dict[str, Any]:
    """What stands in a rules file."""
    return {
        "groups": [
            {"name": g.name, "rules": [_rule(r, runbooks) for r in g.rules]} for g in groups if g.rules
        ]
    }


def _rule(one: Record | Alert, runbooks: str) -> dict[str, Any]:
    if isinstance(one, Record):
        return {"record": one.name, "expr": one.expr}
    found: dict[str, Any] = {"alert": one.name, "expr": one.expr, "for": one.wait}
    if one.linger:
        found["keep_firing_for"] = one.linger
    return found | {
        "labels": {"severity": one.severity, "cause": one.cause},
        "annotations": {
            "summary": one.summary,
            "description": one.text,
            "runbook_url": f"{runbooks}{one.cause}.md",
        },
    }
