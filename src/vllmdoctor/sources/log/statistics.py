"""One statistics line -> numbers, by its `label: value` pairs."""

import re
from dataclasses import dataclass

from vllmdoctor.sources.log.shapes import FIELDS, STATISTICS

_PAIR = re.compile(r"([A-Z][A-Za-z ]*?)\s*:\s*(-?\d+(?:\.\d+)?)")
_POOL = re.compile(r"[a-z]*kvcacheus(?:ed|age)")
_ENGINE = re.compile(r"Engine\s*(\d+):")
_TOGETHER = re.compile(r"\d+ Engines Aggregated:")


@dataclass(frozen=True, slots=True)
class Statistics:
    """One line: `values` by what they are (tokens/s, requests, ratios); `rust` and `old` name its writer."""

    engine: str
    values: dict[str, float]
    rust: bool
    old: bool


def read_statistics(text: str) -> Statistics | None:
    """The numbers of a statistics line; None where it is none.

    Old servers name the host's swap space after the pool; a server on CPU calls its pool that:
    the first KV cache in the line is the pool.
    """
    start = STATISTICS.pattern.search(text)
    if start is None:
        return None
    values: dict[str, float] = {}
    body = text[start.start() :].replace("|", ",")
    for label, number in _PAIR.findall(body):
        key = label.replace(" ", "").lower()
        if key in FIELDS:
            name, scale = FIELDS[key]
            values[name] = float(number) * scale
        elif _POOL.fullmatch(key):
            values.setdefault("usage", float(number) * 0.01)
    engine = _ENGINE.search(text, 0, start.start() + 1)
    return Statistics(
        engine=str(int(engine[1])) if engine else "0",
        values=values,
        rust="put:" in start[0] and "tput" in start[0],
        old="swapped" in values,
    )


def aggregated(text: str) -> bool:
    """Whether the line sums several engines up."""
    return bool(_TOGETHER.search(text))
