"""Is it slow at all: symptoms, at equal demand, before any cause."""

from collections.abc import Iterator

from vllmdoctor.alerts.basis import WHO, Basis
from vllmdoctor.alerts.nouns import Alert
from vllmdoctor.alerts.records import ADJUSTED, ARRIVALS, FINISHED, ITL, SEEN
from vllmdoctor.symptoms import DECODE, FEWEST_REQUESTS, THROUGHPUT

FEWEST = FEWEST_REQUESTS / 1800
"""Requests per second: what it takes for 30 minutes to tell more than chance."""
SAME_DEMAND = 1.1  # of the demand 6 h earlier
COMPARABLE = f"{SEEN} >= 0.9 * ({SEEN} offset 6h)"
"""A restart or a hole in the scrapes makes the rate of a window look low."""


def speed(on: Basis) -> Iterator[Alert]:
    """The runbook's alert on throughput, and the one on the time per token."""
    enough = f"{FINISHED} >= {FEWEST:.3g} and {FINISHED} offset 6h >= {FEWEST:.3g}\nand {COMPARABLE}"
    yield Alert(
        "VLLMThroughputDegradation",
        "unexplained",
        "warning",
        f"{ADJUSTED} < {THROUGHPUT.value:g}\nand {enough}",
        "15m",
        f"{WHO} generates fewer tokens than 6 h ago for the same work",
        f"{{{{ $value | humanizePercentage }}}} of the rate 6 h earlier at equal demand (limit: "
        f"{THROUGHPUT.value:.0%}). A fall of the demand is taken off; this is less speed.",
        "generation rate, 30 min against 6 h earlier, demand taken off",
        linger="10m",
    )
    yield Alert(
        "VLLMTokensSlower",
        "unexplained",
        "warning",
        f"{ITL} / ({ITL} offset 6h > 0) > {DECODE.value:g}\n"
        f"and {ARRIVALS} <= {SAME_DEMAND:g} * ({ARRIVALS} offset 6h)\nand {enough}",
        "15m",
        f"{WHO} takes longer for each token than 6 h ago, with no more to do",
        "{{ $value | humanize }} times as long between two tokens as 6 h earlier (limit: "
        f"{DECODE.value:g} times), while no more requests arrive.",
        "time between tokens, 30 min against 6 h earlier, at no more demand",
        linger="10m",
    )
