"""A launch with steps of a plan applied: the list of arguments as it should become."""

import json
from collections.abc import Sequence

from vllmdoctor.launch import Launch, full_name, is_argument
from vllmdoctor.model import Step

_ON, _OFF = ("on", "true", "yes"), ("off", "false", "no")


def words_for(step: Step) -> list[str] | None:
    """The words that put a step's argument in force; [] when it is to be left out, None when unknown."""
    if not step.flag:
        return None
    after = step.after
    if after in ("removed", "none") or (step.before and not after):
        return []
    if after.lower() in _ON:
        return [step.flag]
    if after.lower() in _OFF:
        return [f"--no-{step.flag[2:]}"]
    if step.flag == "--speculative-config":
        return None  # one entry of a JSON text: see `edited`
    return [step.flag, after] if after else None


def edited(launch: Launch, steps: Sequence[Step]) -> list[str]:
    """All words of the launch with the steps' arguments changed in place, or put at the end."""
    words = list(launch.words)
    for step in steps:
        new = words_for(step)
        if step.flag == "--speculative-config" and step.after.startswith("num_speculative_tokens "):
            words = _redraft(words, launch.prefix, int(step.after.split()[1]))
        elif new is not None:
            words = _put(words, launch.prefix, step.flag, new)
    return words


def _put(words: list[str], start: int, name: str, new: list[str]) -> list[str]:
    """`words` with every mention of an argument taken out, and its new form where the first stood."""
    kept, place = words[:start], -1
    rest = words[start:]
    while rest:
        word = rest.pop(0)
        own = full_name(word.partition("=")[0])
        if is_argument(word) and own in (name, f"--no-{name[2:]}"):
            place = len(kept) if place < 0 else place
            if "=" not in word and rest and not is_argument(rest[0]) and own == name:
                rest.pop(0)
            continue
        kept.append(word)
    place = len(kept) if place < 0 else place
    return [*kept[:place], *new, *kept[place:]]


def _redraft(words: list[str], start: int, tokens: int) -> list[str]:
    done = list(words)
    for index in range(start, len(done)):
        text = done[index].partition("=")[2] if done[index].startswith("--speculative") else done[index]
        try:
            config = json.loads(text)
        except ValueError:
            continue
        if isinstance(config, dict) and "num_speculative_tokens" in config:
            changed = json.dumps(config | {"num_speculative_tokens": tokens})
            done[index] = done[index].replace(text, changed)
    return done
