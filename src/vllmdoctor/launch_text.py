"""Launch commands as people keep them: a shell line, a docker command, vLLM's --config file, a manifest."""

import re
import shlex
from collections.abc import Mapping
from pathlib import Path

from vllmdoctor.errors import UsageError
from vllmdoctor.launch import Given, Launch, full_name, is_argument, parse_words
from vllmdoctor.launch_kube import from_documents
from vllmdoctor.launch_yaml import load_all

_ENV = re.compile(r"[A-Za-z_]\w*=")
_API_SERVERS = (
    "vllm.entrypoints.openai.api_server",
    "vllm.entrypoints.api_server",
    "vllm.entrypoints.cli.main",
)
_SHELLS = ("sh", "bash", "/bin/sh", "/bin/bash")
_MANIFEST = re.compile(r"^\s*(?:-\s+)?[\"']?(apiVersion|kind|servingEngineSpec|spec)[\"']?\s*:", re.MULTILINE)
_SETTING = re.compile(r"^[A-Za-z][\w.-]*\s*:(\s|$)")


def read_launch(*, args: str = "", path: str = "", stdin: str = "") -> Launch:
    """The launch that a person gave: a command's text, or a file that holds it in any known form.

    `stdin` is the text to read where the path is "-". Raises UsageError.
    """
    if args and path:
        raise UsageError("both a command and a file were given", hint="give --args or --args-file")
    if args:
        return parse_command(args, "--args")
    if path == "-":
        return parse_text(stdin, "standard input")
    try:
        return parse_text(Path(path).read_text(encoding="utf-8"), path)
    except OSError as error:
        raise UsageError(f"{path} could not be read: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} is no text") from error


def parse_text(text: str, origin: str) -> Launch:
    """A launch from a file's text: a manifest, chart values, a config file, or a command."""
    if not text.strip():
        raise UsageError(f"{origin} is empty", hint="it should hold a `vllm serve` command or a manifest")
    if _MANIFEST.search(text):
        return from_documents(load_all(text, origin), origin, parse_command)
    lines = [
        line for line in text.splitlines() if line.strip() and not line.lstrip().startswith(("#", "---"))
    ]
    if lines and all(_SETTING.match(line) or line.startswith((" ", "-\t", "- ")) for line in lines):
        return _from_config(load_all(text, origin), origin)
    return parse_command(text, origin)


def parse_command(text: str, origin: str) -> Launch:
    """A launch from shell text: continuations, comments, environment, docker run, sh -c and all."""
    words = _split(text, origin)
    env: list[tuple[str, str]] = []
    words = _after_environment(words, env)
    if words and words[0] in ("docker", "podman", "nerdctl"):
        return _from_docker(words, origin, tuple(env))
    if len(words) >= 3 and words[0] in _SHELLS and words[1].startswith("-") and words[1].endswith("c"):
        return parse_command(words[2], origin)
    words = _one_command(words)
    start = _start(words)
    return build(words, start, origin, env=tuple(env))


def build(
    words: list[str], start: int, origin: str, *, env: tuple[tuple[str, str], ...] = (), image: str = ""
) -> Launch:
    """A launch from words whose arguments begin at `start`."""
    given, stray = parse_words(words[start:])
    model: tuple[Given, ...] = ()
    if stray and not is_argument(words[start]):
        model = (Given("--model", stray[0], stray[0]),)
        stray = stray[1:]
    return Launch((*model, *given), origin, tuple(words), start, stray, env, image)


def _split(text: str, origin: str) -> list[str]:
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    joined = re.sub(r"\\[ \t]*(\n|$)", " ", "\n".join(lines))
    try:
        return shlex.split(joined, comments=False)
    except ValueError as error:
        raise UsageError(
            f"{origin} is no shell command: {str(error).lower()}", hint="close every quote; one command only"
        ) from error


def _after_environment(words: list[str], env: list[tuple[str, str]]) -> list[str]:
    rest = list(words)
    while rest and (rest[0] in ("env", "exec", "nohup", "sudo", "export", "$") or _ENV.match(rest[0])):
        word = rest.pop(0)
        if _ENV.match(word):
            name, _, value = word.partition("=")
            env.append((name, value))
    return rest


def _one_command(words: list[str]) -> list[str]:
    """The command that starts vLLM, where the line holds several."""
    parts: list[list[str]] = [[]]
    for word in words:
        if word in ("&&", ";", "|", "||", "&") or word.startswith((">", "2>", "&>")):
            parts.append([])
        elif word.endswith(";"):
            parts[-1].append(word[:-1])
            parts.append([])
        else:
            parts[-1].append(word)
    return next((p for p in parts if _start(p)), parts[0])


def _start(words: list[str]) -> int:
    """Where the arguments begin: after `vllm serve`, after the API server's module; else at once."""
    for index, word in enumerate(words):
        if word == "serve" and index and words[index - 1].rpartition("/")[2] in ("vllm", "main"):
            return index + 1
        if word in _API_SERVERS or word.endswith("openai/api_server.py"):
            following = words[index + 1 : index + 2]
            return index + 2 if following == ["serve"] else index + 1
    return 0


def _from_docker(words: list[str], origin: str, env: tuple[tuple[str, str], ...]) -> Launch:
    """`docker run [options] IMAGE arguments`: the image is the first word that names vLLM."""
    for index, word in enumerate(words[1:], 1):
        if "vllm" in word.lower() and not word.startswith("-") and "=" not in word and ":/" not in word:
            if words[index - 1] in (
                "--name",
                "-n",
                "--network",
                "-v",
                "--volume",
                "--hostname",
                "-e",
                "--env",
            ):
                continue
            rest = words[index + 1 :]
            return build(rest, _start(rest), origin, env=env, image=word)
    raise UsageError(f"{origin}: no vLLM image was found in the command", hint="give the arguments alone")


def _from_config(documents: tuple[object, ...], origin: str) -> Launch:
    """vLLM's own configuration file: `max-num-seqs: 4` for `--max-num-seqs 4`."""
    settings = documents[0] if documents else {}
    if not isinstance(settings, Mapping):
        raise UsageError(f"{origin} holds no settings", hint="write `name: value` lines, as for --config")
    words: list[str] = []
    for key, value in settings.items():
        words += _words(full_name(f"--{key}"), value)
    return build(words, 0, origin)


def _words(name: str, value: object) -> list[str]:
    if isinstance(value, bool):
        return [name if value else f"--no-{name[2:]}"]
    if value is None:
        return []
    if isinstance(value, list):
        return [name, *(str(each) for each in value)]
    if isinstance(value, Mapping):
        import json

        return [name, json.dumps(value)]
    return [name, str(value)]
