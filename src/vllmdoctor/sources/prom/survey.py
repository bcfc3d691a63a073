"""What is there, found out with a handful of cheap questions before anything large is asked."""

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from vllmdoctor.errors import NotEnoughData, NotVllm
from vllmdoctor.model import Gap
from vllmdoctor.promql import matchers_of, one_of, quoted
from vllmdoctor.sources import History
from vllmdoctor.sources.prom.api import Api
from vllmdoctor.sources.prom.names import ENGINE_BUCKETS, Spelling, any_name
from vllmdoctor.sources.prom.targets import Scheme, Target, scheme_of, single_copy, targets_of

Key = tuple[str, str, str, str]

# every server shows one of these, whatever its release and whatever a scrape filter drops
_CORE = ("requests_running", "requests_waiting", "kv_cache_usage", "generation_tokens", "prompt_tokens")
_LOOKS = 200
_REACH_S = 60.0
_SKEW_S = 30.0
_SLOWEST_SCRAPE_S = 600.0
_ASKED_FOR_INTERVAL = 3


@dataclass(frozen=True, slots=True)
class Survey:
    """The servers, the names, and when there is something to see.

    `shown` says which names each live server shows now, with how many series; a server that is
    gone is missing there. `buckets` is how many series one server's histograms have.
    """

    start: float
    end: float
    scrape_s: float
    scheme: Scheme
    targets: dict[Key, Target]
    names: tuple[str, ...]
    shown: dict[Key, dict[str, int]]
    buckets: int
    matchers: tuple[str, ...]
    spelling: Spelling
    gaps: tuple[Gap, ...] = ()
    engines: dict[Key, int] = field(default_factory=dict)


def survey(api: Api, history: History, clock: float) -> Survey:
    """Ask what there is. NotVllm where nothing of vLLM's is there, NotEnoughData where no sample is."""
    now = _servers_time(api)
    gaps = list(_skew(api, clock - now))
    end = now if history.at is None else history.at
    start = end - history.window_s
    matchers = matchers_of(history.match)
    spelling = Spelling(history.prefix)
    names = _names(api, history, matchers, start, end, spelling)
    core = _core(names, spelling)
    found = api.series([_selector(core, matchers)], start, end)
    start, end = _extent(api, core, matchers, start, end)
    rows = api.instant(f"last_over_time({_selector(core, matchers)}[{_span(_REACH_S)}])", end)
    live = [row.labels for row in rows]
    found = found or live
    scheme = scheme_of(found)
    label, value = single_copy(live, scheme)
    if label:
        matchers = (*matchers, f"{label}={quoted(value)}")
        found = [labels for labels in found if labels.get(label, "") == value]
        why = f"the same servers are there more than once; only {label}={quoted(value)} was read"
        gaps.append(Gap(api.shown, "copies of the same series", why, "choose with --match"))
    targets = targets_of(found, scheme)
    scrape = _interval(api, core, matchers, live or found, start, end)
    shown = _shown(api, history, matchers, scheme, targets, end, 3 * scrape)
    engines: dict[Key, int] = defaultdict(int)
    for labels in found:
        engines[scheme.key(labels)] += 1
    told = Survey(
        start,
        end,
        scrape,
        scheme,
        targets,
        tuple(names),
        shown,
        0,
        matchers,
        spelling,
        tuple(gaps),
        dict(engines),
    )
    return replace(told, buckets=_buckets(api, told))


def _servers_time(api: Api) -> float:
    """The first question: whether anything is there that understands, and its clock (unix s)."""
    rows = api.instant("vector(time())")
    if not rows or not len(rows[0].values):
        raise NotVllm(f"{api.shown} does not tell the time", hint="is that the address of a Prometheus?")
    return float(rows[0].values[0])


def _skew(api: Api, seconds: float) -> Iterator[Gap]:
    if abs(seconds) > _SKEW_S:
        ahead = "ahead of" if seconds > 0 else "behind"
        why = f"this machine's clock is {abs(seconds):.0f} s {ahead} the server's; the server's was used"
        yield Gap(api.shown, "clock", why, "set the clock, or give --at")


def _selector(names: Sequence[str], matchers: Sequence[str]) -> str:
    return "{" + ",".join([one_of("__name__", names), *matchers]) + "}"


def _span(seconds: float) -> str:
    return f"{max(1, round(seconds))}s"


def _names(
    api: Api, history: History, matchers: Sequence[str], start: float, end: float, spelling: Spelling
) -> list[str]:
    def ask(matchers: Sequence[str]) -> list[str]:
        chosen = "{" + ",".join([f"__name__=~{quoted(any_name(history.prefix))}", *matchers]) + "}"
        found = api.names([chosen], start, end)
        found = [n for n in found if not n.endswith("_created")]
        return sorted(n for n in found if spelling.canonical(n).startswith("vllm:"))

    names = ask(matchers)
    if names:
        return names
    hint = "is it scraped? behind a relabelling give --metric-prefix; a longer --window reaches further back"
    if matchers and ask(()):
        hint = "without --match there is something: is it written as in PromQL, and are its values right?"
    where = f" with {', '.join(matchers)}" if matchers else ""
    raise NotVllm(f"{api.shown} holds no vLLM metrics{where} in this window", hint=hint)


