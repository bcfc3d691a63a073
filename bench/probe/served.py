"""The server of the benchmark, as the function of a process of its own."""

import time
from multiprocessing.connection import Connection
from typing import Any

from bench.probe.server import Behaviour, Server, streamed

FIRST_S, EACH_S, TOKENS = 0.25, 0.02, 100


def serve(pipe: Connection) -> None:
    """A server until something is sent, and then its record."""

    def behave(path: str, body: dict[str, Any], number: int) -> Behaviour:
        # the next step of the engine, which is the same for every request
        step = -time.perf_counter() % EACH_S
        return Behaviour(streamed("token " * (TOKENS - 1) + "end", first_s=FIRST_S + step, each_s=EACH_S))

    server = Server(behave)
    pipe.send(server.url)
    pipe.recv()
    pipe.send([(s.received, s.written) for s in server.served])
    server.close()
