"""What a server wants to see before it answers, and which certificates are trusted."""

import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field

from vllmdoctor.errors import UsageError
from vllmdoctor.sources.http_words import short

TOKEN = "VLLMDOCTOR_TOKEN"  # noqa: S105  the variable's name, not a token
"""Where a bearer token for a vLLM server stands."""


@dataclass(frozen=True, slots=True)
class Login:
    """What a server wants to see: headers, a user with a password, a client certificate. Never shown."""

    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    user: tuple[str, str] | None = field(default=None, repr=False)
    ca_file: str = ""
    cert_file: str = ""
    key_file: str = ""


def sendable(text: str) -> bool:
    """Whether a header can carry it; what cannot would stand in an error, and it may be a secret."""
    return text.isascii() and text.isprintable()


def trust(login: Login | None) -> ssl.SSLContext | None:
    """The certificates to trust and to show, None for the usual ones; UsageError where a file is none."""
    if login is None or not (login.ca_file or login.cert_file):
        return None
    try:
        context = ssl.create_default_context(cafile=login.ca_file or None)
        if login.cert_file:
            context.load_cert_chain(login.cert_file, login.key_file or None, password="")
    except (OSError, ValueError) as error:  # an SSLError is an OSError
        names = ", ".join(n for n in (login.ca_file, login.cert_file, login.key_file) if n)
        raise UsageError(f"cannot use the certificates in {names}: {short(str(error))}") from None
    return context
