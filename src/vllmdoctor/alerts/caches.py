"""What saves work and stops doing so: the prefix cache and speculative decoding."""

from vllmdoctor.alerts.basis import WHO, Basis
from vllmdoctor.alerts.nouns import Told, alert
from vllmdoctor.alerts.records import ACCEPTED, FINISHED, HITS, PREFILL, TTFT
from vllmdoctor.alerts.speed import COMPARABLE, FEWEST

_PREFIX, _SPEC = "prefix-cache-collapse", "spec-decode-decay"
FEWEST_DRAFTED = 1000  # tokens in 30 minutes: fewer are chance


@alert(
    "VLLMPrefixCacheCollapse",
    _PREFIX,
    "warning",
    wait="15m",
    linger="10m",
    means="prefix cache hits per lookup against 6 h earlier, while first tokens come later",
    limits=tuple(f"{_PREFIX}.{n}" for n in ("fall", "before", "later", "prefill")),
)
def prefix(on: Basis) -> Told:
    """Prompts are computed anew although they repeat."""
    slower = on.text(f"{_PREFIX}.prefill")
    longer = " or ".join(f"{x} / ({x} offset 6h > 0) >= {slower}" for x in (PREFILL, TTFT))
    return Told(
        f"{HITS} / ({HITS} offset 6h >= {on.text(f'{_PREFIX}.before')}) <= {on.text(f'{_PREFIX}.fall')}\n"
        f"and {TTFT} - {TTFT} offset 6h >= {on.text(f'{_PREFIX}.later')}\nand ({longer})\n"
        f"and {FINISHED} >= {FEWEST}\nand {COMPARABLE}",
        f"{WHO}: the prefix cache hits far less, prompts are computed anew",
        "{{ $value | humanizePercentage }} of the hit ratio 6 h ago (limit: "
        f"{on.percent(f'{_PREFIX}.fall')}), and first tokens come later.",
    )


@alert(
    "VLLMSpecDecodeDecay",
    _SPEC,
    "warning",
    wait="30m",
    linger="10m",
    means="accepted per drafted tokens against the best of the 6 h before",
    limits=(f"{_SPEC}.fall", f"{_SPEC}.drop"),
)
def acceptance(on: Basis) -> Told:
    """Each step yields fewer tokens."""
    best = f"max_over_time({ACCEPTED}[6h] offset 30m)"
    drafted = on.metrics.increase("spec_draft_tokens", "30m")
    return Told(
        f"{ACCEPTED} / ({best} > 0) <= {on.text(f'{_SPEC}.fall')}\n"
        f"and {best} - {ACCEPTED} >= {on.text(f'{_SPEC}.drop')}\nand {drafted} >= {FEWEST_DRAFTED}",
        f"{WHO}: speculative decoding accepts fewer draft tokens",
        "{{ $value | humanizePercentage }} of the best acceptance in the 6 h before (limit: "
        f"{on.percent(f'{_SPEC}.fall')}).",
    )


CACHES = (prefix, acceptance)
