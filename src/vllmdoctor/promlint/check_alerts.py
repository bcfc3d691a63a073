"""Alerts that fire when nothing is wrong, or on a single sample."""

import re
from collections.abc import Iterator
from dataclasses import replace

from vllmdoctor.model import Severity
from vllmdoctor.promlint.durations import seconds
from vllmdoctor.promlint.flaws import Context, Step
from vllmdoctor.promlint.lives import Metric, metric, spelt_as
from vllmdoctor.promlint.nodes import (
    COMPARISONS,
    Aggregate,
    Binary,
    Call,
    Node,
    Number,
    Selector,
    Subquery,
    bare,
    selectors,
    walk,
)
from vllmdoctor.promlint.shape import folded, labels, share

_PROGRESS = frozenset(("generation_tokens", "prompt_tokens", "requests_finished"))
_LOWER = frozenset(("<", "<=", "=="))
_PICKS = frozenset(("topk", "bottomk", "limitk", "limit_ratio"))  # what they let through keeps its labels
_FULL = 0.8  # from here on a limit on the KV usage means "full"
_LONG_S = 300.0  # a window of five minutes is a `for` of its own
_MEMORY = re.compile(r"\boom\b|out[ -]of[ -]memory", re.IGNORECASE)


def idle(tree: Node, context: Context) -> Iterator[Step]:
    """Little progress is no fault while nobody asks for anything."""
    if not context.alerts or _asks(tree, ("requests_running", "requests_waiting")):
        return
    top = bare(tree)
    if not (isinstance(top, Binary) and top.op in _LOWER and isinstance(bare(top.rhs), Number)):
        return
    read = list(selectors(top.lhs))
    found = [metric(each.name) for each in read]
    if not read or not all(f is not None and _progress(f) for f in found):
        return
    asked = (_beside(top.lhs, read[0], f"vllm:num_requests_{each}") for each in ("running", "waiting"))
    busy = Binary("+", next(asked), next(asked))
    what = "it fires on an idle server: ask for it only while requests are there"
    new = Binary("and", _of_each_server(top), Binary(">", busy, Number("0")))
    yield Step("fires-when-idle", Severity.WARNING, top, new, what)


def _progress(of: Metric) -> bool:
    """Whether it only grows while there is work: tokens, requests, and what a histogram counts."""
    counted = of.part == "_count" and of.origin == "vllm"
    return counted or (of.signal is not None and of.signal.name in _PROGRESS)


def _of_each_server(top: Binary) -> Node:
    """The comparison without the labels that other series of a server do not have."""
    side = labels(top.lhs)
    return top if side is None or side.exact else folded(top, side.names)


def full(tree: Node, context: Context) -> Iterator[Step]:
    """A full KV pool is good use of it; a fault only while requests wait."""
    if context.use != "alert" or _asks(tree, ("requests_waiting", "preemptions", "queue_time")):
        return
    top = bare(tree)
    if not (isinstance(top, Binary) and top.op in (">", ">=") and share(top.lhs)):
        return
    number, read = bare(top.rhs), list(selectors(top.lhs))
    if not isinstance(number, Number) or number.value is None or len(read) != 1:
        return
    found = metric(read[0].name)
    if found is None or found.signal is None or found.signal.name != "kv_cache_usage":
        return
    if number.value / share(top.lhs) < _FULL:
        return
    waiting = _beside(top.lhs, read[0], "vllm:num_requests_waiting")
    what = "a full KV pool alone is no fault: it is one while requests wait"
    if _MEMORY.search(context.texts):
        what += "; the pool is allocated at start, so it is not short of memory"
    new = Binary("and", top, Binary(">", waiting, Number("0")))
    yield Step("full-is-no-fault", Severity.INFO, top, new, what)


def _asks(tree: Node, signals: tuple[str, ...]) -> bool:
    found = (metric(each.name) for each in selectors(tree))
    return any(each and each.signal and each.signal.name in signals for each in found)


def _beside(side: Node, read: Selector, name: str) -> Node:
    """Another series of the same servers, grouped as the side is, so that the two match."""
    apart = ("finished_reason", "le", "reason", "quantile")
    matchers = tuple(m for m in read.matchers if m.label not in apart)
    name = spelt_as(read.name, name)
    series = Selector(name, matchers, offset=read.offset, said=name)
    outer = next((each for each in walk(side) if isinstance(each, Aggregate) and each.op not in _PICKS), None)
    if outer is None:
        return series
    return Aggregate("sum", series, outer.grouping, outer.labels)


def last_two(tree: Node, context: Context) -> Iterator[Step]:
    """irate() in an alert looks at the last two samples alone."""
    if context.use != "alert":
        return
    for node in walk(tree):
        if isinstance(node, Call) and node.func == "irate":
            found = [metric(each.name) for each in selectors(node)]
            if any(each is not None and each.cumulative for each in found):
                what = "irate() reads the last two samples alone: one quiet scrape ends the alert; use rate()"
                yield Step("irate-in-alert", Severity.WARNING, node, replace(node, func="rate"), what)


def needs_for(tree: Node, context: Context) -> bool:
    """Whether an alert without `for` can fire on a single scrape: nothing in it looks back far enough."""
    if context.use != "alert" or context.held:
        return False
    read = [each for each in selectors(tree) if metric(each.name) is not None]
    spans = [seconds(each.range) or 0.0 for each in walk(tree) if isinstance(each, Selector | Subquery)]
    compared = any(isinstance(each, Binary) and each.op in COMPARISONS for each in walk(tree))
    return bool(read) and compared and max(spans, default=0.0) < _LONG_S
