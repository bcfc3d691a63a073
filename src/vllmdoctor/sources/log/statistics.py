"""One statistics line -> numbers, by its `label: value` pairs."""

import re
from dataclasses import dataclass
from functools import lru_cache

from vllmdoctor.sources.log.shapes import FIELDS, STATISTICS

_PAIR = re.compile(r"([A-Z][A-Za-z ]*?)\s*:\s*(-?\d+(?:\.\d+)?)")
# The line of 0.8.3 and later with nothing special in it, which is most lines of most logs: read in one step.
_V1 = re.compile(
    r"Avg prompt throughput: (\d+\.\d+) tokens/s, Avg generation throughput: (\d+\.\d+) tokens/s, "
    r"Running: (\d+) reqs, Waiting: (\d+) reqs, [A-Z]+ KV cache usage: (\d+\.\d+)%"
    r"(?:, Prefix cache hit rate: (\d+\.\d+)%)?\s*$"
)
_V1_NAMES = ("prompt", "generation", "running", "waiting", "usage", "hit_rate")
_V1_SCALES = (1.0, 1.0, 1.0, 1.0, 0.01, 0.01)
_POOL = re.compile(r"[a-z]*kvcacheus(?:ed|age)")
_ENGINE = re.compile(r"Engine\s*(\d+):\s*$")
_TOGETHER = re.compile(r"\d+ Engines Aggregated:")
_USUAL, _RUST = "Avg prompt t", "Avg prompt tput"
_FEWEST = 5  # fields of a line that is read as vLLM writes it; else it was wrapped, or lacks a comma


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
    at = text.find(_USUAL)
    if at < 0:
        start = STATISTICS.pattern.search(text)
        if start is None:
            return None
        at = start.start()
    usual = _V1.match(text, at)
    if usual is not None:
        values = {
            name: float(n) * s for name, n, s in zip(_V1_NAMES, usual.groups(), _V1_SCALES, strict=True) if n
        }
    else:
        values = _plain(text[at:])
    if len(values) < _FEWEST:
        values = _lenient(text[at:])
    engine = _ENGINE.search(text, max(0, at - 16), at)
    return Statistics(
        engine=str(int(engine[1])) if engine else "0",
        values=values,
        rust=text.startswith(_RUST, at),
        old="swapped" in values,
    )


def is_statistics(text: str) -> bool:
    """Whether a line is a statistics line."""
    return _USUAL in text or STATISTICS.pattern.search(text) is not None


def aggregated(text: str) -> bool:
    """Whether the line sums several engines up."""
    return bool(_TOGETHER.search(text))


def _plain(body: str) -> dict[str, float]:
    """The fields of a line that is as vLLM writes it; fewer of one that is not."""
    values: dict[str, float] = {}
    for part in body.split(", "):
        label, _, rest = part.partition(": ")
        name, scale = _field(label)
        if name and name not in values:
            try:
                values[name] = float(rest.partition(" ")[0].rstrip("%.\n")) * scale
            except ValueError:
                return {}
    return values


def _lenient(body: str) -> dict[str, float]:
    values: dict[str, float] = {}
    for label, number in _PAIR.findall(body.replace("|", ",")):
        name, scale = _field(label)
        if name:
            values.setdefault(name, float(number) * scale)
    return values


@lru_cache(maxsize=1024)
def _field(label: str) -> tuple[str, float]:
    """What a label names, and the scale to SI; ("", 0) for one that is not read."""
    key = label.replace(" ", "").lower()
    return FIELDS.get(key) or (("usage", 0.01) if _POOL.fullmatch(key) else ("", 0.0))
