"""The event loop: clients, load balancer, pods, faults and the scraper."""

from __future__ import annotations

import heapq
import math
from dataclasses import dataclass
from itertools import count
from random import Random
from typing import TYPE_CHECKING

from vllmdoctor.simulator.conditions import change_times, concerns
from vllmdoctor.simulator.faults import ReplicaLoss, Restart
from vllmdoctor.simulator.load import ClosedLoop, OpenLoop, Recorded, Stream
from vllmdoctor.simulator.page import PodPage
from vllmdoctor.simulator.pod import Pod
from vllmdoctor.simulator.request import Request

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from vllmdoctor.simulator.setup import Setup

OOM_DOWNTIME_S = 150.0
RETRY_S = 5.0
"""Pause of a closed-loop client after an error."""


@dataclass(frozen=True, slots=True)
class Page:
    """One scrape of one target: exposition spelling -> value, at a Unix time [s]."""

    time_s: float
    instance: str
    values: dict[str, float]


class World:
    """All that happens in one simulated history."""

    def __init__(self, setup: Setup, seed: int) -> None:
        self.setup = setup
        self.rng = Random(f"world-{seed}")
        self.now_s = -setup.warm_s
        self.heap: list[tuple[float, int, Callable[[], None]]] = []
        self.order = count()
        self.pages: list[Page] = []
        self.turn = 0
        self.pods = [
            Pod(
                number,
                setup,
                [fault for fault in setup.faults if concerns(fault, number)],
                Random(f"pod-{seed}-{number}"),
                self._ended,
            )
            for number in range(setup.pods)
        ]
        self.views = [PodPage(setup, pod) for pod in self.pods]
        self.closed = any(isinstance(stream, ClosedLoop) for stream in setup.load)
        self.clients: dict[int, tuple[ClosedLoop, Random]] = {}
        for index, stream in enumerate(setup.load):
            # Each stream draws by itself, so that another server gets the very same requests.
            self._start_stream(stream, Random(f"load-{seed}-{index}"))
        for pod, view in zip(self.pods, self.views, strict=True):
            offset = self.rng.uniform(0.0, setup.scrape.interval_s)
            self._at(offset, lambda p=pod, v=view: self._scrape(p, v))  # type: ignore[misc]
        self._at(self.now_s, self._tick)
        for time_s in change_times(setup.faults):
            self._at(time_s, self._touch)
        for fault in setup.faults:
            self._plan_fault(fault)

    def __iter__(self) -> Iterator[Page]:
        """Pages in time order."""
        end_s = self.setup.duration_s
        while self.heap:
            if self.closed:
                engine = min(
                    (engine for pod in self.pods if pod.up for engine in pod.engines),
                    key=lambda each: each.next_end_s(),
                    default=None,
                )
                if engine is not None and engine.next_end_s() <= self.heap[0][0]:
                    engine.advance(engine.next_end_s())
                    continue
            self.now_s, _, act = heapq.heappop(self.heap)
            if self.now_s > end_s:
                return
            act()
            if self.pages:
                yield from self.pages
                self.pages.clear()

    def _at(self, time_s: float, act: Callable[[], None]) -> None:
        heapq.heappush(self.heap, (time_s, next(self.order), act))

    # --- clients -------------------------------------------------------------------------

    def _start_stream(self, stream: Stream, rng: Random) -> None:
        match stream:
            case OpenLoop():
                self._next_arrival(stream, rng, self.now_s)
            case ClosedLoop():
                for _ in range(stream.clients):
                    client = len(self.clients)
                    self.clients[client] = stream, rng
                    first_s = self.now_s + rng.uniform(0.0, 2 * stream.think_s + 10.0)
                    self._at(first_s, lambda c=client: self._client_sends(c))  # type: ignore[misc]
            case Recorded():
                for time_s, prompt, output in stream.arrivals:
                    request = Request(stream.requests, time_s, prompt, output, _group(stream, rng))
                    self._at(
                        time_s + self.setup.server.frontend_s,
                        lambda r=request: self._deliver(r, None),  # type: ignore[misc]
                    )

    def _next_arrival(self, stream: OpenLoop, rng: Random, after_s: float) -> None:
        """Thin a Poisson process at the profile's peak down to the rate of the moment."""
        peak = stream.rate_per_s * stream.profile.peak
        if peak <= 0:
            return
        time_s = after_s
        while time_s <= self.setup.duration_s:
            time_s += rng.expovariate(peak)
            if rng.random() * peak <= stream.rate_per_s * stream.profile.factor(time_s):
                break
        self._at(time_s, lambda: self._arrive(stream, rng))

    def _arrive(self, stream: OpenLoop, rng: Random) -> None:
        self._send(stream, rng, -1)
        self._next_arrival(stream, rng, self.now_s)

    def _client_sends(self, client: int) -> None:
        self._send(*self.clients[client], client)

    def _send(self, stream: OpenLoop | ClosedLoop, rng: Random, client: int) -> None:
        kind = stream.requests
        prompt = kind.prefix_tokens + kind.prompt.draw(rng)
        room = self.setup.server.max_model_len - prompt
        output = max(1, min(kind.output.draw(rng), room))
        request = Request(kind, self.now_s, prompt, output, _group(stream, rng), client)
        request.patience_s = kind.patience(rng)
        pod = self._choose()
        if pod is None:
            self._failed(request)
            return
        self._at(self.now_s + pod.frontend_s, lambda: self._deliver(request, pod))

    def _choose(self) -> Pod | None:
        """Round robin over the pods that serve."""
        serving = [pod for pod in self.pods if pod.up]
        if not serving:
            return None
        self.turn += 1
        return serving[self.turn % len(serving)]

    def _deliver(self, request: Request, chosen: Pod | None) -> None:
        pod = chosen if chosen and chosen.up else self._choose()
        if pod is None:
            self._failed(request)
            return
        pod.submit(request, self.now_s)
        if math.isfinite(request.patience_s):
            gone_s = max(self.now_s, request.arrival_s + request.patience_s)
            self._at(gone_s, lambda: self._time_out(pod, request))

    def _time_out(self, pod: Pod, request: Request) -> None:
        if request.engine is None or request.aborted:
            return
        pod.give_up(request, self.now_s)
        if request.aborted and request.client >= 0:
            self._think(request.client, self.now_s)

    def _ended(self, request: Request, now_s: float) -> None:
        if request.client >= 0:
            self._think(request.client, now_s)

    def _failed(self, request: Request) -> None:
        if request.client >= 0:
            client = request.client
            self._at(self.now_s + RETRY_S, lambda: self._client_sends(client))

    def _think(self, client: int, from_s: float) -> None:
        stream, rng = self.clients[client]
        mean_s = stream.think_s * stream.profile.factor(from_s)
        pause_s = rng.expovariate(1.0 / mean_s) if mean_s > 0 else 0.0
        self._at(from_s + pause_s, lambda: self._client_sends(client))

    # --- pods ----------------------------------------------------------------------------

    def _plan_fault(self, fault: object) -> None:
        match fault:
            case Restart():
                pod = self.pods[fault.pod]
                self._at(fault.onset_s, lambda: self._restart(pod, fault.downtime_s))
            case ReplicaLoss():
                lost = self.pods[fault.pod]
                self._at(fault.onset_s, lambda: self._restart(lost, math.inf))
                if math.isfinite(fault.end_s):
                    self._at(fault.end_s, lambda: self._boot(lost))
            case _:
                pass

    def _restart(self, pod: Pod, downtime_s: float) -> None:
        if not pod.up:
            return
        pod.advance(self.now_s)
        for request in pod.kill():
            self._failed(request)
        pod.gone = math.isinf(downtime_s)
        if not pod.gone:
            self._at(self.now_s + downtime_s, lambda: self._boot(pod))

    def _boot(self, pod: Pod) -> None:
        pod.gone = False
        pod.restarts += 1
        pod.boot(self.now_s)

    def _touch(self) -> None:
        for pod in self.pods:
            if pod.up:
                pod.tick(self.now_s)

    def _tick(self) -> None:
        self._touch()
        for pod in self.pods:
            if pod.up and pod.memory.killed:
                self._restart(pod, OOM_DOWNTIME_S)
        self._at(self.now_s + 15.0, self._tick)

    # --- scraper -------------------------------------------------------------------------

    def _scrape(self, pod: Pod, view: PodPage) -> None:
        scrape = self.setup.scrape
        rng = self.rng
        stamp_s = self.now_s + rng.gauss(0.0, scrape.jitter_s)
        self._at(self.now_s + scrape.interval_s, lambda: self._scrape(pod, view))
        if any(start <= self.now_s < start + length for start, length in scrape.gaps):
            return
        if pod.up:
            pod.advance(self.now_s)
        answered = pod.up and rng.random() >= scrape.missed
        values = view.values(self.now_s, answered=answered)
        if values:
            time_s = round(self.setup.start_unix_s + stamp_s, 3)
            self.pages.append(Page(time_s, view.instance, values))


def _group(stream: Stream, rng: Random) -> int:
    """Which shared prefix a request has; -1 = none."""
    kind = stream.requests
    if not kind.prefix_tokens:
        return -1
    # Groups of different classes must not meet: names tell them apart (``hash`` is salted).
    return int.from_bytes(kind.name.encode(), "big") % 1_000_003 * 1_000_000 + rng.randrange(
        kind.prefix_groups
    )
