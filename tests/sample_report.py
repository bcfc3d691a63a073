"""Fixed reports, made by hand, that show every part of a page; numbers of real servers where possible."""

import math
from collections.abc import Sequence
from dataclasses import replace

from vllmdoctor.model import (
    Effort,
    EngineReport,
    Event,
    Evidence,
    Fact,
    Gap,
    Outcome,
    Report,
    Severity,
    Status,
    Step,
    Symptom,
    Trend,
    Verdict,
)

NAN = math.nan
START = 1795960751.0
END = 1795960992.0
RULES = 11


def points(text: str) -> tuple[float, ...]:
    return tuple(float(word) for word in text.split())


def trend(
    signal: str, title: str, unit: str, values: Sequence[float], start: float = START, end: float = END
) -> Trend:
    return Trend(signal, title, unit, start, end, tuple(values))


def clear(slug: str, title: str, *evidence: Evidence) -> Outcome:
    return Outcome(slug, title, Status.CLEAR, Severity.WARNING, 0.0, "0", evidence=evidence)


def unknown(slug: str, title: str, reason: str, *evidence: Evidence) -> Outcome:
    return Outcome(slug, title, Status.UNKNOWN, Severity.WARNING, 0.0, "0", evidence=evidence, reason=reason)


GENERATION = trend(
    "generation_tokens",
    "generation rate",
    "tokens/s",
    points(
        "0 0 175.6 298.7 223.4 265.4 272.1 233.2 219.2 182.9 148.8 197.3 279.7 231.4 201.5 236.8 "
        "258.7 174.8 152.5 231.7 239.2 224.5 164.6 231.1 265.6 143.5 160.5 281.0 260.8 189.0 "
        "185.6 206.0 164.2 190.3 144.3 232.2 200.6 218.3 234.4 212.8 287.7 210.8 238.4 230.4 "
        "237.8 5.2 0 0"
    ),
)
DEMAND = trend(
    "demand",
    "offered work",
    "tokens/s",
    points(
        "0 0 310 452 438 421 447 433 429 440 418 451 444 437 426 441 430 435 428 449 440 432 445 436 425"
        " 441 433 438 447 429 442 435 431 446 437 428 440 443 430 438 434 445 429 441 436 40 0 0"
    ),
)
KV_USAGE = trend(
    "kv_cache_usage",
    "KV cache in use",
    "ratio",
    points(
        "0 0 0.302 0.844 0.857 0.902 0.914 0.876 0.879 0.892 0.854 0.94 0.943 0.914 0.851 0.917 "
        "0.863 0.921 0.885 0.914 0.898 0.886 0.889 0.832 0.794 0.902 0.917 0.975 0.885 0.797 "
        "0.797 0.914 0.86 0.898 0.927 0.886 0.879 0.952 0.8 0.863 0.921 0.952 0.902 0.838 0.917 "
        "0.127 0 0"
    ),
)
WAITING = trend(
    "requests_waiting",
    "requests waiting",
    "requests",
    points(
        "0 0 0 3.4 9.5 8.4 6.0 9.6 11.6 14.8 21.4 26.0 27.2 28.8 30.8 30.8 35.0 39.4 48.5 51.6 48.6 49.2"
        " 54.2 61.8 68.2 70.6 73.6 77.4 80.0 88.2 94.6 102.0 106.8 112.2 116.6 124.4 131.8 136.2 142.6"
        " 144.6 150.8 155.8 158.0 161.6 168.4 5.0 0 0"
    ),
)

