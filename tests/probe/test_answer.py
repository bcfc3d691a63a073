"""From what came over the wire to an answer, whatever a server writes."""

import json
import math
from typing import Any

import pytest
from bench.probe.server import event
from hypothesis import given, settings
from hypothesis import strategies as st

from vllmdoctor.model_probe import Failure
from vllmdoctor.probe.answer import Answer, Wire, answer_of
from vllmdoctor.probe.questions import Expectation, Question

QUESTION = Question("q", "/v1/completions", "", {}, Expectation("contains", "4"))
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
STREAM = ("choices", "text", "delta", "content", "finish_reason", "usage", "completion_tokens")
KEYS = (*STREAM, "error", "object")


def nested(depth: int) -> st.SearchStrategy[Any]:
    inner = JSON if depth == 0 else nested(depth - 1) | st.lists(nested(depth - 1), max_size=2)
    return st.dictionaries(st.sampled_from(KEYS), inner, max_size=5)


def read(*pieces: tuple[float, bytes], trouble: tuple[Failure, str] | None = None) -> Answer:
    ended = pieces[-1][0] if pieces else 1.0
    return answer_of(Wire(QUESTION, 0.0, ended, 200, "text/event-stream", pieces, trouble))


def chunk(text: str, **more: Any) -> bytes:
    return event({"choices": [{"text": text, **more}]})


@settings(max_examples=40, deadline=None)
@given(st.lists(nested(3), max_size=4))
def test_whatever_json_a_server_writes_there_is_an_answer_or_a_failure(chunks: list[Any]) -> None:
    whole = b"".join(b"data: " + json.dumps(c).encode() + b"\n\n" for c in chunks) + b"data: [DONE]\n\n"

    answer = read((1.0, whole))

    assert (answer.failure is None) == (answer.finish == 1.0 and not math.isnan(answer.e2e))


@settings(max_examples=40, deadline=None)
@given(st.binary(max_size=200))
def test_whatever_bytes_come_there_is_a_failure_and_no_error(whole: bytes) -> None:
    assert read((1.0, whole)).failure is not None


def test_times_are_those_of_the_text() -> None:
    answer = read(
        (0.1, event({"choices": [{"delta": {"role": "assistant", "content": ""}}]})),
        (0.3, chunk("it ")),
        (0.5, chunk("is ")),
        (0.5002, chunk("4 ")),
        (0.9, chunk("", finish_reason="stop")),
        (1.4, event({"choices": [], "usage": {"completion_tokens": 3, "prompt_tokens": 9}})),
        (1.5, b"data: [DONE]\n\n"),
    )

    assert (answer.text, answer.correct) == ("it is 4 ", True)
    assert (answer.ttft, answer.e2e, answer.finish) == (0.3, 0.9, 0.9)
    assert [round(gap, 3) for _, gap in answer.gaps] == [0.2]  # what came together counts once
    assert (answer.output_tokens, answer.prompt_tokens) == (3.0, 9.0)


@pytest.mark.parametrize(
    ("end", "failure"),
    [
        (b'data: {"choi', Failure.BROKE_OFF),
        (b'data: {"choi\n\n', Failure.BAD_CHUNK),
        (b"data: nonsense\n\ndata: [DONE]\n\n", Failure.BAD_CHUNK),
    ],
)
def test_a_chunk_that_the_end_cuts_off_is_told_from_one_that_is_no_json(end: bytes, failure: Failure) -> None:
    assert read((1.0, chunk("a")), (2.0, end)).failure is failure


@pytest.mark.parametrize("count", [-1, 10**400, 1.5, True, "7", None])
def test_a_count_of_tokens_that_is_none_is_not_told(count: object) -> None:
    usage = {"completion_tokens": count}

    answer = read((1.0, chunk("4", finish_reason="stop") + event({"choices": [], "usage": usage})))

    assert math.isnan(answer.output_tokens)
