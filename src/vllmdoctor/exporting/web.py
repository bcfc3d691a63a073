"""The page over HTTP: /metrics and /-/healthy, each request on a thread of its own, all of them limited."""

import base64
import binascii
import contextlib
import socket
import threading
import time
from collections.abc import Callable, Iterable
from socketserver import ThreadingMixIn
from typing import TYPE_CHECKING, Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

from vllmdoctor.errors import UsageError
from vllmdoctor.exporting.webconfig import WebConfig

if TYPE_CHECKING:
    from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

MOST_REQUESTS = 40
"""Requests at a time; more are refused with 503."""

REQUEST_S = 10.0
"""How long a client may take for its part of a request, and for TLS' greeting."""

GRACE_S = 3.0
"""How long requests under way may take when the exporter ends."""

_HEALTHY = "/-/healthy"
_PLAIN = ("Content-Type", "text/plain; charset=utf-8")
_LANDING = b"""<!DOCTYPE html><html lang="en"><title>vllmdoctor</title>
<h1>vllmdoctor</h1><p><a href="metrics">metrics</a> <a href="-/healthy">healthy</a></p></html>
"""


def parse_listen(text: str) -> tuple[str, int]:
    """Host and port of `HOST:PORT`, `[::]:PORT` or `:PORT` (every address); UsageError for anything else."""
    host, colon, port = text.rpartition(":")
    bracketed = host.startswith("[") and host.endswith("]")
    if not colon or not port.isdecimal() or int(port) > 65535 or (":" in host and not bracketed):
        raise UsageError(f"not an address to listen on: {text!r}", hint="write it as 127.0.0.1:9810")
    return host.strip("[]"), int(port)


class Web:
    """Serves the page until it is closed. UsageError where the address cannot be had."""

    def __init__(
        self,
        listen: str,
        metrics: "WSGIApplication",
        healthy: Callable[[], bool],
        config: WebConfig | None = None,
    ) -> None:
        config = config or WebConfig()
        host, port = parse_listen(listen)
        try:
            self._server = _Server(host, port, config)
        except (OSError, UnicodeError) as error:
            why = (getattr(error, "strerror", "") or str(error)).lower()
            raise UsageError(
                f"cannot listen on {listen}: {why}", hint="choose another one: --listen HOST:PORT"
            ) from None
        self._server.set_app(_Pages(metrics, healthy, config))
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.1,), daemon=True)
        self._thread.start()
        place = f"[{host}]" if ":" in host else host or "0.0.0.0"  # noqa: S104  it is only shown
        self.url = f"http{'s' if config.tls else ''}://{place}:{self._server.server_port}"

    def close(self) -> None:
        """Take no more requests, let those under way end, and free the port."""
        self._server.shutdown()
        self._server.server_close()
        end = time.monotonic() + GRACE_S
        with self._server.turn:
            self._server.turn.wait_for(lambda: not self._server.running, end - time.monotonic())


class _Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True
    request_queue_size = 64

    def __init__(self, host: str, port: int, config: WebConfig) -> None:
        self.config = config
        self.running = 0
        self.turn = threading.Condition()
        if ":" in host:
            self.address_family = socket.AF_INET6
        super().__init__((host, port), _Handler)

    def server_bind(self) -> None:
        """Without the name look-up of the standard library, which may take seconds."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)
        self.server_address = self.socket.getsockname()
        self.server_name, self.server_port = str(self.server_address[0]), self.server_address[1]
        self.setup_environ()

    def process_request(self, request: Any, client_address: Any) -> None:
        with self.turn:
            full = self.running >= MOST_REQUESTS
            self.running += not full
        if full:
            with contextlib.suppress(OSError):
                if self.config.tls is None:
                    request.sendall(b"HTTP/1.0 503 Service Unavailable\r\n\r\n")
            self.shutdown_request(request)
        else:
            super().process_request(request, client_address)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            with self.turn:
                self.running -= 1
                self.turn.notify_all()

    def finish_request(self, request: Any, client_address: Any) -> None:
        """On the request's own thread: a client that is slow with its greeting holds up no other."""
        request.settimeout(REQUEST_S)
        if self.config.tls is None:
            super().finish_request(request, client_address)
            return
        with self.config.tls.context.wrap_socket(request, server_side=True) as secured:
            super().finish_request(secured, client_address)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that breaks off, or greets wrongly, is no news."""


class _Handler(WSGIRequestHandler):
    timeout = REQUEST_S

    def address_string(self) -> str:
        return str(self.client_address[0])

    def log_message(self, *_: object) -> None:
        """The page is for scrapers: nobody reads an access log."""


class _Pages:
    """Which page is meant, and whether it may be seen."""

    def __init__(self, metrics: "WSGIApplication", healthy: Callable[[], bool], config: WebConfig) -> None:
        self._metrics, self._healthy, self._users = metrics, healthy, config.users

    def __call__(self, environ: "WSGIEnvironment", start: "StartResponse") -> Iterable[bytes]:
        path = environ.get("PATH_INFO")
        # whether it is well is no secret, and the probes of Kubernetes have no login
        if (
            path != _HEALTHY
            and self._users is not None
            and not self._may(environ.get("HTTP_AUTHORIZATION", ""))
        ):
            start("401 Unauthorized", [_PLAIN, ("WWW-Authenticate", 'Basic realm="vllmdoctor"')])
            return [b"Unauthorized\n"]
        if environ.get("REQUEST_METHOD") not in ("GET", "HEAD"):
            start("405 Method Not Allowed", [_PLAIN, ("Allow", "GET, HEAD")])
            return [b"Method Not Allowed\n"]
        match path:
            case "/metrics":
                return self._metrics(environ, start)
            case _ if path == _HEALTHY:
                well = self._healthy()
                start("200 OK" if well else "503 Service Unavailable", [_PLAIN])
                return [b"healthy\n" if well else b"no round was finished for a long time\n"]
            case "/" | "":
                start("200 OK", [("Content-Type", "text/html; charset=utf-8")])
                return [_LANDING]
        start("404 Not Found", [_PLAIN])
        return [b"Not Found\n"]

    def _may(self, header: str) -> bool:
        scheme, _, told = header.partition(" ")
        try:
            user, colon, password = base64.b64decode(told, validate=True).decode().partition(":")
        except (binascii.Error, UnicodeDecodeError):
            return False
        return bool(scheme.lower() == "basic" and colon and self._users and self._users.may(user, password))
