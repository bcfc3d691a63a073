"""Where the API is: the address of a target, taken apart."""

from dataclasses import dataclass, field
from urllib.parse import unquote, urlsplit, urlunsplit

from vllmdoctor.errors import UsageError
from vllmdoctor.sources import without_login

_PAGES = ("/api/v1", "/graph", "/query", "/targets", "/vmui")  # what people copy out of a browser


@dataclass(frozen=True, slots=True)
class Place:
    """Where the API is: its base address without a login, the login, and how it is shown."""

    base: str
    user: tuple[str, str] | None = field(repr=False)
    shown: str


def place_of(target: str) -> Place:
    """The place of `prom+http(s)://[USER:PASSWORD@]HOST[:PORT][/prefix]`; UsageError where it is none."""
    url = target.removeprefix("prom+")
    shown = without_login(url)
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        raise UsageError(f"{shown!r} is not a URL that can be read") from None
    if not host:
        raise UsageError(f"{shown!r} names no host", hint="prom+http://HOST:PORT[/prefix]")
    if parts.scheme not in ("http", "https"):
        raise UsageError(f"{shown!r} is no address of a Prometheus", hint="http://HOST:PORT[/prefix]")
    if parts.query or parts.fragment:
        shown = shown.partition("?")[0].partition("#")[0]
        hint = "give the address alone, and --match, --window, --at"
        raise UsageError(f"{shown} is followed by a query", hint=hint)
    path = parts.path.rstrip("/")
    for page in _PAGES:
        path = path.removesuffix(page)
    user = (unquote(parts.username), unquote(parts.password or "")) if parts.username else None
    name = f"[{host}]" if ":" in host else host
    netloc = name if port is None else f"{name}:{port}"
    base = urlunsplit((parts.scheme, netloc, path, "", ""))
    return Place(base, user, base)
