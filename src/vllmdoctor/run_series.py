"""The names under which one run's own summary is kept, where a file has no requests: one sample a series."""

RUN_INSTANCE = "run"
"""The instance of a run; further runs of one recording are `run/2`, `run/3`, ..."""

THROUGHPUT = "run:output_tokens_per_second"
TTFT_P95 = "run:ttft_p95_seconds"
TTFT_MEAN = "run:ttft_mean_seconds"
ITL_P95 = "run:itl_p95_seconds"
ITL_MEAN = "run:itl_mean_seconds"
E2E_MEAN = "run:e2e_mean_seconds"
COMPLETED = "run:completed_requests"
FAILED = "run:failed_requests"
