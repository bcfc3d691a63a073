"""What a signal is: one thing that can be measured, whatever its name was in which release."""

from dataclasses import dataclass
from typing import Literal

Era = Literal["V0", "V1", "rust", "dcgm", "cadvisor", "kube", "nvml", "log", "host", "process"]
Kind = Literal["gauge", "counter", "histogram", "info"]
Merge = Literal["sum", "max", "mean", "last"]
Scope = Literal["engine", "instance", "pod", "gpu"]


@dataclass(frozen=True, slots=True)
class Name:
    """One spelling of a signal, as a family: a counter with `_total`, a histogram without `_bucket`.

    `since` and `until` are the first and last vLLM release with it (`until` counts the releases
    where it is hidden), `hidden` the first release that shows it only on request. `scale` turns
    its values into SI. `labels` are those a series must have to count.
    """

    text: str
    since: str = ""
    until: str = ""
    scale: float = 1.0
    era: Era = "V1"
    labels: tuple[tuple[str, str], ...] = ()
    hidden: str = ""


@dataclass(frozen=True, slots=True)
class Signal:
    """One measurable thing: `names` newest first, the first that is present is read.

    `merge` says how several series of one engine combine: counts add up, ratios do not.
    `note` holds the trap, `needs` the condition under which it is exposed at all.
    """

    name: str
    kind: Kind
    unit: str
    merge: Merge
    scope: Scope
    names: tuple[Name, ...]
    what: str
    note: str = ""
    needs: str = ""
