"""Which series belong to which engine: one frame for each engine of each server."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from vllmdoctor.exposition import split_series
from vllmdoctor.frame import Frame, Labelled, choose_step
from vllmdoctor.recording import Recording
from vllmdoctor.signals import canonical_name

ROLLING_S = 900.0  # so long an old pod and its successor may overlap, or a new one may take to start
_DEPLOYED = re.compile(r"(.+)-[0-9a-f]{6,10}-[0-9a-z]{5}")  # <deployment>-<replica set>-<pod>
ENGINE_NAMES = ("vllm:", "log:")  # metrics, and what was read from a log in their place


def frames(recording: Recording) -> tuple[Frame, ...]:
    """One frame for each (instance, model, engine) that exposes vLLM's series.

    Series of other exporters (container, GPU, host) join every engine whose `pod` label they carry,
    or every engine when they carry none or there is just one server.
    """
    engines: dict[tuple[str, str, str], dict[str, list[Labelled]]] = {}
    shared: dict[str, list[tuple[str, Labelled]]] = {}
    foreign: list[tuple[str, Labelled]] = []
    for instance, columns in recording.columns.items():
        own: list[tuple[str, Labelled]] = []
        serving = False
        for key, column in columns.items():
            raw, labels = split_series(key)
            name = canonical_name(raw)
            labelled = Labelled(labels, column)
            if name.startswith(ENGINE_NAMES) and (
                "model_name" in labels or "engine" in labels or "model" in labels
            ):
                serving = True
                model = labels.get("model_name", labels.get("model", ""))
                place = engines.setdefault((instance, model, labels.get("engine", "0")), {})
                place.setdefault(name, []).append(labelled)
            elif name.startswith("vllm:"):
                serving = True
                engines.setdefault((instance, "", "0"), {}).setdefault(name, []).append(labelled)
            else:
                own.append((name, labelled))
        if serving:
            shared[instance] = own
        else:
            foreign += own
    _fold_modelless(engines)
    out = []
    for (instance, model, engine), families in sorted(engines.items()):
        for name, labelled in shared[instance]:
            families.setdefault(name, []).append(labelled)
        pods = {x.labels["pod"] for xs in families.values() for x in xs if x.labels.get("pod")}
        pods.add(instance.rpartition(":")[0] or instance)
        for name, labelled in foreign:
            # an exporter's own pod is not the one it reports on
            pod = labelled.labels.get("exported_pod") or labelled.labels.get("pod")
            if pod is None or pod in pods or len(shared) == 1:
                families.setdefault(name, []).append(labelled)
        _drop_sums(families)
        _own_gpus(families)
        out.append(_frame(recording, instance, model, engine, _with_histograms(families)))
    return _joined(out)


def _joined(frames: list[Frame]) -> tuple[Frame, ...]:
    """Pods of one deployment that followed each other (a roll-out) as one history under the newest name.

    Each pod that ended is followed by the first of its workload that began about then and follows nobody
    yet. Pods that ran side by side stay apart.
    """
    chains: list[Frame] = []
    for frame in sorted(frames, key=lambda f: (f.start, f.instance, f.engine)):
        workload = _workload(frame)
        before = [
            i
            for i, earlier in enumerate(chains)
            if workload
            and _workload(earlier) == workload
            and (earlier.model, earlier.engine) == (frame.model, frame.engine)
            and -ROLLING_S <= frame.start - earlier.end <= ROLLING_S
            and frame.end > earlier.end
            and frame.start > earlier.start
        ]
        if before:
            longest = min(before, key=lambda i: (chains[i].end, chains[i].start))
            chains[longest] = _followed(chains[longest], frame)
        else:
            chains.append(frame)
    return tuple(sorted(chains, key=lambda f: (f.instance, f.model, f.engine)))


def _workload(frame: Frame) -> str:
    """The deployment of a frame's pod, from its name; "" for pods of other kinds."""
    pods = {x.labels["pod"] for xs in frame.families.values() for x in xs if x.labels.get("pod")}
    found = {m[1] for p in pods if (m := _DEPLOYED.fullmatch(p))}
    return found.pop() if len(found) == 1 else ""


def _followed(earlier: Frame, later: Frame) -> Frame:
    """Two pods' histories as one; where the second begins counts as a restart."""
    names = {*earlier.families, *later.families}
    families = {n: [*earlier.families.get(n, ()), *later.families.get(n, ())] for n in names}
    interval = max(earlier.interval, later.interval)
    return replace(
        later,
        start=earlier.start,
        interval=interval,
        step=choose_step(later.end - earlier.start, interval),
        families=families,
        joints=(*earlier.joints, later.start),
        _cache={},
    )


def _drop_sums(families: dict[str, list[Labelled]]) -> None:
    """cAdvisor exposes the pod's sum (no container) and its sandbox beside the containers: count once."""
    for name, columns in families.items():
        if name.startswith("container_"):
            single = [x for x in columns if x.labels.get("container", "") not in ("", "POD")]
            families[name] = single or columns


def _own_gpus(families: dict[str, list[Labelled]]) -> None:
    """Of the machine's GPUs keep those on which a vLLM process was seen, where that was seen at all."""
    own = {x.labels.get("gpu") for x in families.get("nvml:own_memory_bytes", ())}
    if own:
        for name, columns in families.items():
            if name.startswith("nvml:"):
                families[name] = [x for x in columns if x.labels.get("gpu") in own]


def _fold_modelless(engines: dict[tuple[str, str, str], dict[str, list[Labelled]]]) -> None:
    """`vllm:cache_config_info` has an engine but no model: give it to the models of that engine."""
    for key in [k for k in engines if k[1] == ""]:
        heirs = [k for k in engines if k[0] == key[0] and k[1] and (k[2] == key[2] or key[2] == "0")]
        if heirs:
            for name, columns in engines.pop(key).items():
                for heir in heirs:
                    engines[heir].setdefault(name, []).extend(columns)


def _with_histograms(families: dict[str, list[Labelled]]) -> dict[str, list[Labelled]]:
    """Add each histogram's family name, so that it resolves like the others."""
    bases = {name[: -len("_bucket")] for name in families if name.endswith("_bucket")}
    return families | {b: families.get(b + "_count", []) for b in bases if b not in families}


def _frame(
    recording: Recording, instance: str, model: str, engine: str, families: Mapping[str, Sequence[Labelled]]
) -> Frame:
    own = [x.column.times for n, xs in families.items() if n.startswith("vllm:") for x in xs]
    from_log = not own
    if from_log:
        own = [x.column.times for n, xs in families.items() if n.startswith("log:") for x in xs]
    start = min(float(t[0]) for t in own)
    end = max(float(t[-1]) for t in own)
    longest = max(own, key=len)
    interval = float(np.median(np.diff(longest))) if longest.size > 1 else recording.interval
    interval = interval if interval > 0 else 1.0
    return Frame(
        instance=instance,
        engine=engine,
        model=model,
        start=start,
        end=end,
        # a line of a log sums its interval up, so a bin needs one of them; of a page's moments it needs two
        step=choose_step(end - start, interval / 2 if from_log else interval),
        interval=interval,
        families=families,
    )
