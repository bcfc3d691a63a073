"""The rules as documents: a rules file, a PrometheusRule or a VMRule."""

from typing import Any

from vllmdoctor.alerts.nouns import Alert, Group, Record, Rules
from vllmdoctor.errors import UnknownName
from vllmdoctor.flags import Release
from vllmdoctor.launch_yaml import dump_all
from vllmdoctor.promql import bare, in_lines
from vllmdoctor.signals import absence

Document = dict[str, Any]
FORMATS = ("rules", "prometheusrule", "vmrule")
_OPERATORS = {
    "prometheusrule": ("monitoring.coreos.com/v1", "PrometheusRule"),
    "vmrule": ("operator.victoriametrics.com/v1beta1", "VMRule"),
}
NAME = "vllmdoctor"


def document(groups: tuple[Group, ...], form: str, runbooks: str) -> Document:
    """The rules in one of FORMATS; `runbooks` is what the page of a cause is put behind."""
    body: Document = {
        "groups": [{"name": g.name, "rules": [_rule(r, runbooks) for r in g.rules]} for g in groups]
    }
    if form == "rules":
        return body
    version, kind = _OPERATORS[form]
    return {"apiVersion": version, "kind": kind, "metadata": {"name": NAME}, "spec": body}


def _rule(one: Record | Alert, runbooks: str) -> Document:
    if isinstance(one, Record):
        return {"record": one.name, "expr": in_lines(bare(one.expr))}
    form = one.form
    found: Document = {"alert": one.name, "expr": in_lines(bare(one.expr)), "for": form.wait}
    if form.linger:
        found["keep_firing_for"] = form.linger
    return found | {
        "labels": {"severity": form.severity, "cause": form.cause},
        "annotations": {
            "summary": one.told.summary,
            "description": one.told.text,
            "runbook_url": f"{runbooks}{form.cause}.md",
        },
    }


def check_format(form: str) -> None:
    """UnknownName for what is none of FORMATS."""
    if form not in FORMATS:
        raise UnknownName("format", form, FORMATS)


def text(rules: Rules, form: str, whose: str, release: Release, runbooks: str) -> str:
    """The rules as YAML, with what could not be written and why at its head."""
    told = [f"{len(rules.alerts)} alerts and {len(rules.records)} recordings for {whose}."]
    for one in rules.missing:
        why = "; ".join(f"{signal}: {absence(signal, release)}" for signal in one.signals)
        told.append(f"Not written: {one.form.name}, for want of {why}.")
    head = "".join(f"# {line}\n" for line in ("Written by vllmdoctor. " + told[0], *told[1:]))
    return head + dump_all([document(rules.groups, form, runbooks)])