OVERLOAD = Outcome(
    slug="overload",
    title="More work arrives than the server can do",
    status=Status.FOUND,
    severity=Severity.CRITICAL,
    confidence=0.93,
    engine="0",
    kind="kv-bound",
    summary="Requests arrive at 1.7/s and finish at 0.84/s; the KV cache is the limit: it is full while 4.3"
    " requests run, and 162 preemptions recomputed work for 180 finished requests.",
    evidence=(
        Evidence(
            "requests waiting, growth", 47.6, ">", 1.0, "per minute", source="textbook: a queue that grows"
        ),
        Evidence(
            "arrivals above completions", 0.86, ">", 0.05, "1/s", source="textbook: demand above capacity"
        ),
        Evidence("KV cache usage (p90)", 0.984, ">=", 0.95, "ratio", source="runbook: full from 95 % on"),
        Evidence(
            "preemptions per finished request",
            0.9,
            ">=",
            0.5,
            "",
            "supports",
            "measured cases: 0.07 is ordinary, from 0.5 on it is thrash",
        ),
        Evidence(
            "queue time (p50)",
            38.2,
            ">",
            1.0,
            "s",
            "supports",
            "tuning guide",
            interval=(30.0, 40.0),
            detail="only finished requests are in it",
        ),
        Evidence(
            "requests running (p90)", 5.0, ">=", 64.0, "requests", "against", "max_num_seqs: slots are free"
        ),
        Evidence("KV pool", 2048.0, "", NAN, "tokens", "note", "vllm:cache_config_info"),
    ),
    onset=START + 17,
    share=None,
)

NOT_OVERLOAD = (
    clear(
        "head-of-line-blocking",
        "A few heavy requests hold up the many",
        Evidence("TTFT p99/p50", 4.19, ">", 3.0, "", source="degradation guide"),
        Evidence(
            "TTFT p50 against its start",
            17.4,
            "<=",
            1.25,
            "",
            source="degradation guide: the median is stable",
        ),
    ),
    clear(
        "stall",
        "The engine makes no progress",
        Evidence("longest time without a new token", 2.0, ">=", 60.0, "s", source="counters decide"),
    ),
    clear(
        "kv-fragmentation",
        "Effective KV capacity is lost",
        Evidence("KV blocks in use while idle", 0.0, ">", 0.03, "ratio", source="an idle engine reads 0"),
        Evidence("effective capacity, change", -0.02, "<=", -0.2, "ratio", source="degradation guide"),
    ),
    clear(
        "demand-drop",
        "There is less work, not less speed",
        Evidence("offered work, change", 0.01, "<=", -0.15, "ratio"),
    ),
    clear(
        "low-load",
        "The server has little to do",
        Evidence("requests running (mean)", 4.3, "<", 1.0, "requests"),
    ),
    clear("restart", "The server was restarted", Evidence("counter resets", 0.0, ">", 0.0, "")),
    clear(
        "prefix-cache-collapse",
        "The prefix cache stopped hitting",
        Evidence("prefix cache queries", 0.0, ">", 0.0, "tokens/s"),
    ),
    clear("scrape-gaps", "The data has holes", Evidence("longest time between scrapes", 2.0, ">", 15.0, "s")),
    unknown(
        "memory-leak",
        "Memory outside the KV pool grows",
        "a trend needs 2 h of data, here are 4 min 1 s",
        Evidence("seen", 241.0, ">=", 7200.0, "s"),
    ),
    unknown(
        "gpu-throttle",
        "The GPU runs below its clock",
        "no GPU signal was seen; add nvml: or a DCGM exporter as a target",
    ),
)

