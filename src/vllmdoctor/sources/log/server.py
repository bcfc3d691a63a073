"""What one server's lines tell, gathered line by line, and handed on as observations."""

import math
import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field

from vllmdoctor.exposition import canonical_series
from vllmdoctor.model import Event, Fact, Gap, Observation, Samples
from vllmdoctor.sources.log.history import INTERVAL_S, Track
from vllmdoctor.sources.log.scan import Line
from vllmdoctor.sources.log.shapes import (
    OUT_OF_MEMORY,
    PREEMPTED,
    PREFIX_RATE,
    SPECULATION,
    SPECULATION_V0,
    STARTED,
    TROUBLE,
)
from vllmdoctor.sources.log.startup import GIVEN, LINE, Value, read_startup
from vllmdoctor.sources.log.statistics import aggregated, is_statistics, read_statistics

_SAME_START_S = 5.0  # several processes of one server tell that they start
_MOST_EVENTS = 20  # of one kind; more are counted
_POOL_FACTS = (
    "block_size", "enable_prefix_caching", "kv_cache_max_concurrency", "kv_cache_size_tokens",
    "num_gpu_blocks", "num_gpu_blocks_override",
)  # fmt: skip
_UNITS = {"bytes": 1.0, "B": 1.0, "K": 2.0**10, "M": 2.0**20, "G": 2.0**30, "T": 2.0**40}
_UNUSED = re.compile(r"([\d.]+) ([KMGT]?i?B|bytes) is reserved by PyTorch but unallocated")
_FREE = re.compile(r"of which ([\d.]+) ([KMGT]?i?B|bytes) is free|; ([\d.]+) ([KMGT]?i?B) free")
_RANK = re.compile(r"\(EngineCore(?:_DP|_)(\d+)[ )]")
_ERROR = re.compile(r"\bERROR \d\d-\d\d \d\d:\d\d:\d\d \[?([\w./]+\.py:\d+)\] (\S.*)")
_NOISE = re.compile(
    r"Traceback|\s|File \"|\^|~|[\w.]+(?:Error|Exception)?\(|raise |return |await |During handling"
)


