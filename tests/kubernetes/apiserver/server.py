"""The API server: over TLS, on a free port of 127.0.0.1, in threads of this process."""

import ssl
import sys
import threading
import traceback
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Any

from tests.kubernetes.apiserver.cluster import Cluster
from tests.kubernetes.apiserver.handler import Handler

TLS = Path(__file__).parent / "tls"


class Server(ThreadingHTTPServer):
    """Serves a cluster; the handshake happens in the connection's own thread."""

    daemon_threads = True
    request_queue_size = 64

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.cluster = cluster
        self.ended = threading.Event()
        self._tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._tls.load_cert_chain(TLS / "server.pem")
        self._tls.load_verify_locations(TLS / "ca.pem")
        self._tls.verify_mode = ssl.CERT_OPTIONAL
        self._thread = threading.Thread(target=self.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.server_address[1]}"

    def finish_request(self, request: Any, client_address: Any) -> None:
        request.settimeout(30)
        with self._tls.wrap_socket(request, server_side=True) as wrapped:
            wrapped.settimeout(None)
            Handler(wrapped, client_address, self)

    def handle_error(self, request: Any, client_address: Any) -> None:
        error = sys.exception()
        if not isinstance(error, OSError | ValueError):
            traceback.print_exc()  # a fault of this server, not of a client that hung up

    def close(self) -> None:
        """End it, and what hangs in it."""
        self.ended.set()
        self.shutdown()
        self.server_close()
        self._thread.join()
