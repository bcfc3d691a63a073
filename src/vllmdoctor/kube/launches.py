"""What a pod's server was started with: its command, with what stands in ConfigMaps put in its place."""

import posixpath
import threading
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from vllmdoctor.errors import SourceError, UsageError
from vllmdoctor.kube.answers import Expired, NotThere, gap_of
from vllmdoctor.kube.door import Door, Json
from vllmdoctor.kube.pods import Pod, words_of
from vllmdoctor.launch import Given, Launch, parse_words
from vllmdoctor.launch_kube import from_container, workload_of
from vllmdoctor.launch_text import parse_command, parse_text
from vllmdoctor.model import Gap

_ORIGIN = "command line"  # what a server was started with counts for more than what its metrics tell
_SHELLS = ("sh", "bash")


class Launches:
    """Reads launches; pods of one template are read once, and each ConfigMap once."""

    def __init__(self, door: Door) -> None:
        self._door = door
        self._maps: dict[tuple[str, str], Mapping[str, str]] = {}
        self._lock = threading.Lock()
        self.gaps: dict[Gap, None] = {}

    def read(self, pod: Pod, owner: Json | None = None) -> Launch:
        """The launch of a pod's server, with the workload that would be changed to change it."""
        container = self._with_environment(pod)
        origin = f"{_ORIGIN} (container {pod.container})"
        try:
            found = self._written_out(pod, container, from_container(container, origin, parse_command))
        except UsageError as error:
            self.gaps[Gap(pod.instance, "the server's arguments", error.message, error.hint)] = None
            found = Launch((), origin, (), image=str(container.get("image", "")))
        return replace(found, workload=_workload(pod, owner, found))

    def _with_environment(self, pod: Pod) -> dict[str, Any]:
        """The container with the environment that ConfigMaps give it; what Secrets give stays unknown."""
        container = dict(pod.spec)
        env: dict[str, Any] = {}
        for each in container.get("envFrom") or ():
            name = (each.get("configMapRef") or {}).get("name")
            if name:
                prefix = str(each.get("prefix") or "")
                told = self._map(pod, str(name))
                env |= {prefix + key: {"name": prefix + key, "value": v} for key, v in told.items()}
        for each in container.get("env") or ():
            source = (each.get("valueFrom") or {}).get("configMapKeyRef")
            if source:
                value = self._map(pod, str(source.get("name"))).get(str(source.get("key")))
                each = each if value is None else {"name": each["name"], "value": value}
            env[str(each.get("name"))] = each
        container["env"] = list(env.values())
        return container

    def _written_out(self, pod: Pod, container: Mapping[str, Any], found: Launch) -> Launch:
        """With what a script or a --config file says that is mounted from a ConfigMap."""
        words = words_of(container)
        command = [str(word) for word in container.get("command") or ()]
        if container.get("args") and "serve" in command and found.plain:
            first, stray = parse_words(command[command.index("serve") + 1 :])
            model = tuple(Given("--model", word, word) for word in stray[:1])
            found = replace(found, given=(*model, *first, *found.given))
        for word in words:
            shell = words[0].rpartition("/")[2] in _SHELLS or word == words[0]
            text = self._mounted(pod, container, word) if shell and word.startswith("/") else None
            if text is not None:
                script = parse_command(text, found.origin)
                return replace(script, image=found.image, env=found.env, plain=False)
        config = found.value("--config")
        text = self._mounted(pod, container, config) if config and config.startswith("/") else None
        if text is None:
            return found
        settings = parse_text(text, found.origin)
        # what stands on the command line wins over the file
        given = (*(g for g in settings.given if found.value(g.name) is None), *found.given)
        return replace(found, given=given)

    def _mounted(self, pod: Pod, container: Mapping[str, Any], path: str) -> str | None:
        """The text of a file that a ConfigMap is mounted as; None for any other file."""
        volumes = {str(v.get("name")): v for v in pod.object["spec"].get("volumes") or ()}
        for mount in container.get("volumeMounts") or ():
            start = str(mount.get("mountPath", "")).rstrip("/")
            source = (volumes.get(str(mount.get("name"))) or {}).get("configMap")
            if not source or not (path == start or path.startswith(start + "/")):
                continue
            key = str(mount.get("subPath") or "") if path == start else posixpath.relpath(path, start)
            items = {str(i["path"]): str(i["key"]) for i in source.get("items") or ()}
            return self._map(pod, str(source.get("name"))).get(items.get(key, key))
        return None

    def _map(self, pod: Pod, name: str) -> Mapping[str, str]:
        key = (pod.namespace, name)
        with self._lock:
            if key not in self._maps:
                self._maps[key] = {}
                try:
                    self._maps[key] = self._door.core("configmaps", pod.namespace, name).get("data") or {}
                except Expired:
                    raise
                except NotThere:
                    why = "the pods name it, and it is not there"
                    self.gaps[Gap(pod.instance, f"what ConfigMap {name} says", why)] = None
                except SourceError as error:
                    self.gaps[gap_of(error, f"what ConfigMap {name} says")] = None
            return self._maps[key]


def described(before: Json, after: Json, name: str) -> str:
    """What a new template changes of a container, in words: image, arguments, environment, resources."""
    old, new = _container(before, name), _container(after, name)
    if old is None or new is None:
        return "other containers"
    told = []
    if old.get("image") != new.get("image"):
        told.append(f"image {_tag(old, new)} -> {_tag(new, old)}")
    told += _differences(words_of(old), words_of(new))
    for key, what in (("env", "environment"), ("resources", "resources")):
        if (old.get(key) or None) != (new.get(key) or None):
            told.append(what)
    return ", ".join(told) or "nothing of the server's container"


def _differences(old: list[str], new: list[str]) -> Iterable[str]:
    before, after = (_by_name(parse_words(_split(words))[0]) for words in (old, new))
    for name in dict.fromkeys((*before, *after)):
        was, now = before.get(name), after.get(name)
        if was != now:
            yield f"{name} {'not set' if was is None else was} -> {'not set' if now is None else now}"


def _by_name(given: Iterable[Given]) -> dict[str, str]:
    return {g.name: g.value for g in given if g.name not in ("--api-key", "--hf-token")}


def _split(words: list[str]) -> list[str]:
    """The words of a script that stands in one word, too."""
    return [part for word in words for part in (word.split() if "--" in word[2:] else [word])]


def _container(template: Json, name: str) -> Mapping[str, Any] | None:
    containers = ((template.get("spec") or {}).get("containers")) or ()
    return next((c for c in containers if c.get("name") == name), None)


def _tag(one: Mapping[str, Any], other: Mapping[str, Any]) -> str:
    """The tag alone where the rest of the image is the same."""
    image, rest = str(one.get("image", "?")), str(other.get("image", "?"))
    same = image.rpartition(":")[0] == rest.rpartition(":")[0]
    return image.rpartition(":")[2] if same and ":" in image else image


def _workload(pod: Pod, owner: Json | None, found: Launch) -> Any:
    document = owner or {"kind": "Pod"} | pod.object
    kind = str(document.get("kind", "Pod"))
    told = workload_of(document, kind, pod.spec, pod.index, found)
    return replace(told, namespace=pod.namespace, port=pod.port)
