"""The same changes as values for the Helm chart of vLLM's production stack."""

from collections.abc import Sequence

from vllmdoctor.launch import Launch
from vllmdoctor.launch_edit import edited, words_for
from vllmdoctor.launch_yaml import dump_all
from vllmdoctor.manifests.files import Document, File
from vllmdoctor.manifests.place import Place
from vllmdoctor.model import Step

# arguments that the chart has values of their own for, with how they are written there
OWN: dict[str, tuple[str, type]] = {
    "--max-model-len": ("maxModelLen", int),
    "--max-num-seqs": ("maxNumSeqs", int),
    "--gpu-memory-utilization": ("gpuMemoryUtilization", float),
    "--tensor-parallel-size": ("tensorParallelSize", int),
}
SWITCHES = {
    "--enable-prefix-caching": "enablePrefixCaching",
    "--enable-chunked-prefill": "enableChunkedPrefill",
}


def values(steps: Sequence[Step], launch: Launch | None, place: Place) -> File | None:
    """The values that the steps change; None where they change none."""
    config: Document = {}
    extra: list[str] = []
    model: Document = {"name": place.name}
    router: Document = {}
    for step in steps:
        words = words_for(step)
        if step.flag in OWN and words:
            key, kind = OWN[step.flag]
            config[key] = kind(float(step.after.replace(",", "")))
        elif step.flag in SWITCHES and words is not None:
            config[SWITCHES[step.flag]] = words == [step.flag]
        elif step.flag and words:
            extra += words
        elif step.slug == "add-replica" and step.after:
            model["replicaCount"] = int(float(step.after.replace(",", "")))
        elif step.slug == "raise-memory-limit" and step.after:
            model["limitMemory"] = step.after
        elif step.slug == "upgrade" and step.after[:1].isdigit():
            model["tag"] = f"v{step.after.split()[0]}"
        elif step.slug == "prefix-aware-routing" and step.verdict == "helps":
            router["routingLogic"] = "prefixaware"
    if extra:
        config["extraArgs"] = _kept(steps, launch, extra)
    if config:
        model["vllmConfig"] = config
    body: Document = {}
    if len(model) > 1:
        body["servingEngineSpec"] = {"modelSpec": [model]}
    if router:
        body["routerSpec"] = router
    if not body:
        return None
    return File(
        "values-production-stack.yaml",
        "# Values to merge by hand into those of the production-stack chart: Helm replaces lists as a "
        "whole,\n"
        "# so modelSpec and extraArgs must keep your other entries. Written by vllmdoctor; nothing was "
        "applied.\n" + dump_all([body]),
        "Values for the production-stack Helm chart",
        look="helm diff upgrade RELEASE vllm/vllm-stack -f YOUR-VALUES.yaml   # after merging; needs the "
        "diff plugin",
        apply="helm upgrade RELEASE vllm/vllm-stack -f YOUR-VALUES.yaml",
        warning="merge by hand: it is no whole values file",
        objects=(body,),
    )


def _kept(steps: Sequence[Step], launch: Launch | None, extra: list[str]) -> list[str]:
    """All of the chart's extraArgs where they are known, else those that are new."""
    told = launch.workload if launch else None
    if launch is None or told is None or told.kind != "HelmValues":
        return extra
    own = {*OWN, *SWITCHES, "--dtype", "--max-loras", "--runner", "--convert"}
    words, kept = edited(launch, steps), []
    keep = False
    for word in words:
        if word.startswith("--"):
            keep = word.replace("--no-", "--") not in own
        if keep:
            kept.append(word)
    return kept
