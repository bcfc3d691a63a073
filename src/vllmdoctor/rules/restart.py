"""The server restarted inside the history: counters began anew, caches were lost."""

from collections.abc import Iterator

from vllmdoctor.case import Case, Kind, Limit, Onset
from vllmdoctor.model import Severity
from vllmdoctor.rules import Yielded, rule

DAY_S = 86400.0


@rule(
    summary="the server restarted inside the history",
    severity=Severity.INFO,
    signals=(("process_start_time", "generation_tokens", "prompt_tokens"),),
    limits={
        "restarts": Limit(1.0, "restarts", "one is worth knowing", "vllmdoctor"),
        "loop": Limit(3.0, "restarts", "a third one in a day is no maintenance", "vllmdoctor"),
    },
    remedies={"loop": ("read-why-it-happened", "upgrade"), "": ("no-action",)},
)
def restart(case: Case) -> Iterator[Yielded]:
    times = case.frame.restarts
    yield case.require("restarts seen", float(len(times)), ">=", case.limits["restarts"])
    if times:
        loop = len(times) >= case.limits["loop"].value and times[-1] - times[0] <= DAY_S
        yield Onset(times[0] if loop else times[-1])
        if loop:
            yield Severity.WARNING
        yield Kind(
            "loop" if loop else "",
            f"{len(times)} restart{'s' if len(times) > 1 else ''}: the counters began anew",
        )
