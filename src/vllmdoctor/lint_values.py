"""What the values of a launch do, alone and together: each check yields what it finds."""

import json
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from vllmdoctor.flags import Release, bounds, engine_of, flags
from vllmdoctor.launch import Given, count
from vllmdoctor.model import Fact, Severity
from vllmdoctor.release import version

GIB = 1024.0**3
SAFE_SHARE, TOP_SHARE = 0.92, 0.95  # of the device's memory
LARGE_BUDGET = 8192
NUMBERS = (
    "--max-num-seqs", "--max-num-batched-tokens", "--max-num-active-seqs", "--block-size",
    "--long-prefill-token-threshold", "--num-gpu-blocks-override", "--tensor-parallel-size",
    "--data-parallel-size", "--pipeline-parallel-size", "--gpu-memory-utilization", "--watermark",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Remark:
    """What a check says: its slug, how bad, of which argument, in words, and what to do."""

    slug: str
    severity: Severity
    argument: str
    what: str
    hint: str = ""


Named = Mapping[str, Given]
Known = Mapping[str, Fact]


def _number(known: Known, key: str) -> float:
    fact = known.get(key)
    if fact is None or isinstance(fact.value, bool):
        return math.nan
    if isinstance(fact.value, str):
        read = count(fact.value)
        return math.nan if read is None else read
    return float(fact.value)


def _off(known: Known, key: str) -> bool:
    fact = known.get(key)
    return fact is not None and fact.value in (False, "False")


def _numbers(named: Named, known: Known, release: Release) -> Iterator[Remark]:
    for name in NUMBERS:
        given = named.get(name)
        if given is None:
            continue
        value = count(given.value)
        if value is None or math.isnan(value):
            what = f"{given.value!r} is no number: the server exits at start-up"
            yield Remark("impossible-value", Severity.CRITICAL, name, what)
        elif value < 0 or (value == 0 and name not in ("--long-prefill-token-threshold", "--watermark")):
            yield Remark("impossible-value", Severity.CRITICAL, name, f"{given.value} must be above 0")


def _memory_share(named: Named, known: Known, release: Release) -> Iterator[Remark]:
    name = "--gpu-memory-utilization"
    share = _number(known, "gpu_memory_utilization")
    if name not in named or math.isnan(share):
        return
    if share > 1:
        yield Remark(
            "impossible-value", Severity.CRITICAL, name, f"{share:g} is a share of the device, 0 to 1"
        )
    elif share > SAFE_SHARE:
        free, total = _number(known, "gpu_memory_free"), _number(known, "gpu_memory_total")
        if free >= max(GIB, 0.02 * total) and share <= TOP_SHARE:
            return  # the device was seen with room to spare
        room = f" ({(1 - share) * total / GIB:.1f} of {total / GIB:.0f} GiB)" if total > 0 else ""
        yield Remark(
            "memory-without-headroom", Severity.WARNING, name,
            f"{share:g} leaves {1 - share:.0%} of the device{room} for CUDA graphs, images and other "
            f"processes",
            f"keep 0.85-{SAFE_SHARE}, or test the peak",
        )  # fmt: skip
    elif share < 0.5:
        yield Remark("trade-off", Severity.INFO, name, f"{share:g} gives the KV pool little of the device")


def _pool(named: Named, known: Known, release: Release) -> Iterator[Remark]:
    override, fixed = "--num-gpu-blocks-override", "--kv-cache-memory-bytes"
    if override in named:
        yield Remark(
            "risky-value", Severity.WARNING, override, "is meant for tests: it fixes the KV pool, "
            "whatever the device holds",
            "leave it out: the pool is measured at start-up",
        )  # fmt: skip
    if fixed in named and "--gpu-memory-utilization" in named:
        what = f"has no effect on the pool: {fixed} sets it"
        yield Remark("inert-argument", Severity.INFO, "--gpu-memory-utilization", what)
    context, pool = _number(known, "max_model_len"), pool_tokens(named, known)
    if context > pool:
        where = "--max-model-len" if "--max-model-len" in named else "the context length"
        yield Remark(
            "context-above-pool", Severity.CRITICAL, where,
            f"{context:,.0f} tokens are more than the KV pool's {pool:,.0f}: a request that long never fits, "
            "and all behind it wait",
            f"set --max-model-len {math.floor(pool / 16) * 16} or make the pool larger",
        )  # fmt: skip


def pool_tokens(named: Named, known: Known) -> float:
    """The KV pool as far as arguments or facts tell; an override in the arguments comes first."""
    if "--num-gpu-blocks-override" in named:
        size = _number(known, "block_size")
        blocks = _number(known, "num_gpu_blocks_override")
        return blocks * (size if size > 0 else 16.0)
    return _number(known, "pool_tokens")


def _budget(named: Named, known: Known, release: Release) -> Iterator[Remark]:
    name = "--max-num-batched-tokens"
    budget, slots = _number(known, "max_num_batched_tokens"), _number(known, "max_num_seqs")
    context, chunk = _number(known, "max_model_len"), _number(known, "long_prefill_token_threshold")
    if budget < slots and name in named:
        yield Remark(
            "impossible-value", Severity.CRITICAL, name,
            f"{budget:g} is below --max-num-seqs {slots:g}: the server exits at start-up",
        )  # fmt: skip
    elif budget < context and _off(known, "enable_chunked_prefill") and name in named:
        yield Remark(
            "impossible-value", Severity.CRITICAL, name,
            f"without chunked prefill {budget:g} must hold a whole prompt of {context:g} tokens",
            "leave out --no-enable-chunked-prefill",
        )  # fmt: skip
    elif budget >= LARGE_BUDGET and name in named:
        yield Remark(
            "trade-off", Severity.INFO, name,
            f"{budget:g} tokens a step: long prompts stall running streams, and start-up profiling leaves "
            f"a smaller "
            "KV pool (one case: 2048 -> 8192 cost 9 % of it and 70 % of the p99 TTFT)",
            "compare the KV cache size in the start-up log",
        )  # fmt: skip
    threshold = "--long-prefill-token-threshold"
    if threshold in named and (chunk >= budget or chunk >= context):
        what = (
            f"{chunk:g} is not below {'the budget' if chunk >= budget else 'the context'}: it slices nothing"
        )
        yield Remark("inert-argument", Severity.INFO, threshold, what)


def _scheduling(named: Named, known: Known, release: Release) -> Iterator[Remark]:
    low, high = bounds(release)
    partial = named.get("--max-num-partial-prefills")
    if partial is not None and (count(partial.value) or 0) > 1 and engine_of(release) == "V1":
        stops = low >= version("0.11.0") and flags()[partial.name].known_in(release)
        yield Remark(
            "impossible-value" if stops else "risky-value",
            Severity.CRITICAL if stops else Severity.WARNING,
            partial.name,
            "the V1 engine refuses more than 1: the server exits"
            if stops
            else "more than 1 falls back to the V0 engine",
            "use --long-prefill-token-threshold",
        )
    policy = named.get("--scheduling-policy")
    if policy and policy.value == "priority" and version("0.8.0") <= low and high <= version("0.9.1"):
        what = "priority falls back to the V0 engine before 0.9.2"
        yield Remark("risky-value", Severity.WARNING, policy.name, what, "upgrade to 0.9.2 or newer")


def _speed(named: Named, known: Known, release: Release) -> Iterator[Remark]:
    if "--enforce-eager" in named and not _off(known, "enforce_eager"):
        yield Remark(
            "trade-off", Severity.INFO, "--enforce-eager", "no CUDA graphs: decoding is slower",
            "leave it out unless memory is short",
        )  # fmt: skip
    if "--enable-prefix-caching" in named and _off(known, "enable_prefix_caching"):
        yield Remark(
            "trade-off",
            Severity.INFO,
            "--no-enable-prefix-caching",
            "a prompt that repeats is computed each time",
        )
    if float(count(named["--cpu-offload-gb"].value) or 0) > 0 if "--cpu-offload-gb" in named else False:
        what = "weights in host memory cross the bus at every step: decoding is slow"
        yield Remark("trade-off", Severity.WARNING, "--cpu-offload-gb", what)


def _sight(named: Named, known: Known, release: Release) -> Iterator[Remark]:
    if "--disable-log-stats" in named and not _off(known, "disable_log_stats"):
        yield Remark(
            "blinding", Severity.WARNING, "--disable-log-stats", "switches off vLLM's metrics and its "
            "statistics line",
            "leave it out",
        )  # fmt: skip
    if "--api-key" in named:
        yield Remark(
            "secret-in-arguments", Severity.WARNING, "--api-key", "the key is seen by all who list processes",
            "set VLLM_API_KEY from a Secret",
        )  # fmt: skip


def _json(named: Named, known: Known, release: Release) -> Iterator[Remark]:
    for name in ("--speculative-config", "--kv-transfer-config", "--compilation-config", "--hf-overrides"):
        given = named.get(name)
        if given is None or not given.value.lstrip().startswith("{"):
            continue
        try:
            json.loads(given.value)
        except ValueError as error:
            what = f"is no JSON ({error}): the server exits at start-up"
            yield Remark("impossible-value", Severity.CRITICAL, name, what, "quote it with ' in a shell")


CHECKS: tuple[Callable[[Named, Known, Release], Iterator[Remark]], ...] = (
    _numbers, _memory_share, _pool, _budget, _scheduling, _speed, _sight, _json,
)  # fmt: skip
