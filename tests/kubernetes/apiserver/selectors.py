"""Label and field selectors, as `labelSelector` and `fieldSelector` spell them."""

import re
from collections.abc import Mapping
from typing import Any

from tests.kubernetes.apiserver.failures import bad_request

_SET = re.compile(r"^\s*([^\s!=,()]+)\s+(in|notin)\s+\(([^)]*)\)\s*$")
_COMMA = re.compile(r",(?![^(]*\))")
_FIELDS = {
    "pods": ("metadata.name", "metadata.namespace", "spec.nodeName", "status.phase", "status.podIP"),
    "events": (
        *("metadata.name", "metadata.namespace", "type", "reason"),
        *(f"involvedObject.{part}" for part in ("kind", "name", "namespace", "uid", "apiVersion")),
    ),
}


def labels_match(selector: str, labels: Mapping[str, str]) -> bool:
    """Whether labels satisfy every requirement of the selector."""
    return all(_requirement(part, labels) for part in _COMMA.split(selector) if part.strip())


def _requirement(part: str, labels: Mapping[str, str]) -> bool:
    chosen = _SET.match(part)
    if chosen:
        among = labels.get(chosen[1]) in [value.strip() for value in chosen[3].split(",")]
        return among if chosen[2] == "in" else not among
    part = part.strip()
    if "!=" in part:
        key, value = part.split("!=", 1)
        return labels.get(key.strip()) != value.strip()
    if "=" in part:
        key, value = part.replace("==", "=").split("=", 1)
        return labels.get(key.strip()) == value.strip()
    if part.startswith("!"):
        return part[1:].strip() not in labels
    return part in labels


def fields_match(selector: str, plural: str, item: Mapping[str, Any]) -> bool:
    """Whether an object's fields satisfy the selector; Failure for a field that cannot be selected by."""
    for part in filter(None, selector.split(",")):
        equal = "!=" not in part
        key, _, value = part.replace("==", "=").replace("!=", "=").partition("=")
        if key not in _FIELDS.get(plural, ("metadata.name", "metadata.namespace")):
            raise bad_request(
                f'Unable to find "v1, Resource={plural}" that match label selector "", '
                f'field selector "{selector}": field label not supported: {key}'
            )
        found: Any = item
        for step in key.split("."):
            found = found.get(step, "") if isinstance(found, Mapping) else ""
        if (str(found) == value) is not equal:
            return False
    return True


def named_by(selector: str) -> str | None:
    """The one name a field selector asks for: that is what a rule with resourceNames is held against."""
    for part in selector.split(","):
        key, mark, value = part.partition("=")
        if mark and key == "metadata.name":
            return value.lstrip("=")
    return None
