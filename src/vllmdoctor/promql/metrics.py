"""A signal as an expression of PromQL, whatever its names are on the servers at hand.

Written for Prometheus from 2.42 on and for MetricsQL. A renamed signal becomes `new or old`, joined
series by series before anything is summed, so that a server that shows both counts once.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from vllmdoctor.errors import UnknownName
from vllmdoctor.promql.names import Spelling
from vllmdoctor.promql.text import bare, either, label_of, quoted
from vllmdoctor.signals import SIGNALS, Name

_APART = {  # labels that divide one signal of one engine into several series
    "requests_finished": ("finished_reason",),
    "admission_rejections": ("reason",),
    "http_requests": ("handler", "method", "status"),
    "http_duration": ("handler", "method"),
}
_ENGINE_LABELS = ("engine", "model_name", "model")
_CARRIED = {  # labels of a server's own series that others carry too
    "pod": ("namespace", "pod", "cluster"),
    "gpu": ("cluster",),
}
_CONTAINER = ("namespace", "pod", "container")
_WORKLOAD = ("namespace", "deployment", "statefulset")
PER_ENGINE = ("engine", "model_name")
"""The labels by which the series of one server differ from those of its scrape target."""


class NotShown(UnknownName):
    """A signal that has no name on the servers at hand."""

    def __init__(self, signal: str, shown: Iterable[str]) -> None:
        super().__init__("signal on these servers", signal, shown)
        self.signal = signal


@dataclass(frozen=True, slots=True)
class Metrics:
    """The names at hand and the matchers that choose the servers; every verb gives an expression.

    `matchers` choose vLLM's targets. Of those only the labels that cAdvisor's and the cluster's
    series also carry are asked of them. Windows and offsets are PromQL durations or a
    dashboard's variable ("5m", "$__rate_interval"). Each verb raises NotShown for a signal that has
    no name in `names`: ask `has` first.
    """

    names: Spelling
    matchers: tuple[str, ...] = ()

    def has(self, *signals: str) -> bool:
        """Whether all these signals have a name on the servers at hand."""
        return all(s in self.names for s in signals)

    def selectors(self, signal: str, part: str = "", window: str = "", offset: str = "") -> tuple[str, ...]:
        """The series of a signal, a selector for each of its names; `part` is a histogram's suffix."""
        return tuple(s for _, s in self._selected(signal, part, window, offset))

    def gauge(self, signal: str, over: str = "", window: str = "", offset: str = "") -> str:
        """A gauge as it is, or `over` a window ("avg", "max", "min", "quantile 0.9"), in SI units."""
        verb, _, argument = over.partition(" ")
        call = f"{verb}_over_time({argument + ', ' if argument else ''}%s)" if over else "%s"
        return self._joined(signal, call, "", window if over else "", offset)

    def rate(self, signal: str, window: str, part: str = "", offset: str = "") -> str:
        """What a counter gains per second."""
        return self._joined(signal, "rate(%s)", part, window, offset)

    def increase(
        self, signal: str, window: str, part: str = "", offset: str = "", only: Sequence[str] = ()
    ) -> str:
        """What a counter gains in a window; `only` those series that these matchers choose."""
        return self._joined(signal, "increase(%s)", part, window, offset, only)

    def resets(self, signal: str, window: str) -> str:
        """How often a counter began anew in a window."""
        return self._joined(signal, "resets(%s)", "", window, "")

    def mean(self, signal: str, window: str, offset: str = "") -> str:
        """The mean of a histogram's observations in a window; no value where there was none."""
        total, count = (self.rate(signal, window, part, offset) for part in ("_sum", "_count"))
        return f"({total} / ({count} > 0))"

    def quantile(
        self, q: float, signal: str, window: str, offset: str = "", by: Sequence[str] | None = None
    ) -> str:
        """A quantile of a histogram in a window, of each engine or of what `by` puts together."""
        inner = bare(self.rate(signal, window, "_bucket", offset))
        if by is not None:
            inner = f"sum by ({', '.join(dict.fromkeys([*by, 'le']))}) ({inner})"
        return f"histogram_quantile({q:g}, {inner})"

    def _joined(
        self, signal: str, call: str, part: str, window: str, offset: str, only: Sequence[str] = ()
    ) -> str:
        """`call` of the series under each name, in SI units, newest first: one series for an engine."""
        chosen = list(self._selected(signal, part, window, offset, only))
        fold = self._fold(signal)
        each_alone = SIGNALS[signal].scope == "pod"  # exporters' labels differ as their names do
        found = []
        for name, series in chosen:
            value = call % series if name.scale == 1 else f"({call % series} * {name.scale:.12g})"
            found.append(f"{fold} ({bare(value)})" if each_alone else value)
        joined = either(found)
        return joined if each_alone or not fold else f"{fold} ({bare(joined)})"

    def _selected(
        self, signal: str, part: str, window: str, offset: str, only: Sequence[str] = ()
    ) -> Iterator[tuple[Name, str]]:
        if signal not in self.names:
            raise NotShown(signal, self.names)
        chosen = self._matchers(signal)
        for name in self.names[signal]:
            own = [f"{label}={quoted(value)}" for label, value in name.labels]
            inside = ",".join([*chosen, *own, *only])
            series = f"{name.text}{part}" + (f"{{{inside}}}" if inside else "")
            yield name, series + (f"[{window}]" if window else "") + (f" offset {offset}" if offset else "")

    def _matchers(self, signal: str) -> list[str]:
        scope = SIGNALS[signal].scope
        if scope == "engine":
            return list(self.matchers)
        if scope == "instance":
            return [m for m in self.matchers if label_of(m) not in _ENGINE_LABELS]
        own = ['container!=""', 'container!="POD"'] if self._of_container(signal) else []
        return [m for m in self.matchers if label_of(m) in _CARRIED[scope]] + own

    @staticmethod
    def _of_container(signal: str) -> bool:
        return any(n.text.startswith("container_") for n in SIGNALS[signal].names)

    def _fold(self, signal: str) -> str:
        """How several series of one engine, container or workload become one; "" where there is but one."""
        if SIGNALS[signal].scope == "pod":
            return f"max by ({', '.join(_WORKLOAD if signal.startswith('replicas_') else _CONTAINER)})"
        names = self.names[signal]
        apart = _APART.get(signal) or tuple(dict.fromkeys(label for n in names for label, _ in n.labels))
        if not apart:
            return ""
        return f"{'max' if SIGNALS[signal].merge == 'max' else 'sum'} without ({', '.join(apart)})"
