"""What is asked of a server before it is probed: which models it serves, and which version it is."""

import json
from dataclasses import dataclass
from urllib.parse import urlsplit, urlunsplit

from vllmdoctor.errors import NotVllm, SourceError, UnknownName, UsageError
from vllmdoctor.model import Gap
from vllmdoctor.probe.questions import Question
from vllmdoctor.sources import without_login
from vllmdoctor.sources.http import Http

_MODELS = "the models it serves"


@dataclass(frozen=True, slots=True)
class Server:
    """A server's address without its route, the models it says it serves, and its version ("" unknown)."""

    base: str
    models: tuple[str, ...]
    version: str
    gaps: tuple[Gap, ...]

    @property
    def shown(self) -> str:
        """The address without a login."""
        return without_login(self.base)


def base_of(url: str) -> str:
    """The address that routes are put behind, of HOST:PORT or http(s)://HOST:PORT[/path][/v1]."""
    url = url if "://" in url else f"http://{url}"
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        raise UsageError(f"{without_login(url)!r} is not a URL that can be read") from None
    if parts.scheme not in ("http", "https") or not host:
        raise UsageError(f"{without_login(url)!r} is no server to probe", hint="http://HOST:PORT")
    path = parts.path.rstrip("/").removesuffix("/metrics").removesuffix("/v1")
    return urlunsplit(parts._replace(path=path, query="", fragment=""))


def ask_server(url: str, http: Http) -> Server:
    """Its models and its version; Unreachable or Unauthorized where it does not answer at all."""
    base = base_of(url)
    gaps: list[Gap] = []
    models: tuple[str, ...] = ()
    try:
        models = _models(http.get(f"{base}/v1/models").text)
    except NotVllm as error:
        gaps.append(Gap(without_login(base), _MODELS, error.message, "give one with --model"))
    return Server(base, models, _version(base, http, gaps), tuple(gaps))


def model_for(server: Server, given: str, questions: tuple[Question, ...]) -> str:
    """The model for requests that name none; UsageError where that cannot be told."""
    if given:
        if server.models and given not in server.models:
            raise UnknownName("model", given, server.models)
        return given
    if all(q.model for q in questions):
        return ""
    if len(server.models) == 1:
        return server.models[0]
    if server.models:
        names = ", ".join(server.models)
        raise UsageError(
            f"{server.shown} serves several models: {names}", hint="choose one with --model NAME"
        )
    why = "".join(f": {gap.why}" for gap in server.gaps if gap.what == _MODELS)
    raise UsageError(
        f"{server.shown} does not say which models it serves{why}",
        hint="is this the server and its port? else give the model with --model NAME",
    )


def _models(text: str) -> tuple[str, ...]:
    try:
        names = [model["id"] for model in json.loads(text)["data"]]
    except (ValueError, LookupError, TypeError, RecursionError):
        raise NotVllm("/v1/models answered with something else than a list of models") from None
    return tuple(name for name in names if isinstance(name, str))


def _version(base: str, http: Http, gaps: list[Gap]) -> str:
    try:
        version = json.loads(http.get(f"{base}/version").text)["version"]
        if isinstance(version, str) and version:
            return version
        why = "/version holds no version"
    except SourceError as error:
        why = error.message
    except (ValueError, LookupError, TypeError, RecursionError):
        why = "/version answered with something else"
    gaps.append(Gap(without_login(base), "vLLM's version", why))
    return ""
