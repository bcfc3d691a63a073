"""Which servers a dashboard's expressions are about, and how they are grouped."""

from dataclasses import dataclass

from vllmdoctor.promql import Metrics, Spelling, either
from vllmdoctor.rules import get

RATE = "$__rate_interval"
_GPU_PODS = ("pod", "exported_pod")  # DCGM's own pod has the first where labels are not honoured


@dataclass(frozen=True, slots=True)
class Scope:
    """The metrics at hand, and the label that names a server: `pod`, or `instance` without Kubernetes.

    `around` is for what carries no server's label.
    """

    metrics: Metrics
    around: Metrics
    server: str = "pod"

    @classmethod
    def of(cls, names: Spelling, server: str = "pod") -> "Scope":
        """For these names. Deployments are chosen by their namespace alone, all else by the server too."""
        place = ('namespace=~"$namespace"',) if server == "pod" else ()
        chosen = (*place, 'model_name=~"$model"', f'{server}=~"$server"', 'engine=~"$engine"')
        return cls(Metrics(names, chosen), Metrics(names, place), server)

    @property
    def kubernetes(self) -> bool:
        """Whether servers are pods, so that the cluster's own metrics are about them."""
        return self.server == "pod"

    @property
    def per_engine(self) -> str:
        """What a line of one engine is called."""
        return f"{{{{{self.server}}}}} {{{{engine}}}}"

    @property
    def per_server(self) -> str:
        """What a line of one server is called."""
        return f"{{{{{self.server}}}}}"

    def has(self, *signals: str) -> bool:
        """Whether these signals have a name on the releases at hand."""
        return self.metrics.has(*signals)

    def total(self, expr: str) -> str:
        """Of all chosen servers together."""
        return f"sum({expr})"

    def by_server(self, expr: str, op: str = "sum") -> str:
        """Of each server, its engines together."""
        return f"{op} by ({self.server}) ({expr})"

    def rate(self, signal: str, window: str = RATE, part: str = "", offset: str = "") -> str:
        """What a counter gains per second."""
        return self.metrics.rate(signal, window, part, offset)

    def quantile(self, q: float, signal: str, window: str = RATE) -> str:
        """A quantile over the requests of all chosen servers."""
        return self.metrics.quantile(q, signal, window, by=())

    def mean(self, signal: str, window: str = RATE) -> str:
        """The mean over the requests of all chosen servers."""
        total, count = (self.total(self.rate(signal, window, part)) for part in ("_sum", "_count"))
        return f"{total} / ({count} > 0)"

    def share(self, part: str, whole: str, window: str = RATE) -> str:
        """A counter as a share of another, all chosen servers together."""
        return f"{self.total(self.rate(part, window))} / ({self.total(self.rate(whole, window))} > 0)"

    def gpu(self, signal: str) -> str:
        """A GPU's gauge in SI units; exporters differ in which label names the pod that uses it."""
        found = []
        for name in self.metrics.names[signal]:
            for label in _GPU_PODS if self.server == "pod" else ("",):
                chosen = f'{{{label}=~"$server"}}' if label else ""
                scaled = f" * {name.scale:.12g}" if name.scale != 1 else ""
                found.append(f"({name.text}{chosen}{scaled})" if scaled else f"{name.text}{chosen}")
        return either(found)


def limit(key: str) -> float:
    """A limit of the doctor's own rules, as cause.limit."""
    cause, _, name = key.partition(".")
    return get(cause).limits[name].value
