"""From answers to a report: quantiles, rates, what was right and wrong, and what was not measured."""

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from vllmdoctor import probe_series as names
from vllmdoctor.errors import BlindError, NotEnoughData, NotVllm, Unauthorized, Unreachable
from vllmdoctor.model import Gap
from vllmdoctor.model_probe import Failed, Failure, Spread, Wrong
from vllmdoctor.probe.answer import Answer

FEWEST = {0.5: 1, 0.95: 20, 0.99: 100}
"""A quantile of fewer samples would be one sample's value and no quantile."""

_BLIND: dict[Failure, type[BlindError]] = {
    Failure.UNAUTHORIZED: Unauthorized,
    Failure.NOT_A_STREAM: NotVllm,
    Failure.NOT_FOUND: NotVllm,
    Failure.REJECTED: NotVllm,
    Failure.BAD_CHUNK: NotVllm,
    Failure.NO_ANSWER: NotVllm,
    Failure.REDIRECTED: NotVllm,
    Failure.TOO_LARGE: NotVllm,
}


@dataclass(slots=True)
class Tally:
    """What a probe's answers add up to; the texts of those that are right are not kept."""

    ttft: list[float] = field(default_factory=list)
    e2e: list[float] = field(default_factory=list)
    gaps: list[float] = field(default_factory=list)
    output_tokens: list[float] = field(default_factory=list)
    prompt_tokens: list[float] = field(default_factory=list)
    answered: int = 0
    judged: int = 0
    wrong: list[Wrong] = field(default_factory=list)
    failures: Counter[Failure] = field(default_factory=Counter)
    examples: dict[Failure, str] = field(default_factory=dict)
    refused: int = 0
    late: int = 0
    first: float = math.inf
    last: float = -math.inf

    def add(self, answer: Answer) -> None:
        """Count an answer, or a request that failed."""
        self.refused += answer.refused
        self.late += answer.late
        if answer.failure is not None:
            self.failures[answer.failure] += 1
            self.examples.setdefault(answer.failure, f"{answer.question.id}: {answer.why}")
            return
        self.answered += 1
        self.first, self.last = min(self.first, answer.sent), max(self.last, answer.finish)
        self.ttft.append(answer.ttft)
        self.e2e.append(answer.e2e)
        self.gaps += [gap for _, gap in answer.gaps]
        self.output_tokens.append(answer.output_tokens)
        self.prompt_tokens.append(answer.prompt_tokens)
        if answer.correct is not None:
            self.judged += 1
            expectation = answer.question.expectation
            if not answer.correct and expectation is not None:
                how = {"expected": "", "contains": "contains ", "regex": "matches "}[expectation.how]
                self.wrong.append(
                    Wrong(answer.question.id, how + expectation.text.strip(), answer.text.strip())
                )

    @property
    def seconds(self) -> float:
        """From the first answered request to the last answer; NaN without any."""
        return self.last - self.first if self.answered else math.nan

    @property
    def output_rate(self) -> float:
        """Output tokens per second; NaN where an answer's tokens are not known."""
        return sum(self.output_tokens) / self.seconds if self.answered and self.seconds > 0 else math.nan

    def spreads(self) -> tuple[Spread, ...]:
        """The distributions, in the order of the page."""
        return (
            _spread(names.TTFT, "time to first token", self.ttft),
            _spread(names.ITL, "time between tokens", self.gaps),
            _spread(names.E2E, "whole answer", self.e2e),
        )

    def failed(self) -> tuple[Failed, ...]:
        """The ways in which requests failed, the most frequent first."""
        return tuple(Failed(f, count, self.examples[f]) for f, count in self.failures.most_common())

    def gaps_in_sight(self, target: str) -> Iterator[Gap]:
        """What was not measured, and why."""
        unknown = sum(map(math.isnan, self.output_tokens))
        if unknown:
            yield Gap(
                target,
                "output tokens per second",
                f"{unknown} of {self.answered} answers came without usage",
                "the server ignores stream_options.include_usage",
            )
        silent = sum(map(math.isnan, self.ttft))
        if silent:
            yield Gap(
                target, "the time to first token of all", f"{silent} of {self.answered} answers held no text"
            )
        if self.answered and not self.gaps:
            yield Gap(target, "time between tokens", "every answer came in one piece")
        if not self.judged:
            yield Gap(
                target,
                "right and wrong answers",
                "no request that was answered says what it expects",
                "give requests 'expected', 'contains' or 'regex'",
            )

    def blind(self, target: str, models: Sequence[str], ended: str) -> BlindError | None:
        """The error to end with where not one answer came."""
        if self.answered:
            return None
        if not self.failures:
            return NotEnoughData(
                f"no answer came before {ended or 'the end'}", hint="give it more time: --max-time 30m"
            )
        failure, count = self.failures.most_common(1)[0]
        hint = ""
        if failure is Failure.NOT_FOUND and models:
            hint = f"it serves: {', '.join(models)}"
        elif failure is Failure.TIMED_OUT:
            hint = "is it overloaded? --timeout sets how long to wait for the next token"
        total = sum(self.failures.values())
        return _BLIND.get(failure, Unreachable)(
            f"{target}: no request was answered; {count} of {total}: {failure} ({self.examples[failure]})",
            hint=hint,
        )


def _spread(name: str, title: str, values: Sequence[float]) -> Spread:
    known = np.asarray([v for v in values if not math.isnan(v)])
    p50, p95, p99 = (
        float(np.quantile(known, q)) if known.size >= least else math.nan for q, least in FEWEST.items()
    )
    mean = float(known.mean()) if known.size else math.nan
    return Spread(name, title, names.UNITS[name], int(known.size), mean, p50, p95, p99)
