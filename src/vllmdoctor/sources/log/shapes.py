# ruff: noqa: E501  lines of a log stand here as they are
"""The table of line shapes: every kind of line that is read, what it looks like in which release.

Statistics lines are read as `label: value` pairs, so that a field that a release adds, drops or moves
does no harm; `FIELDS` says which label is what. The examples stand here so that the tests can hold
each shape against what each release prints.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType


@dataclass(frozen=True, slots=True)
class Shape:
    """One kind of line: `pattern` is searched in the text, `examples` are (releases, line)."""

    name: str
    pattern: re.Pattern[str]
    examples: tuple[tuple[str, str], ...]


def _shape(name: str, pattern: str, *examples: tuple[str, str]) -> Shape:
    return Shape(name, re.compile(pattern), examples)


# A terminal may wrap a line at a space and swallow it, so the words may stand together.
STATISTICS = _shape(
    "statistics",
    r"Avg\s*prompt\s*(?:throughput|tput):|RUNNING: \d+ \| WAITING: \d+",
    ("0.2", "INFO 10-27 20:44:35 llm_engine.py:624] Avg prompt throughput: 642.0 tokens/s, Avg generation "
     "throughput: 61.0 tokens/s, Running: 2 reqs, Swapped: 0 reqs, Pending: 20 reqs, GPU KV cache usage: 98.7%, "
     "CPU KV cache usage: 0.0%"),
    ("0.6-0.10 V0", "INFO 03-18 09:04:46 [metrics.py:481] Avg prompt throughput: 642.0 tokens/s, Avg generation "
     "throughput: 61.0 tokens/s, Running: 2 reqs, Swapped: 0 reqs, Pending: 20 reqs, GPU KV cache usage: 98.7%, "
     "CPU KV cache usage: 0.0%."),
    ("0.7.0 V1", "INFO 01-30 10:00:05 [core.py:170] RUNNING: 2 | WAITING: 20"),
    ("0.7.1-0.7.2 V1", "INFO 02-05 10:00:05 loggers.py:72] Avg prompt throughput: 642.0 tokens/s, Avg generation "
     "throughput: 61.0 tokens/s, Running: 2 reqs, Waiting: 20 reqs GPU KV cache usage: 98.7%."),
    ("0.7.3-0.8.2 V1", "INFO 03-20 10:00:05 [loggers.py:80] Avg prompt throughput: 642.0 tokens/s, Avg generation "
     "throughput: 61.0 tokens/s, Running: 2 reqs, Waiting: 20 reqs, GPU KV cache usage: 98.7%, Prefix cache hit "
     "rate: 42.4%"),
    ("0.8.3-0.11.0", "(APIServer pid=1) INFO 10-14 17:00:48 [loggers.py:123] Engine 000: Avg prompt throughput: "
     "642.0 tokens/s, Avg generation throughput: 61.0 tokens/s, Running: 2 reqs, Waiting: 20 reqs, GPU KV cache "
     "usage: 98.7%, Prefix cache hit rate: 42.4%"),
    ("0.11.1-0.19", "(APIServer pid=1) INFO 03-11 06:16:52 [loggers.py:257] Engine 001: Avg prompt throughput: "
     "642.0 tokens/s, Avg generation throughput: 61.0 tokens/s, Running: 2 reqs, Waiting: 20 reqs, GPU KV cache "
     "usage: 98.7%, Prefix cache hit rate: 42.4%, External prefix cache hit rate: 1.2%, MM cache hit rate: 0.0%"),
    ("0.11.1+ aggregated", "(APIServer pid=1) INFO 03-11 06:16:52 [loggers.py:257] 8 Engines Aggregated: Avg prompt "
     "throughput: 642.0 tokens/s, Avg generation throughput: 61.0 tokens/s, Running: 2 reqs, Waiting: 20 reqs, GPU "
     "KV cache usage: 98.7%, Prefix cache hit rate: 42.4%"),
    ("0.20-0.29", "(APIServer pid=1) INFO 06-13 11:03:35 [loggers.py:271] Engine 000: Avg prompt throughput: 642.0 "
     "tokens/s, Avg generation throughput: 61.0 tokens/s, Running: 2 reqs, Waiting: 20 reqs, Deferred: 3 reqs, GPU "
     "KV cache usage: 98.7%, Prefix cache hit rate: 42.4%"),
    ("0.30-0.31", "(APIServer pid=1) INFO 09-25 11:03:35 [loggers.py:320] Engine 000: Avg prompt throughput: 642.0 "
     "tokens/s, Avg generation throughput: 61.0 tokens/s, Running: 2 reqs, Waiting: 20 reqs, XPU KV cache usage: "
     "98.7%"),
    ("0.32+", "(APIServer pid=1) INFO 11-29 13:50:13 [loggers.py:335] Engine 000: Avg prompt throughput: 642.0 "
     "tokens/s, Avg generation throughput: 61.0 tokens/s, Running: 2 reqs, Waiting: 20 reqs, Deferred: 3 reqs, KV "
     "fetch: 1 waiting to start, 2 in progress, 0 completed waiting, CPU KV cache usage: 98.7%, Prefix cache hit "
     "rate: 42.4%"),
    ("0.22+ Rust", "(RustFrontend pid=32) INFO 09-17 15:57:17 [log_stats.rs:273] Avg prompt tput: 642.0 toks/s, Avg "
     "generation tput: 61.0 toks/s, Reqs Running: 2, Waiting: 20, Deferred: 3 reqs, Preemptions: 7, GPU KV cache "
     "used: 98.7%, Prefix cache hit rate: 42.4%"),
)  # fmt: skip

PREFIX_RATE = _shape(
    "prefix cache hit rate on its own line",
    r"Prefix cache hit rate: GPU: (-?[\d.]+)%",
    ("0.6-0.10 V0", "INFO 11-24 03:09:29 [metrics.py:402] Prefix cache hit rate: GPU: 62.26%, CPU: 0.00%"),
)
SPECULATION = _shape(
    "speculative decoding, since the line before",
    r"SpecDecoding\s*metrics:.*?Accepted:\s*(\d+)\s*tokens,\s*Drafted:\s*(\d+)\s*tokens",
    ("0.8.3-0.9 V1", "INFO 05-01 11:03:35 [metrics.py:61] SpecDecoding metrics: Draft acceptance rate: 49.7%, "
     "Accepted: 307 tokens, Drafted: 618 tokens"),
    ("0.10+", "(APIServer pid=1) INFO 06-13 11:03:35 [metrics.py:101] SpecDecoding metrics: Mean acceptance length: "
     "2.49, Accepted throughput: 30.70 tokens/s, Drafted throughput: 61.80 tokens/s, Accepted: 307 tokens, Drafted: "
     "618 tokens, Per-position acceptance rate: 0.699, 0.466, Avg Draft acceptance rate: 49.7%"),
)  # fmt: skip
SPECULATION_V0 = _shape(
    "speculative decoding, since the start",
    r"Speculative metrics:.*?Number of accepted tokens: (\d+), Number of draft tokens: (\d+)",
    ("0.6-0.10 V0", "INFO 10-16 19:05:47 metrics.py:367] Speculative metrics: Draft acceptance rate: 0.642, System "
     "efficiency: 0.598, Number of speculative tokens: 3, Number of accepted tokens: 8547, Number of draft tokens: "
     "13311, Number of emitted tokens: 10616."),
)  # fmt: skip
PREEMPTED = _shape(
    "preemption (V0: the first and every fiftieth)",
    r"is preempted by PreemptionMode\.(\w+).*?total_(?:num_)?cumulative_preemption(?:_cnt)?=(\d+)",
    ("0.4.3-0.10 V0", "WARNING 06-16 21:24:15 scheduler.py:1089] Sequence group 165 is preempted by "
     "PreemptionMode.SWAP mode because there is not enough KV cache space. This can affect the end-to-end "
     "performance. Increase gpu_memory_utilization or tensor_parallel_size to provide more KV cache memory. "
     "total_num_cumulative_preemption=151"),
    ("0.4 documented", "WARNING 05-09 00:49:33 scheduler.py:1057] Sequence group 0 is preempted by "
     "PreemptionMode.RECOMPUTE mode because there is not enough KV cache space. total_cumulative_preemption_cnt=151"),
)  # fmt: skip
OUT_OF_MEMORY = _shape(
    "GPU memory ran out",
    r"OutOfMemoryError: \w+ out of memory\. Tried to allocate ([\d.]+) ([KMGT]?i?B|bytes)",
    ("all", "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 384.00 MiB. GPU 0 has a total capacity "
     "of 19.53 GiB of which 329.87 MiB is free. Of the allocated memory 18.40 GiB is allocated by PyTorch, and "
     "402.27 MiB is reserved by PyTorch but unallocated."),
    ("older torch", "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB (GPU 0; 79.15 GiB "
     "total capacity; 70.00 GiB already allocated; 1.50 GiB free; 71.00 GiB reserved in total by PyTorch)"),
)  # fmt: skip
STARTED = _shape(
    "start-up banner",
    r"vLLM API server version (\S+)|Initializing an? (?:V1 )?LLM engine \(v([^)]+)\)|█ +version (\d[\w.+]*)",
    ("0.6-0.25", "INFO 10-22 09:32:12 [api_server.py:1839] vLLM API server version 0.11.0"),
    ("0.6-0.10 V0", "INFO 10-22 09:32:12 llm_engine.py:237] Initializing an LLM engine (v0.6.3) with config: "
     "model='m', max_seq_len=4096"),
    ("0.8+", "(EngineCore pid=13996) INFO 11-29 13:58:39 [core.py:133] Initializing a V1 LLM engine (v0.32.0) with "
     "config: model='./mid', max_seq_len=1024"),
    ("0.26+", "(APIServer pid=7681) INFO 11-29 13:58:02 [api_utils.py:347]  ▄▄ ▄█ █     █     █ ▀▄▀ █  version "
     "0.32.0"),
)  # fmt: skip
ARGUMENTS = _shape(
    "arguments",
    r"non-default args: (\{.*)|\bargs: Namespace\((.*)",
    ("0.9+", "INFO 11-29 13:58:02 [api_utils.py:286] non-default args: {'model': './mid', 'max_num_seqs': 64, "
     "'served_model_name': ['mid']}"),
    ("0.6-0.8", "INFO 10-22 09:32:12 api_server.py:529] args: Namespace(host=None, max_num_seqs=64, model='./mid', "
     "served_model_name=['mid'])"),
)  # fmt: skip
CONFIG = _shape(
    "resolved configuration",
    r"LLM engine \(v[^)]+\) with config: (.*)",
    ("0.6+", "INFO 11-29 13:58:39 [core.py:133] Initializing a V1 LLM engine (v0.32.0) with config: model='./mid', "
     "max_seq_len=1024, tensor_parallel_size=1, served_model_name=mid, enable_prefix_caching=False"),
)  # fmt: skip

# Start-up lines with one number each: (fact, pattern, what to multiply by, example).
NUMBERS: tuple[tuple[str, re.Pattern[str], float, str], ...] = tuple(
    (key, re.compile(pattern), scale, example)
    for key, pattern, scale, example in (
        ("kv_cache_size_tokens", r"KV cache size: ([\d,]+) tokens", 1.0,
         "INFO 04-18 18:08:51 [kv_cache_utils.py:634] GPU KV cache size: 233,936 tokens"),
        ("kv_cache_max_concurrency", r"Maximum concurrency for [\d,]+ tokens per request: ([\d.]+)x", 1.0,
         "INFO 04-18 18:08:51 [kv_cache_utils.py:637] Maximum concurrency for 32,768 tokens per request: 7.14x"),
        ("max_model_len", r"Maximum concurrency for ([\d,]+) tokens per request", 1.0,
         "INFO 11-29 13:50:00 [kv_cache_utils.py:2327] CPU KV cache size: 4,096 tokens, Maximum concurrency for "
         "2,048 tokens per request: 2.00x"),
        ("max_model_len", r"Using max model len ([\d,]+)", 1.0,
         "INFO 11-29 13:58:02 [model.py:2152] Using max model len 1024"),
        ("num_gpu_blocks", r"# (?!CPU blocks: \d+$)\w+ blocks: ([\d,]+)(?:, # CPU blocks: [\d,]+)?", 1.0,
         "INFO 02-20 18:08:51 executor_base.py:110] # cuda blocks: 27896, # CPU blocks: 2048"),
        ("num_gpu_blocks_override", r"with num_gpu_blocks_override=(\d+)", 1.0,
         "INFO 11-29 13:59:06 [kv_cache_utils.py:2619] Overriding num_gpu_blocks=4096 with "
         "num_gpu_blocks_override=64"),
        ("available_kv_cache_memory", r"Available KV cache memory: ([\d.]+) GiB", 2.0**30,
         "INFO 04-18 18:08:51 [gpu_worker.py:227] Available KV cache memory: 12.25 GiB"),
        ("max_num_batched_tokens", r"Chunked prefill is enabled with max_num_batched_tokens=(\d+)", 1.0,
         "INFO 04-18 18:08:20 [scheduler.py:216] Chunked prefill is enabled with max_num_batched_tokens=8192."),
        ("block_size", r"Setting attention block size to (\d+) tokens", 1.0,
         "INFO 08-20 00:00:00 [interface.py:931] Setting attention block size to 7808 tokens to ensure that "
         "attention page size is >= mamba page size."),
        ("model_memory", r"Model loading took ([\d.]+) Gi?B", 2.0**30,
         "INFO 04-18 18:08:15 [gpu_model_runner.py:2653] Model loading took 14.2717 GiB and 2.1 seconds"),
        ("graph_memory", r"Graph capturing finished in \d+ secs, took ([\d.]+) GiB", 2.0**30,
         "INFO 04-18 18:09:11 [gpu_model_runner.py:3480] Graph capturing finished in 21 secs, took 0.63 GiB"),
        ("startup_time", r"init engine \([^)]*\) took ([\d.]+) s", 1.0,
         "INFO 11-29 13:59:06 [core.py:402] init engine (profile, create kv cache, warmup model) took 0.09 s"),
    )
)  # fmt: skip

# Lines that become events: (kind, pattern, what it says, example). A pattern's group goes into {}.
TROUBLE: tuple[tuple[str, re.Pattern[str], str, str], ...] = tuple(
    (kind, re.compile(pattern), text, example)
    for kind, pattern, text, example in (
        ("engine-died", r"EngineCore encountered a fatal error|AsyncEngineDeadError|EngineDeadError|"
         r"EngineCore encountered an issue|Engine core proc \S+ died unexpectedly", "the engine died",
         "(EngineCore_DP1 pid=325607) ERROR 10-27 13:45:16 [core.py:710] EngineCore encountered a fatal error."),
        ("worker-died", r"Worker proc (\S+) died unexpectedly", "worker {} died",
         "ERROR 07-04 17:35:16 [multiproc_executor.py:140] Worker proc VllmWorker-1 died unexpectedly, shutting "
         "down executor."),
        ("worker-silent", r"No available (?:shared memory broadcast )?block found in (\d+) second",
         "a worker did not answer for {} s",
         "(EngineCore_DP0 pid=2) INFO 10-24 16:26:27 [shm_broadcast.py:466] No available shared memory broadcast "
         "block found in 60 seconds. This typically happens when some processes are hanging"),
        ("rpc-timeout", r"RPC call to (\S+) timed out", "the call {} to a worker timed out",
         "ERROR 07-12 17:35:16 [core.py:710] TimeoutError: RPC call to sample_tokens timed out."),
        ("collective-timeout", r"Watchdog caught collective operation timeout|DistBackendError", "a collective operation timed out",
         "torch.distributed.DistBackendError: [Rank 1] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=1)"),
        ("grammar-failed", r"Failed to advance FSM for request", "a structured output's grammar failed",
         "ERROR 08-01 17:35:16 [backend_xgrammar.py:148] Failed to advance FSM for request cmpl-1 for tokens 5. "
         "Please file an issue."),
        ("blocks-held", r"Failed to reset prefix cache because some blocks \((\d+)\) are not freed yet",
         "{} KV blocks are not freed",
         "WARNING 08-01 17:35:16 [block_pool.py:330] Failed to reset prefix cache because some blocks (12) are not "
         "freed yet"),
        ("compiled-while-serving", r"JIT compilation during inference: (\S+?)\.(?:\s|$)",
         "kernel {} was compiled while serving",
         "(EngineCore pid=348187) WARNING 08-04 20:50:58 [jit_monitor.py:135] Triton kernel JIT compilation during "
         "inference: _prepare_dflash_inputs_kernel. This causes a latency spike; consider extending warmup"),
        ("start-failed", r"No available memory for the cache blocks|Free memory on device .{0,60} is less than "
         r"desired GPU memory utilization|is larger than the maximum number of tokens that can be stored",
         "the server could not start for want of GPU memory",
         "ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization`"),
        ("no-statistics", r"disabling stats logging|[Ss]tats logging is disabled|disable stats logging",
         "several API servers: no statistics lines are written",
         "WARNING 01-30 10:00:05 [async_llm.py:120] AsyncLLM created with api_server_count more than 1; disabling "
         "stats logging to avoid incomplete stats."),
        ("stopping", r"\[shutdown\] API server: shutdown triggered", "the server shuts down",
         "(APIServer pid=1980) INFO 11-29 13:54:04 [launcher.py:254] [shutdown] API server: shutdown triggered"),
    )
)  # fmt: skip

FIELDS: Mapping[str, tuple[str, float]] = MappingProxyType(
    {
        "avgpromptthroughput": ("prompt", 1.0),
        "avgprompttput": ("prompt", 1.0),
        "avggenerationthroughput": ("generation", 1.0),
        "avggenerationtput": ("generation", 1.0),
        "running": ("running", 1.0),
        "reqsrunning": ("running", 1.0),
        "waiting": ("waiting", 1.0),
        "pending": ("waiting", 1.0),
        "deferred": ("deferred", 1.0),
        "swapped": ("swapped", 1.0),
        "preemptions": ("preemptions", 1.0),
        "prefixcachehitrate": ("hit_rate", 0.01),
        "externalprefixcachehitrate": ("external_hit_rate", 0.01),
        "corrupted": ("corrupted", 1.0),
    }
)
"""Label of a statistics line, without spaces and in lower case -> (what it is, scale to SI)."""