PLAN = (
    Step(
        slug="more-kv-blocks",
        title="Give the KV cache more room",
        action="Raise the number of KV blocks; this server has memory for them.",
        verdict="helps",
        why="The pool is the limit: 4.3 requests fill it, while 64 may run and compute is free.",
        effort=Effort.RESTART,
        treats=("overload",),
        flag="--num-gpu-blocks-override",
        before="64",
        after="512",
        formula="p95 request = 380 + 315 tokens = 22 blocks of 32; 22 running at 1.7/s -> 484 blocks,"
        " next step 512",
        effect="generation rate up by about two thirds; a queue may remain, since compute is the next limit",
        tradeoff="1.0 GiB more memory for the pool",
        verify="preemptions below 1 per minute and the queue not growing, after 10 min at the same load",
    ),
    Step(
        slug="add-replica",
        title="Add a second server",
        action="Run one more replica behind the same balancer.",
        verdict="helps",
        why="Arrivals are twice what this server finishes.",
        effort=Effort.CAPACITY,
        treats=("overload",),
        formula="1.7/s offered / 0.84/s done = 2.0 -> 2 replicas",
        effect="the queue stops growing",
        tradeoff="twice the hardware",
        verify="requests waiting falls to 0 on both",
        restart=False,
    ),
    Step(
        slug="lower-max-num-seqs",
        title="Let fewer requests run at once",
        action="",
        verdict="helps",
        why="It stops the waste of recomputing preempted requests.",
        effort=Effort.RESTART,
        treats=("overload",),
        flag="--max-num-seqs",
        before="64",
        after="4",
        formula="2048 tokens / (255 + 256) tokens per request = 4",
        effect="preemptions nearly gone; the rate stays the same and so does the queue: it adds no capacity",
        tradeoff="no burst above 4 requests",
        verify="preemptions below 1 per minute",
    ),
    Step(
        slug="enable-prefix-caching",
        title="Switch prefix caching on",
        action="",
        verdict="moot",
        why="the prompts of this load do not repeat, there is nothing to share",
        effort=Effort.RESTART,
        treats=("overload",),
        flag="--enable-prefix-caching",
        before="off",
        after="on",
    ),
    Step(
        slug="lower-gpu-memory-utilization",
        title="Lower --gpu-memory-utilization to 0.85",
        action="",
        verdict="harmful",
        why="the pool itself is full; a smaller one preempts more",
        effort=Effort.RESTART,
        treats=("overload",),
        flag="--gpu-memory-utilization",
        before="0.92",
        after="0.85",
    ),
)

FACTS = (
    Fact("vllm_version", "0.32.0", "/version"),
    Fact("max_num_seqs", 64, "default of 0.32"),
    Fact("num_gpu_blocks", 64, "vllm:cache_config_info"),
    Fact("block_size", 32, "vllm:cache_config_info"),
    Fact("gpu_memory_utilization", 0.92, "vllm:cache_config_info"),
    Fact("enable_prefix_caching", False, "vllm:cache_config_info"),
)

KV_ENGINE = EngineReport(
    engine="0",
    instance="127.0.0.1:8100",
    model="./mid",
    version="0.32.0",
    verdict=Verdict.SICK,
    headline="The KV cache holds 4 requests at a time, twice as many arrive as finish, and 171 are waiting.",
    primary="overload",
    kind="kv-bound",
    confidence=0.93,
    onset=START + 17,
    symptoms=(
        Symptom(
            "throughput",
            "generation at equal demand",
            226.0,
            265.0,
            "tokens/s",
            0.853,
            0.70,
            "<",
            "the first 60 s under load",
            False,
        ),
        Symptom(
            "ttft",
            "time to first token (p50)",
            127.8,
            2.1,
            "s",
            60.9,
            1.5,
            ">",
            "the first 60 s under load",
            True,
            onset=START + 17,
        ),
        Symptom(
            "itl",
            "time between tokens (p50)",
            0.0189,
            0.0186,
            "s",
            1.016,
            1.5,
            ">",
            "the first 60 s under load",
            False,
        ),
    ),
    outcomes=(OVERLOAD, *NOT_OVERLOAD),
    trends=(GENERATION, DEMAND, KV_USAGE, WAITING),
    facts=FACTS,
)

NO_GPU = Gap(
    "127.0.0.1:8100", "GPU clock, power and memory", "no target exposes them", "add nvml: as a target"
)
SHORT = Gap(
    "recording", "memory trend", "4 min 1 s are too short, 2 h are needed", "vllmdoctor record for 2 h"
)

