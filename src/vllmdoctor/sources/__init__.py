"""Sources: where observations come from. Each kind of target is one module, loaded when it is asked for.

http(s)://HOST:PORT[/path]   a live server
prom+http(s)://HOST[/path]   what a Prometheus, or what speaks its API, has kept
nvml: or nvml:0,1            the GPUs of this machine, all or some
host: or host:PID            the server's processes on this machine, and their control group
k8s://NAMESPACE/KIND/NAME    the pods of a cluster, through its API server
example:NAME                 a recording that comes with vllmdoctor
PATH or -                    a file or standard input, told apart by what is in it
"""

import re
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from vllmdoctor.errors import UnknownName, UsageError
from vllmdoctor.kube.nouns import Cluster
from vllmdoctor.model import Observation

if TYPE_CHECKING:
    from vllmdoctor.recording import Recording
    from vllmdoctor.sources.observe import Progress

SHORTEST_INTERVAL_S = 1.0
"""A server is never scraped more often than this."""


@dataclass(frozen=True, slots=True)
class History:
    """Which part of what a Prometheus keeps is asked for.

    `window_s` seconds that end at `at` (unix seconds; None is now). `match` holds label matchers
    (`namespace="inference"`), `prefix` what relabelling put before the names of the metrics,
    `max_points` how many points may be asked for in all. `tell` hears how far it is, and "" at the end.
    """

    window_s: float = 86400.0
    at: float | None = None
    match: str = ""
    prefix: str = ""
    max_points: int = 5_000_000
    tell: Callable[[str], object] | None = None


@dataclass(frozen=True, slots=True)
class Window:
    """How long and how often a live source looks (s). History sources use `interval_s` alone,
    for pages that carry no time. `sleep` may return True to end the window early. `history` is
    for a Prometheus, `cluster` for Kubernetes."""

    duration_s: float = 60.0
    interval_s: float = 5.0
    clock: Callable[[], float] = time.time
    sleep: Callable[[float], object] = time.sleep
    history: History = History()
    cluster: Cluster = field(default_factory=Cluster)

    def __post_init__(self) -> None:
        if not self.interval_s >= SHORTEST_INTERVAL_S:
            raise UsageError(f"a server is not scraped more often than every {SHORTEST_INTERVAL_S:g} s")
        if not self.duration_s >= 0:
            raise UsageError("the time to look must not be negative")

    def ticks(self) -> Iterator[None]:
        """The moments to scrape at: one at once, the last at the end; what is missed is left out."""
        start = time.monotonic()
        last = self.duration_s / self.interval_s + 1e-9
        tick = 0
        while True:
            yield
            passed = (time.monotonic() - start) / self.interval_s
            tick = max(tick + 1, int(passed) + 1 if passed > tick + 1 else 0)
            if tick > last:
                return
            if self.sleep(max(0.0, start + tick * self.interval_s - time.monotonic())):
                return


class Source(Protocol):
    """Anything that can be observed. `live` sources take the window's time, others read at once."""

    @property
    def live(self) -> bool:
        """Whether reading takes as long as the window."""
        ...

    @property
    def beside(self) -> bool:
        """Whether it only adds to what a server shows, so that a diagnosis is whole without it."""
        ...

    def read(self, window: Window) -> Iterator[Observation]:
        """Yield what is seen. What fails on the way is a Gap; a VllmDoctorError ends the source."""
        ...


SCHEMES = {
    "http": "vllmdoctor.sources.scrape:open_target",
    "https": "vllmdoctor.sources.scrape:open_target",
    "example": "vllmdoctor.sources.example:open_target",
    "prom+http": "vllmdoctor.sources.prom.source:open_target",
    "prom+https": "vllmdoctor.sources.prom.source:open_target",
    "nvml": "vllmdoctor.sources.nvml_source:open_target",
    "host": "vllmdoctor.sources.host:open_target",
    "k8s": "vllmdoctor.sources.kube.source:open_target",
}
"""Scheme -> the function that makes a Source of a target; loaded only when used."""

_FILES = "vllmdoctor.sources.file:open_target"
_SCHEME = re.compile(r"([a-z][a-z0-9+.-]*):")
_HOST_AND_PORT = re.compile(r"(?:[\w.-]+|\[[0-9a-fA-F:]+\]):\d{1,5}(?:/.*)?")


def open_source(target: str) -> Source:
    """The Source for a target; UsageError where there is no such kind of target or no such file."""
    scheme = _SCHEME.match(target)
    if Path(target).exists():
        place = _FILES
    elif scheme and scheme[1] in SCHEMES:
        place = SCHEMES[scheme[1]]
    elif _HOST_AND_PORT.fullmatch(target):
        place, target = SCHEMES["http"], f"http://{target}"
    elif scheme:
        raise UnknownName("kind of target", f"{scheme[1]}:", [f"{name}:" for name in SCHEMES])
    else:
        place = _FILES
    module, _, function = place.partition(":")
    source: Source = getattr(import_module(module), function)(target)
    return source


def open_sources(targets: Sequence[str]) -> list[Source]:
    """The Sources for targets given together; single pages of one server become one history."""
    targets = list(dict.fromkeys(targets))
    if len(targets) < 2:
        return [open_source(target) for target in targets]
    from vllmdoctor.sources.file import open_together  # here: the files' own module knows files

    return open_together(targets)


def gather_targets(
    targets: Sequence[str], window: Window, on_progress: "Callable[[Progress], None] | None" = None
) -> "Recording":
    """Read all targets into one Recording. On Ctrl-C, live reading ends and what came is used.

    VllmDoctorError where nothing at all came, or nothing of vLLM's.
    """
    from vllmdoctor.sources.observe import gather  # here: the light half needs no numpy

    return gather(targets, window, on_progress)


def without_login(target: str) -> str:
    """The target as it is shown and kept: without a login, and without a query, which may hold a key."""
    scheme, mark, rest = target.partition("://")
    if not mark:
        return target
    place, slash, path = rest.partition("/")
    path, asked, _ = path.partition("?")
    return f"{scheme}{mark}{place.rpartition('@')[2]}{slash}{path}{asked and '?...'}"
