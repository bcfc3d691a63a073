"""The file of requests: JSON lines, each a prompt or messages, and what the answer is held against."""

import difflib
import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vllmdoctor.errors import UsageError

MAX_TOKENS = 256
"""What an answer may be long where a request does not say it: no request is without a bound."""

SAMPLING = frozenset(
    (
        "temperature", "top_p", "top_k", "min_p", "seed", "stop", "stop_token_ids", "min_tokens",
        "ignore_eos", "presence_penalty", "frequency_penalty", "repetition_penalty", "logit_bias",
        "response_format", "structured_outputs", "chat_template_kwargs", "tools", "tool_choice", "priority",
    )
)  # fmt: skip
"""What is handed on to the server as it is; anything else goes into `extra`."""
EXPECTATIONS = ("expected", "contains", "regex")
_OWN = frozenset(("prompt", "messages", "max_tokens", "id", "model", "extra", *EXPECTATIONS))
_OURS = frozenset(("stream", "stream_options", "n", "prompt", "messages", "model"))


@dataclass(frozen=True, slots=True)
class Expectation:
    """What an answer must be. Answers and texts are trimmed of white space at both ends first.

    `how`: "expected" (the answer is the text), "contains" (the text stands in it) or "regex" (the
    pattern is found somewhere in it).
    """

    how: str
    text: str

    def holds(self, answer: str) -> bool:
        """Whether an answer is right."""
        answer = answer.strip()
        match self.how:
            case "expected":
                return answer == self.text.strip()
            case "contains":
                return self.text.strip() in answer
            case _:
                return re.search(self.text, answer) is not None


@dataclass(frozen=True, slots=True)
class Question:
    """One request: its route, its body but for the model ("" where the file names none), what it expects."""

    id: str
    route: str
    model: str
    fields: Mapping[str, Any]
    expectation: Expectation | None

    def body(self, model: str) -> bytes:
        """The JSON to send, for a model where the request names none."""
        told = {"model": self.model or model, **self.fields}
        return json.dumps(told | {"stream": True, "stream_options": {"include_usage": True}}).encode()


def read_questions(path: str) -> tuple[Question, ...]:
    """The requests of a file; UsageError names the file, the line and what is wrong with it."""
    try:
        text = Path(path).read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise UsageError(f"cannot read {path}: {(error.strerror or str(error)).lower()}") from None
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} is no UTF-8 text (byte {error.start})") from None
    found = tuple(_questions(path, text))
    if not found:
        raise UsageError(
            f"{path} holds no request",
            hint='a line is as {"prompt": "2 + 2 =", "contains": "4", "max_tokens": 8}',
        )
    return found


def fingerprint(questions: Sequence[Question]) -> str:
    """SHA-256 of what is to be sent and expected; the same for the same work, however it is spelled."""
    told = [
        [
            q.route,
            q.model,
            q.fields,
            [q.expectation.how, q.expectation.text] if q.expectation else None,
        ]
        for q in questions
    ]
    return hashlib.sha256(json.dumps(told, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def _questions(path: str, text: str) -> Iterator[Question]:
    lines: dict[str, int] = {}
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        try:
            question = _question(json.loads(line, parse_constant=_no_constant), number)
        except (ValueError, RecursionError) as error:
            told = f"no JSON: {error.msg}" if isinstance(error, json.JSONDecodeError) else str(error)
            raise UsageError(f"{path}, line {number}: {told}") from None
        if question.id in lines:
            raise UsageError(
                f"{path}, line {number}: the id {question.id!r} is that of line {lines[question.id]} already"
            )
        lines[question.id] = number
        yield question


def _no_constant(word: str) -> float:
    raise ValueError(f"{word} is no JSON number")


def _question(told: object, number: int) -> Question:
    """A line's request; ValueError says what is wrong with it."""
    if not isinstance(told, dict):
        raise ValueError("not an object { }")
    for key in told:
        if key not in _OWN | SAMPLING:
            near = difflib.get_close_matches(key, sorted(_OWN | SAMPLING), n=1)
            raise ValueError(
                f"no field named {key!r}"
                + (f", did you mean {near[0]!r}?" if near else "; what this does not know goes into 'extra'")
            )
    if ("prompt" in told) == ("messages" in told):
        raise ValueError("either 'prompt' or 'messages' is wanted")
    route, kind = ("/v1/completions", "prompt") if "prompt" in told else ("/v1/chat/completions", "messages")
    if kind == "prompt" and not (isinstance(told["prompt"], str) and told["prompt"]):
        raise ValueError("'prompt' is a text that is not empty")
    if kind == "messages":
        _check_messages(told["messages"])
    fields = {"max_tokens": MAX_TOKENS, "temperature": 0} | {k: v for k, v in told.items() if k in SAMPLING}
    fields |= {kind: told[kind], "max_tokens": _max_tokens(told)} | _extra(told)
    return Question(
        id=_id(told, number),
        route=route,
        model=_text(told, "model"),
        fields=fields,
        expectation=_expectation(told),
    )


def _check_messages(messages: object) -> None:
    whole = isinstance(messages, list) and messages
    if not whole or not all(isinstance(m, dict) and isinstance(m.get("role"), str) for m in messages):  # type: ignore[attr-defined]
        raise ValueError("'messages' is a list of objects, each with a 'role'")


def _max_tokens(told: Mapping[str, Any]) -> int:
    most = told.get("max_tokens", MAX_TOKENS)
    if isinstance(most, bool) or not isinstance(most, int) or most < 1:
        raise ValueError("'max_tokens' is a whole number from 1 on")
    return most


def _extra(told: Mapping[str, Any]) -> dict[str, Any]:
    extra = told.get("extra", {})
    if not isinstance(extra, dict):
        raise ValueError("'extra' is an object { }")
    taken = sorted(_OURS & extra.keys())
    if taken:
        raise ValueError(f"'extra' cannot set {taken[0]!r}")
    return extra


def _id(told: Mapping[str, Any], number: int) -> str:
    given = told.get("id", f"line {number}")
    if isinstance(given, bool) or not isinstance(given, str | int) or given == "":
        raise ValueError("'id' is a text or a whole number")
    return str(given)


def _text(told: Mapping[str, Any], key: str) -> str:
    given = told.get(key, "")
    if not isinstance(given, str):
        raise ValueError(f"{key!r} is a text")
    return given


def _expectation(told: Mapping[str, Any]) -> Expectation | None:
    given = [key for key in EXPECTATIONS if key in told]
    if not given:
        return None
    if len(given) > 1:
        raise ValueError(f"either {given[0]!r} or {given[1]!r}, not both")
    how, text = given[0], _text(told, given[0])
    if not text.strip() and how != "expected":
        raise ValueError(f"{how!r} is empty: any answer would do")
    if how == "regex":
        try:
            re.compile(text)
        except re.error as error:
            raise ValueError(f"'regex' is no pattern: {error}") from None
    return Expectation(how, text)