KV_BOUND = Report(
    target="example:overload-kv",
    start=START,
    end=END,
    scrapes=239,
    interval=1.0,
    version="0.32.0",
    version_origin="/version",
    verdict=Verdict.SICK,
    headline=KV_ENGINE.headline,
    primary="overload",
    kind="kv-bound",
    confidence=0.93,
    onset=START + 17,
    compared="the last 60 s under load with the first 60 s under load of this recording, per unit"
    " of offered work",
    engines=(KV_ENGINE,),
    plan=PLAN,
    notes=(
        "2 scrapes of 241 are missing; the longest hole is 2 s.",
        "Latency histograms know finished requests only: in an overload they flatter the server.",
    ),
    events=(),
    gaps=(NO_GPU, SHORT),
    coverage=(9, RULES),
)

CALM = (START - 547, START - 307)

HEALTHY_ENGINE = EngineReport(
    engine="0",
    instance="127.0.0.1:8100",
    model="./mid",
    version="0.32.0",
    verdict=Verdict.HEALTHY,
    headline="The server does what it is asked: 202 tokens/s, nothing waits, first tokens after 67 ms.",
    primary="healthy",
    kind="",
    confidence=0.86,
    onset=None,
    symptoms=(
        Symptom(
            "throughput",
            "generation at equal demand",
            206.0,
            198.0,
            "tokens/s",
            1.04,
            0.70,
            "<",
            "the first 60 s under load",
            False,
        ),
        Symptom(
            "ttft",
            "time to first token (p50)",
            0.0671,
            0.0655,
            "s",
            1.024,
            1.5,
            ">",
            "the first 60 s under load",
            False,
        ),
        Symptom(
            "queue",
            "time in the queue (mean)",
            0.000045,
            0.00006,
            "s",
            0.76,
            1.0,
            ">",
            "the first 60 s under load",
            False,
            absolute=True,
        ),
        Symptom(
            "rejections", "rejections", NAN, NAN, "1/s", NAN, 1.5, ">", "the first 60 s under load", None
        ),
        Symptom(
            "demand", "arriving requests", 2.53, 2.35, "1/s", 1.08, NAN, "", "the first 60 s under load", None
        ),
    ),
    outcomes=(
        clear(
            "overload",
            "More work arrives than the server can do",
            Evidence("waiting", 0.0, ">", 0.0, "requests"),
        ),
        *NOT_OVERLOAD,
    ),
    trends=(
        trend(
            "generation_tokens",
            "generation rate",
            "tokens/s",
            points(
                "0 0 95.9 221.9 154.8 226.8 213.2 122.8 243.2 120.3 317.8 188.5 139.1 244.2 178.2 220.6 "
                "157.8 205.3 165.6 171 153.8 164.9 204.1 284.3 152.4 232.4 288.4 165.2 168.5 228 267 "
                "226.6 315.6 212.4 186.6 174.2 241.3 202.6 158.2 219.9 232.4 250.7 156.2 99.8 211.3 1 0 0"
            ),
            *CALM,
        ),
        trend(
            "kv_cache_usage",
            "KV cache in use",
            "ratio",
            points(
                "0 0 0.058 0.16 0.11 0.201 0.13 0.099 0.187 0.077 0.263 0.083 0.154 0.244 0.113 0.257 "
                "0.079 0.144 0.124 0.13 0.128 0.102 0.339 0.273 0.199 0.228 0.217 0.112 0.118 0.183 0.287 "
                "0.2 0.249 0.23 0.147 0.098 0.264 0.186 0.219 0.156 0.183 0.257 0.092 0.183 0.171 0 0 0"
            ),
            *CALM,
        ),
        trend("requests_waiting", "requests waiting", "requests", [0.0] * 48, *CALM),
    ),
    facts=FACTS,
)

