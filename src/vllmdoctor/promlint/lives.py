"""What is known of a metric's name: what kind it is, and on which releases it is shown."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType

from vllmdoctor.release import Span, Version, short, version
from vllmdoctor.signals import SIGNALS, Name, Signal, canonical_name, family_name
from vllmdoctor.tables import rows
from vllmdoctor.versions import releases

PARTS = ("_bucket", "_sum", "_count", "_created")
_SPREAD: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {  # labels that divide one metric of one engine into several series
        "vllm:request_success_total": ("finished_reason",),
        "vllm:num_requests_waiting_by_reason": ("reason",),
        "vllm:admission_rejections_total": ("reason",),
        "vllm:prompt_tokens_by_source_total": ("source",),
        "vllm:spec_decode_num_accepted_tokens_per_pos_total": ("position",),
        "vllm:engine_sleep_state": ("sleep_state",),
    }
)


ROUTER = frozenset(  # what the router of vLLM's production stack shows under vLLM's own prefix
    f"vllm:{name}"
    for name in (
        "current_qps", "avg_decoding_length", "num_prefill_requests", "num_decoding_requests",
        "num_incoming_requests_total", "routing_decisions_total", "healthy_pods_total", "avg_latency",
        "avg_itl", "input_tokens_total", "output_tokens_total", "request_errors_total",
        "request_latency_seconds_bucket", "request_latency_seconds_sum", "request_latency_seconds_count",
    )
)  # fmt: skip
ROUTERS_LABEL = "server"  # and with this label it repeats names of the servers behind it


@dataclass(frozen=True, slots=True)
class Metric:
    """A series that vLLM, or what stands around it, shows: its family, kind, part and signal."""

    name: str
    family: str
    kind: str
    part: str
    signal: Signal | None
    spelling: Name | None

    @property
    def cumulative(self) -> bool:
        """Whether it only grows until the server restarts."""
        return self.kind == "counter" or (
            self.kind in ("histogram", "summary") and self.part in PARTS[:3] and self.part != ""
        )

    @property
    def origin(self) -> str:
        """Whose labels it has: "vllm", its "process", "dcgm", "cadvisor", "kube", ..."""
        era = self.spelling.era if self.spelling else "V1"
        if self.family.startswith(("http_", "process_", "python_")):
            return "process"
        return "vllm" if era in ("V0", "V1", "rust") else era

    @property
    def apart(self) -> tuple[str, ...]:
        """Labels that only this one of a server's series has."""
        return ("le",) if self.part == "_bucket" else _SPREAD.get(self.family, ())

    @property
    def share(self) -> float:
        """100 for a percentage, 1 for a share from 0 to 1, 0 for anything else."""
        if self.family == "vllm:cpu_cache_usage_perc":
            return 1
        if self.signal is None or self.signal.unit != "ratio" or self.spelling is None:
            return 0
        return 1 / self.spelling.scale


@cache
def _kinds() -> dict[str, str]:
    kinds = {row["name"]: row["kind"] for row in rows("metrics")}
    for signal in SIGNALS.values():
        for name in signal.names:
            kinds.setdefault(name.text, signal.kind)
    return kinds


@cache
def _spellings() -> dict[str, tuple[Signal, Name]]:
    return {name.text: (signal, name) for signal in SIGNALS.values() for name in signal.names}


@cache
def metric(raw: str) -> Metric | None:
    """What is known of a series' name, in any spelling; None for a stranger's."""
    name, family = canonical_name(raw), family_name(raw)
    part = name.removeprefix(family) if name != family else ""
    if family not in _kinds() and family.endswith("_created"):
        part, family = "_created", family.removesuffix("_created")
        family = family if family in _kinds() else f"{family}_total"
    if family not in _kinds():
        return None
    signal, spelling = _spellings().get(family, (None, None))
    return Metric(name, family, _kinds()[family], part, signal, spelling)


def spelt_as(raw: str, name: str) -> str:
    """vLLM's name with the prefix that a file writes: Ray and NIM have others."""
    found = metric(raw)
    stem = found.name.removeprefix("vllm:") if found else ""
    if not stem or not raw.endswith(stem):
        return name
    return raw.removesuffix(stem) + name.removeprefix("vllm:")


@dataclass(frozen=True, slots=True)
class Life:
    """When a family is shown: from `since`, on request only from `hidden`, no more after `last`."""

    since: Version
    hidden: Version | None
    last: Version | None

    def on(self, release: Version) -> str:
        """Whether a release has it: "shown", "hidden", "early" (not yet) or "gone"."""
        if release < self.since:
            return "early"
        if self.last is not None and not Span(self.since, self.last).holds(release):
            return "gone"
        return "hidden" if self.hidden is not None and release >= self.hidden else "shown"


@cache
def lives(family: str) -> tuple[Life, ...]:
    """One for each engine that has had it, of vLLM's names."""
    return tuple(
        Life(
            version(row["since"]),
            version(row["hidden"]) if row["hidden"] else None,
            version(row["last"]) if row["last"] else None,
        )
        for row in rows("metrics")
        if row["name"] == family
    )


def state(family: str, release: Version | None) -> str:
    """Whether a release, the newest where none is given, has it: "shown", "hidden", "early" or "gone"."""
    at = release or releases()[-1]
    found = {life.on(at) for life in lives(family)}
    if not found:
        return "shown"
    return next(each for each in ("shown", "hidden", "gone", "early") if each in found)


def end(family: str) -> str:
    """When a family went, in words: "removed in 0.12 (hidden from 0.11)"."""
    life = max(lives(family), key=lambda each: each.last or each.since)
    if life.last is None:
        return f"hidden from {short(life.hidden)}" if life.hidden else "shown"
    after = next((r for r in releases() if r > life.last), life.last)
    minor = f"{after.minor[0]}.{after.minor[1]}"
    gone = f"removed in {minor if after.minor != life.last.minor else short(after)}"
    return f"{gone} (hidden from {short(life.hidden)})" if life.hidden else gone


def begin(family: str) -> Version:
    """The first release that had it."""
    return min(life.since for life in lives(family))


def successor(found: Metric, release: Version | None) -> Metric | None:
    """The name under which a release shows the same signal; None where it has none."""
    if found.signal is None:
        return None
    for name in found.signal.names:
        if name.era != "log" and name.text != found.family and state(name.text, release) == "shown":
            other = metric(name.text)
            if other is not None and other.kind == found.kind:
                return other
    return None


@cache
def shown_names(release: Version | None) -> tuple[str, ...]:
    """All families of vLLM that a release, the newest where none is given, shows."""
    known = sorted({row["name"] for row in rows("metrics") if row["engine"]})
    return tuple(name for name in known if state(name, release) == "shown")
