"""Pods watched live: every page of every pod, at every tick, and who comes and goes meanwhile."""

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from vllmdoctor.errors import NotEnoughData, SourceError, VllmDoctorError
from vllmdoctor.exposition import Page, unread_gap
from vllmdoctor.kube.answers import Expired, NotThere
from vllmdoctor.kube.around import limits_as_series
from vllmdoctor.kube.door import Door
from vllmdoctor.kube.find import Found, find
from vllmdoctor.kube.pods import Pod
from vllmdoctor.model import Event, Fact, Gap, Observation, Snapshot
from vllmdoctor.sources import Window
from vllmdoctor.sources.kube.gpus import read_gpus, refused
from vllmdoctor.sources.kube.page import Pages
from vllmdoctor.sources.kube.parallel import side_by_side

_LOOK_AGAIN_S = 60.0
ORIGIN = "kubernetes"


@dataclass(slots=True)
class _Watched:
    """One pod: since when it shows metrics, which scrapes failed in a row, and why."""

    pod: Pod
    started: bool = False
    failed: list[float] = field(default_factory=list)
    error: SourceError | None = None
    asks_gpus: bool = False
    told_unread: bool = False
    gone: bool = False


@dataclass(frozen=True, slots=True)
class _Shown:
    time: float
    page: Page
    gpus: dict[str, float]
    told: list[Observation]


class Watch:
    """Watches pods for the time of a window. `describe` tells of pods that come later."""

    def __init__(
        self,
        door: Door,
        found: Found,
        window: Window,
        versions: dict[str, Fact],
        describe: Callable[[Found], Iterator[Observation]],
    ) -> None:
        self._door, self._found, self._window = door, found, window
        self._versions, self._describe = versions, describe
        self._pages = Pages(door)
        self._looked = time.monotonic()
        self.all: dict[str, _Watched] = {}

    def read(self, pods: tuple[Pod, ...]) -> Iterator[Observation]:
        """Yield a Snapshot a pod and tick; what fails is told as events and gaps."""
        for pod in pods:
            self._add(pod)
        if not self.all:
            return
        cluster = self._window.cluster
        first = True
        for _ in self._window.ticks():
            if not first and (self._someone_gone() or time.monotonic() - self._looked > _LOOK_AGAIN_S):
                yield from self._look_again()
            now = [w for w in self.all.values() if w.pod.runs and not w.gone]
            tell = cluster.tell if first else None
            for watched, result in side_by_side(self._scrape, now, tell, "reading metrics of pods"):
                if isinstance(result, VllmDoctorError):
                    yield from self._failed(watched, result)
                else:
                    yield from self._shown(watched, result)
            yield from self._pages.gaps()
            first = False
            if not self._goes_on(now):
                break
        for watched in self.all.values():
            yield from self._ended(watched)

    def _goes_on(self, now: list[_Watched]) -> bool:
        """Whether another look may show something: nobody can be read, and nobody ever was."""
        return any(w.started for w in self.all.values()) or any(not w.failed for w in now)

    def _add(self, pod: Pod) -> None:
        self.all[pod.instance] = _Watched(pod, asks_gpus=self._window.cluster.execute)

    def _scrape(self, watched: _Watched) -> _Shown:
        now = round(self._window.clock(), 3)
        page = self._pages.metrics(watched.pod)
        gpus: dict[str, float] = {}
        told: list[Observation] = []
        if watched.asks_gpus:
            try:
                gpus, told = read_gpus(self._door, watched.pod, now, self._window.interval_s)
            except Expired:
                raise
            except SourceError as error:
                watched.asks_gpus = False
                told = list(refused(error, watched.pod))
        if not watched.started:
            told.append(self.version(watched.pod))
        return _Shown(now, page, gpus, told)

    def _shown(self, watched: _Watched, shown: _Shown) -> Iterator[Observation]:
        pod = watched.pod
        if watched.failed and watched.started:
            text = f"after {len(watched.failed)} failed scrape{'s'[: len(watched.failed) != 1]}"
            yield Event(shown.time, "scrape-recovered", text, pod.instance, ORIGIN)
        if watched.started or not watched.failed:
            yield from self._outage(watched)
        watched.failed, watched.started, watched.error = [], True, None
        yield from shown.told
        around = limits_as_series(pod, self._found.owner(pod))
        yield Snapshot(shown.time, pod.instance, {**shown.page.values, **around, **shown.gpus})
        if shown.page.unread and not watched.told_unread:
            watched.told_unread = True
            yield unread_gap(pod.instance, shown.page.unread, shown.page.first_unread)

    def _failed(self, watched: _Watched, error: VllmDoctorError) -> Iterator[Observation]:
        now = round(self._window.clock(), 3)
        if isinstance(error, Expired):
            raise error  # nothing more can be read by anybody
        if isinstance(error, NotThere):
            watched.gone = True
            text = f"pod {watched.pod.name} was deleted"
            yield Event(now, "pod-gone", text, watched.pod.instance, ORIGIN)
            return
        if not isinstance(error, SourceError | NotEnoughData):
            raise error
        told = watched.error is not None and watched.error.message == error.message
        watched.error = error if isinstance(error, SourceError) else SourceError(error.message)
        if watched.started and not told:
            yield Event(now, "scrape-failed", error.message, watched.pod.instance, ORIGIN)
        watched.failed.append(now)

    def _ended(self, watched: _Watched) -> Iterator[Observation]:
        if watched.started:
            yield from self._outage(watched)
        elif watched.error is not None:
            yield Gap(
                watched.pod.instance,
                f"pod {watched.pod.name}: its metrics",
                watched.error.message,
                watched.error.hint,
            )
        elif watched.gone:
            yield Gap(watched.pod.instance, f"pod {watched.pod.name}", "it was deleted meanwhile")

    def _outage(self, watched: _Watched) -> Iterator[Observation]:
        if watched.failed and watched.error is not None:
            count = f"{len(watched.failed)} scrape{'s'[: len(watched.failed) != 1]}"
            lasted = watched.failed[-1] - watched.failed[0]
            yield Gap(watched.pod.instance, f"{count} in {lasted:.0f} s", watched.error.message)

    def _someone_gone(self) -> bool:
        return any(w.gone for w in self.all.values()) and time.monotonic() - self._looked > 10.0

    def _look_again(self) -> Iterator[Observation]:
        """Pods that came since, with what is to be told of them; and the status of those that stay."""
        self._looked = time.monotonic()
        try:
            found = find(self._door, self._found.named, self._window.cluster.container)
        except Expired:
            raise
        except VllmDoctorError:
            return  # all are gone, or the API server is busy: the next look will tell
        self._found = found
        for pod in found.pods:
            if pod.instance in self.all:
                self.all[pod.instance].pod = pod
                continue
            self._add(pod)
            now = round(self._window.clock(), 3)
            yield Event(now, "pod-came", f"pod {pod.name} came", pod.instance, ORIGIN)
            owners = {key: o for key, o in found.owners.items() if key == (pod.namespace, pod.name)}
            yield from self._describe(Found(found.named, (pod,), owners))

    def version(self, pod: Pod) -> Observation:
        """vLLM's version: what the pod's server says, else its image's tag; a Gap where neither tells."""
        try:
            version = json.loads(self._pages.version(pod) or "{}").get("version")
        except (ValueError, AttributeError, RecursionError):
            version = None
        if isinstance(version, str) and version:
            return Fact("vllm_version", version, "/version", pod.instance)
        if pod.instance in self._versions:
            return self._versions[pod.instance]
        why = "/version does not tell it, nor does the image's tag"
        return Gap(pod.instance, "vLLM's version", why, "give it with --vllm-version")
