"""A pod's log: what it tells of settings and trouble, and its statistics where that is wanted."""

import time
from collections.abc import Iterable, Iterator
from dataclasses import replace

from vllmdoctor.errors import NotEnoughData, NotVllm
from vllmdoctor.kube.door import Door
from vllmdoctor.kube.pods import Pod
from vllmdoctor.model import Event, Fact, Gap, Observation, Samples

USUAL_S = 3600.0
_MOST_LINES, _MOST_BYTES = 100_000, 16 * 2**20
_HEAD_BYTES = 256 * 2**10
_POOL = "log:cache_config_info"  # made of settings, also where no line of statistics is
_FEWEST_LINES = 3  # of statistics: a history of fewer cannot be judged


def log_name(pod: Pod) -> str:
    """What a log's own history is called, beside that of the metrics."""
    return f"{pod.instance} log"


def read_pod_log(door: Door, pod: Pod, since_s: float, statistics: bool) -> list[Observation]:
    """What the log tells of the last `since_s` seconds, and its start of the settings.

    With `statistics` its lines become a history of their own; else settings and events are kept alone.
    """
    own = [("container", pod.container), ("timestamps", "true")]
    head = door.log(pod.namespace, pod.name, [*own, ("limitBytes", str(_HEAD_BYTES))], _HEAD_BYTES)
    since = [("sinceSeconds", str(max(1, round(since_s)))), ("tailLines", str(_MOST_LINES))]
    tail = door.log(pod.namespace, pod.name, [*own, *since], _MOST_BYTES)
    found: dict[Observation, None] = {o: None for o in _read(head, pod) if isinstance(o, Fact)}
    told = list(_read(tail, pod))
    samples = [o for o in told if isinstance(o, Samples)]
    found |= {o: None for o in told if isinstance(o, Fact | Event)}
    if not statistics:
        return list(found)
    name = log_name(pod)
    return [*found, *(replace(o, instance=name) for o in samples), *(o for o in told if isinstance(o, Gap))]


def is_thin(told: Iterable[Observation]) -> bool:
    """Whether too few statistics lines are in it to say anything beside the pod's metrics."""
    lines = [len(o.times) for o in told if isinstance(o, Samples) and not o.series.startswith(_POOL)]
    return max(lines, default=0) < _FEWEST_LINES


def _read(text: bytes, pod: Pod) -> Iterator[Observation]:
    # here: its many patterns are compiled only for a log
    from vllmdoctor.sources.log.reader import read_log

    if not text.strip():
        return
    whole = text if text.endswith(b"\n") else text[: text.rfind(b"\n") + 1] or text + b"\n"
    try:
        yield from read_log([whole], pod.instance, time.time())
    except (NotVllm, NotEnoughData):
        return
