"""A log -> observations: each line goes to the server that wrote it."""

import math
import re
from collections.abc import Iterable, Iterator

from vllmdoctor.errors import NotEnoughData, NotVllm
from vllmdoctor.model import Gap, Observation
from vllmdoctor.sources.log.clock import Clock
from vllmdoctor.sources.log.scan import Scanner
from vllmdoctor.sources.log.server import Server
from vllmdoctor.sources.log.statistics import is_statistics

_OWN = re.compile(r"\b(?:DEBUG|INFO|WARNING|ERROR) \d\d-\d\d \d\d:\d\d:\d\d")


def read_log(pieces: Iterable[bytes], origin: str, reference: float) -> Iterator[Observation]:
    """All observations of a log, given as pieces of whole lines.

    `origin` names the server where its lines do not; `reference` (unix s) is when the log was written or
    read. NotVllm where no line is vLLM's, NotEnoughData where none of them tells anything.
    """
    clock, scanner = Clock(reference), Scanner()
    servers: dict[str, Server] = {}
    own = False
    for line in scanner.scan(pieces):
        own = own or bool(_OWN.search(line.text)) or is_statistics(line.text)
        name = line.server or origin
        servers.setdefault(name, Server(name, reference)).take(line, clock.read(line.text))
    end = next((t for text in reversed(scanner.tail) if (t := clock.read(text)) is not None), -math.inf)
    told = [server for server in servers.values() if server.tells]
    if not told:
        if not own and not any(_OWN.search(text) for text in scanner.tail):
            hint = "a vLLM server's log, a recording, a saved /metrics page or OpenMetrics text is read"
            raise NotVllm(f"{origin} holds no metrics, and no line of a vLLM server's log", hint=hint)
        raise NotEnoughData(
            f"{origin} is a vLLM log, but holds no statistics, settings or trouble",
            hint="with --disable-log-stats vLLM writes no statistics; was the log cut?",
        )
    for server in told:
        yield from server.observations(end)
    if clock.dateless:
        yield Gap(
            origin, "the day of the log's lines", "they show a time only", "the file's own date was taken"
        )
