"""Names that must not leave the house become stable aliases: model-1, pod-2, host-1.

One `Redactor` serves one recording, so the same name has the same alias in labels, facts, events
and gaps. Numbers, metric names and settings stay as they are: the diagnosis does not change.
"""

import re
from collections.abc import Iterable
from dataclasses import replace
from urllib.parse import urlsplit

from vllmdoctor.exposition import canonical_series, split_series
from vllmdoctor.model import Event, Fact, Gap, Observation, Samples, Snapshot

KINDS = {
    "model": (
        "model model_name served_model_name served_model tokenizer tokenizer_name model_id lora_name "
        "running_lora_adapters waiting_lora_adapters"
    ),
    "pod": "pod pod_name exported_pod kubernetes_pod_name replica replica_id",
    "host": "instance exported_instance host hostname Hostname address ip pod_ip host_ip NodeAddress",
    "node": "node nodename node_name kubernetes_node exported_node NodeId",
    "namespace": "namespace exported_namespace kubernetes_namespace tenant",
    "id": "id uid name image image_id container_id UUID uuid WorkerId SessionName session_name",
    "workload": (
        "job cluster service deployment statefulset daemonset replicaset leaderworkerset rayservice "
        "raycluster inferenceservice llminferenceservice application app autoscaler pod_disruption_budget"
    ),
}
"""Kind of alias -> the labels and facts whose values it replaces."""

_SECRETS = frozenset({"api_key", "hf_token", "token", "password"})
_KIND_OF = {label: kind for kind, labels in KINDS.items() for label in labels.split()}
_PLACE = re.compile(r"[^/\s]+:\d+(?:/.*)?")  # HOST:PORT, also without its http://
_ADDRESS = re.compile(r"(?<![\w.])\d{1,3}(?:\.\d{1,3}){3}(?![\w.])")
_TOO_SHORT = 3  # shorter names, and these words, are not looked for inside other text
_COMMON = frozenset(
    (
        "auto",
        "default",
        "false",
        "http",
        "https",
        "localhost",
        "metrics",
        "none",
        "prometheus",
        "server",
        "true",
        "vllm",
    )
)


class Redactor:
    """Replaces names by aliases, the same name always by the same alias."""

    def __init__(self, targets: Iterable[str] = ()) -> None:
        self._aliases: dict[str, str] = {}
        self._counts: dict[str, int] = {}
        self._series: dict[str, str] = {}
        self._finder: re.Pattern[str] | None = None
        for target in targets:
            self.target(target)

    def redact(self, observation: Observation) -> Observation:
        """The observation with all names replaced."""
        match observation:
            case Snapshot(time, instance, values):
                self._learn(values)
                return Snapshot(time, self._host(instance), {self._rename(s): v for s, v in values.items()})
            case Samples(instance, series, times, values):
                self._learn([series])
                return Samples(self._host(instance), self._rename(series), times, values)
            case Fact(key, value, _, instance):
                value = self._fact(key, value)
                return Fact(key, value, self.text(observation.origin), self._host(instance))
            case Event(_, _, text, instance, origin):
                return replace(
                    observation,
                    text=self.text(text),
                    instance=self._host(instance),
                    origin=self.text(origin),
                )
            case Gap(origin, what, why, hint):
                return Gap(self.text(origin), self.text(what), self.text(why), self.text(hint))

    def target(self, target: str) -> str:
        """A target of the command line without its names."""
        if "://" not in target:
            return self._host(target) if _PLACE.fullmatch(target) else self._alias("file", target)
        url = urlsplit(target)
        if url.scheme == "k8s":
            return self._object(url.netloc, url.path, url.query)
        host = self._host(url.netloc.rpartition("@")[2])
        path = url.path.rstrip("/").removesuffix("/metrics")
        if path:
            self._alias("path", path)
        return f"{url.scheme}://{host}{self._alias('path', path) if path else ''}"

    def _object(self, namespace: str, path: str, labels: str) -> str:
        """A target in a cluster: its kind stays, its names do not."""
        kind, _, name = path.strip("/").partition("/")
        place = self._alias("namespace", namespace) if namespace.strip("*") else namespace
        named = f"/{self._alias('pod' if kind == 'pod' else 'workload', name)}" if name else ""
        return f"k8s://{place}/{kind}{named}" + ("?" + self._alias("labels", labels) if labels else "")

    def text(self, text: str) -> str:
        """Free text with every known name and every IPv4 address replaced."""
        return _ADDRESS.sub(lambda m: self._alias("host", m[0]), self._known(text))

    def _known(self, text: str) -> str:
        if self._finder is None:
            names = sorted((n for n in self._aliases if _is_findable(n)), key=len, reverse=True)
            self._finder = re.compile("|".join(map(_whole, names)) or "(?!)")
        return self._finder.sub(lambda m: self._aliases[m[0]], text)

    def _learn(self, keys: Iterable[str]) -> None:
        """Meet every name before the first is replaced: a later label may explain an earlier one."""
        for key in keys:
            if key not in self._series:
                for label, value in split_series(key)[1].items():
                    if label in _KIND_OF and value:
                        self._value(_KIND_OF[label], value)

    def _rename(self, key: str) -> str:
        if key not in self._series:
            name, labels = split_series(key)
            renamed = {
                label: self._value(_KIND_OF[label], value) if label in _KIND_OF else self._known(value)
                for label, value in labels.items()
            }
            self._series[key] = canonical_series(name, renamed)
        return self._series[key]

    def _fact(self, key: str, value: str | float | int | bool) -> str | float | int | bool:
        if not isinstance(value, str):
            return value
        if key in _SECRETS:
            return "(secret)"
        if value == "none":
            return value
        return self._value(_KIND_OF[key], value) if key in _KIND_OF and value else self.text(value)

    def _value(self, kind: str, value: str) -> str:
        if kind == "host":
            return self._host(value)
        if kind == "model" and "," in value:
            return ",".join(self._alias(kind, part.strip()) for part in value.split(","))
        alias = self._alias(kind, value)
        base = value.rstrip("/").rpartition("/")[2]
        if kind == "model" and base and base not in self._aliases:
            self._aliases[base], self._finder = alias, None
        return alias

    def _host(self, instance: str) -> str:
        """`10.0.0.5:8000/prefix` keeps its port and nothing else."""
        if not instance or instance in self._aliases:
            return self._aliases.get(instance, "")
        whole, slash, path = instance.partition("/")
        host, colon, port = whole.rpartition(":")
        if not (colon and port.isdigit()):
            host, port = whole, ""
        if not host:
            return self._alias("host", instance)
        place = self._alias("path", f"/{path}") if slash and path else ""
        return f"{self._alias('host', host)}{':' + port if port else ''}{place}"

    def _alias(self, kind: str, name: str) -> str:
        if name not in self._aliases:
            self._counts[kind] = self._counts.get(kind, 0) + 1
            alias = f"{kind}-{self._counts[kind]}"
            self._aliases[name] = f"/{alias}" if kind == "path" else alias
            self._finder = None
        return self._aliases[name]


def _whole(name: str) -> str:
    """A pattern for the name where it is no part of a longer word."""
    before = r"(?<!\w)" if re.match(r"\w", name) else ""
    after = r"(?!\w)" if re.match(r"\w", name[-1]) else ""
    return before + re.escape(name) + after


def _is_findable(name: str) -> bool:
    plain = name.lower()
    return len(name) >= _TOO_SHORT and plain not in _COMMON and not plain.replace(".", "").isdigit()
