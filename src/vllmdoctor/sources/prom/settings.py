"""Credentials: from the environment or from a file that it names, never from the command line.

Each setting `x` is the variable VLLMDOCTOR_PROM_X, or the key `x` of the TOML file that
VLLMDOCTOR_PROM_CONFIG names; the variable wins. What is secret is remembered, so that no text of
a server can carry it into an error, a report or a recording.
"""

import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote

from vllmdoctor.errors import UsageError
from vllmdoctor.sources.login import TOKEN, Login
from vllmdoctor.units import parse_duration

PREFIX = "VLLMDOCTOR_PROM_"
CONFIG = PREFIX + "CONFIG"
TEXTS = (
    *("token", "token_file", "user", "password", "password_file"),
    *("ca_file", "cert_file", "key_file", "tenant", "timeout"),
)
TIMEOUT_S = 30.0
_SHOWING = {"cert_file", "headers", "tenant"}  # beside user and token, what a server looks at
_SHORTEST_SECRET = 4  # what is shorter is found in any text by chance


@dataclass(frozen=True, slots=True)
class Settings:
    """What one Prometheus wants to see, and how long it is waited for (s)."""

    login: Login
    timeout_s: float
    told: tuple[str, ...]  # which settings were given, by name: for hints
    _secrets: tuple[str, ...] = field(repr=False)

    def hide(self, text: str) -> str:
        """The text without any secret."""
        for secret in self._secrets:
            text = text.replace(secret, "***")
        return text


def read_settings(user: tuple[str, str] | None = None, environ: Mapping[str, str] | None = None) -> Settings:
    """The settings in force; `user` is a user name and password that stood in the address.

    UsageError where one cannot be read or two contradict each other.
    """
    environ = os.environ if environ is None else environ
    given = _given(environ)
    token = given.get("token", "") or _content(given, "token_file") or environ.get(TOKEN, "").strip()
    password = given.get("password", "") or _content(given, "password_file")
    if given.get("user"):
        user = (given["user"], password)
    elif password:
        raise UsageError(f"a password without a user: set {PREFIX}USER as well")
    headers = _headers(given.get("headers", ""))
    secrets = [token, password, *headers.values(), *(user or ())[1:]]
    if user is not None:
        headers.pop("Authorization", None)
    elif token:
        headers["Authorization"] = f"Bearer {token}"
    if given.get("tenant"):
        headers["X-Scope-OrgID"] = given["tenant"]
    if given.get("key_file") and not given.get("cert_file"):
        raise UsageError(f"a key without a certificate: set {PREFIX}CERT_FILE as well")
    timeout = parse_duration(given["timeout"]) if given.get("timeout") else TIMEOUT_S
    files = (given.get(key, "") for key in ("ca_file", "cert_file", "key_file"))
    login = Login(headers, user, *files)
    words = ("user" if user else "", "token" if token and not user else "", *sorted(_SHOWING & set(given)))
    spelled = {spelling for secret in secrets for spelling in (secret, quote(secret, safe=""))}
    hidden = sorted((s for s in spelled if len(s) >= _SHORTEST_SECRET), key=len, reverse=True)
    return Settings(login, timeout, tuple(dict.fromkeys(w for w in words if w)), tuple(hidden))


def _given(environ: Mapping[str, str]) -> dict[str, str]:
    """Every setting that was given, as text."""
    given: dict[str, str] = {}
    path = environ.get(CONFIG, "")
    if path:
        given.update(_file(Path(path)))
    for key in (*TEXTS, "headers"):
        value = environ.get(PREFIX + key.upper(), "").strip()
        if value:
            given[key] = value
    return given


def _file(path: Path) -> dict[str, str]:
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        why = (error.strerror or str(error)).lower()
        raise UsageError(f"cannot read {path}, which {CONFIG} names: {why}") from None
    except (tomllib.TOMLDecodeError, UnicodeError):
        # what is wrong with it may be a secret
        raise UsageError(f"{path}, which {CONFIG} names, is no TOML file") from None
    unknown = sorted(set(table) - {*TEXTS, "headers"})
    if unknown:
        raise UsageError(f"{path} has a setting {unknown[0]!r}", hint=f"known: {', '.join(TEXTS)}, headers")
    headers = table.pop("headers", {})
    if not isinstance(headers, dict):
        raise UsageError(f"{path}: headers is a table of names and values")
    texts = {key: str(value) for key, value in table.items()}
    if headers:
        texts["headers"] = "\n".join(f"{name}: {value}" for name, value in headers.items())
    return texts


def _content(given: Mapping[str, str], key: str) -> str:
    path = given.get(key, "")
    if not path:
        return ""
    try:
        return Path(path).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeError):
        raise UsageError(f"cannot read {path}, which {PREFIX}{key.upper()} names") from None


def _headers(text: str) -> dict[str, str]:
    """`Name: value` a line."""
    headers: dict[str, str] = {}
    for number, row in enumerate(filter(None, map(str.strip, text.splitlines())), 1):
        name, colon, value = row.partition(":")
        if not colon or not name.strip():
            raise UsageError(f"header {number} of {PREFIX}HEADERS is not written as `Name: value`")
        headers[name.strip()] = value.strip()
    return headers
