"""What fails in a connection, told in words that a person can act on."""

from urllib.parse import urlsplit

from vllmdoctor.errors import SourceError, Unreachable


def not_connected(shown: str, error: str) -> SourceError:
    """The error for a connection that was not made: what failed, and what to look at."""
    text = error.lower()
    if "ssl" in text or "certificate" in text or "tls" in text:
        hint = "name the CA's file in the environment variable SSL_CERT_FILE"
        if "wrong version number" in text or "record layer" in text:
            hint = "does it speak plain HTTP there? try http://"
        return Unreachable(f"{shown}: TLS failed: {short(error)}", hint=hint)
    if "refused" in text:
        hint = "is the server running, and is this its port?"
        return Unreachable(f"{shown} refused the connection", hint=hint)
    if "name" in text or "nodename" in text or "getaddrinfo" in text:
        return Unreachable(f"no host named {urlsplit(shown).hostname!r}", hint="is the name spelled right?")
    return Unreachable(f"{shown} cannot be reached: {short(error)}")


def short(error: str) -> str:
    """An error's text without the numbers that tell only developers something."""
    text = error.rpartition("] ")[2] if error.startswith("[") else error
    return text.partition(" (_ssl.c")[0].strip() or "no reason given"