HEALTHY = Report(
    target="http://127.0.0.1:8100",
    start=CALM[0],
    end=CALM[1],
    scrapes=236,
    interval=1.0,
    version="0.32.0",
    version_origin="/version",
    verdict=Verdict.HEALTHY,
    headline=HEALTHY_ENGINE.headline,
    primary="healthy",
    kind="",
    confidence=0.86,
    onset=None,
    compared="the last 60 s under load with the first 60 s under load of this recording, per unit"
    " of offered work",
    engines=(HEALTHY_ENGINE,),
    plan=(),
    notes=(),
    events=(),
    gaps=(SHORT,),
    coverage=(9, RULES),
)

NIGHT = (1764540000.0, 1764583200.0)  # twelve hours, from 22:00 to 10:00 UTC
ONSET = NIGHT[0] + 3.3 * 3600


def _night(signal: str, title: str, unit: str, before: float, after: float, wobble: float) -> Trend:
    """Flat until the onset, then a line to `after`; two points were not scraped."""
    values = []
    for i in range(96):
        time = NIGHT[0] + (i + 0.5) / 96 * (NIGHT[1] - NIGHT[0])
        part = max(0.0, (time - ONSET) / (NIGHT[1] - ONSET))
        values.append(max(0.0, round(before + (after - before) * part + wobble * math.sin(i * 1.7), 4)))
    values[40:42] = [NAN, NAN]
    return trend(signal, title, unit, values, *NIGHT)


FRAGMENTATION_FINDING = Outcome(
    slug="kv-fragmentation",
    title="KV blocks are occupied but serve no live request",
    status=Status.FOUND,
    severity=Severity.CRITICAL,
    confidence=0.86,
    engine="0",
    kind="pinned-blocks",
    summary="Effective capacity fell from 91 % to 62 % at equal demand; 21 % of the pool stays occupied"
    " while no request runs or waits.",
    evidence=(
        Evidence("demand, change", 0.03, "<=", 0.15, "ratio", source="equal demand, or it would be overload"),
        Evidence("effective capacity, change", -0.319, "<=", -0.2, "ratio", source="degradation guide"),
        Evidence("preemptions", 3.4, ">", 1.0, "per minute", source="runbook: healthy is below 1 per minute"),
        Evidence(
            "KV usage while idle (floor)", 0.21, ">", 0.03, "ratio", "supports", "an idle engine reads 0"
        ),
        Evidence(
            "floor and uptime (rank correlation)", 0.94, ">", 0.7, "", "supports", "it rises with uptime"
        ),
        Evidence("a restart resets it", NAN, ">", 0.0, "", "supports", detail="no restart was seen"),
        Evidence(
            "host memory slope", 0.004, ">", 0.1, "ratio", "against", "degradation guide: 10 % per hour"
        ),
    ),
    onset=ONSET,
    share=0.8,
)

PREEMPTION_COMPANION = Outcome(
    slug="overload",
    title="More work arrives than the server can do",
    status=Status.FOUND,
    severity=Severity.WARNING,
    confidence=0.5,
    engine="0",
    kind="kv-bound",
    summary="In the last hour 6 requests wait on average.",
    evidence=(Evidence("requests waiting (mean)", 6.2, ">", 0.0, "requests", source="tuning guide"),),
    onset=ONSET + 4 * 3600,
    explained_by="kv-fragmentation",
)

