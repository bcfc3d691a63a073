"""Writing pages as timestamped OpenMetrics text that promtool can import."""

from __future__ import annotations

import gzip
from array import array
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from vllmdoctor.simulator.world import Page

_SUFFIXES = ("_bucket", "_count", "_sum")


def family(name: str) -> tuple[str, str]:
    """(family, type) of a sample name; knows the names the simulator makes.

    ``vllm:iteration_tokens_total`` is a histogram although its name ends like a counter's.
    """
    for suffix in _SUFFIXES:
        if name.endswith(suffix):
            return name.removesuffix(suffix), "histogram"
    if name.endswith("_total"):
        return name.removesuffix("_total"), "counter"
    return name, "gauge"


class Columns:
    """Samples by series: times [s] and values, in the order pages came."""

    def __init__(self) -> None:
        self.series: dict[str, tuple[array[float], array[float]]] = {}

    def add(self, page: Page) -> None:
        """Take in one page."""
        series, time_s = self.series, page.time_s
        for key, value in page.values.items():
            column = series.get(key)
            if column is None:
                column = series[key] = (array("d"), array("d"))
            column[0].append(time_s)
            column[1].append(value)

    def lines(self) -> Iterator[str]:
        """OpenMetrics lines: families together, each series in ascending time."""
        families: dict[tuple[str, str], list[str]] = {}
        for key in self.series:
            families.setdefault(family(key.partition("{")[0]), []).append(key)
        for (name, kind), keys in families.items():
            yield f"# TYPE {name} {kind}\n"
            for key in keys:
                times, values = self.series[key]
                yield "".join(
                    f"{key} {value!r} {time_s:.3f}\n" for time_s, value in zip(times, values, strict=True)
                )
        yield "# EOF\n"


def write_openmetrics(pages: Iterable[Page], path: str | Path) -> int:
    """Write ``pages`` to ``path`` (gzip if it ends in ``.gz``); the number of pages written."""
    columns = Columns()
    number = 0
    for number, page in enumerate(pages, start=1):  # noqa: B007 - the count is the result
        columns.add(page)
    path = Path(path)
    if path.suffix == ".gz":
        # No name and no time in the header, so equal seeds give equal files.
        with path.open("wb") as raw, gzip.GzipFile("", "wb", 5, raw, mtime=0) as packed:
            for line in columns.lines():
                packed.write(line.encode())
    else:
        with path.open("w", encoding="utf-8") as text:
            text.writelines(columns.lines())
    return number
