"""A pod: one server process with its engines, HTTP counters and memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vllmdoctor.simulator.conditions import Conditions, conditions
from vllmdoctor.simulator.engine import Engine
from vllmdoctor.simulator.histogram import HTTP, HTTP_HIGHR, Histogram
from vllmdoctor.simulator.host import Memory
from vllmdoctor.simulator.tally import Tally

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from random import Random

    from vllmdoctor.simulator.faults import Fault
    from vllmdoctor.simulator.request import Request
    from vllmdoctor.simulator.setup import Setup


class Pod:
    """One replica; ``boot`` makes a new process with fresh counters."""

    def __init__(
        self,
        number: int,
        setup: Setup,
        faults: Sequence[Fault],
        rng: Random,
        on_end: Callable[[Request, float], None],
    ) -> None:
        self.number = number
        self.setup = setup
        self.faults = faults
        self.rng = rng
        self.on_end = on_end
        self.up = False
        self.gone = False
        self.restarts = 0
        self.cfs_periods = 0.0
        self.cfs_throttled = 0.0
        self.boot(-setup.warm_s)
        self.started_s = -setup.warm_s - setup.uptime_s

    def boot(self, now_s: float) -> None:
        """Start a process at ``now_s``; everything it counted before is gone."""
        setup = self.setup
        version = setup.era.version
        self.started_s = now_s
        self.up = True
        self.http: dict[tuple[str, str], float] = {}
        self.http_highr = Histogram(HTTP_HIGHR)
        self.http_handlers: dict[str, Histogram] = {}
        self.cpu_s = 18.0
        self.ended = 0
        self.ticked_s = now_s
        server = setup.server
        self.memory = Memory(
            setup.host,
            server.gpu_memory_bytes,
            server.gpu_memory_bytes * server.gpu_memory_utilization,
            self.rng,
        )
        self.engines = [
            Engine(
                server,
                Tally(server.max_model_len, old_bounds=version < (0, 8, 4)),
                self.rng,
                self._ended,
                requery=version < (0, 27, 0),
                recompute_hits=version <= (0, 11, 0),
                iteration_with_cached=version < (0, 23, 0),
            )
            for _ in range(setup.engines)
        ]
        self.conditions = Conditions()
        self.tick(now_s)

    def kill(self) -> list[Request]:
        """The process dies; the requests it held (their clients see an error)."""
        lost: list[Request] = []
        for engine in self.engines:
            lost += engine.drop_all()
        for request in lost:
            request.engine = None
            request.aborted = True
        self.up = False
        return lost

    def advance(self, now_s: float) -> None:
        """Bring all engines to ``now_s``."""
        for engine in self.engines:
            engine.advance(now_s)

    def submit(self, request: Request, now_s: float) -> None:
        """The HTTP layer hands a request to the engine with the fewest in flight."""
        engine = min(self.engines, key=lambda each: each.in_flight)
        engine.advance(now_s)
        if request.prompt >= self.setup.server.max_model_len:
            self._http(request, now_s, "4xx")
            self.on_end(request, now_s)
            return
        request.engine = engine
        engine.submit(request, now_s)

    def give_up(self, request: Request, now_s: float) -> None:
        """The client closes its connection; only the HTTP counters know."""
        engine = request.engine
        if not isinstance(engine, Engine):
            return
        engine.advance(now_s)
        if request.engine is None:  # it finished just now
            return
        engine.abort(request, now_s)
        self._http(request, now_s, "2xx")

    def tick(self, now_s: float) -> None:
        """Let the surroundings act: conditions, memory, CPU."""
        dt_s = max(0.0, now_s - self.ticked_s)
        self.ticked_s = now_s
        in_flight = self.in_flight
        self.memory.grow(self.faults, now_s, dt_s, self.ended, in_flight)
        self.cpu_s += dt_s * 0.02 + self.ended * 0.03
        self.ended = 0
        now = conditions(self.setup.server, self.faults, now_s, self.started_s)
        now.pressure_factor = self.memory.pressure
        self.cfs_periods += dt_s * 10.0
        share = now.throttled_share or 0.004
        self.cfs_throttled += dt_s * 10.0 * min(1.0, share * self.rng.uniform(0.8, 1.2))
        self.conditions = now
        for engine in self.engines:
            engine.advance(now_s)
            engine.set_conditions(now, now_s)

    @property
    def in_flight(self) -> int:
        """Requests the pod holds."""
        return sum(engine.in_flight for engine in self.engines)

    @property
    def frontend_s(self) -> float:
        """Present delay [s] of the API server before the engine."""
        return self.setup.server.frontend_s + self.conditions.frontend_s

    def _ended(self, request: Request, now_s: float) -> None:
        self._http(request, now_s, "2xx")
        self.ended += 1
        self.on_end(request, now_s)

    def _http(self, request: Request, now_s: float, status: str) -> None:
        handler = request.kind.handler
        self.http[handler, status] = self.http.get((handler, status), 0.0) + 1
        seconds = now_s - request.arrival_s
        self.http_highr.observe(seconds)
        per_handler = self.http_handlers.get(handler)
        if per_handler is None:
            per_handler = self.http_handlers[handler] = Histogram(HTTP)
        per_handler.observe(seconds)