FRAGMENTED_ENGINE = EngineReport(
    engine="0",
    instance="llm-7f9c-2x:8000",
    model="/models/models--meta-llama--Llama-3.1-70B-Instruct/snapshots/945c8663693130f8be2ee66210e063",
    version="0.14.1",
    verdict=Verdict.SICK,
    headline="At the same demand the server generates 34 % less than eight hours ago: KV blocks are lost"
    " to requests that are long gone.",
    primary="kv-fragmentation",
    kind="pinned-blocks",
    confidence=0.86,
    onset=ONSET,
    symptoms=(
        Symptom(
            "throughput",
            "generation at equal demand",
            1240.0,
            1880.0,
            "tokens/s",
            0.66,
            0.70,
            "<",
            "the same hour, eight hours before",
            True,
            onset=ONSET,
            slope_per_hour=-0.041,
            detail="flat for 3 h 18 min after the start, then a straight line down",
        ),
        Symptom(
            "ttft",
            "time to first token (p50)",
            0.92,
            0.41,
            "s",
            2.24,
            1.5,
            ">",
            "the first hour after the start",
            True,
            onset=ONSET + 1800,
            slope_per_hour=0.14,
        ),
        Symptom(
            "itl",
            "time between tokens (p50)",
            0.031,
            0.028,
            "s",
            1.107,
            1.5,
            ">",
            "the first hour after the start",
            False,
        ),
    ),
    outcomes=(
        FRAGMENTATION_FINDING,
        PREEMPTION_COMPANION,
        clear(
            "memory-leak",
            "Memory outside the KV pool grows",
            Evidence("host memory slope", 0.004, ">", 0.1, "ratio", detail="per hour"),
        ),
        clear(
            "demand-drop",
            "There is less work, not less speed",
            Evidence("offered work, change", 0.03, "<=", -0.15, "ratio"),
        ),
        unknown(
            "gpu-throttle",
            "The GPU runs below its clock",
            "",
            Evidence("SM clock", NAN, "<", 0.9, "ratio", source="share of the highest clock"),
        ),
    ),
    trends=(
        _night("generation_tokens", "generation rate", "tokens/s", 1880, 1240, 60),
        _night("demand", "offered work", "tokens/s", 1910, 1930, 50),
        _night("kv_cache_usage", "KV cache in use", "ratio", 0.71, 0.97, 0.02),
        _night("requests_waiting", "requests waiting", "requests", 0.2, 9.0, 0.2),
    ),
    facts=(),
)

FRAGMENTATION = Report(
    target="prom+https://prometheus.example:9090",
    start=NIGHT[0],
    end=NIGHT[1],
    scrapes=2880,
    interval=15.0,
    version="0.14.1",
    version_origin="the metric names",
    verdict=Verdict.SICK,
    headline=FRAGMENTED_ENGINE.headline,
    primary="kv-fragmentation",
    kind="pinned-blocks",
    confidence=0.86,
    onset=ONSET,
    compared="the last hour with the same hour eight hours before, and with the first hour after the start",
    engines=(FRAGMENTED_ENGINE,),
    plan=(
        Step(
            slug="upgrade",
            title="Upgrade to 0.15.0 or later",
            action="Upgrade vLLM; this version is known not to free the blocks of aborted transfers.",
            verdict="helps",
            why="0.14.1 has the defect, and the floor of 21 % is its sign.",
            effort=Effort.RESTART,
            treats=("kv-fragmentation",),
            effect="the floor stays at 0",
            verify="KV usage is 0 while no request runs, after a day",
        ),
        Step(
            slug="scheduled-restart",
            title="Restart every 6 hours until then",
            action="A CronJob `0 */6 * * *` with a PodDisruptionBudget (minAvailable 1); save the"
            " evidence first.",
            verdict="helps",
            why="Capacity is lost at 4.1 % per hour; after 6 h three quarters are left.",
            effort=Effort.RESTART,
            treats=("kv-fragmentation",),
            formula="100 % - 6 h x 4.1 % per hour = 75 %",
            effect="throughput between 100 % and 75 % of the fresh server",
            tradeoff="running requests are cut off, unless they are drained; with one replica there is an"
            " outage",
            verify="the rate returns to 1880 tokens/s after each restart",
        ),
        Step(
            slug="reset-connector",
            title="Shorten the time that transferred blocks are held",
            action="",
            verdict="unknown",
            why="If the blocks belong to transfers that were never fetched, a shorter time-out frees them.",
            effort=Effort.LIVE,
            treats=("kv-fragmentation",),
            effect="cannot be computed",
            missing=("whether a KV connector is configured",),
            restart=False,
        ),
        Step(
            slug="lower-gpu-memory-utilization",
            title="Lower --gpu-memory-utilization to 0.85",
            action="",
            verdict="harmful",
            why="the pool shrinks from 161,000 to 148,000 tokens and preempts sooner",
            effort=Effort.RESTART,
            treats=("kv-fragmentation",),
        ),
    ),
    notes=(
        "vllm:gpu_cache_usage_perc was removed in 0.12; vllm:kv_cache_usage_perc is read instead.",
        "Counters never went back: no restart in the window.",
    ),
    events=(
        Event(NIGHT[0] + 5 * 3600, "scrape-gap", "15 min without a scrape", "llm-7f9c-2x:8000", "prometheus"),
        Event(NIGHT[1] - 600, "log", "Connection to the KV consumer was lost", "llm-7f9c-2x:8000", "log"),
    ),
    gaps=(
        Gap(
            "prometheus",
            "GPU clock, power and memory",
            "the server has no series named DCGM_FI_*",
            "install the DCGM exporter",
        ),
    ),
    coverage=(10, RULES),
)

