"""From answers to a recording, each on the disk as it comes; the series are those of `probe_series`.

Prompts and answers are not kept, only what was measured.
"""

import math
from collections.abc import Iterator, Sequence
from pathlib import Path

from vllmdoctor import probe_series as names
from vllmdoctor.model import Event, Fact, Observation, Samples
from vllmdoctor.probe.answer import Answer
from vllmdoctor.storage import Recorder

_MICRO = 1_000_000


class Keeper:
    """Writes answers to a new recording. The file is made with the first answer: nothing is left of a
    probe to which none came. `zero` is (unix seconds, seconds of the answers' clock) of one moment."""

    def __init__(self, path: Path, facts: Sequence[Fact], zero: tuple[float, float], target: str) -> None:
        self._path, self._target = path, target
        self._waiting: list[Observation] = list(facts)
        self._recorder: Recorder | None = None
        self._move = zero[0] - zero[1]
        self._taken: dict[str, set[int]] = {"finish": set(), "gap": set()}

    def __enter__(self) -> "Keeper":
        return self

    def __exit__(self, *_: object) -> None:
        if self._recorder is not None:
            self._recorder.close()

    def add(self, answer: Answer) -> None:
        """Write what an answer, or a request that failed, adds."""
        self._waiting += self._observations(answer)
        if answer.failure is None and self._recorder is None:
            self._recorder = Recorder(self._path, {"targets": [self._target]})
        if self._recorder is not None:
            for observation in self._waiting:
                self._recorder.write(observation)
            self._waiting = []

    def _observations(self, answer: Answer) -> Iterator[Observation]:
        finish = self._time("finish", answer.finish)
        told = {
            names.ERROR: float(answer.failure is not None),
            names.TTFT: answer.ttft,
            names.E2E: answer.e2e,
            names.OUTPUT_TOKENS: answer.output_tokens,
            names.PROMPT_TOKENS: answer.prompt_tokens,
            names.CORRECT: math.nan if answer.correct is None else float(answer.correct),
        }
        for series, value in told.items():
            if not math.isnan(value):
                yield Samples(names.PROBE_INSTANCE, series, [finish], [value])
        if answer.gaps:
            times = [self._time("gap", time) for time, _ in answer.gaps]
            yield Samples(names.PROBE_INSTANCE, names.ITL, times, [gap for _, gap in answer.gaps])
        if answer.failure is not None:
            text = f"{answer.question.id}: {answer.failure}"
            yield Event(finish, "probe-failed", text, names.PROBE_INSTANCE, self._target)

    def _time(self, which: str, moment: float) -> float:
        """Unix seconds of a moment, a microsecond later where a sample has that time: a time is kept once."""
        micro = round((moment + self._move) * _MICRO)
        while micro in self._taken[which]:
            micro += 1
        self._taken[which].add(micro)
        return micro / _MICRO
