"""What a probe's recording holds: the names under which `probe` and `results` write and others read.

Every series belongs to the instance PROBE_INSTANCE and has no labels. A request that ended with an
answer has one sample at its finish in each series that could be measured; `probe:error` has one for
each request sent. Columns of one recording may share their times, so what has no sample is NaN.
"""

PROBE_INSTANCE = "probe"

TTFT = "probe:ttft_seconds"
"""s, from the moment the request was written to the first chunk that holds text."""
E2E = "probe:e2e_seconds"
"""s, from the moment the request was written to the last chunk of the answer."""
ITL = "probe:itl_seconds"
"""s, one sample for each wait between two chunks of text that came apart, at the later one's time."""
OUTPUT_TOKENS = "probe:output_tokens"
"""tokens, as the server counts them in the usage of the last chunk."""
PROMPT_TOKENS = "probe:prompt_tokens"
"""tokens, from the same place."""
CORRECT = "probe:correct"
"""1 or 0; only for answers to requests that say what they expect."""
ERROR = "probe:error"
"""1 or 0 for each request sent."""

UNITS = {
    TTFT: "s",
    E2E: "s",
    ITL: "s",
    OUTPUT_TOKENS: "tokens",
    PROMPT_TOKENS: "tokens",
    CORRECT: "",
    ERROR: "",
}

CONCURRENCY = "probe_concurrency"
LOOP = "probe_loop"
"""The fact's value is "closed" or "open"."""
RATE = "probe_rate"
"""Requests per second; only of an open loop."""
REQUESTS_SHA256 = "probe_requests_sha256"
"""Of what was planned to be sent and expected, in a spelling that does not depend on the file's."""
TOOL = "probe_tool"
"""What sent the requests, where it was not `probe`."""
ITL_KIND = "probe_itl"
"""What ITL's samples are, where they are not the waits between chunks of text."""
WARMUP = "probe_warmup"
SEED = "probe_seed"
MODEL = "model"
VLLM_VERSION = "vllm_version"
