"""A saved answer of Prometheus' query or query_range API: one history a series."""

import json
from array import array
from collections.abc import Iterator
from typing import Any

from vllmdoctor.exposition import canonical_series, to_seconds
from vllmdoctor.model import Gap, Samples

_KEY = '"metric"'


def read_query(text: str, instance: str, origin: str) -> Iterator[Samples | Gap]:
    """Read the series of one answer (or of several, one after the other).

    Series by series, so that the numbers of a large answer never stand in memory as text objects
    all at once. What is no named series is counted in a Gap.
    """
    decoder = json.JSONDecoder()
    unnamed = damaged = at = 0
    while (key := text.find(_KEY, at)) >= 0:
        try:
            entry, end = decoder.raw_decode(text, text.rfind("{", 0, key))
            at = max(end, key + len(_KEY))  # the brace before a key need not be its own
            series, times, values = _series(entry)
            if series:
                yield Samples(instance, series, times, values)
            else:
                unnamed += 1
        except (ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RecursionError):
            damaged += 1
            at = max(at, key + len(_KEY))
    if unnamed:
        why = "the query's result has no metric name"
        yield Gap(
            origin, f"{unnamed} series", why, "query the metrics themselves, not rate() or sum() of them"
        )
    if damaged:
        yield Gap(origin, f"{damaged} series", "damaged, or cut off in the middle")


def _series(entry: Any) -> tuple[str, "array[float]", "array[float]"]:
    labels = dict(entry["metric"])
    name = labels.pop("__name__", "")
    pairs = entry["values"] if "values" in entry else [entry["value"]]
    times = array("d", [to_seconds(float(time)) for time, _ in pairs])
    values = array("d", [float(value) for _, value in pairs])
    if not all(isinstance(text, str) for text in (name, *labels, *labels.values())):
        raise ValueError("labels are texts")
    return canonical_series(name, labels) if name else "", times, values