def _core(names: Sequence[str], spelling: Spelling) -> list[str]:
    for signal in _CORE:
        found = [n for n in names if spelling.signal_of(n) == signal]
        if found:
            return found
    raise NotVllm(
        f"the metrics there ({names[0]}, ...) tell no server's state",
        hint="keep vllm:num_requests_running and vllm:kv_cache_usage_perc when filtering",
    )


def _extent(
    api: Api, core: Sequence[str], matchers: Sequence[str], start: float, end: float
) -> tuple[float, float]:
    """(start, end) of what there is: a window of a day may hold an hour."""
    chosen = _selector(core, matchers)
    for _ in range(4):
        step = max(1.0, math.ceil((end - start) / _LOOKS))
        rows = api.matrix(f"count(last_over_time({chosen}[{_span(max(step, _REACH_S))}]))", start, end, step)
        if not rows or not len(rows[0].times):
            raise NotEnoughData(
                f"{api.shown} holds no sample of vLLM's in this window",
                hint="a longer --window or another --at reaches more",
            )
        first, last = float(rows[0].times[0]), float(rows[0].times[-1])
        short = last - first < (end - start) / 4 and step > 1
        start, end = max(start, first - step), min(end, last)
        if not short:
            break
    if step > 4 * _REACH_S:  # the last look may be long after the last sample
        near = api.matrix(f"count(last_over_time({chosen}[{_span(_REACH_S)}]))", end - step, end, _REACH_S)
        end = float(near[0].times[-1]) if near and len(near[0].times) else end
    newest = api.instant(f"max(timestamp({chosen}))", end)
    return start, min(end, math.ceil(float(newest[0].values[0]))) if newest else end


def _interval(
    api: Api,
    core: Sequence[str],
    matchers: Sequence[str],
    found: Sequence[dict[str, str]],
    start: float,
    end: float,
) -> float:
    """How often the servers are scraped (s): the median over a few, from their own samples."""
    label = next((n for n in ("instance", "pod") if all(labels.get(n) for labels in found)), "")
    chosen = sorted({labels[label] for labels in found})[:_ASKED_FOR_INTERVAL] if label else []
    asked = [*matchers, *([one_of(label, chosen)] if chosen else [])]
    for reach in (900.0, 7200.0, 86400.0):
        rows = api.instant(f"{_selector(core, asked)}[{_span(min(reach, end - start + 60))}]", end)
        medians = [float(np.median(np.diff(row.times))) for row in rows if len(row.times) >= 5]
        if medians:
            interval = float(np.median(medians))
            whole = round(interval)
            interval = whole if whole and abs(interval - whole) < 0.05 * whole else interval
            return min(max(1.0, interval), _SLOWEST_SCRAPE_S)
        if reach > end - start:
            break
    return 15.0 if end - start > 120 else 1.0


def _shown(
    api: Api,
    history: History,
    matchers: Sequence[str],
    scheme: Scheme,
    targets: dict[Key, Target],
    end: float,
    reach: float,
) -> dict[Key, dict[str, int]]:
    """The names that each live server shows, histograms by their counts alone."""
    names = f"__name__=~{quoted(any_name(history.prefix))}"
    chosen = ",".join([names, '__name__!~".+_(bucket|sum|created)"', *matchers])
    by = ",".join(label for label in scheme.by if label not in ("engine", "model_name", "model"))
    query = f"count by (__name__,{by}) (last_over_time({{{chosen}}}[{_span(reach)}]))"
    rows = api.instant(query, end)
    shown: dict[Key, dict[str, int]] = defaultdict(dict)
    for row in rows:
        key = scheme.key(row.labels)
        if key in targets:
            shown[key][row.labels.get("__name__", "")] = int(row.values[0])
    return dict(shown)


def _buckets(api: Api, told: Survey) -> int:
    """How many bucket series the histograms of one engine have, judged by one live server."""
    names = [n for n in told.spelling.chosen(told.names, ENGINE_BUCKETS) if n.endswith("_bucket")]
    if not names or not told.shown:
        return 24 * len(names)
    key = max(told.shown, key=lambda k: (len(told.shown[k]), k))
    label, value = ("instance", key[0]) if key[0] else (told.scheme.pod, key[1])
    one = [one_of(label, [value])] if label and value else []
    query = f"count(last_over_time({_selector(names, [*told.matchers, *one])}[{_span(3 * told.scrape_s)}]))"
    rows = api.instant(query, told.end)
    servers = 1 if one else len(told.targets)
    engines = max(1, told.engines.get(key, 1))
    return round(float(rows[0].values[0]) / servers / engines) if rows else 24 * len(names)
