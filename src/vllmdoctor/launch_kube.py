"""Launch commands inside Kubernetes manifests and the values of vLLM's production-stack chart."""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

from vllmdoctor.errors import UsageError
from vllmdoctor.launch import Given, Launch, Workload, parse_words

Parse = Callable[[str, str], Launch]

_CONFIG = {  # of the chart's vllmConfig
    "maxModelLen": "--max-model-len",
    "maxNumSeqs": "--max-num-seqs",
    "gpuMemoryUtilization": "--gpu-memory-utilization",
    "tensorParallelSize": "--tensor-parallel-size",
    "dtype": "--dtype",
    "maxLoras": "--max-loras",
    "runner": "--runner",
    "convert": "--convert",
}
_SWITCHES = {
    "enablePrefixCaching": "--enable-prefix-caching",
    "enableChunkedPrefill": "--enable-chunked-prefill",
}
_REFERENCE = re.compile(r"\$\((\w+)\)")


def from_documents(documents: Iterable[object], origin: str, parse: Parse) -> Launch:
    """The first container that runs vLLM. Raises UsageError where none does."""
    for document in _flat(documents):
        spec = document.get("servingEngineSpec")
        if isinstance(spec, Mapping):
            return _from_values(spec, origin)
        pod, kind = _pod(document), str(document.get("kind", ""))
        containers = pod.get("containers") if isinstance(pod, Mapping) else None
        for index, container in enumerate(containers if isinstance(containers, list) else []):
            if isinstance(container, Mapping) and _runs_vllm(container):
                found = from_container(container, origin, parse)
                return replace(found, workload=workload_of(document, kind, container, index, found))
    raise UsageError(
        f"{origin}: no container that runs vLLM was found",
        hint="give the manifest of the Deployment: kubectl get deploy NAME -o yaml",
    )


def _flat(documents: Iterable[object]) -> Iterable[Mapping[str, Any]]:
    for document in documents:
        if isinstance(document, Mapping):
            items = document.get("items")
            if str(document.get("kind", "")).endswith("List") and isinstance(items, list):
                yield from _flat(items)
            else:
                yield document


def _pod(document: Mapping[str, Any]) -> object:
    """The pod's specification of a Pod, or of anything with a template."""
    spec = document.get("spec")
    if not isinstance(spec, Mapping):
        return None
    if "containers" in spec:
        return spec
    for key in ("template", "leaderWorkerTemplate", "workerTemplate", "leaderTemplate"):
        inner = spec.get(key)
        if isinstance(inner, Mapping):
            found = _pod({"spec": inner} if "spec" not in inner else inner)
            if found is not None:
                return found
    return None


def _strings(value: object) -> list[str]:
    return [str(each) for each in value] if isinstance(value, list) else []


def _runs_vllm(container: Mapping[str, Any]) -> bool:
    told = " ".join(
        (
            str(container.get("image", "")),
            *_strings(container.get("command")),
            *_strings(container.get("args")),
        )
    )
    return "vllm" in told.lower()


def from_container(container: Mapping[str, Any], origin: str, parse: Parse) -> Launch:
    """The launch of one container: what its command and arguments say, its image and environment."""
    command, args = _strings(container.get("command")), _strings(container.get("args"))
    env = tuple(
        (str(each["name"]), str(each["value"]))
        for each in container.get("env") or ()
        if isinstance(each, Mapping) and "name" in each and "value" in each
    )
    image = str(container.get("image", ""))
    script = next(
        (w for w in (*command, *args) if re.search(r"\bvllm\b.*(\s|^)", w) and len(w.split()) > 1), ""
    )
    if script:
        return replace(parse(script, origin), image=image, env=env, plain=False)
    words = args or command
    start = 0
    for index, word in enumerate(words):
        if word == "serve" or word.endswith(("api_server", "api_server.py")):
            start = index + 1
    expanded = [_REFERENCE.sub(lambda m: dict(env).get(m[1], m[0]), word) for word in words[start:]]
    given, stray = parse_words(expanded)
    if stray and expanded and expanded[0] == stray[0]:
        given, stray = (Given("--model", stray[0], stray[0]), *given), stray[1:]
    return Launch(given, origin, tuple(words), start, stray, env, image)


def workload_of(
    document: Mapping[str, Any], kind: str, container: Mapping[str, Any], index: int, found: Launch
) -> Workload:
    """The object that runs a container, as far as its document tells."""
    meta = document.get("metadata")
    meta = meta if isinstance(meta, Mapping) else {}
    spec = document.get("spec") or {}
    selector = spec.get("selector")
    labels = selector.get("matchLabels") if isinstance(selector, Mapping) else None
    replicas = spec.get("replicas", 1 if kind in ("Deployment", "StatefulSet") else 0)
    ports = [p.get("containerPort") for p in container.get("ports") or () if isinstance(p, Mapping)]
    given = found.value("--port")
    port = int(given) if given and given.isdigit() else next((p for p in ports if isinstance(p, int)), 0)
    return Workload(
        kind=kind,
        name=str(meta.get("name", "")),
        namespace=str(meta.get("namespace", "")),
        container=str(container.get("name", "")),
        replicas=replicas if isinstance(replicas, int) else 0,
        labels=tuple((str(k), str(v)) for k, v in labels.items()) if isinstance(labels, Mapping) else (),
        field="args" if container.get("args") else "command",
        index=index,
        port=port,
    )


def _from_values(spec: Mapping[str, Any], origin: str) -> Launch:
    """The first model of the chart's values."""
    models = spec.get("modelSpec")
    model = models[0] if isinstance(models, list) and models and isinstance(models[0], Mapping) else None
    if model is None:
        raise UsageError(f"{origin}: the values name no model", hint="servingEngineSpec.modelSpec is empty")
    config = model.get("vllmConfig")
    config = config if isinstance(config, Mapping) else {}
    words: list[str] = [str(model["modelURL"])] if "modelURL" in model else []
    for key, name in _CONFIG.items():
        if config.get(key) not in (None, ""):
            words += [name, str(config[key])]
    for key, name in _SWITCHES.items():
        if isinstance(config.get(key), bool):
            words.append(name if config[key] else f"--no-{name[2:]}")
    words += _strings(config.get("extraArgs"))
    given, stray = parse_words(words)
    if "modelURL" in model and stray:
        given, stray = (Given("--model", stray[0], stray[0]), *given), stray[1:]
    image = ":".join(str(model[k]) for k in ("repository", "tag") if k in model)
    replicas = model.get("replicaCount", 0)
    workload = Workload(
        kind="HelmValues",
        name=str(model.get("name", "")),
        namespace="",
        container="",
        replicas=replicas if isinstance(replicas, int) else 0,
        labels=(),
        field="extraArgs",
        index=0,
    )
    return Launch(given, origin, tuple(words), 0, stray, (), image, workload)
