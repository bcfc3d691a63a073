"""Is it slow at all: symptoms at equal demand, before any cause."""

from vllmdoctor.alerts.basis import WHO, Basis
from vllmdoctor.alerts.nouns import Told, alert
from vllmdoctor.alerts.records import ADJUSTED, ARRIVALS, FINISHED, ITL, SEEN
from vllmdoctor.symptoms import DECODE, FEWEST_REQUESTS, THROUGHPUT

FEWEST = f"{FEWEST_REQUESTS / 1800:.3g}"
"""Requests per second: what it takes for 30 minutes to tell more than chance."""
COMPARABLE = f"{SEEN} >= 0.9 * ({SEEN} offset 6h)"
"""A restart or a hole in the scrapes makes the rate of a window look low."""
ENOUGH = f"{FINISHED} >= {FEWEST}\nand {FINISHED} offset 6h >= {FEWEST}\nand {COMPARABLE}"
NO_MORE = f"{ARRIVALS} <= 1.1 * ({ARRIVALS} offset 6h)"


@alert(
    "VLLMThroughputDegradation",
    "unexplained",
    "warning",
    wait="15m",
    linger="10m",
    means="generation rate of 30 min against 6 h earlier, the change of demand taken off",
)
def throughput(_: Basis) -> Told:
    """The runbook's alert, without its false alarms at every evening."""
    return Told(
        f"{ADJUSTED} < {THROUGHPUT.value:g}\nand {ENOUGH}",
        f"{WHO} generates fewer tokens than 6 h ago for the same work",
        "{{ $value | humanizePercentage }} of the rate 6 h earlier at equal demand (limit: "
        f"{100 * THROUGHPUT.value:g} %). A fall of the demand is taken off: this is less speed.",
    )


@alert(
    "VLLMTokensSlower",
    "unexplained",
    "warning",
    wait="15m",
    linger="10m",
    means="time between tokens of 30 min against 6 h earlier, while no more requests arrive",
)
def tokens(_: Basis) -> Told:
    """Each token takes longer, whether or not the server still keeps up."""
    return Told(
        f"{ITL} / ({ITL} offset 6h > 0) > {DECODE.value:g}\nand {NO_MORE}\nand {ENOUGH}",
        f"{WHO} takes longer for each token than 6 h ago, with no more to do",
        "{{ $value | humanize }} times as long between two tokens as 6 h earlier (limit: "
        f"{DECODE.value:g} times), while no more requests arrive.",
    )


SPEED = (throughput, tokens)
