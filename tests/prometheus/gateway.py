"""A real HTTP server in front of a Prometheus that lets answers through, spoils them or makes its own."""

import ssl
import threading
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit


@dataclass(slots=True)
class Reply:
    """One answer; `cut` bytes of it are sent although all were announced, `wait` is called first."""

    status: int = 200
    body: bytes = b""
    kind: str = "application/json"
    cut: int | None = None
    headers: dict[str, str] = field(default_factory=dict)
    wait: Callable[[], object] | None = None


Spoil = Callable[[str, dict[str, list[str]], Reply], Reply]


def untouched(path: str, query: dict[str, list[str]], reply: Reply) -> Reply:
    return reply


class Gateway:
    """Forwards to `upstream`; `spoil` sees each request with its answer. Requests are kept."""

    def __init__(self, upstream: str, tls: ssl.SSLContext | None = None) -> None:
        self.spoil: Spoil = untouched
        self.before: Callable[[str, dict[str, list[str]]], Reply | None] = lambda path, query: None
        self.requests: list[tuple[str, dict[str, list[str]], dict[str, str]]] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                self.answer("")

            def do_POST(self) -> None:
                self.answer(self.rfile.read(int(self.headers.get("Content-Length", "0"))).decode())

            def answer(self, form: str) -> None:
                url = urlsplit(self.path)
                encoded = url.query or form
                query = parse_qs(encoded)
                outer.requests.append((url.path, query, dict(self.headers)))
                reply = outer.before(url.path, query)
                if reply is None:
                    reply = outer.spoil(url.path, query, fetch(f"{upstream}{url.path}", encoded))
                if reply.wait is not None:
                    reply.wait()
                self.send_response(reply.status)
                for name, value in reply.headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Type", reply.kind)
                self.send_header("Content-Length", str(len(reply.body)))
                self.end_headers()
                self.wfile.write(reply.body if reply.cut is None else reply.body[: reply.cut])
                if reply.cut is not None:
                    self.close_connection = True

            def log_message(self, *_: object) -> None:
                pass

        class Quiet(ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, *_: object) -> None:
                pass  # a client that hangs up is what some tests are about

        self._http = Quiet(("127.0.0.1", 0), Handler)
        if tls is not None:
            self._http.socket = tls.wrap_socket(self._http.socket, server_side=True)
        self.port = self._http.server_address[1]
        self.place = f"127.0.0.1:{self.port}"
        self.target = f"prom+{'http' if tls is None else 'https'}://{self.place}"
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()


def fetch(url: str, encoded: str) -> Reply:
    try:
        with urllib.request.urlopen(f"{url}?{encoded}", timeout=30) as answer:
            return Reply(answer.status, answer.read(), answer.headers.get("Content-Type", ""))
    except urllib.error.HTTPError as error:
        return Reply(error.code, error.read(), error.headers.get("Content-Type", ""))
