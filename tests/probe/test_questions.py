"""The file of requests: what it may hold, and what is said of a line that is wrong."""

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vllmdoctor.errors import UsageError
from vllmdoctor.probe.questions import Expectation, Question, fingerprint, read_questions


def read(folder: Path, *lines: object) -> tuple[Question, ...]:
    path = folder / "requests.jsonl"
    path.write_text("".join(f"{x if isinstance(x, str) else json.dumps(x)}\n" for x in lines))
    return read_questions(str(path))


def test_a_prompt_goes_to_completions_and_messages_to_chat(tmp_path: Path) -> None:
    prompt, chat = read(
        tmp_path, {"prompt": "2 + 2 ="}, {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 9}
    )

    assert (prompt.route, chat.route) == ("/v1/completions", "/v1/chat/completions")
    assert json.loads(prompt.body("m")) == {
        "model": "m",
        "prompt": "2 + 2 =",
        "max_tokens": 256,
        "temperature": 0,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    assert json.loads(chat.body("m"))["max_tokens"] == 9


def test_sampling_fields_and_extra_are_handed_on_and_a_model_of_its_own_wins(tmp_path: Path) -> None:
    (one,) = read(
        tmp_path, {"prompt": "a", "model": "lora", "temperature": 0.7, "stop": ["x"], "extra": {"guided": 1}}
    )

    body = json.loads(one.body("base"))

    assert (body["model"], body["temperature"], body["stop"], body["guided"]) == ("lora", 0.7, ["x"], 1)


def test_a_request_without_an_id_is_called_by_its_line(tmp_path: Path) -> None:
    assert [q.id for q in read(tmp_path, "", {"prompt": "a"}, {"prompt": "b", "id": 7})] == ["line 2", "7"]


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("{", "line 2: no JSON"),
        ("[1]", "line 2: not an object"),
        ({"promt": "a"}, "did you mean 'prompt'?"),
        ({"prompt": "a", "frobnicate": 1}, "goes into 'extra'"),
        ({}, "either 'prompt' or 'messages'"),
        ({"prompt": "a", "messages": []}, "either 'prompt' or 'messages'"),
        ({"prompt": ""}, "'prompt' is a text that is not empty"),
        ({"prompt": ["a"]}, "'prompt' is a text"),
        ({"messages": []}, "'messages' is a list"),
        ({"messages": [{"content": "no role"}]}, "each with a 'role'"),
        ({"prompt": "a", "max_tokens": 0}, "'max_tokens' is a whole number"),
        ({"prompt": "a", "max_tokens": True}, "'max_tokens' is a whole number"),
        ({"prompt": "a", "expected": "x", "regex": "y"}, "not both"),
        ({"prompt": "a", "regex": "("}, "'regex' is no pattern"),
        ({"prompt": "a", "contains": " "}, "any answer would do"),
        ({"prompt": "a", "expected": 4}, "'expected' is a text"),
        ({"prompt": "a", "model": 4}, "'model' is a text"),
        ({"prompt": "a", "id": ""}, "'id' is a text"),
        ({"prompt": "a", "id": "first"}, "the id 'first' is that of line 1"),
        ({"prompt": "a", "extra": {"stream": False}}, "'extra' cannot set 'stream'"),
        ({"prompt": "a", "extra": 1}, "'extra' is an object"),
        ('{"prompt": "a", "temperature": NaN}', "NaN is no JSON number"),
        ("[" * 100_000, "line 2"),
    ],
)
def test_a_bad_line_is_named_with_its_number_and_what_is_wrong(
    tmp_path: Path, line: object, told: str
) -> None:
    with pytest.raises(UsageError) as caught:
        read(tmp_path, {"prompt": "x", "id": "first"}, line)

    assert "line 2" in caught.value.message
    assert told in caught.value.message


def test_a_file_without_a_request_shows_what_a_line_looks_like(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        read(tmp_path, "", "  ")

    assert '{"prompt": "2 + 2 ="' in caught.value.hint


def test_a_missing_file_and_one_that_is_no_text_are_told(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"\xff\xfe")

    for path, told in (("nope.jsonl", "no such file"), (str(tmp_path / "x"), "no UTF-8 text")):
        with pytest.raises(UsageError, match=told):
            read_questions(path)


@pytest.mark.parametrize(
    ("how", "text", "answer", "right"),
    [
        ("expected", "4", " 4\n", True),
        ("expected", " 4 ", "4", True),
        ("expected", "4", "4.", False),
        ("expected", "", "  ", True),
        ("contains", "four", "it is four, I think", True),
        ("contains", "four", "it is Four", False),
        ("regex", r"^\d+$", " 42 ", True),
        ("regex", r"^\d+$", "42 apples", False),
    ],
)
def test_what_is_right(how: str, text: str, answer: str, right: bool) -> None:
    assert Expectation(how, text).holds(answer) is right


def test_the_same_work_has_the_same_fingerprint_however_it_is_spelled(tmp_path: Path) -> None:
    one = read(tmp_path, '{"prompt": "a", "max_tokens": 256, "id": "x"}')
    same = read(tmp_path, '{"id":"y","temperature":0,"prompt":"\\u0061"}')
    other = read(tmp_path, '{"prompt": "a", "expected": "b"}')

    assert fingerprint(one) == fingerprint(same)
    assert fingerprint(one) != fingerprint(other)
    assert fingerprint(one) != fingerprint(one * 2)


@settings(max_examples=60, deadline=None)
@given(st.text(max_size=80))
def test_any_line_is_a_request_or_a_usage_error(line: str) -> None:
    from vllmdoctor.probe.questions import _questions  # a file for each example would take minutes

    try:
        list(_questions("x", line))
    except UsageError as error:
        assert error.message.startswith("x, line ")
