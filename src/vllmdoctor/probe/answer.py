"""From what came over the wire to an answer: its text, its times, its tokens, or why it failed."""

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from vllmdoctor.model_probe import Failure
from vllmdoctor.probe.questions import Question
from vllmdoctor.probe.stream import Piece, events

TOGETHER_S = 0.0005
"""Chunks of text closer than this came together: no server computes a token in half a millisecond,
but a network, a proxy or a busy client hands several over at once."""

_DONE = "[DONE]"
_MOST_TOKENS = 10**9  # no answer has more: such a count is none
_ALIKE = ("reasoning_content", "reasoning", "refusal", "tool_calls")
"""What is generated beside an answer's text: it takes time as text does, and is not the answer."""


@dataclass(frozen=True, slots=True)
class Wire:
    """All that was seen of one request. Times are seconds of one steady clock.

    `sent` is when it had been written; `trouble` what ended it before its time (a Failure and words).
    `refused` counts the 429 met before, `cut` says that we ended it ourselves.
    """

    question: Question
    sent: float
    ended: float
    status: int = 0
    kind: str = ""
    pieces: tuple[Piece, ...] = ()
    trouble: tuple[Failure, str] | None = None
    refused: int = 0
    late: bool = False
    cut: bool = False


@dataclass(frozen=True, slots=True)
class Answer:
    """What came of one request. `failure` is None where an answer came; `why` says more.

    `finish` is a time of the wire's clock, `gaps` are (time, seconds since the text before), `arrivals`
    the times at which text came. NaN is "not told". `correct` is None where nothing was expected.
    """

    question: Question
    sent: float
    finish: float
    ttft: float = math.nan
    e2e: float = math.nan
    gaps: tuple[tuple[float, float], ...] = ()
    output_tokens: float = math.nan
    prompt_tokens: float = math.nan
    text: str = ""
    correct: bool | None = None
    failure: Failure | None = None
    why: str = ""
    refused: int = 0
    late: bool = False


@dataclass(slots=True)
class _Read:
    """What the events of a stream add up to."""

    texts: list[str] = field(default_factory=list)
    arrivals: list[float] = field(default_factory=list)
    last: float = math.nan
    finished: bool = False
    chunks: int = 0
    output_tokens: float = math.nan
    prompt_tokens: float = math.nan
    failure: Failure | None = None
    why: str = ""


def answer_of(wire: Wire) -> Answer:
    """Read what came of a request."""
    failure, why = _refusal(wire)
    read = _Read()
    if failure is None:
        read = _read(wire)
        failure, why = read.failure, read.why
        if failure is None and not read.finished:
            failure, why = wire.trouble or _unfinished(read)
    if failure is not None:
        return Answer(
            question=wire.question,
            sent=wire.sent,
            finish=wire.ended,
            failure=failure,
            why=why,
            refused=wire.refused,
            late=wire.late,
        )
    text = "".join(read.texts)
    expectation = wire.question.expectation
    first = read.arrivals[0] if read.arrivals else math.nan
    return Answer(
        question=wire.question,
        sent=wire.sent,
        finish=read.last,
        ttft=first - wire.sent,
        e2e=read.last - wire.sent,
        gaps=tuple(_gaps(read.arrivals)),
        output_tokens=read.output_tokens,
        prompt_tokens=read.prompt_tokens,
        text=text,
        correct=expectation.holds(text) if expectation else None,
        refused=wire.refused,
        late=wire.late,
    )


