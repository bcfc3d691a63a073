"""The nouns of a probe's result, frozen and made of plain values, as in `model`. Units are SI."""

from dataclasses import dataclass
from enum import StrEnum

from vllmdoctor.model import Gap


class Failure(StrEnum):
    """Why a request ended without an answer; the value is what people read."""

    CONNECT = "no connection"
    TIMED_OUT = "no token in time"
    BROKE_OFF = "broke off in the middle"
    BAD_CHUNK = "a chunk that is no JSON"
    NOT_A_STREAM = "no event stream"
    NO_ANSWER = "a stream without an answer"
    STREAM_ERROR = "an error inside the stream"
    UNAUTHORIZED = "not authorized (401, 403)"
    NOT_FOUND = "not found (404)"
    THROTTLED = "too many requests (429)"
    REJECTED = "rejected (4xx)"
    SERVER = "server error (5xx)"
    REDIRECTED = "redirected (3xx), not followed"
    TOO_LARGE = "too large an answer"


@dataclass(frozen=True, slots=True)
class Spread:
    """The distribution of one measure: `count` samples; NaN where too few were seen for a quantile."""

    name: str
    title: str
    unit: str
    count: int
    mean: float
    p50: float
    p95: float
    p99: float


@dataclass(frozen=True, slots=True)
class Wrong:
    """An answer that is not what was expected: the request's id, what was expected and what came."""

    id: str
    expected: str
    got: str


@dataclass(frozen=True, slots=True)
class Failed:
    """How many requests failed in one way, and what the first of them met."""

    failure: Failure
    count: int
    example: str


@dataclass(frozen=True, slots=True)
class ProbeReport:
    """What a probe measured.

    `planned` requests were to be sent, `answered` of them were, `failed` were not, `cut` were under way or
    not yet sent when the time was up or Ctrl-C came (`ended`, else ""). `correct` of `judged` answers are
    as expected. `seconds` is from the first request to the last answer; `refused` how many 429 were met,
    `late` how many requests of an open loop had to wait for a slot. NaN is "not measured".
    """

    target: str
    model: str
    version: str
    loop: str
    rate: float
    concurrency: int
    seed: int
    warmup: int
    planned: int
    answered: int
    failed: int
    cut: int
    ended: str
    seconds: float
    spreads: tuple[Spread, ...]
    output_tokens: float
    prompt_tokens: float
    output_rate: float
    judged: int
    correct: int
    wrong: tuple[Wrong, ...]
    failures: tuple[Failed, ...]
    refused: int
    late: int
    gaps: tuple[Gap, ...]
