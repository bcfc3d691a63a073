"""Who may do what: RBAC as the real authorizer decides it. What no rule allows is denied."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.kubernetes.apiserver.asked import Asked
from tests.kubernetes.apiserver.failures import Failure, forbidden, forbidden_path
from tests.kubernetes.apiserver.kinds import Kind
from tests.kubernetes.apiserver.selectors import named_by

# every user who has logged in may look around
_OPEN = ("/api", "/apis", "/healthz", "/livez", "/readyz", "/openapi", "/version")
_ANYBODY = ("/healthz", "/livez", "/readyz", "/version")
_REVIEWS = ("selfsubjectaccessreviews", "selfsubjectrulesreviews")


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule of a Role, which holds in `namespace`, or everywhere where that is None."""

    groups: tuple[str, ...]
    resources: tuple[str, ...]
    verbs: tuple[str, ...]
    names: tuple[str, ...] = ()
    namespace: str | None = None

    def allows(self, verb: str, group: str, resource: str, namespace: str | None, name: str | None) -> bool:
        """Whether this rule alone lets it through."""
        return (
            self.namespace in (None, namespace)
            and _among(verb, self.verbs)
            and _among(group, self.groups)
            and (_among(resource, self.resources) or f"*/{resource.partition('/')[2]}" in self.resources)
            and (not self.names or (name or "") in self.names)
        )


def _among(what: str, allowed: tuple[str, ...]) -> bool:
    return "*" in allowed or what in allowed


def rules_of(role: Mapping[str, Any], namespace: str | None) -> list[Rule]:
    """The rules of a Role or ClusterRole manifest that is bound in a namespace, or everywhere."""
    return [
        Rule(
            tuple(rule.get("apiGroups", ())),
            tuple(rule.get("resources", ())),
            tuple(rule["verbs"]),
            tuple(rule.get("resourceNames", ())),
            namespace,
        )
        for rule in role.get("rules", ())
    ]


ALL = Rule(("*",), ("*",), ("*",))


@dataclass(slots=True)
class User:
    """Who has a token, and what that lets him do."""

    name: str
    token: str
    rules: list[Rule] = field(default_factory=list)

    def may(self, verb: str, group: str, resource: str, namespace: str | None, name: str | None) -> bool:
        """Whether any rule lets it through."""
        return any(rule.allows(verb, group, resource, namespace, name) for rule in self.rules)


def check(asked: Asked, user: User) -> None:
    """Failure where the user may not do it, in the authorizer's words."""
    if not asked.resource:
        if user.token == "" and asked.path not in _ANYBODY:
            raise forbidden_path(user.name, asked.verb, asked.path)
        if asked.path != "/" and not asked.path.startswith(_OPEN):
            raise forbidden_path(user.name, asked.verb, asked.path)
        return
    if asked.resource in _REVIEWS:
        return
    name = asked.name
    if name is None and asked.verb in ("list", "watch"):
        name = named_by(asked.first("fieldSelector"))
    if not user.may(asked.verb, asked.group, asked.resource, asked.namespace, name):
        raise denied(asked, user)


def denied(asked: Asked, user: User) -> Failure:
    """The refusal of a request."""
    plural, _, sub = asked.resource.partition("/")
    kind = asked.kind or Kind(asked.group, "", plural, "")
    return forbidden(user.name, asked.verb, kind, sub, asked.namespace, asked.name)


def review(user: User, spec: Mapping[str, Any]) -> dict[str, Any]:
    """The status of a SelfSubjectAccessReview: what `kubectl auth can-i` asks."""
    of = spec.get("resourceAttributes")
    if of is None:
        return {"allowed": str(spec["nonResourceAttributes"]["path"]).startswith(_OPEN)}
    resource = of.get("resource", "") + (f"/{of['subresource']}" if of.get("subresource") else "")
    namespace = of.get("namespace") or None
    allowed = user.may(of.get("verb", ""), of.get("group", ""), resource, namespace, of.get("name"))
    return {"allowed": allowed, "reason": ""}


def told(user: User, namespace: str) -> dict[str, Any]:
    """The status of a SelfSubjectRulesReview: all that holds in a namespace."""
    rules = [
        {
            "verbs": list(rule.verbs),
            "apiGroups": list(rule.groups),
            "resources": list(rule.resources),
            **({"resourceNames": list(rule.names)} if rule.names else {}),
        }
        for rule in user.rules
        if rule.namespace in (None, namespace)
    ]
    return {"resourceRules": rules, "nonResourceRules": [], "incomplete": False}
