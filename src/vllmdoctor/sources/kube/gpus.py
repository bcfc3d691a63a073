"""A pod's GPUs: nvidia-smi run inside its container, where that was asked for (--exec)."""

from collections.abc import Iterator

from vllmdoctor.errors import NotEnoughData, SourceError
from vllmdoctor.kube.answers import gap_of
from vllmdoctor.kube.door import Door
from vllmdoctor.kube.pods import Pod
from vllmdoctor.model import Observation, Snapshot
from vllmdoctor.sources.smi import read_smi

_FIELDS = (
    "index,uuid,name,driver_version,memory.total,memory.used,memory.free,utilization.gpu,"
    "temperature.gpu,power.draw,enforced.power.limit,clocks.sm,clocks.max.sm,clocks_throttle_reasons.active"
)
COMMAND = ("nvidia-smi", f"--query-gpu={_FIELDS}", "--format=csv")
_WHAT = "the GPUs' figures by nvidia-smi"


def read_gpus(
    door: Door, pod: Pod, now: float, interval_s: float
) -> tuple[dict[str, float], list[Observation]]:
    """(series of the GPUs now, what else nvidia-smi told). A SourceError where it could not be run."""
    status, text = door.run(pod.namespace, pod.name, pod.container, COMMAND)
    if status:
        said = text.strip().splitlines()[0] if text.strip() else "it said nothing"
        raise SourceError(
            f"nvidia-smi in {pod.name} ended with {status}: {said}",
            hint="does the image hold it? the NVIDIA container runtime puts it there",
        )
    values: dict[str, float] = {}
    told: list[Observation] = []
    try:
        for observation in read_smi(text, pod.instance, now, interval_s):
            if isinstance(observation, Snapshot):
                values |= observation.values
            else:
                told.append(observation)
    except NotEnoughData as error:  # what it printed is the GPUs' trouble, not the pod's metrics'
        raise SourceError(f"what nvidia-smi in {pod.name} printed: {error.message}") from None
    return values, told


def refused(error: SourceError, pod: Pod) -> Iterator[Observation]:
    """The Gap for a pod whose GPUs cannot be asked."""
    yield gap_of(error, _WHAT, pod.instance)
