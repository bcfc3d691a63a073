"""What a server does, bin by bin: work offered, work done, speed, and what its KV pool really holds.

All arrays stand on the frame's grid; NaN where it cannot be known.
"""

import math
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np

from vllmdoctor.frame import Frame
from vllmdoctor.histogram import Buckets, Histogram
from vllmdoctor.statistics import FloatArray, Mask, finite, mean

MIX_BINS = 9  # request lengths are averaged over about this many bins
FEWEST_AT_CEILING = 5  # the highest of a few values is a ceiling of nothing
GIVEN_UP = 1.25  # by so much prompts or HTTP requests must exceed what the gauges tell of arrivals
BUSY_USAGE = 0.10  # below this KV use, capacity per use is mostly noise


@dataclass(frozen=True)
class Vitals:
    """The derived measures of one engine."""

    frame: Frame

    @cached_property
    def running(self) -> FloatArray:
        """Requests in the running batch (mean per bin)."""
        return self.frame.gauge("requests_running")

    @cached_property
    def waiting(self) -> FloatArray:
        """Requests waiting for admission (mean per bin)."""
        return self.frame.gauge("requests_waiting")

    @cached_property
    def load(self) -> FloatArray:
        """Requests in the system: running + waiting."""
        inside = self.running + np.nan_to_num(self.waiting)
        if self.frame.from_log:
            # a line shows who is inside at its end, and rates since the line before: take the middle
            before = np.concatenate(([np.nan], inside[:-1]))
            inside = np.where(np.isfinite(before), (inside + before) / 2, inside)
        return inside

    @cached_property
    def usage(self) -> FloatArray:
        """KV cache usage, ratio (mean per bin)."""
        return self.frame.gauge("kv_cache_usage")

    @cached_property
    def generation(self) -> FloatArray:
        """Generated tokens per second."""
        return self.frame.rate("generation_tokens")

    @cached_property
    def prompt(self) -> FloatArray:
        """Prompt tokens per second."""
        return self.frame.rate("prompt_tokens")

    @cached_property
    def preemptions(self) -> FloatArray:
        """Preemptions per second."""
        return self.frame.rate("preemptions")

    @cached_property
    def finished(self) -> FloatArray:
        """Requests finished per second."""
        rate = self.frame.rate("requests_finished")
        if np.isfinite(rate).any():
            return rate
        latency = self.frame.histogram("e2e_latency")
        if latency is None:
            return rate
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.where(self.frame.observed > 0, latency.count / self.frame.observed, np.nan)

    @cached_property
    def arrivals(self) -> FloatArray:
        """Requests arriving per second: finished + change of (running + waiting).

        Requests that their clients give up leave the gauges and finish nowhere. Where prompts computed
        or HTTP requests tell of clearly more, they are believed.
        """
        inside = self.frame.gauge("requests_running", "last") + np.nan_to_num(
            self.frame.gauge("requests_waiting", "last")
        )
        known = np.flatnonzero(np.isfinite(inside))
        change = np.full(inside.size, np.nan)
        if known.size > 1:
            change[known[1:]] = np.diff(inside[known]) / (np.diff(known) * self.frame.step)
        change = np.nan_to_num(change)
        counted = np.asarray(np.maximum(self.finished + change, 0.0))
        # HTTP requests are counted when they end, given up or not: they are what leaves
        knocked = np.maximum(self.asked + change, 0.0)
        told = np.fmax(self._averaged(self.started), self._averaged(knocked))
        more = np.nan_to_num(told) > GIVEN_UP * np.nan_to_num(self._averaged(counted))
        return np.where(more & np.isfinite(counted), told, counted)

    def _averaged(self, values: FloatArray) -> FloatArray:
        """A moving mean over MIX_BINS bins of what is known."""
        known = np.isfinite(values)
        kernel = np.ones(min(MIX_BINS, values.size))
        count = np.convolve(known.astype(np.float64), kernel, "same")
        total = np.convolve(np.where(known, values, 0.0), kernel, "same")
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.where(count > 0, total / count, np.nan)

    @cached_property
    def asked(self) -> FloatArray:
        """HTTP requests per second to the API's own routes, refused ones (4xx) left out."""
        total = np.full(self.frame.size, np.nan)
        for x in self.frame.columns("http_requests"):
            handler, status = x.labels.get("handler", ""), x.labels.get("status", "")
            if handler.startswith("/v1/") and handler != "/v1/models" and not status.startswith("4"):
                rate = self.frame.increase(x.column)
                total = np.where(np.isnan(total), rate, total + np.nan_to_num(rate))
        return total

    @cached_property
    def started(self) -> FloatArray:
        """Requests whose prompt was computed per second: prompt tokens / mean prompt length.

        Counts those whose clients gave up later, which finish nowhere.
        """
        histogram = self.frame.histogram("prompt_length")
        if histogram is None or not np.nansum(histogram.count):
            return np.full(self.frame.size, np.nan)
        mean = float(np.nansum(histogram.sum)) / float(np.nansum(histogram.count))
        return np.asarray(self.prompt / mean if mean > 0 else np.full(self.frame.size, np.nan))

    @cached_property
    def lives(self) -> list[slice]:
        """The whole grid and, where the server restarted, each piece between restarts of 12 bins or more."""
        edges = [
            0,
            *(int((t - self.frame.start) / self.frame.step) for t in self.frame.restarts),
            self.frame.size,
        ]
        pieces = [slice(a, b) for a, b in pairwise(edges) if b - a >= 12]
        return [slice(0, self.frame.size), *(pieces if len(edges) > 2 else [])]

    @cached_property
    def active(self) -> Mask:
        """Bins in which the engine had work or did some."""
        work = np.nan_to_num(self.load) + np.nan_to_num(self.generation) + np.nan_to_num(self.prompt)
        return work > 0.01

    @cached_property
    def seen(self) -> Mask:
        """Bins that scrapes cover."""
        return self.frame.observed > 0

    def _mix(self, signal: str) -> FloatArray:
        histogram = self.frame.histogram(signal)
        if histogram is None:
            return np.full(self.frame.size, np.nan)
        kernel = np.ones(min(MIX_BINS, self.frame.size))
        total = np.convolve(np.nan_to_num(histogram.sum), kernel, "same")
        count = np.convolve(np.nan_to_num(histogram.count), kernel, "same")
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.where(count >= 3, total / count, np.nan)

    @cached_property
    def prompt_length(self) -> FloatArray:
        """Mean prompt tokens of finished requests, averaged over some bins."""
        return self._mix("prompt_length")

    @cached_property
    def output_length(self) -> FloatArray:
        """Mean generated tokens of finished requests, averaged over some bins."""
        return self._mix("output_length")

    @cached_property
    def hit_ratio(self) -> FloatArray:
        """Prefix cache hits over queries per bin; NaN without queries."""
        queries = self.frame.rate("prefix_cache_queries")
        hits = self.frame.rate("prefix_cache_hits")
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.where(queries > 0, np.minimum(hits / queries, 1.0), np.nan)

    @cached_property
    def acceptance(self) -> FloatArray:
        """Accepted over drafted tokens per bin; NaN without drafts."""
        drafted = self.frame.rate("spec_draft_tokens")
        accepted = self.frame.rate("spec_accepted_tokens")
        with np.errstate(invalid="ignore", divide="ignore"):
            ratio = np.where(drafted > 0, accepted / drafted, np.nan)
        return ratio if np.isfinite(ratio).any() else self.frame.gauge("spec_acceptance_rate")

    @cached_property
    def live_tokens(self) -> FloatArray:
        """Tokens that running requests need in the pool: running x (prompt + half the output).

        A shared prefix is held once, so its hits are taken off the prompts.
        """
        shared = np.nan_to_num(self.hit_ratio)
        return self.running * (self.prompt_length * (1 - shared) + self.output_length / 2)

    @cached_property
    def capacity(self) -> FloatArray:
        """Effective KV capacity in tokens: live tokens / usage. Falls when blocks serve nothing."""
        with np.errstate(invalid="ignore", divide="ignore"):
            value = np.where(self.usage > BUSY_USAGE, self.live_tokens / self.usage, np.nan)
        return np.where(self.running >= 0.5, value, np.nan)

    @cached_property
    def idle_floor(self) -> FloatArray:
        """KV usage while nothing runs or waits, per bin; NaN where the engine was not idle."""
        times, usage = self.frame.raw("kv_cache_usage")
        run_times, running = self.frame.raw("requests_running")
        _, waiting = self.frame.raw("requests_waiting")
        out = np.full(self.frame.size, np.nan)
        if usage.size == 0 or running.size != usage.size or waiting.size not in (0, usage.size):
            return out
        if not np.array_equal(times, run_times):
            return out
        idle = (running == 0) & np.isfinite(usage)
        if waiting.size and not self.frame.from_log:
            idle &= (
                waiting == 0
            )  # a log has so few lines that those count too in which requests wait for room
        # the first idle sample after work may still carry the last step's usage
        idle[1:] &= idle[:-1].copy()
        bins = np.clip(((times - self.frame.start) / self.frame.step).astype(np.intp), 0, out.size - 1)
        for i in np.unique(bins[idle]):
            out[i] = float(np.min(usage[idle & (bins == i)]))
        return out

    @cached_property
    def expected(self) -> FloatArray:
        """The generation rate that the load of each bin usually brings (tokens/s)."""
        return usual_rate(self.load, self.generation)

    @cached_property
    def adjusted(self) -> FloatArray:
        """Generation rate over what the same load usually brings: 1 is as good as ever."""
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.where(self.expected > 0, self.generation / self.expected, np.nan)

    def throughput(self, mask: Mask) -> float:
        """Generation rate over the expected one in a window, weighted by load; NaN when unknown."""
        known = mask & np.isfinite(self.generation) & np.isfinite(self.expected)
        total = float(self.expected[known].sum())
        return float(self.generation[known].sum()) / total if total > 0 else math.nan

    def buckets(self, signal: str, mask: Mask) -> Buckets | None:
        """A histogram over the bins of a mask; None when the signal is absent."""
        histogram: Histogram | None = self.frame.histogram(signal)
        return None if histogram is None else histogram.over(mask)

    def mean(self, signal: str, mask: Mask) -> float:
        """Mean of a histogram's observations in the bins of a mask."""
        buckets = self.buckets(signal, mask)
        return math.nan if buckets is None else buckets.mean

    def quantile(self, signal: str, q: float, mask: Mask) -> tuple[float, tuple[float, float]]:
        """A quantile of a histogram in the bins of a mask, with its bucket."""
        buckets = self.buckets(signal, mask)
        return (math.nan, (math.nan, math.nan)) if buckets is None else buckets.quantile(q)

    def waiting_share(self, mask: Mask) -> float:
        """The part of the scrapes in a mask's time in which at least one request waited."""
        times, waiting = self.frame.raw("requests_waiting")
        inside = self.inside(times, mask) & np.isfinite(waiting)
        return float((waiting[inside] > 0).mean()) if inside.any() else math.nan

    def inside(self, times: FloatArray, mask: Mask) -> Mask:
        """Which of some times fall into the bins of a mask."""
        bins = ((times - self.frame.start) / self.frame.step).astype(np.intp)
        ok = (bins >= 0) & (bins < self.frame.size)
        return ok & mask[np.clip(bins, 0, self.frame.size - 1)]

    def preempted_per_finished(self, mask: Mask) -> float:
        """Preemptions per finished request in a window; NaN when either is unknown."""
        done = float(np.nansum(self.finished[mask]))
        events = self.preemptions[mask]
        if not np.isfinite(events).any() or done <= 0:
            return math.nan
        return float(np.nansum(events)) / done

    def pegged_share(self, mask: Mask) -> tuple[float, float]:
        """(share, ceiling): how often the batch stood at its highest size while requests waited."""
        times, running = self.frame.raw("requests_running")
        _, waiting = self.frame.raw("requests_waiting")
        if running.size == 0 or waiting.size != running.size:
            return math.nan, math.nan
        ceiling = float(np.nanmax(running)) if np.isfinite(running).any() else math.nan
        queued = self.inside(times, mask) & (waiting > 0) & np.isfinite(running)
        if queued.sum() < FEWEST_AT_CEILING:
            return math.nan, ceiling
        return float((running[queued] >= ceiling - 0.5).mean()), ceiling

    def usage_while_waiting(self, mask: Mask, q: float) -> float:
        """A quantile of KV usage over the scrapes in which requests waited."""
        times, usage = self.frame.raw("kv_cache_usage")
        _, waiting = self.frame.raw("requests_waiting")
        if usage.size == 0 or waiting.size != usage.size:
            return math.nan
        queued = self.inside(times, mask) & (waiting > 0) & np.isfinite(usage)
        return float(np.quantile(usage[queued], q)) if queued.any() else math.nan

    def full_while_waiting(self, mask: Mask) -> bool:
        """Whether requests waited for want of KV blocks or slots (and not for their turn)."""
        usage, (pegged, ceiling) = self.usage_while_waiting(mask, 0.75), self.pegged_share(mask)
        times, running = self.frame.raw("requests_running")
        _, waiting = self.frame.raw("requests_waiting")
        near = False
        if running.size and waiting.size == running.size:
            queued = self.inside(times, mask) & (waiting > 0) & np.isfinite(running)
            near = bool(queued.any() and running[queued].mean() >= 0.8 * ceiling)
        return usage >= 0.8 or pegged >= 0.5 or near

    def plateau(self, mask: Mask) -> tuple[float, float]:
        """(rate ratio, ITL ratio): a batch at most 0.6 as big against the batch in a window.

        A rate ratio near 1 says that a bigger batch brought no more tokens: compute was the limit.
        NaN when the history shows no smaller batch.
        """
        big = mean(self.running, mask)
        small = np.isfinite(self.running) & (self.running <= 0.6 * big) & (self.running >= 1) & ~mask
        if small.sum() < 5:
            return math.nan, math.nan
        rate = finite(self.generation[small])
        at_big = mean(self.generation, mask)
        if not rate.size or not at_big > 0:
            return math.nan, math.nan
        slow, fast = self.quantile("itl", 0.5, mask)[0], self.quantile("itl", 0.5, small)[0]
        if math.isnan(slow):
            slow, fast = self.quantile("tpot", 0.5, mask)[0], self.quantile("tpot", 0.5, small)[0]
        return float(np.quantile(rate, 0.75)) / at_big, slow / fast if fast else math.nan

    def prefill_share(self, mask: Mask) -> float:
        """The part of their time in the batch that finished requests spent in prefill."""
        prefill, decode = self.mean("prefill_time", mask), self.mean("decode_time", mask)
        return prefill / (prefill + decode) if prefill + decode > 0 else math.nan

    def prompt_mix(self, mask: Mask) -> float:
        """Prompt tokens computed (cache hits taken off) per generated token in a window."""
        computed = mean(self.prompt * (1 - np.nan_to_num(self.hit_ratio)), mask)
        made = mean(self.generation, mask)
        return computed / made if made > 0 else math.nan

    def offered_tokens(self) -> FloatArray:
        """Tokens offered per second: arrivals x (mean prompt + mean output)."""
        return self.arrivals * (self.prompt_length + self.output_length)


def usual_rate(load: FloatArray, rate: FloatArray) -> FloatArray:
    """The rate that each load (requests in the system) usually brings; NaN without load or with few bins.

    The mean rate by load, never falling with load: more requests in the system do not excuse fewer tokens.
    """
    keep = np.isfinite(load) & np.isfinite(rate) & (load >= 0.2)
    if keep.sum() < 12:
        return np.full(load.size, np.nan)
    order = np.argsort(load[keep], kind="stable")
    x, y = load[keep][order], rate[keep][order]
    groups = np.array_split(np.arange(x.size), max(2, min(12, x.size // 6)))
    level_x = np.array([float(np.mean(x[g])) for g in groups])
    level_y = np.maximum.accumulate([float(np.mean(y[g])) for g in groups])
    expected = np.interp(load, level_x, level_y)
    expected = np.where(load < level_x[0], level_y[0] * load / level_x[0], expected)
    return np.where(keep, expected, np.nan)
