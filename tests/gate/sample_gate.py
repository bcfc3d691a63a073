"""Gates made by hand, for the formats: one that regressed, one that passed, one that cannot tell."""

import math

from vllmdoctor.model_gate import Cause, Change, Context, Gate, Judgement, Measure, Side

NAN = math.nan
NASTY = "evil](http://x) <b>|`\x1b[31m\n::error::no"
BASELINE = Side(
    ("main.rec",),
    "requests",
    "llama-3-70b",
    "0.31.0",
    1_795_960_000.0,
    1_795_963_600.0,
    1,
    5000.0,
    {"vllmdoctor": "0.1.0", "written": "2026-11-29T13:00:00Z"},
)
CANDIDATE = Side(
    ("pr.rec",), "requests", "llama-3-70b", "0.32.0", 1_795_970_000.0, 1_795_973_600.0, 1, 4810.0, {}
)
THROUGHPUT = Measure(
    "throughput", "throughput", "tokens/s", "higher", 344.0, 301.0, 0.875, 0.861, 0.889, 0.95,
    Judgement.REGRESSED, 0.924, (20, 20), basis="a closed loop: the server sets the pace",
)  # fmt: skip
TTFT = Measure(
    "ttft_p95", "time to first token (p95)", "s", "lower", 0.503, 0.612, 1.217, 1.02, 1.45, 1.10,
    Judgement.INCONCLUSIVE, 1.43, (20, 20),
)  # fmt: skip
ITL = Measure(
    "itl_mean", "time per token (mean)", "s", "lower", 0.0402, 0.0399, 0.993, 0.967, 1.02, 1.10,
    Judgement.PASS, 1.15, (20, 20), buckets=((0.025, 0.05), (0.025, 0.05)),
    basis="the mean: p95's buckets are too wide to tell",
)  # fmt: skip
CORRECT = Measure(
    "correctness", "correct answers", "ratio", "higher", 0.968, 0.961, 0.9928, NAN, NAN, 0.0,
    Judgement.PASS, -0.021, (500, 500), why="lower, but not beyond chance", share=True,
)  # fmt: skip
REGRESSED = Gate(
    Judgement.REGRESSED,
    "worse than the tolerance: throughput",
    (THROUGHPUT, TTFT, ITL, CORRECT),
    (Context("e2e_mean", "whole request (mean)", "s", 5.32, 6.1),),
    BASELINE,
    CANDIDATE,
    (Change("vllm_version", "0.31.0", "0.32.0"), Change("max_num_seqs", "256", "")),
    (
        Cause(
            "overload",
            "more work arrives than the server can do: requests wait",
            "32.1 requests wait while 4.49 run; the KV pool is full (97 %)",
            "critical",
            0.97,
            True,
            "runbooks/overload.md",
        ),
    ),
    ("pr.rec: the end of the file was cut off",),
    0.05,
)
PASSED = Gate(
    Judgement.PASS, "no worse than the tolerances allow", (ITL, CORRECT), (), BASELINE, CANDIDATE,
    (), (), (), 0.05,
)  # fmt: skip
UNCLEAR = Gate(
    Judgement.INCONCLUSIVE,
    "the data cannot tell: time to first token (p95)",
    (TTFT, ITL),
    (),
    Side(("http://h:8000",), "server metrics", NASTY, "", 1.0, 2.0, 3, NAN, {}),
    Side((NASTY,), "server metrics", NASTY, ">= 0.12", 1.0, 301.0, 3, NAN, {}),
    (Change("model", "a", NASTY),),
    (),
    (NASTY,),
    0.05,
    lenient=True,
)
SAMPLES = {"regressed": REGRESSED, "passed": PASSED, "unclear": UNCLEAR}
