"""How a real API server says no: a Status object with its words, reason and code."""

from dataclasses import dataclass, field
from typing import Any

from tests.kubernetes.apiserver.kinds import Kind


@dataclass(eq=False)
class Failure(Exception):
    """An answer that is a Status; raised where a request cannot be answered."""

    code: int
    reason: str
    message: str
    details: dict[str, Any] = field(default_factory=dict)
    headers: dict[str, str] = field(default_factory=dict)
    metadata: dict[str, Any] = field(default_factory=dict)

    def body(self) -> dict[str, Any]:
        """The Status object."""
        status: dict[str, Any] = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": self.metadata,
            "status": "Failure",
        }
        status |= {"message": self.message, "reason": self.reason, "code": self.code}
        return status | ({"details": self.details} if self.details else {})


@dataclass(eq=False)
class PlainFailure(Exception):
    """An answer without a Status: what proxies, load balancers and unknown paths give."""

    code: int
    text: str
    headers: dict[str, str] = field(default_factory=dict)


def no_path() -> PlainFailure:
    """What stands at a path that nothing serves, also at that of a kind that is not installed."""
    return PlainFailure(404, "404 page not found\n")


def unauthorized() -> Failure:
    return Failure(401, "Unauthorized", "Unauthorized")


def forbidden(
    user: str, verb: str, kind: Kind, subresource: str, namespace: str | None, name: str | None
) -> Failure:
    resource = kind.plural + (f"/{subresource}" if subresource else "")
    where = f'in the namespace "{namespace}"' if namespace else "at the cluster scope"
    named = f'{kind.spoken} "{name}"' if name else kind.spoken
    said = f'cannot {verb} resource "{resource}" in API group "{kind.group}" {where}'
    details = {"name": name or "", "group": kind.group, "kind": kind.plural}
    return Failure(403, "Forbidden", f'{named} is forbidden: User "{user}" {said}', details)


def forbidden_path(user: str, verb: str, path: str) -> Failure:
    return Failure(403, "Forbidden", f'forbidden: User "{user}" cannot {verb} path "{path}"')


def not_found(kind: Kind, name: str) -> Failure:
    details = {"name": name, "group": kind.group, "kind": kind.plural}
    return Failure(404, "NotFound", f'{kind.spoken} "{name}" not found', details)


def bad_request(message: str) -> Failure:
    return Failure(400, "BadRequest", message)


def conflict(kind: Kind, name: str) -> Failure:
    said = "the object has been modified; please apply your changes to the latest version and try again"
    message = f'Operation cannot be fulfilled on {kind.spoken} "{name}": {said}'
    return Failure(409, "Conflict", message, {"name": name, "group": kind.group, "kind": kind.plural})


def expired(continue_token: str = "") -> Failure:
    """The answer to a `continue` from a list that is no longer kept."""
    message = (
        "The provided continue parameter is too old to display a consistent list result. You can start a "
        "new list without the continue parameter, or use the continue token in this response to retrieve "
        "the remainder of the results. Continuing with the provided token results in an inconsistent list "
        "- objects that were created, modified, or deleted between the time the first chunk was returned "
        "and now may show up in the list."
    )
    return Failure(410, "Expired", message, metadata={"continue": continue_token})


def too_many_requests(after_s: int = 1) -> PlainFailure:
    text = "Too many requests, please try again later.\n"
    return PlainFailure(429, text, {"Retry-After": str(after_s)})


def internal(message: str) -> Failure:
    return Failure(
        500, "InternalError", f"Internal error occurred: {message}", {"causes": [{"message": message}]}
    )


def unreachable(why: str) -> Failure:
    """A pod or service that the proxy cannot talk to."""
    return Failure(503, "ServiceUnavailable", f"error trying to reach service: {why}")


def timed_out() -> Failure:
    said = "request did not complete within the allotted timeout"
    return Failure(504, "Timeout", f"Timeout: {said}")


def read_only(verb: str) -> Failure:
    """Nothing is ever changed here; a request that would is a fault of who sent it."""
    return Failure(405, "MethodNotAllowed", f"this test server is read-only, and was asked to {verb}")
