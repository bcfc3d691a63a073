"""One connection to the API server: who asks, what, whether they may, and the answer."""

import json
import ssl
from dataclasses import replace
from http.server import BaseHTTPRequestHandler
from typing import TYPE_CHECKING, Any

from tests.kubernetes.apiserver import discovery, execute, forward
from tests.kubernetes.apiserver.asked import Asked, understood
from tests.kubernetes.apiserver.failures import (
    Failure,
    PlainFailure,
    bad_request,
    no_path,
    not_found,
    read_only,
    unauthorized,
)
from tests.kubernetes.apiserver.faults import Cut, Hang
from tests.kubernetes.apiserver.pod import Pod, not_running
from tests.kubernetes.apiserver.proxy import proxied
from tests.kubernetes.apiserver.rules import User, check, review, told
from tests.kubernetes.apiserver.spdy import Spdy
from tests.kubernetes.apiserver.websocket import WebSocket, accepted

if TYPE_CHECKING:
    from tests.kubernetes.apiserver.server import Server

_ANONYMOUS = User("system:anonymous", "")


class Handler(BaseHTTPRequestHandler):
    """One connection of a client."""

    protocol_version = "HTTP/1.1"
    server: "Server"

    def do_GET(self) -> None:
        cluster = self.server.cluster
        try:
            user = self._user()
            asked = understood(self.command, self.path, user.name)
            cluster.log.append(asked)
            for fault in cluster.faults:
                if fault.strikes(asked):
                    if isinstance(fault.wrong, Hang):
                        self.server.ended.wait(fault.wrong.seconds)
                        self.close_connection = True
                        return
                    if isinstance(fault.wrong, Cut):
                        self.wfile = _Short(self.wfile, fault.wrong.after)  # type: ignore[assignment]
                        break
                    raise fault.wrong
            self._check(asked, user)
            self._route(asked, user)
        except Failure as failure:
            self._reply(failure.code, failure.body(), failure.headers)
        except PlainFailure as failure:
            self._send(failure.code, failure.text.encode(), {"Content-Type": "text/plain"} | failure.headers)

    do_POST = do_PUT = do_PATCH = do_DELETE = do_GET  # noqa: N815 - the base class names them so

    def _user(self) -> User:
        certificate = self.connection.getpeercert() if isinstance(self.connection, ssl.SSLSocket) else None
        if certificate:
            subject: Any = certificate["subject"]
            name = next(value for ((key, value),) in subject if key == "commonName")
            return next((u for u in self.server.cluster.users.values() if u.name == name), User(name, ""))
        scheme, _, token = self.headers.get("Authorization", "").partition(" ")
        if not scheme:
            return _ANONYMOUS
        user = self.server.cluster.users.get(token)
        if user is None:
            raise unauthorized()
        return user

    def _check(self, asked: Asked, user: User) -> None:
        streams = self.server.cluster.creates_streams and asked.subresource in ("exec", "portforward")
        try:
            check(asked, user)
            if streams:
                check(replace(asked, verb="create"), user)
        except Failure:
            self.server.cluster.refused.append(asked)
            raise

    # --- what is asked ----------------------------------------------------------------------------

    def _route(self, asked: Asked, user: User) -> None:
        if not asked.resource:
            return self._look_around(asked)
        if asked.resource.startswith("selfsubject"):
            return self._review(asked, user)
        kind, cluster = asked.kind, self.server.cluster
        if kind is None or kind not in discovery.served(cluster.store.groups()):
            raise no_path()
        if asked.subresource:
            if asked.subresource not in kind.subresources:
                raise Failure(404, "NotFound", "the server could not find the requested resource")
            return self._subresource(asked)
        if asked.verb not in ("get", "list"):
            raise read_only(asked.verb)
        as_table = "as=Table" in self.headers.get("Accept", "")
        if asked.name is not None:
            item = cluster.store.get(kind, asked.namespace, asked.name)
            if item is None:
                raise not_found(kind, asked.name)
            return self._reply(200, discovery.table(kind, [item], {}) if as_table else item)
        found = cluster.store.list(kind, asked.namespace, asked.query)
        if as_table:
            found = discovery.table(kind, found["items"], found["metadata"])
        return self._reply(200, found)

    def _look_around(self, asked: Asked) -> None:
        kinds = discovery.served(self.server.cluster.store.groups())
        parts = asked.path.strip("/").split("/")
        if parts[0] in ("healthz", "livez", "readyz"):
            return self._send(200, b"ok", {"Content-Type": "text/plain"})
        found: Any = None
        if parts == ["version"]:
            version = self.server.cluster.version
            major, minor = version.lstrip("v").split(".")[:2]
            found = {"major": major, "minor": minor, "gitVersion": version, "platform": "linux/amd64"}
        elif parts == ["api"]:
            found = discovery.versions()
        elif parts == ["apis"]:
            found = discovery.group_list(kinds)
        elif parts[0] in ("api", "apis"):
            found = discovery.resource_list("/".join(parts[1:]), kinds)
        if found is None:
            raise no_path()
        return self._reply(200, found)

    def _review(self, asked: Asked, user: User) -> None:
        if "json" not in self.headers.get("Content-Type", ""):
            raise Failure(415, "UnsupportedMediaType", "the body of the request was in an unknown format")
        body = json.loads(self.rfile.read(int(self.headers.get("Content-Length", "0"))))
        if asked.resource == "selfsubjectaccessreviews":
            body["status"] = review(user, body["spec"])
        else:
            body["status"] = told(user, body["spec"]["namespace"])
        self._reply(201, body)

    def _subresource(self, asked: Asked) -> None:
        cluster = self.server.cluster
        if asked.subresource == "proxy":
            body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
            answer = proxied(cluster, asked, self.command, self.headers.get("Accept", "*/*"), body)
            return self._send(answer.code, answer.body, answer.headers)
        pod = cluster.pods.get((asked.namespace or "", asked.name or ""))
        if pod is None:
            assert asked.kind is not None
            raise not_found(asked.kind, asked.name or "")
        if asked.subresource == "log":
            text = pod.log({key: values[0] for key, values in asked.query.items()})
            return self._send(200, text.encode(), {"Content-Type": "text/plain"})
        if asked.subresource in ("exec", "portforward"):
            return self._upgrade(asked, pod)
        return self._reply(200, pod.object)

    # --- connections that become something else ---------------------------------------------------

    def _upgrade(self, asked: Asked, pod: Pod) -> None:
        executes = asked.subresource == "exec"
        if executes:
            container = pod.chosen(asked.first("container"), "exec")
            statuses = pod.object["status"].get("containerStatuses", ())
            if not any(s["name"] == container and "running" in s["state"] for s in statuses):
                raise not_running(pod, container)
        self.close_connection = True
        if self.headers.get("Upgrade", "").lower() == "websocket":
            return self._websocket(asked, pod, execute.PROTOCOLS if executes else forward.PROTOCOLS)
        if self.headers.get("Upgrade", "").upper() != "SPDY/3.1":
            raise bad_request("Upgrade request required")
        known = execute.SPDY_PROTOCOLS if executes else forward.SPDY_PROTOCOLS
        agreed = self._agreed("X-Stream-Protocol-Version", known)
        self._switch("SPDY/3.1", {"X-Stream-Protocol-Version": agreed})
        spdy = Spdy(self.rfile.read1, self.wfile.write)
        if executes:
            wanted = {name for name in ("stdin", "stdout", "stderr") if asked.first(name) == "true"}
            return spdy.run(execute.OverSpdy(spdy, pod, asked.query.get("command", []), wanted))
        return spdy.run(forward.OverSpdy(spdy, pod))

    def _websocket(self, asked: Asked, pod: Pod, known: tuple[str, ...]) -> None:
        agreed = self._agreed("Sec-WebSocket-Protocol", known)
        answer = {"Sec-WebSocket-Accept": accepted(self.headers["Sec-WebSocket-Key"])}
        self._switch("websocket", answer | {"Sec-WebSocket-Protocol": agreed})
        websocket = WebSocket(self.rfile, self.wfile)  # type: ignore[arg-type]
        if asked.subresource == "exec":
            return execute.over_websocket(websocket, pod, asked.query.get("command", []))
        if agreed != forward.TUNNEL:
            ports = [int(port) for given in asked.query.get("ports", ()) for port in given.split(",")]
            return forward.over_websocket(websocket, pod, ports)

        def read(_: int) -> bytes:
            while (message := websocket.receive()) == b"":
                pass  # kubectl also sends empty messages: those are not the end
            return message or b""

        spdy = Spdy(read, websocket.send)
        return spdy.run(forward.OverSpdy(spdy, pod))

    def _agreed(self, header: str, known: tuple[str, ...]) -> str:
        offered = [one.strip() for one in ",".join(self.headers.get_all(header) or []).split(",")]
        agreed = next((one for one in known if one in offered), None)
        if agreed is None:
            said = f"client supports {offered}, server accepts {list(known)}"
            raise Failure(403, "Forbidden", f"unable to upgrade: unable to negotiate protocol: {said}")
        return agreed

    def _switch(self, to: str, headers: dict[str, str]) -> None:
        self.send_response(101)
        for name, value in ({"Upgrade": to, "Connection": "Upgrade"} | headers).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.flush()

    # --- answers ----------------------------------------------------------------------------------

    def _reply(self, code: int, body: Any, headers: dict[str, str] | None = None) -> None:
        self._send(code, json.dumps(body).encode(), {"Content-Type": "application/json"} | (headers or {}))

    def _send(self, code: int, body: bytes, headers: dict[str, str]) -> None:
        # what was sent with a request that was refused is still on its way
        self.close_connection = self.close_connection or (self.command != "GET" and code >= 400)
        self.send_response(code)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Requests are kept, not printed."""


class _Short:
    """A connection that breaks after so many bytes of the body."""

    def __init__(self, writer: Any, after: int) -> None:
        self._writer, self._left, self._headers = writer, after, True

    def write(self, data: bytes) -> int:
        if self._headers:
            self._headers = False
            return int(self._writer.write(data))
        self._writer.write(data[: self._left])
        self._writer.flush()
        raise ConnectionAbortedError

    def flush(self) -> None:
        self._writer.flush()

    @property
    def closed(self) -> bool:
        return bool(self._writer.closed)

    def close(self) -> None:
        self._writer.close()
