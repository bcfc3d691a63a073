"""Speculative decoding accepts fewer and fewer draft tokens, so each step yields less."""

from collections.abc import Iterator

import numpy as np

from vllmdoctor.case import Case, Kind, Limit, Onset, percent
from vllmdoctor.model import Severity
from vllmdoctor.rules import Yielded, rule
from vllmdoctor.statistics import worst_fall


@rule(
    summary="speculative decoding accepts fewer draft tokens than before",
    severity=Severity.WARNING,
    signals=(("spec_draft_tokens", "spec_acceptance_rate"), ("spec_accepted_tokens", "spec_acceptance_rate")),
    helpful=("itl", "tpot", "output_length"),
    limits={
        "fall": Limit(0.8, "ratio", "a fifth of the accepted tokens gone", "measured cases"),
        "drop": Limit(0.08, "ratio", "a fall smaller than this is the traffic's breathing", "vllmdoctor"),
        "itl": Limit(1.08, "ratio", "fewer accepted tokens make each token take longer", "vllmdoctor"),
    },
    remedies={"": ("disable-or-retune-spec-decode", "upgrade", "rolling-restart")},
    explains=("restart", "overload", "host-cpu-bound"),
)
def spec_decode_decay(case: Case) -> Iterator[Yielded]:
    v, lim = case.vitals, case.limits
    frame = v.frame
    accepted = frame.smooth(np.where(v.active, v.acceptance, np.nan), max(3, frame.size // 30))
    if not np.isfinite(accepted).any():
        yield case.require("draft tokens", 0.0, ">", 0.0, "tokens/s")
        return
    moved = worst_fall(accepted, v.lives, gain=0.3)
    before = moved.before if moved else float(np.nanmedian(accepted))
    after = moved.after if moved else before
    yield case.require(
        "acceptance, now / before", after / before if before else float("nan"), "<=", lim["fall"]
    )
    yield case.require("acceptance lost", before - after, ">=", lim["drop"])
    slower = case.symptom("itl")
    if slower is not None:
        yield case.support(
            "time per output token at equal load, now / before", slower.ratio, ">=", lim["itl"]
        )
    if moved is not None:
        yield Onset(float(frame.start + moved.index * frame.step))
    yield Kind("", f"acceptance fell from {percent(before)} to {percent(after)} of the drafted tokens")
