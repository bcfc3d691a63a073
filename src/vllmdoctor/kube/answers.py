"""What an API server answers when it does not answer: each refusal told apart, in words."""

import json
from typing import Any

from vllmdoctor.errors import SourceError, Unauthorized, Unreachable
from vllmdoctor.kube.rights import right_for, words_for
from vllmdoctor.model import Gap

ORIGIN = "Kubernetes"
_SHOWN = 240


class Expired(Unauthorized):
    """401: who asks is not known, or no longer."""


class Forbidden(Unauthorized):
    """403: `refused` names the verb and the resource that are missing, `lost` what is unseen without them."""

    def __init__(self, refused: str, lost: str, *, hint: str = "") -> None:
        super().__init__(f"{refused}; unseen without it: {lost}", hint=hint)
        self.refused = refused
        self.lost = lost


class NotThere(SourceError):
    """404 of the API server itself: no such object, or no such kind of object."""


class Gone(SourceError):
    """410: a list that is read in parts has changed too much meanwhile."""


class Busy(Unreachable):
    """429, 409 or a failure of the server that may pass; `again_s` is what it asked to wait (s)."""

    def __init__(self, message: str, *, hint: str = "", again_s: float = 0.0) -> None:
        super().__init__(message, hint=hint)
        self.again_s = again_s


class CutOff(Unreachable):
    """The connection ended in the middle of an answer."""


class Unproxied(SourceError):
    """The API server answered, and could not reach what it was to ask on our behalf."""


def status_of(body: bytes) -> dict[str, Any] | None:
    """The Status object that an API server explains a failure with; None where the body is none."""
    try:
        found = json.loads(body)
    except ValueError:
        return None
    return found if isinstance(found, dict) and found.get("kind") == "Status" else None


def words(text: str) -> str:
    """A server's own words, short and on one line."""
    text = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return text[:_SHOWN] + ("..." if len(text) > _SHOWN else "")


def forbidden(verb: str, group: str, resource: str, namespace: str, said: str = "") -> Forbidden:
    """The error for a 403. What an admission policy said instead of the usual words is quoted."""
    right = right_for(group, resource)
    full = f"{resource}.{group}" if group else resource
    where = f"in namespace {namespace}" if namespace else "in the whole cluster"
    quoted = "" if not said or "cannot" in said else f": {words(said)}"
    lost = right.lost if right else f"what {full} would tell"
    hint = f"`{words_for(group, resource)}` prints a Role that allows it"
    return Forbidden(f"403: not allowed to {verb} {full} {where}{quoted}", lost, hint=hint)


def error_of(
    status: int, said: str, *, verb: str, group: str, resource: str, namespace: str, again_s: float = 0.0
) -> SourceError:
    """The error for a status that is no success."""
    full = f"{resource}.{group}" if group else resource
    if status == 401:
        return Expired(
            "401: the API server does not accept the credentials",
            hint="they may have expired: log in again, and try `kubectl auth whoami`",
        )
    if status == 403:
        return forbidden(verb, group, resource, namespace, said)
    if status == 404:
        return NotThere(f"404: {words(said) or full + ' not found'}")
    if status == 410:
        return Gone(f"410: the list of {full} changed while it was read")
    if status == 429:
        return Busy(
            f"429: the API server is too busy to {verb} {full}",
            hint="try again later, or with fewer pods (-l)",
            again_s=again_s,
        )
    hint = "the API server's own log says more; does `kubectl get pods` work?"
    return Busy(f"{status}: {words(said) or full + ' could not be read'}", hint=hint, again_s=again_s)


def gap_of(error: SourceError, what: str, origin: str = ORIGIN) -> Gap:
    """The Gap for what could not be read; a missing right says itself what is lost."""
    if isinstance(error, Forbidden):
        return Gap(origin, error.lost, error.refused, error.hint)
    return Gap(origin, what, error.message, error.hint)
