"""The objects of a cluster, listed as the API server lists them: selected, in order, in chunks."""

import base64
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.kubernetes.apiserver.failures import Failure, bad_request, expired
from tests.kubernetes.apiserver.kinds import Kind, kind_of
from tests.kubernetes.apiserver.manifests import Object, stamp, uid
from tests.kubernetes.apiserver.selectors import fields_match, labels_match


@dataclass(slots=True)
class Store:
    """Every object by its kind, namespace and name."""

    objects: dict[Kind, dict[tuple[str, str], Object]] = field(default_factory=dict)
    version: int = 1000
    kept_since: int = 0  # a list begun before this version is no longer kept
    most: int = 500  # of what was asked for in parts, a part has no more than this

    def add(self, item: Object) -> Object:
        """Put an object in; what the server would fill in is filled in."""
        kind = kind_of(item["apiVersion"], item["kind"])
        self.version += 1
        metadata = item["metadata"]
        if kind.namespaced:
            metadata.setdefault("namespace", "default")
        metadata.setdefault("uid", uid(kind.kind, metadata.get("namespace", ""), metadata["name"]))
        metadata.setdefault("creationTimestamp", stamp(time.time() - 7200))
        metadata["resourceVersion"] = str(self.version)
        self.objects.setdefault(kind, {})[metadata.get("namespace", ""), metadata["name"]] = item
        return item

    def remove(self, item: Object) -> None:
        """Take an object out."""
        kind, metadata = kind_of(item["apiVersion"], item["kind"]), item["metadata"]
        self.version += 1
        self.objects[kind].pop((metadata.get("namespace", ""), metadata["name"]), None)

    def get(self, kind: Kind, namespace: str | None, name: str) -> Object | None:
        """The object, or None."""
        return self.objects.get(kind, {}).get((namespace or "", name))

    def groups(self) -> set[str]:
        """The groups that something is installed of."""
        return {kind.group for kind in self.objects}

    def list(self, kind: Kind, namespace: str | None, query: Mapping[str, list[str]]) -> Object:
        """A List object; `limit` and `continue` cut it."""
        labels, fields = (query.get(key, [""])[0] for key in ("labelSelector", "fieldSelector"))
        found = [
            item
            for (where, _), item in sorted(self.objects.get(kind, {}).items())
            if namespace in (None, where)
            and labels_match(labels, item["metadata"].get("labels", {}))
            and fields_match(fields, kind.plural, item)
        ]
        start, begun = self._continued(query.get("continue", [""])[0])
        limit = min(int(query.get("limit", ["0"])[0] or 0), self.most)
        metadata: dict[str, Any] = {"resourceVersion": str(begun)}
        end = start + limit if limit else len(found)
        if end < len(found):
            metadata |= {"continue": _token(end, begun), "remainingItemCount": len(found) - end}
        return {
            "kind": f"{kind.kind}List",
            "apiVersion": kind.api,
            "metadata": metadata,
            "items": found[start:end],
        }

    def expire(self) -> None:
        """From now on a list that was begun before cannot be continued."""
        self.version += 1
        self.kept_since = self.version

    def _continued(self, token: str) -> tuple[int, int]:
        if not token:
            return 0, self.version
        try:
            told = json.loads(base64.urlsafe_b64decode(token))
            start, begun = int(told["start"]), int(told["rv"])
        except (ValueError, KeyError, TypeError):
            raise bad_request("continue key is not valid: encoding/json") from None
        if begun < self.kept_since:
            raise self.too_old(start)
        return start, begun

    def too_old(self, start: int) -> Failure:
        """The answer to a list that is no longer kept, with what goes on from there all the same."""
        return expired(_token(start, self.version))


def _token(start: int, begun: int) -> str:
    told = json.dumps({"v": "meta.k8s.io/v1", "rv": begun, "start": start})
    return base64.urlsafe_b64encode(told.encode()).decode()
