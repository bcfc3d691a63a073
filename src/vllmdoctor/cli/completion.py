"""What may follow the words of a `kubectl vllmdoctor` command: commands, options, objects of the cluster."""

from collections.abc import Iterator, Sequence
from typing import Any

from vllmdoctor.errors import VllmDoctorError

_WORKLOADS = ("deployment", "statefulset", "service", "leaderworkerset", "inferenceservice", "rayservice")


def following(words: Sequence[str]) -> list[str]:
    """The words, each with a tab and what it is, that may stand in the last one's place."""
    import typer.main

    from vllmdoctor.cli.app import app

    before, typed = list(words[:-1]), words[-1] if words else ""
    commands: dict[str, Any] = typer.main.get_command(app).commands  # type: ignore[attr-defined]
    command = next((commands[word] for word in before if word in commands), None)
    if command is None:
        found = [f"{name}\t{each.get_short_help_str(60)}" for name, each in commands.items()]
    elif before and before[-1] in ("-n", "--namespace"):
        found = list(_namespaces(before))
    elif typed.startswith("-"):
        found = [f"{option}\t{p.help or ''}" for p in command.params for option in p.opts if option[0] == "-"]
    elif any(p.name == "words" for p in command.params):
        found = list(_objects(before, typed))
    else:
        found = []
    return [each for each in found if each.startswith(typed)]


def _value(words: Sequence[str], *names: str) -> str:
    """The value that an option has among the words."""
    for index, word in enumerate(words):
        name, equals, value = word.partition("=")
        if name in names:
            return value if equals else "".join(words[index + 1 : index + 2])
    return ""


def _access(words: Sequence[str]) -> Any:
    from vllmdoctor.kube.nouns import Access

    return Access(
        kubeconfig=_value(words, "--kubeconfig"),
        context=_value(words, "--context"),
        cluster=_value(words, "--cluster"),
        user=_value(words, "--user"),
        namespace=_value(words, "-n", "--namespace"),
    )


def _namespaces(words: Sequence[str]) -> Iterator[str]:
    from vllmdoctor.kube.door import Door

    try:
        with Door(_access(words)) as door:
            for each in door.listed("api/v1", "namespaces", ""):
                yield str(each["metadata"]["name"])
    except VllmDoctorError:
        return  # nothing can be offered, and this is no place to say why


def _objects(words: Sequence[str], typed: str) -> Iterator[str]:
    """Pods that run vLLM and the kinds of workloads; after KIND/ the names of that kind."""
    from vllmdoctor.kube.door import Door
    from vllmdoctor.kube.kinds import kind_of
    from vllmdoctor.kube.pods import serves_vllm

    word, slash, _ = typed.partition("/")
    kind = kind_of(word) if slash else None
    if slash and (kind is None or not kind.plural):
        return
    try:
        with Door(_access(words)) as door:
            if kind is not None:
                for each in door.listed(kind.path, kind.plural, door.namespace):
                    yield f"{word}/{each['metadata']['name']}"
                return
            for each in door.listed("api/v1", "pods", door.namespace):
                if serves_vllm(each):
                    yield f"{each['metadata']['name']}\tpod"
    except VllmDoctorError:
        return
    finally:
        if not slash:
            yield from (f"{name}/" for name in _WORKLOADS)
