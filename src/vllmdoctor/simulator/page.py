"""The metrics page of a pod as one scrape sees it, companions included."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from vllmdoctor.simulator import names
from vllmdoctor.simulator.companions import CompanionView
from vllmdoctor.simulator.info import cache_config_labels
from vllmdoctor.simulator.labels import bound, series

if TYPE_CHECKING:
    from collections.abc import Iterable

    from vllmdoctor.simulator.histogram import Histogram
    from vllmdoctor.simulator.pod import Pod
    from vllmdoctor.simulator.setup import Setup
    from vllmdoctor.simulator.tally import Tally


class PodPage:
    """Names, labels and values of one pod; key texts are made once."""

    def __init__(self, setup: Setup, pod: Pod) -> None:
        self.setup = setup
        self.pod = pod
        self.instance = f"10.0.0.{10 + pod.number}:8000"
        self.pod_name = f"vllm-{pod.number}"
        # A fleet needs to be told apart; a single server's page has no such label.
        self.target: dict[str, str] = (
            {"instance": self.instance, "pod": self.pod_name} if setup.pods > 1 else {}
        )
        self.companions = CompanionView(setup, pod, self.instance, self.pod_name)
        self.keys: dict[tuple[str, str], tuple[list[str], str, str, str]] = {}
        self.plain: dict[tuple[str, ...], str] = {}

    def values(self, now_s: float, *, answered: bool) -> dict[str, float]:
        """The page; without vLLM's part when the server did not answer."""
        out: dict[str, float] = {}
        if answered:
            self._process(out)
            for number, engine in enumerate(self.pod.engines):
                self._engine(out, number, engine.tally)
            self._http(out)
        self.companions.add(out, now_s, answered=answered)
        return out

    def _key(self, name: str, labels: dict[str, str]) -> str:
        mark = (name, *labels.values())
        key = self.plain.get(mark)
        if key is None:
            key = self.plain[mark] = series(name, {**labels, **self.target})
        return key

    @property
    def many_servers(self) -> bool:
        """From 0.15 there are as many API servers as engines, in Prometheus' multi-process mode."""
        return self.setup.engines > 1 and self.setup.era.version >= (0, 15, 0)

    @property
    def _created_s(self) -> float:
        return self.setup.start_unix_s + self.pod.started_s + 2.5

    def _process(self, out: dict[str, float]) -> None:
        if self.setup.era.name == "v0" or self.many_servers:  # multi-process mode hides them
            return
        pod = self.pod
        out[self._key("process_virtual_memory_bytes", {})] = round(pod.memory.api * 1.9 + 1.5e9)
        out[self._key("process_resident_memory_bytes", {})] = float(
            4096 * round(pod.memory.api * (1 + 0.001 * pod.rng.gauss(0, 1)) / 4096)
        )
        out[self._key("process_start_time_seconds", {})] = round(self.setup.start_unix_s + pod.started_s, 2)
        out[self._key("process_cpu_seconds_total", {})] = round(pod.cpu_s, 2)
        out[self._key("process_open_fds", {})] = float(90 + min(pod.in_flight, 4000))
        out[self._key("process_max_fds", {})] = 1048576.0

    def _labels(self, number: int) -> dict[str, str]:
        labels = {"model_name": self.setup.model_name}
        if self.setup.era.version >= (0, 8, 3):
            labels["engine"] = str(number)
        return labels

    def _engine(self, out: dict[str, float], number: int, tally: Tally) -> None:
        era = self.setup.era
        server = self.setup.server
        labels = self._labels(number)
        key = self._key
        created = era.version >= (0, 11, 1) and not self.many_servers
        out[key("vllm:num_requests_running", labels)] = float(tally.running)
        out[key("vllm:num_requests_waiting", labels)] = float(tally.waiting)
        if era.version >= (0, 20, 0):
            name = "vllm:num_requests_waiting_by_reason"
            out[key(name, {**labels, "reason": "capacity"})] = float(tally.waiting)
            out[key(name, {**labels, "reason": "deferred"})] = 0.0
        if era.version >= (0, 11, 1):
            for state, value in (("awake", 1.0), ("weights_offloaded", 0.0), ("discard_all", 0.0)):
                out[key("vllm:engine_sleep_state", {**labels, "sleep_state": state})] = value
        for name in names.usage_names(era):
            out[key(name, labels)] = names.shown_usage(era, tally.usage, server.num_gpu_blocks)
        if era.name == "v0":
            self._v0(out, labels, tally)
        for name, more, value in names.counters(era, tally, server.block_size):
            out[key(name, {**labels, **more})] = float(math.floor(value + 1e-6))
            if created:
                made = name.removesuffix("_total") + "_created"
                out[key(made, {**labels, **more})] = self._created_s
        for name, histogram in names.histograms(era, tally):
            self._histogram(out, name, labels, histogram)
            if created:
                out[key(name + "_created", labels)] = self._created_s
        engine_label = {"engine": labels["engine"]} if "engine" in labels else {}
        out[key("vllm:cache_config_info", cache_config_labels(self.setup) | engine_label)] = 1.0

    def _v0(self, out: dict[str, float], labels: dict[str, str], tally: Tally) -> None:
        out[self._key("vllm:num_requests_swapped", labels)] = 0.0
        out[self._key("vllm:cpu_cache_usage_perc", labels)] = 0.0
        on = self.setup.server.enable_prefix_caching and tally.prefix_queries > 0
        rate = tally.prefix_hits / tally.prefix_queries if on else -1.0
        out[self._key("vllm:gpu_prefix_cache_hit_rate", labels)] = rate
        out[self._key("vllm:cpu_prefix_cache_hit_rate", labels)] = -1.0

    def _histogram(
        self, out: dict[str, float], name: str, labels: dict[str, str], histogram: Histogram
    ) -> None:
        mark = (name, labels.get("engine", "") + labels.get("handler", ""))
        keys = self.keys.get(mark)
        if keys is None:
            all_labels = {**labels, **self.target}
            bounds: Iterable[str] = (*map(bound, histogram.bounds), "+Inf")
            keys = self.keys[mark] = (
                [series(name + "_bucket", {**all_labels, "le": each}) for each in bounds],
                series(name + "_count", all_labels),
                series(name + "_sum", all_labels),
                "",
            )
        cumulative = histogram.cumulative()
        out.update(zip(keys[0], cumulative, strict=True))
        out[keys[1]] = cumulative[-1]
        out[keys[2]] = histogram.total

    def _http(self, out: dict[str, float]) -> None:
        if self.setup.era.version < (0, 8, 3):
            return
        pod = self.pod
        for (handler, status), value in pod.http.items():
            labels = {"handler": handler, "method": "POST", "status": status}
            out[self._key("http_requests_total", labels)] = value
        self._histogram(out, "http_request_duration_highr_seconds", {}, pod.http_highr)
        for handler, histogram in pod.http_handlers.items():
            labels = {"handler": handler, "method": "POST"}
            self._histogram(out, "http_request_duration_seconds", labels, histogram)
