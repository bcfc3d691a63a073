"""What goes wrong on purpose: for which requests, how, and how often."""

import threading
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

from tests.kubernetes.apiserver.asked import Asked
from tests.kubernetes.apiserver.failures import Failure, PlainFailure


@dataclass(frozen=True, slots=True)
class Hang:
    """No answer for so long, and then none."""

    seconds: float = 3600.0


@dataclass(frozen=True, slots=True)
class Cut:
    """The connection ends after so many bytes of the answer."""

    after: int = 100


Wrong = Failure | PlainFailure | Hang | Cut


@dataclass(slots=True)
class Fault:
    """One thing that goes wrong. Patterns are those of a shell; `times` None is for ever."""

    wrong: Wrong
    verb: str = "*"
    resource: str = "*"
    namespace: str = "*"
    name: str = "*"
    path: str = "*"
    times: int | None = None
    skip: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def strikes(self, asked: Asked) -> bool:
        """Whether this request is struck; each strike is counted."""
        pairs = (
            (asked.verb, self.verb),
            (asked.resource, self.resource),
            (asked.namespace or "", self.namespace),
            (asked.name or "", self.name),
            (asked.path, self.path),
        )
        if not all(fnmatchcase(what, pattern) for what, pattern in pairs):
            return False
        with self._lock:
            if self.skip > 0:
                self.skip -= 1
                return False
            if self.times is not None:
                if self.times <= 0:
                    return False
                self.times -= 1
            return True
