"""TLS and users of the page, from the file that Prometheus' own exporters take as --web.config.file.

    tls_server_config: {cert_file, key_file, client_auth_type, client_ca_file, min_version}
    basic_auth_users: {USER: BCRYPT HASH}

A key that is not known here is an error: a promise of safety that is not kept is worse than none.
Paths are relative to the file. The file is read once, at the start; the certificates again when they change.
"""

import contextlib
import ssl
import threading
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vllmdoctor.errors import UnknownName, UsageError
from vllmdoctor.launch_yaml import load_all

if TYPE_CHECKING:
    from vllmdoctor.exporting.passwords import Users

_TLS = ("cert_file", "key_file", "client_auth_type", "client_ca_file", "min_version", "max_version")
_VERSIONS = {"TLS12": ssl.TLSVersion.TLSv1_2, "TLS13": ssl.TLSVersion.TLSv1_3}
_CLIENTS = {
    "NoClientCert": ssl.CERT_NONE,
    "VerifyClientCertIfGiven": ssl.CERT_OPTIONAL,
    "RequireAndVerifyClientCert": ssl.CERT_REQUIRED,
}


class Tls:
    """A certificate with its key, and who may come; read again when its files have changed."""

    def __init__(self, origin: Path, files: Mapping[str, Path], make: Callable[[], ssl.SSLContext]) -> None:
        self._origin, self._files, self._make = origin, files, make
        self._lock = threading.Lock()
        self._changed = self._times()
        self._context = self._read()

    @property
    def context(self) -> ssl.SSLContext:
        """For a new connection. New files that cannot be used are not: the old ones stay."""
        with self._lock:
            changed = self._times()
            if changed != self._changed:
                with contextlib.suppress(UsageError):
                    self._context, self._changed = self._read(), changed
            return self._context

    def _times(self) -> list[int]:
        return [path.stat().st_mtime_ns if path.exists() else 0 for path in self._files.values()]

    def _read(self) -> ssl.SSLContext:
        context = self._make()
        try:
            context.load_cert_chain(self._files["cert_file"], self._files["key_file"], password=_no_password)
            if "client_ca_file" in self._files:
                context.load_verify_locations(self._files["client_ca_file"])
        except FileNotFoundError:
            missing = next((path for path in self._files.values() if not path.exists()), self._origin)
            raise UsageError(f"{self._origin} names {missing}, which is not there") from None
        except (OSError, ValueError) as error:
            why = getattr(error, "reason", None) or error
            raise UsageError(
                f"{self._origin}: certificate and key cannot be used: {why}",
                hint="both in PEM form, of one pair, the key without a passphrase",
            ) from None
        return context


@dataclass(frozen=True, slots=True)
class WebConfig:
    """How the page is guarded; without either it is plain and open."""

    tls: Tls | None = None
    users: "Users | None" = field(default=None, repr=False)


def read_web_config(path: Path) -> WebConfig:
    """The file's content; UsageError, in one line, for whatever is wrong with it."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = (error.strerror or str(error)).lower() if isinstance(error, OSError) else "it is no text"
        raise UsageError(f"cannot read {path}: {why}") from None
    documents = load_all(text, str(path))
    top = _mapping(documents[0] if documents else {}, "it", path)
    _known(top, ("tls_server_config", "basic_auth_users"), path)
    tls = _mapping(top.get("tls_server_config") or {}, "tls_server_config", path)
    users = _mapping(top.get("basic_auth_users") or {}, "basic_auth_users", path)
    return WebConfig(_tls(tls, path) if tls else None, _users(users, path) if users else None)


def _tls(given: Mapping[str, Any], path: Path) -> Tls:
    _known(given, _TLS, path)
    files = {key: path.parent / str(given[key]) for key in _TLS if key.endswith("_file") and given.get(key)}
    if not {"cert_file", "key_file"} <= files.keys():
        raise UsageError(f"{path}: tls_server_config needs cert_file and key_file")
    clients = str(given.get("client_auth_type") or "NoClientCert")
    if clients not in _CLIENTS:
        raise UnknownName("client_auth_type", clients, _CLIENTS)
    if (_CLIENTS[clients] is not ssl.CERT_NONE) != ("client_ca_file" in files):
        raise UsageError(
            f"{path}: client_ca_file and client_auth_type go together",
            hint="client_auth_type: RequireAndVerifyClientCert",
        )
    least, most = _version(given, "min_version", "TLS12"), _version(given, "max_version", "TLS13")

    def make() -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version, context.maximum_version = least, most
        context.verify_mode = _CLIENTS[clients]
        return context

    return Tls(path, files, make)


def _users(given: Mapping[str, Any], path: Path) -> "Users":
    from vllmdoctor.exporting.passwords import Users, is_hash

    for user, text in given.items():
        if not isinstance(text, str) or not is_hash(text):
            raise UsageError(
                f"{path}: what stands for user {user} is no bcrypt hash",
                hint="htpasswd -nBC 10 USER makes one; the file never holds a password",
            )
    return Users({str(user): text for user, text in given.items()})


def _version(given: Mapping[str, Any], key: str, usual: str) -> ssl.TLSVersion:
    name = str(given.get(key) or usual)
    if name not in _VERSIONS:
        raise UnknownName(key, name, _VERSIONS)
    return _VERSIONS[name]


def _mapping(value: object, what: str, path: Path) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise UsageError(f"{path}: {what} must be a mapping of keys to values")
    return value


def _known(given: Mapping[str, Any], known: Collection[str], path: Path) -> None:
    for key in given:
        if key not in known:
            raise UsageError(f"{path}: {key} is not supported", hint=f"supported are {', '.join(known)}")


def _no_password() -> str:
    raise ValueError("the key has a passphrase")
