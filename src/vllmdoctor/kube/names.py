"""Words of a command line as kubectl reads them, and the targets they become.

TYPE/NAME, TYPE NAME, a bare pod name, TYPE alone and nothing at all; `k8s://NAMESPACE/KIND/NAME` is
what each of them becomes, and what plain `vllmdoctor` takes.
"""

import re
from collections.abc import Callable, Sequence

from vllmdoctor.errors import UnknownName, UsageError
from vllmdoctor.kube.kinds import KINDS, kind_of, words
from vllmdoctor.kube.nouns import EVERYWHERE, Named

SCHEME = "k8s://"
_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")
_OTHER = re.compile(r"[a-z][a-z0-9+.-]*:|(?:[\w.-]+|\[[0-9a-fA-F:]+\]):\d{1,5}(?:/.*)?$|-$|\.{0,2}/")


def parse(target: str) -> Named:
    """What `k8s://NAMESPACE/KIND/NAME` names; `k8s://NAMESPACE/POD` and `k8s://NAMESPACE/pods?SELECTOR`
    too. An empty namespace is the current one, `*` is all. UsageError where it is none of them."""
    place, _, selector = target.removeprefix(SCHEME).partition("?")
    parts = place.split("/")
    hint = "write k8s://NAMESPACE/KIND/NAME, as in k8s://inference/deploy/vllm"
    if len(parts) == 2 and kind_of(parts[1]) is None:
        parts = [parts[0], "pod", parts[1]]
    elif len(parts) == 2:
        parts = [*parts, ""]
    if len(parts) == 1:
        parts = [parts[0], "pod", ""]
    if len(parts) != 3:
        raise UsageError(f"{target!r} names nothing in a cluster", hint=hint)
    namespace, word, name = parts
    kind = kind_of(word)
    if kind is None:
        raise UnknownName("kind", word, words())
    if namespace not in ("", EVERYWHERE):
        check_name("namespace", namespace)
    if name:
        check_name(kind.name, name)
    if name and (selector or namespace == EVERYWHERE):
        raise UsageError(f"{target!r} has a name and a choice of many", hint=hint)
    return Named(namespace, kind.name, name, selector)


def check_name(what: str, name: str) -> None:
    """UsageError for a name that no object in a cluster can have."""
    if not _NAME.fullmatch(name):
        hint = "lower-case letters, digits, - and ., as in vllm-7d4b9c8d9f-x2x7p"
        raise UsageError(f"not a name of a {what}: {name!r}", hint=hint)


def targets_of(
    given: Sequence[str], selector: str, everywhere: bool, is_file: Callable[[str], bool]
) -> tuple[str, ...]:
    """The targets that words mean under kubectl; addresses, files and other targets stay what they are.

    They name no namespace: it is the current one. With no word at all it is every vLLM pod of it, or
    those that the selector picks.
    """
    place = EVERYWHERE if everywhere else ""
    found: list[str] = []
    rest = list(given)
    while rest:
        word = rest.pop(0)
        if word.startswith(SCHEME) or _OTHER.match(word):
            found.append(word)
        elif "/" in word and (kind := kind_of(word.partition("/")[0])):
            found.append(_one(place, kind.name, word.partition("/")[2]))
        elif "/" in word and not is_file(word):
            raise UnknownName("kind", word.partition("/")[0], words())
        elif is_file(word):
            found.append(word)
        elif kind := kind_of(word):
            # kubectl takes all that follow as names of this kind
            names, rest = rest, []
            found += [_one(place, kind.name, name) for name in names] or [_many(place, selector)]
        else:
            found.append(_one(place, "pod", word))
    if selector and any(target.startswith(SCHEME) and parse(target).name for target in found):
        raise UsageError("a name and a selector were given", hint="give TYPE/NAME, or -l SELECTOR")
    return tuple(dict.fromkeys(found)) or (_many(place, selector),)


def is_choice(target: str) -> bool:
    """Whether a target means all vLLM pods of a place, with no selector to say which."""
    if not target.startswith(SCHEME):
        return False
    named = parse(target)
    return not named.name and not named.selector


def _one(place: str, kind: str, name: str) -> str:
    if place == EVERYWHERE:
        raise UsageError("a name and -A were given", hint="names live in one namespace: give it with -n")
    check_name(KINDS[kind].name, name)
    return str(Named(place, kind, name))


def _many(place: str, selector: str) -> str:
    return str(Named(place, "pod", "", selector))
