"""The names under which requests seen from the client's side are kept: one instance a run, SI units.

Each request that ended puts one sample into each series at the time it ended; `ITL` gets one sample for
each gap between two tokens, at the time of the later token.
"""

PROBE_INSTANCE = "probe"
"""The instance these series belong to; further runs of one recording are `probe/2`, `probe/3`, ..."""

TTFT = "probe:ttft_seconds"
"""Time to the first token of a completed request (s)."""

E2E = "probe:e2e_seconds"
"""Time from sending a request that completed to its end (s)."""

OUTPUT_TOKENS = "probe:output_tokens"
"""Tokens that a completed request generated."""

PROMPT_TOKENS = "probe:prompt_tokens"
"""Tokens in the prompt of a completed request."""

CORRECT = "probe:correct"
"""1 where the answer is as expected, 0 where it is not; only for requests with an expectation."""

ERROR = "probe:error"
"""1 for a request that failed, 0 for one that completed; one sample for each request that was sent."""

ITL = "probe:itl_seconds"
"""Time between two tokens of one request (s)."""