@dataclass(slots=True)
class Server:
    """What one server's lines told."""

    name: str
    reference: float
    life: int = 0
    ends: list[float] = field(default_factory=lambda: [-math.inf])
    tracks: dict[str, Track] = field(default_factory=dict)
    facts: dict[str, Value] = field(default_factory=dict)
    origins: dict[str, str] = field(default_factory=dict)
    model: str = ""
    events: list[Event] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)
    spilled: dict[str, Event] = field(default_factory=dict)
    errors: set[str] = field(default_factory=set)
    memory: list[tuple[float, str, float, float, float]] = field(default_factory=list)
    preempted: list[tuple[float, float]] = field(default_factory=list)
    drafts: dict[str, list[tuple[float, float, float]]] = field(default_factory=dict)
    last: float = -math.inf
    first: float = math.inf
    banner: float = -math.inf
    lines_in_life: int = 0
    engine: str = "0"
    timeless: int = 0
    summed: bool = False
    served: int = 0

    @property
    def tells(self) -> bool:
        """Whether there is anything to hand on."""
        return bool(self.tracks or self.facts or self.events or self.memory)

    def take(self, line: Line, time: float | None) -> None:
        """Read one line."""
        text = line.text
        self.served += line.served
        known = time is not None
        if time is None:
            time = self.last if math.isfinite(self.last) else self.reference
        if is_statistics(text):
            if not known and self.tracks:
                time += INTERVAL_S
            self._statistics(text, time, known)
        elif found := SPECULATION.pattern.search(text):
            self.drafts.setdefault(self.engine, []).append((time, float(found[1]), float(found[2])))
        elif found := SPECULATION_V0.pattern.search(text):
            self._amend_total(float(found[1]), float(found[2]), time)
        elif found := PREFIX_RATE.pattern.search(text):
            if self.engine in self.tracks and float(found[1]) >= 0:
                self.tracks[self.engine].amend(hit_rate=float(found[1]) / 100)
        else:
            self._other(text, time)
        if known or self.tracks:
            if time > self.last:
                self.last = time
            if time < self.first:
                self.first = time
            if time > self.ends[self.life]:
                self.ends[self.life] = time

    def _statistics(self, text: str, time: float, known: bool) -> None:
        line = read_statistics(text)
        if line is None or not line.values:
            return
        self.timeless += not known
        self.summed = self.summed or (" Engines " in text and aggregated(text))
        self.engine = line.engine
        self.tracks.setdefault(line.engine, Track()).add(time, self.life, line, self.served)
        self.served = 0
        self.lines_in_life += 1

    def _amend_total(self, accepted: float, drafted: float, time: float) -> None:
        """V0 counts drafts since the start: keep the difference."""
        past = self.drafts.setdefault(self.engine, [])
        seen = (sum(a for _, a, _ in past), sum(d for _, _, d in past))
        if drafted >= seen[1]:
            past.append((time, accepted - seen[0], drafted - seen[1]))

    def _other(self, text: str, time: float) -> None:
        if found := STARTED.pattern.search(text):
            self._started(next(g for g in found.groups() if g), found[2] is not None, time)
        for key, value, origin in read_startup(text):
            if key == "served_model_name":
                self.model = str(value)
                continue
            if (
                key == "kv_cache_size_tokens"
                and self.lines_in_life == 0
                and key in self.facts
                and self.banner > 0
            ):
                value = min(float(self.facts[key]), float(value))  # one line a worker: the least holds
            if self.facts.get(key) != value or origin == GIVEN:
                self.facts[key], self.origins[key] = value, origin
        if found := PREEMPTED.pattern.search(text):
            self.preempted.append((time, float(found[2])))
            mode = "swapped out" if found[1] == "SWAP" else "thrown out to be computed anew"
            self._event(
                time, "preempted", f"for want of KV blocks a request was {mode}, {found[2]} since the start"
            )
        elif found := OUT_OF_MEMORY.pattern.search(text):
            self._out_of_memory(text, found, time)
        else:
            self._trouble(text, time)

    def _started(self, version: str, engine_only: bool, time: float) -> None:
        version = version.strip("v")
        self.facts["vllm_version"] = version
        again = time - self.banner > _SAME_START_S and (
            self.lines_in_life > 0 or (not engine_only and math.isfinite(self.banner))
        )
        if again:
            self.life += 1
            self.ends.append(time)
            self.lines_in_life = 0
            self.facts.pop("kv_cache_size_tokens", None)
            self._event(time, "restart", f"the server started anew (vLLM {version})")
        if not engine_only or again:
            self.banner = time

    def _out_of_memory(self, text: str, found: re.Match[str], time: float) -> None:
        wanted = _bytes(found[1], found[2])
        unused = _bytes(u[1], u[2]) if (u := _UNUSED.search(text)) else math.nan
        free = _bytes(f[1] or f[3], f[2] or f[4]) if (f := _FREE.search(text)) else math.nan
        rank = _RANK.search(text)
        self.memory.append((time, rank[1] if rank else "0", wanted, unused, free))
        said = f"GPU memory ran out: {wanted / 2**20:.0f} MiB wanted"
        said += "" if math.isnan(free) else f", {free / 2**20:.0f} MiB free"
        said += "" if math.isnan(unused) else f", {unused / 2**20:.0f} MiB reserved by PyTorch and unused"
        self._event(time, "gpu-out-of-memory", said)

    def _trouble(self, text: str, time: float) -> None:
        for kind, pattern, words, _ in TROUBLE:
            if found := pattern.search(text):
                self._event(time, kind, words.format(*found.groups()))
                return
        found = _ERROR.search(text)
        if not found or _NOISE.match(found[2]) or found[1] in self.errors:
            return
        if len(self.errors) < _MOST_EVENTS:
            self.errors.add(found[1])
            self._event(time, "error", found[2][:200])

    def _event(self, time: float, kind: str, text: str) -> None:
        self.counts[kind] = self.counts.get(kind, 0) + 1
        event = Event(time, kind, text, self.name, "log")
        if self.counts[kind] <= _MOST_EVENTS:
            self.events.append(event)
        else:
            self.spilled[kind] = event

    def observations(self, end: float) -> Iterator[Observation]:
        """All that was seen; `end` is when the log ends (unix s)."""
        if math.isfinite(end) and end >= self.ends[-1]:
            self.ends[-1] = end
        for key, value in self.facts.items():
            yield Fact(key, value, self.origins.get(key, LINE), self.name)
        if (size := self.facts.get("kv_cache_size_tokens")) and (
            room := self.facts.get("available_kv_cache_memory")
        ):
            per_token = float(room) * float(self.facts.get("tensor_parallel_size", 1)) / float(size)
            yield Fact("kv_bytes_per_token", per_token, f"{LINE}: available memory / size", self.name)
        yield from self.events
        for kind, event in self.spilled.items():
            more = self.counts[kind] - _MOST_EVENTS
            yield Event(event.time, kind, f"{event.text} (and {more - 1} more before)", self.name, "log")
        yield from self._series()
        if self.timeless:
            why = (
                f"{self.timeless} statistics lines show no time; {INTERVAL_S:.0f} s between them were assumed"
            )
            yield Gap(
                self.name, "times", why, "give the log as the container runtime keeps it, with timestamps"
            )
        if self.summed:
            yield Gap(self.name, "single engines", "the log sums its engines up (--aggregate-engine-logging)")
        if not self.tracks:
            yield Gap(
                self.name, "statistics lines", "the log holds none",
                "with --disable-log-stats, or several API servers, vLLM writes none",
            )  # fmt: skip

    def _series(self) -> Iterator[Samples]:
        alone = len(self.tracks) == 1
        for engine, track in self.tracks.items():
            labels = {"engine": engine, "model_name": self.model}
            times: list[float] | None = None
            for samples in track.samples(self.name, labels, self.ends, alone):
                times = list(samples.times) if times is None else times
                yield samples
                pool = self._pool(engine)
                if pool and samples.series.startswith("log:num_requests_running"):
                    yield Samples(
                        self.name,
                        canonical_series("log:cache_config_info", pool),
                        samples.times,
                        [1.0] * len(samples.times),
                    )
            yield from self._sums(engine, labels, times or [])
        if not self.tracks:
            last = self.last if math.isfinite(self.last) else self.reference
            first = min(self.first, last - 1.0)
            pool = self._pool("0")
            yield Samples(
                self.name, canonical_series("log:cache_config_info", pool), [first, last], [1.0, 1.0]
            )
        for engine in dict.fromkeys(m[1] for m in self.memory):
            yield from self._memory(engine)

    def _pool(self, engine: str) -> dict[str, str]:
        known = {key: str(self.facts[key]) for key in _POOL_FACTS if key in self.facts}
        return {"engine": engine, "model_name": self.model, **known}

    def _sums(self, engine: str, labels: dict[str, str], moments: list[float]) -> Iterator[Samples]:
        """Drafts, at the moments of their own lines, and V0's preemptions, at those of the statistics."""
        drafts = self.drafts.get(engine, [])
        if drafts:
            times = [drafts[0][0] - INTERVAL_S, *(t for t, _, _ in drafts)]
            for name, column in (("accepted", 1), ("draft", 2)):
                total, sums = 0.0, [0.0]
                for row in drafts:
                    total += row[column]
                    sums.append(total)
                yield Samples(
                    self.name,
                    canonical_series(f"log:spec_decode_num_{name}_tokens_total", labels),
                    times,
                    sums,
                )
        if self.preempted and moments:
            known = [math.nan, *(n for _, n in self.preempted)]  # how many there were before is not known
            seen = [bisect_right(self.preempted, (moment, math.inf)) for moment in moments]
            series = canonical_series("log:num_preemptions_total", labels)
            yield Samples(self.name, series, moments, [known[i] for i in seen])

    def _memory(self, engine: str) -> Iterator[Samples]:
        failed = [m for m in self.memory if m[1] == engine]
        labels = {"engine": engine, "model_name": self.model}
        start = min(self.first, failed[0][0]) - 1.0
        times = [start, *(m[0] + 1e-3 * i for i, m in enumerate(failed))]
        for name, values in (
            ("log:gpu_out_of_memory_total", [float(i) for i in range(len(times))]),
            ("log:gpu_out_of_memory_wanted_bytes", [math.nan, *(m[2] for m in failed)]),
            ("log:gpu_out_of_memory_unused_bytes", [math.nan, *(m[3] for m in failed)]),
        ):
            yield Samples(self.name, canonical_series(name, labels), times, values)


def _bytes(number: str, unit: str) -> float:
    return float(number) * _UNITS.get(unit if unit in _UNITS else unit[0], 1.0)
