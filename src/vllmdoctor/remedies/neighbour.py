"""The remedy for a GPU that is shared with somebody who was not meant to be there."""

from vllmdoctor.model import Effort, Step
from vllmdoctor.remedies.ask import Ask, step


def move_the_neighbour(ask: Ask) -> Step | None:
    """Give the server its GPU alone, or a part of it that nobody else can touch."""
    return step(
        "move-the-neighbour",
        "Give the server its GPU alone",
        ask,
        action="Ask the neighbour's owner to move it. In Kubernetes request the whole GPU "
        "(`nvidia.com/gpu`) and look for time-slicing, MPS or processes started beside the scheduler; where "
        "sharing is wanted, cut the GPU with MIG.",
        why=ask.finding.summary or "another process is on the GPU",
        effort=Effort.LIVE,
        restart=False,
        effect="cannot be predicted because what the neighbour's kernels cost is not measured",
        tradeoff="the neighbour needs another place",
        verify="nvidia-smi shows the server's processes only",
    )
