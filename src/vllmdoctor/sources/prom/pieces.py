"""The questions of one reading: which pieces, in which order, and whose answers they are."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from vllmdoctor.signals import SIGNALS
from vllmdoctor.sources.prom.companions import Link
from vllmdoctor.sources.prom.names import (
    ALWAYS_MAX,
    ENGINE_BUCKETS,
    ENGINE_FINE,
    ENGINE_MEANS,
    INSTANCE_FINE,
    kept_labels,
    part_of,
)
from vllmdoctor.sources.prom.plan import Grid, Piece, within
from vllmdoctor.sources.prom.survey import Survey

_HTTP_SERIES = 6  # handlers and statuses that one server shows
_ALL = ('le="+Inf"',)


@dataclass(frozen=True, slots=True)
class Question:
    """A piece, and whose series it is about: engines, the processes they run in, or what is around."""

    piece: Piece
    whose: Literal["engines", "processes", "around"] = "engines"
    link: Link | None = None

    def halves(self) -> tuple["Question", ...]:
        """Two smaller questions; () where it cannot be divided."""
        return tuple(replace(self, piece=half) for half in self.piece.halves())


@dataclass(frozen=True, slots=True)
class _Group:
    """Names that are asked together."""

    about: str
    fold: str
    names: tuple[str, ...]
    extra: tuple[str, ...]
    matchers: tuple[str, ...]
    coarse: bool
    series: float  # of one server
    whose: Literal["engines", "processes"] = "engines"


def questions(told: Survey, around: Sequence[Link], budget: int) -> tuple[Grid, list[Question]]:
    """The grid that the budget allows, and all questions on it, the most telling first."""
    groups = list(_groups(told))
    servers = len(told.targets)
    fine = round(sum(g.series for g in groups if not g.coarse) * servers)
    fine += sum(link.series for link in around)
    coarse = round(sum(g.series for g in groups if g.coarse) * servers)
    grid = within(budget, told.start, told.end, told.scrape_s, fine, coarse)
    label, values = _partition(told)
    asked: list[Question] = []
    for group in groups:
        piece = Piece(
            group.about,
            group.fold,
            group.names,
            (*told.scheme.by, *group.extra),
            (*told.matchers, *group.matchers),
            label,
            values,
            max(2.2 * told.scrape_s, told.scrape_s + 2),
            grid.start,
            grid.coarse_end if group.coarse else grid.end,
            grid.coarse if group.coarse else grid.fine,
        )
        asked += [Question(part, group.whose) for part in piece.batches(group.series)]
    for link in around:
        values = tuple(link.owners)
        piece = Piece(
            "containers, GPUs and replicas", "max", link.names, link.by, link.matchers, link.label, values,
            0.0, grid.start, grid.end, grid.fine,
        )  # fmt: skip
        asked += [Question(part, "around", link) for part in piece.batches(link.series / max(1, len(values)))]
    return grid, asked


def _partition(told: Survey) -> tuple[str, tuple[str, ...]]:
    """The label by which a fleet is asked in batches: one that all servers have."""
    targets = told.targets.values()
    for label, found in (
        ("instance", [t.instance for t in targets]),
        (told.scheme.pod, [t.pod for t in targets]),
    ):
        values = set(found)
        if label and "" not in values:
            return label, tuple(sorted(values))
    return "", ()


def _groups(told: Survey) -> Iterator[_Group]:
    engines = max(1.0, sum(told.engines.values()) / max(1, len(told.targets)))
    fine = _chosen(told, ENGINE_FINE)
    plain = [n for n in fine if not part_of(n)]
    counts = [n for n in fine if part_of(n) == "_count"]
    folds: dict[tuple[str, tuple[str, ...]], list[str]] = defaultdict(list)
    folds["sum", ()] += counts
    for name in plain:
        merge = SIGNALS[told.spelling.signal_of(name)].merge
        kept = kept_labels(told.spelling.family(name))
        folds["max" if merge in ALWAYS_MAX else "sum", kept].append(name)
    for (fold, kept), names in folds.items():
        series = engines * len(names) * (1 + len(kept))
        if names:
            yield _Group("gauges and counters", fold, tuple(names), kept, (), False, series)
    yield from _of_instances()
    for signal in ENGINE_BUCKETS:
        names = _chosen(told, [signal])
        buckets = tuple(n for n in names if part_of(n) == "_bucket")
        if buckets:
            about = f"the histogram of {signal.replace('_', ' ')}"
            series = engines * told.buckets / len(ENGINE_BUCKETS)
            yield _Group(about, "sum", buckets, ("le",), (), True, series)
    means = _chosen(told, ENGINE_MEANS)
    rest = [n for n in _chosen(told, (*ENGINE_BUCKETS, *ENGINE_MEANS)) if part_of(n) in ("_sum", "_count")]
    if rest:
        yield _Group("sums and counts of histograms", "sum", tuple(rest), (), (), True, engines * len(rest))
    whole = tuple(n for n in means if part_of(n) == "_bucket")
    if whole:
        yield _Group("sums and counts of histograms", "sum", whole, ("le",), _ALL, True, engines * len(whole))


def _of_instances() -> Iterator[_Group]:
    """The process, its HTTP front and whether it was scraped: not vLLM's names, of the same targets."""
    plain = [n.text for s in INSTANCE_FINE if s != "http_requests" for n in SIGNALS[s].names]
    yield _Group("the servers' processes", "max", tuple(plain), (), (), False, len(plain), "processes")
    http = tuple(n.text for n in SIGNALS["http_requests"].names)
    kept = kept_labels(http[0])
    yield _Group("HTTP requests", "sum", http, kept, (), False, _HTTP_SERIES, "processes")


def _chosen(told: Survey, signals: Iterable[str]) -> list[str]:
    """The names from which signals are read, on any of the servers."""
    wanted = tuple(signals)
    found: set[str] = set()
    for shown in told.shown.values():
        families = {told.spelling.family(raw) for raw in shown}
        present = [raw for raw in told.names if told.spelling.family(raw) in families]
        found.update(told.spelling.chosen(present, wanted))
    if len(told.shown) < len(told.targets):  # those that are gone may have had other names
        by_signal = {raw for raw in told.names if told.spelling.signal_of(raw) in wanted}
        found |= by_signal
    return sorted(found)
