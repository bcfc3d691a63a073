"""A bundled recording as the pages that a real server served."""

from functools import cache

import numpy as np

from vllmdoctor.sources import Window, gather_targets


@cache
def recorded(name: str) -> tuple[tuple[float, str], ...]:
    """A bundled recording as the pages that were served: (unix s, text)."""
    recording = gather_targets([f"example:{name}"], Window())
    (columns,) = recording.columns.values()
    times = np.unique(np.concatenate([c.times for c in columns.values()]))
    texts: list[list[str]] = [[] for _ in times]
    for series, column in columns.items():
        at = np.searchsorted(times, column.times)
        for i, value in zip(at, column.values, strict=True):
            if value == value:
                texts[i].append(f"{series} {float(value)!r}\n")
    return tuple((float(t), "".join(lines)) for t, lines in zip(times, texts, strict=True))
