"""One request, as the API server understands it: verb, resource, name, whose it is."""

from dataclasses import dataclass
from urllib.parse import parse_qs, unquote, urlsplit

from tests.kubernetes.apiserver.kinds import KINDS, Kind

_METHODS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}


@dataclass(frozen=True, slots=True)
class Asked:
    """A request. `resource` holds the subresource: `pods/proxy`; it is "" where a path is no resource's."""

    verb: str
    resource: str
    namespace: str | None
    name: str | None
    user: str
    path: str
    query: dict[str, list[str]]
    group: str = ""
    kind: Kind | None = None
    subresource: str = ""
    rest: str = ""

    def first(self, key: str, otherwise: str = "") -> str:
        """The first value of a query parameter."""
        return self.query.get(key, [otherwise])[0]

    def __str__(self) -> str:
        where = f"{self.namespace}/{self.name or '*'}" if self.namespace else self.name or "*"
        return f"{self.user} {self.verb} {self.resource} {where}" if self.resource else f"GET {self.path}"


def understood(method: str, target: str, user: str) -> Asked:
    """What a request asks for; unknown resources too, as rules are held against them first."""
    url = urlsplit(target)
    query = parse_qs(url.query, keep_blank_values=True)
    parts = url.path.strip("/").split("/")
    plain = Asked(method.lower(), "", None, None, user, url.path, query)
    if parts[0] == "api" and len(parts) > 2:
        group, version, parts = "", parts[1], parts[2:]
    elif parts[0] == "apis" and len(parts) > 3:
        group, version, parts = parts[1], parts[2], parts[3:]
    else:
        return plain
    namespace = None
    if parts[0] == "namespaces" and len(parts) > 2:
        namespace, parts = unquote(parts[1]), parts[2:]
    plural = parts[0]
    name = unquote(parts[1]) if len(parts) > 1 else None
    subresource = parts[2] if len(parts) > 2 else ""
    rest = "/" + "/".join(parts[3:]) + (f"?{url.query}" if url.query else "")
    found = (k for k in KINDS if (k.group, k.version, k.plural) == (group, version, plural))
    verb = _METHODS.get(method, "get" if name else "list")
    if verb == "list" and query.get("watch", ["false"])[0] in ("1", "true"):
        verb = "watch"
    return Asked(
        verb=verb,
        resource=plural + (f"/{subresource}" if subresource else ""),
        namespace=namespace,
        name=name,
        user=user,
        path=url.path,
        query=query,
        group=group,
        kind=next(found, None),
        subresource=subresource,
        rest=rest,
    )