BLIND_ENGINE = EngineReport(
    engine="0",
    instance="10.0.0.7:8000",
    model="",
    version="",
    verdict=Verdict.BLIND,
    headline="Two scrapes of an idle server, and most of vLLM's metrics are switched off.",
    primary="blind",
    kind="",
    confidence=0.0,
    onset=None,
    symptoms=(),
    outcomes=(
        unknown(
            "overload", "More work arrives than the server can do", "vllm:num_requests_waiting was not seen"
        ),
        unknown("stall", "The engine makes no progress", "no token counter was seen"),
        unknown("memory-leak", "Memory outside the KV pool grows", "a trend needs 2 h of data, here are 5 s"),
    ),
    trends=(),
    facts=(),
)

BLIND = Report(
    target="http://10.0.0.7:8000",
    start=NIGHT[0],
    end=NIGHT[0] + 5,
    scrapes=2,
    interval=5.0,
    version="",
    version_origin="",
    verdict=Verdict.BLIND,
    headline=BLIND_ENGINE.headline,
    primary="blind",
    kind="",
    confidence=0.0,
    onset=None,
    compared="",
    engines=(BLIND_ENGINE,),
    plan=(),
    notes=(),
    events=(),
    gaps=(
        Gap(
            "10.0.0.7:8000",
            "all vllm: metrics",
            "the page has python_ and process_ metrics only, as with --disable-log-stats",
            "start the server without --disable-log-stats",
        ),
        Gap("10.0.0.7:8000", "/version", "404 Not Found", "name it: --vllm-version 0.14.1"),
    ),
    coverage=(0, RULES),
)

FLEET = Report(
    target="http://10.0.0.7:8000 http://10.0.0.8:8000",
    start=START,
    end=END,
    scrapes=239,
    interval=1.0,
    version="0.32.0",
    version_origin="/version",
    verdict=Verdict.SICK,
    headline="One of two engines is overloaded while the other has room.",
    primary="overload",
    kind="kv-bound",
    confidence=0.93,
    onset=START - 20,
    compared="the last 60 s under load with the first 60 s under load of this recording",
    engines=(
        replace(KV_ENGINE, instance="10.0.0.7:8000", onset=START - 20),
        replace(
            HEALTHY_ENGINE,
            instance="10.0.0.8:8000",
            trends=tuple(replace(t, start=START, end=END) for t in HEALTHY_ENGINE.trends),
        ),
    ),
    plan=PLAN[1:2],
    notes=(),
    events=(Event(START + 3, "restart", "counters went back to 0", "10.0.0.7:8000", "counters"),),
    gaps=(NO_GPU,),
    coverage=(9, RULES),
)

SAMPLES = {
    "kv-bound": KV_BOUND,
    "healthy": HEALTHY,
    "kv-fragmentation": FRAGMENTATION,
    "blind": BLIND,
    "fleet": FLEET,
}
