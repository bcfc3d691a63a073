"""An HTTP server that speaks the OpenAI API and behaves as it is told, and writes down when it wrote what.

One thread over real sockets; the benchmark and the tests use it.
"""

import asyncio
import json
import random
import ssl
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Write = tuple[float, bytes]
"""Seconds to wait, and the bytes to write then."""


@dataclass(frozen=True)
class Behaviour:
    """What a request gets: status, headers, the body's pieces, and how it ends ("whole", "drop", "hang")."""

    writes: Sequence[Write] = ()
    status: int = 200
    kind: str = "text/event-stream; charset=utf-8"
    headers: Mapping[str, str] = field(default_factory=dict)
    end: str = "whole"


@dataclass
class Served:
    """One request as the server saw it: when it was read, and when each piece was written."""

    path: str
    body: dict[str, Any]
    headers: dict[str, str]
    received: float
    written: list[float] = field(default_factory=list)


Behave = Callable[[str, dict[str, Any], int], Behaviour]


def streamed(
    text: str,
    *,
    chat: bool = False,
    first_s: float = 0.0,
    each_s: float = 0.0,
    chunks: int = 0,
    usage: bool = True,
    done: bool = True,
) -> list[Write]:
    """An answer as the pieces of an event stream: `text` cut into `chunks` (a word each where 0)."""
    words = text.split(" ")
    parts = [w + " " for w in words[:-1]] + words[-1:]
    if chunks:
        size = -(-len(parts) // chunks)
        parts = ["".join(parts[i : i + size]) for i in range(0, len(parts), size)]
    writes: list[Write] = []
    for i, part in enumerate(parts):
        choice: dict[str, Any] = {"index": 0, "finish_reason": "stop" if i == len(parts) - 1 else None}
        choice |= {"delta": {"content": part}} if chat else {"text": part}
        writes.append((each_s if i else first_s, event({"choices": [choice]})))
    tail = b""
    if usage:
        counts = {"prompt_tokens": 7, "completion_tokens": len(words)}
        tail += event({"choices": [], "usage": counts})
    if done:
        tail += b"data: [DONE]\n\n"
    return [*writes, (0.0, tail)] if tail else writes


def event(content: object) -> bytes:
    """One server-sent event."""
    return b"data: " + json.dumps(content, ensure_ascii=False).encode() + b"\n\n"


def cut_up(writes: Sequence[Write], chance: random.Random) -> list[Write]:
    """The same bytes in other pieces: inside lines, inside characters, several events at once."""
    whole = b"".join(piece for _, piece in writes)
    cuts = sorted(chance.sample(range(1, len(whole)), min(len(whole) - 1, chance.randint(1, 40))))
    return [(0.0, whole[a:b]) for a, b in zip([0, *cuts], [*cuts, len(whole)], strict=True)]


class Server:
    """Serves on 127.0.0.1 in a thread of its own. `behave(path, body, number)` says what each POST gets."""

    def __init__(
        self,
        behave: Behave,
        models: Sequence[str] = ("tiny",),
        version: str = "0.32.0",
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.behave = behave
        self._tls = tls
        self.models = tuple(models)
        self.version = version
        self.served: list[Served] = []
        self.pages: dict[str, tuple[int, str, bytes]] = {}
        self._loop = asyncio.new_event_loop()
        self._tasks: set[asyncio.Task[None]] = set()
        started = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(started,), daemon=True)
        self._thread.start()
        started.wait()
        self.url = f"{'https' if tls else 'http'}://127.0.0.1:{self.port}"

    def close(self) -> None:
        """Stop, and let go of every connection."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    def _run(self, started: threading.Event) -> None:
        asyncio.set_event_loop(self._loop)
        server = self._loop.run_until_complete(
            asyncio.start_server(self._connection, "127.0.0.1", 0, backlog=512, ssl=self._tls)
        )
        self.port: int = server.sockets[0].getsockname()[1]
        started.set()
        self._loop.run_forever()
        server.close()
        for task in asyncio.all_tasks(self._loop):
            task.cancel()
        self._loop.run_until_complete(asyncio.sleep(0.01))
        self._loop.close()

    async def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while await self._request(reader, writer):
                pass
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            writer.close()

    async def _request(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        method, path, _ = head[0].split(" ", 2)
        headers = dict(line.lower().split(": ", 1) for line in head[1:] if ": " in line)
        raw = await reader.readexactly(int(headers.get("content-length", "0")))
        if method == "GET":
            status, kind, content = self._page(path)
            await _whole(writer, status, kind, {}, content)
            return True
        served = Served(path, json.loads(raw), headers, time.perf_counter())
        self.served.append(served)
        behaviour = self.behave(path, served.body, len(self.served))
        return await _play(writer, behaviour, served)

    def _page(self, path: str) -> tuple[int, str, bytes]:
        if path in self.pages:
            return self.pages[path]
        if path == "/v1/models":
            listed = {"data": [{"id": name} for name in self.models]}
            return 200, "application/json", json.dumps(listed).encode()
        if path == "/version":
            return 200, "application/json", json.dumps({"version": self.version}).encode()
        return 404, "application/json", b'{"detail":"Not Found"}'


async def _play(writer: asyncio.StreamWriter, behaviour: Behaviour, served: Served) -> bool:
    if behaviour.status == 0:
        writer.transport.abort()
        return False
    if behaviour.status != 200 or "event-stream" not in behaviour.kind:
        content = b"".join(piece for _, piece in behaviour.writes)
        await _whole(writer, behaviour.status, behaviour.kind, behaviour.headers, content)
        return True
    writer.write(_head(200, behaviour.kind, {"Transfer-Encoding": "chunked", **behaviour.headers}))
    due = time.perf_counter()
    for wait_s, piece in behaviour.writes:
        due += wait_s
        await asyncio.sleep(max(0.0, due - time.perf_counter()))
        served.written.append(time.perf_counter())
        writer.write(b"%x\r\n%s\r\n" % (len(piece), piece))
    if behaviour.end == "hang":
        await asyncio.sleep(3600)
    if behaviour.end == "drop":
        await writer.drain()
        await asyncio.sleep(0.02)  # what was written is to arrive, or it would be no stream at all
        writer.transport.abort()
        return False
    writer.write(b"0\r\n\r\n")
    return True


async def _whole(
    writer: asyncio.StreamWriter, status: int, kind: str, headers: Mapping[str, str], content: bytes
) -> None:
    writer.write(_head(status, kind, {"Content-Length": str(len(content)), **headers}) + content)
    await writer.drain()


def _head(status: int, kind: str, headers: Mapping[str, str]) -> bytes:
    lines = [f"HTTP/1.1 {status} Told", f"Content-Type: {kind}", *(f"{k}: {v}" for k, v in headers.items())]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")
