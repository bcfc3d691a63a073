"""Which engines are there now: what a history holds of others is past, and no answer is given for it."""

from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from vllmdoctor.engines import ENGINE_NAMES
from vllmdoctor.exposition import split_series
from vllmdoctor.model import EngineReport
from vllmdoctor.recording import Recording
from vllmdoctor.signals import canonical_name

Engine: TypeAlias = tuple[str, str, str]
"""Instance, model and engine, as the labels of vLLM's series have them."""


def engine_of(answer: EngineReport) -> Engine:
    """Which engine an answer is about."""
    return answer.instance, answer.model, answer.engine


def engines_there(recording: Recording, oldest: Callable[[str], float]) -> frozenset[Engine]:
    """The engines that showed any of vLLM's own series since `oldest` (unix s) of their instance."""
    there: set[Engine] = set()
    for instance, columns in recording.columns.items():
        since = oldest(instance)
        for series, column in columns.items():
            raw, labels = split_series(series)
            if not canonical_name(raw).startswith(ENGINE_NAMES):
                continue
            engine = instance, labels.get("model_name", labels.get("model", "")), labels.get("engine", "0")
            if engine not in there:
                late = column.values[np.searchsorted(column.times, since) :]
                if bool(np.isfinite(late).any()):
                    there.add(engine)
    return frozenset(there)