def _refusal(wire: Wire) -> tuple[Failure | None, str]:
    """Why there is no stream to read at all."""
    status, told = wire.status, _message(b"".join(piece for _, piece in wire.pieces))
    if status == 0:
        return wire.trouble or (Failure.CONNECT, "no answer")
    said = f"{status}: {told}" if told else str(status)
    if status == 200:
        if "event-stream" in wire.kind:
            return None, ""
        kind = wire.kind.partition(";")[0] or "no content type"
        return Failure.NOT_A_STREAM, f"{kind}{', a login page or a proxy?' if 'html' in kind else ''}"
    if status in (401, 403):
        return Failure.UNAUTHORIZED, said
    if status == 404:
        return Failure.NOT_FOUND, said
    if status == 429:
        return Failure.THROTTLED, said
    if 300 <= status < 400:
        return Failure.REDIRECTED, said
    return (Failure.SERVER if status >= 500 else Failure.REJECTED), said


def _read(wire: Wire) -> _Read:
    read = _Read()
    told = list(events(wire.pieces))
    torn = wire.trouble is not None or not _ended(wire.pieces)
    for number, (time, data) in enumerate(told, 1):
        if data.strip() == _DONE:
            read.finished = True
            break
        try:
            chunk = json.loads(data)
            if not isinstance(chunk, dict):
                raise ValueError("no object")
        except (ValueError, RecursionError):
            if not (torn and number == len(told)):  # else the stream broke off in the middle of it
                read.failure, read.why = Failure.BAD_CHUNK, data[:80]
            return read
        if chunk.get("error") or chunk.get("object") == "error":
            read.failure, read.why = Failure.STREAM_ERROR, _error_text(chunk)
            return read
        _chunk(chunk, time, read)
    if read.finished and not read.chunks:
        read.failure, read.why = Failure.NO_ANSWER, "no chunk held a choice"
    return read


def _ended(pieces: tuple[Piece, ...]) -> bool:
    """Whether a stream ends with the blank line that its last event needs."""
    end = b"".join(piece for _, piece in pieces[-4:])
    return end.replace(b"\r\n", b"\n").replace(b"\r", b"\n").endswith(b"\n\n")


def _chunk(chunk: dict[str, Any], time: float, read: _Read) -> None:
    usage = chunk.get("usage")
    if isinstance(usage, dict):
        read.output_tokens = _count(usage.get("completion_tokens"))
        read.prompt_tokens = _count(usage.get("prompt_tokens"))
    choices = chunk.get("choices")
    if not (isinstance(choices, list) and choices and isinstance(choices[0], dict)):
        return
    read.chunks += 1
    read.last = time
    choice = choices[0]
    told = choice.get("delta")
    delta = told if isinstance(told, dict) else {}
    text = choice.get("text") or delta.get("content")
    if isinstance(text, str):
        read.texts.append(text)
    came = text or any(delta.get(name) for name in _ALIKE)
    if came and not (read.arrivals and time - read.arrivals[-1] < TOGETHER_S):
        read.arrivals.append(time)
    if choice.get("finish_reason"):
        read.finished = True


def _count(value: object) -> float:
    whole = isinstance(value, int) and not isinstance(value, bool)
    return float(value) if whole and 0 <= value < _MOST_TOKENS else math.nan  # type: ignore[operator,arg-type]


def _gaps(arrivals: list[float]) -> Iterator[tuple[float, float]]:
    for before, now in pairwise(arrivals):
        yield now, now - before


def _unfinished(read: _Read) -> tuple[Failure, str]:
    if read.chunks:
        return Failure.BROKE_OFF, f"the stream ended after {read.chunks} chunks, without [DONE]"
    return Failure.NO_ANSWER, "the stream ended without a chunk"


def _message(body: bytes) -> str:
    """What an error's body says: the OpenAI API's message, else nothing of a web page."""
    text = body[:4096].decode("utf-8", "replace").strip()
    try:
        return _error_text(json.loads(text))
    except (ValueError, RecursionError, TypeError):
        return "" if text.startswith("<") else text[:120]


def _error_text(told: Any) -> str:
    told = told.get("error", told) if isinstance(told, dict) else told
    if isinstance(told, dict):
        told = told.get("message") or told.get("detail") or told.get("type") or ""
    return str(told)[:200]
