"""A probe from its settings to its report."""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from vllmdoctor import probe_series as names
from vllmdoctor.errors import UsageError
from vllmdoctor.model import Fact
from vllmdoctor.model_probe import ProbeReport
from vllmdoctor.probe.answer import Wire, answer_of
from vllmdoctor.probe.keep import Keeper
from vllmdoctor.probe.questions import Question, fingerprint
from vllmdoctor.probe.server import Server, ask_server, model_for
from vllmdoctor.probe.summary import Tally
from vllmdoctor.probe.traffic import Slots, Traffic, arrivals, clock, in_order
from vllmdoctor.sources.http import Http

MOST_CONCURRENCY = 512
"""More threads would measure themselves."""

MOST_REQUESTS = 1_000_000
"""A plan is made whole before anything is sent, and its answers are in memory."""


@dataclass(frozen=True, slots=True)
class Settings:
    """How to probe. `rate` requests per second arrive by chance, or 0: the next is sent when one ends.

    `requests` 0 is the file once. `max_time_s` bounds all, the warm-up too; `idle_s` each wait for a token.
    """

    concurrency: int
    rate: float = 0.0
    warmup: int = 0
    seed: int = 1
    requests: int = 0
    max_time_s: float = 600.0
    idle_s: float = 60.0
    model: str = ""

    def __post_init__(self) -> None:
        if not 1 <= self.concurrency <= MOST_CONCURRENCY:
            raise UsageError(f"a concurrency is 1 to {MOST_CONCURRENCY}, not {self.concurrency}")
        if not (self.rate >= 0 and math.isfinite(self.rate)):
            raise UsageError("a rate is a number of requests per second above 0")
        most = max(self.requests, self.warmup)
        if most > MOST_REQUESTS:
            raise UsageError(
                f"{most:,} requests are more than a probe sends ({MOST_REQUESTS:,})",
                hint="for a probe that is bounded by time give --max-time, and fewer requests",
            )
        if not (self.max_time_s > 0 and self.idle_s > 0):
            raise UsageError("a time limit must be above 0")


@dataclass(frozen=True, slots=True)
class Probe:
    """What is going to be sent, and to whom: `questions` as in the file, `planned` as they are sent."""

    settings: Settings
    server: Server
    model: str
    questions: tuple[Question, ...]
    planned: tuple[Question, ...]
    fingerprint: str

    @property
    def words(self) -> str:
        """What it will send, for the person to read beforehand."""
        s, count = self.settings, len(self.planned)
        how = f", {s.rate:g} per second on average" if s.rate else ""
        warm = f" (after {s.warmup} to warm up)" if s.warmup else ""
        model = f", model {self.model}" if self.model else ""
        what = f"{count} request{'' if count == 1 else 's'}"
        most = f"up to {min(s.concurrency, count)} at once, for at most {_time(s.max_time_s)}"
        return f"sends {what}{warm} to {self.server.shown}{model}{how}, {most} (Ctrl-C keeps what is there)"


def prepare(url: str, questions: tuple[Question, ...], settings: Settings, http: Http) -> Probe:
    """Ask the server who it is, and plan. Nothing is sent yet that costs it work."""
    server = ask_server(url, http)
    model = model_for(server, settings.model, questions)
    count = settings.requests or len(questions)
    asked = [questions[i % len(questions)] for i in range(count)]
    planned = tuple(in_order(questions, count, settings.seed))
    return Probe(settings, server, model, questions, planned, fingerprint(asked))


def run(probe: Probe, path: Path, http: Http, tell: Callable[[int, int], None] | None) -> ProbeReport:
    """Send what is planned and keep what comes in `path`; `tell` hears (done, planned) as it goes on.

    BlindError where not one answer came; no file is left then.
    """
    s, target = probe.settings, probe.server.shown
    tally = Tally()
    until = clock() + s.max_time_s
    traffic = Traffic(probe.server.base, probe.model, s.concurrency, until)
    ended = ""
    with (
        Slots(min(s.concurrency, max(len(probe.planned), s.warmup)), s.idle_s, http) as slots,
        Keeper(path, _facts(probe), (time.time(), clock()), target) as keeper,
    ):

        def take(wire: Wire) -> None:
            if wire.cut:
                return
            answer = answer_of(wire)
            keeper.add(answer)
            tally.add(answer)
            if tell is not None:
                tell(tally.answered + sum(tally.failures.values()), len(probe.planned))

        if s.warmup:
            warm = [probe.planned[i % len(probe.planned)] for i in range(s.warmup)]
            ended = slots.send(warm, traffic, lambda wire: None)
        if not ended:
            due = arrivals(len(probe.planned), s.rate, s.seed) if s.rate else ()
            traffic = Traffic(probe.server.base, probe.model, s.concurrency, until, due)
            ended = slots.send(probe.planned, traffic, take)
    blind = tally.blind(target, probe.server.models, ended)
    if blind is not None:
        raise blind
    return _report(probe, tally, ended)


def _report(probe: Probe, tally: Tally, ended: str) -> ProbeReport:
    s = probe.settings
    failed = sum(tally.failures.values())
    order = {question.id: place for place, question in enumerate(probe.questions)}
    return ProbeReport(
        target=probe.server.shown,
        model=probe.model or ", ".join(sorted({q.model for q in probe.planned})),
        version=probe.server.version,
        loop="open" if s.rate else "closed",
        rate=s.rate or math.nan,
        concurrency=s.concurrency,
        seed=s.seed,
        warmup=s.warmup,
        planned=len(probe.planned),
        answered=tally.answered,
        failed=failed,
        cut=len(probe.planned) - tally.answered - failed,
        ended=ended,
        seconds=tally.seconds,
        spreads=tally.spreads(),
        output_tokens=sum(tally.output_tokens),
        prompt_tokens=sum(tally.prompt_tokens),
        output_rate=tally.output_rate,
        judged=tally.judged,
        correct=tally.judged - len(tally.wrong),
        wrong=tuple(sorted(tally.wrong, key=lambda w: order[w.id])),
        failures=tally.failed(),
        refused=tally.refused,
        late=tally.late,
        gaps=(*probe.server.gaps, *tally.gaps_in_sight(probe.server.shown)),
    )


def _facts(probe: Probe) -> tuple[Fact, ...]:
    s, origin = probe.settings, probe.server.shown
    told: dict[str, str | float | int] = {
        names.CONCURRENCY: s.concurrency,
        names.LOOP: "open" if s.rate else "closed",
        names.REQUESTS_SHA256: probe.fingerprint,
        names.WARMUP: s.warmup,
        names.SEED: s.seed,
    }
    if s.rate:
        told[names.RATE] = s.rate
    if probe.model:
        told[names.MODEL] = probe.model
    if probe.server.version:
        told[names.VLLM_VERSION] = probe.server.version
    return tuple(Fact(key, value, origin, names.PROBE_INSTANCE) for key, value in told.items())


def _time(seconds: float) -> str:
    return f"{seconds:g} s" if seconds < 120 else f"{seconds / 60:g} min"
