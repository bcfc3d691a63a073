"""The tables of knowledge that ship as CSV beside the code: read once, never changed."""

import csv
from functools import cache
from importlib.resources import files


@cache
def rows(name: str) -> tuple[dict[str, str], ...]:
    """The rows of `data/NAME.csv`, by column."""
    with files("vllmdoctor").joinpath("data", f"{name}.csv").open(encoding="utf-8") as lines:
        return tuple(csv.DictReader(lines))
