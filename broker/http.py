"""How members in this process are looked at: GET /healthz, /metrics, /mesh; and, by POST /expel, freed of the dead.

Threads of their own answer, so many at a time, and ask the nodes: a node whose loop is stuck does not answer in time,
and so is told to be in trouble. What is asked costs a node a walk over its counters.
"""

import json
import logging
import threading
from collections.abc import Callable, Sequence
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socket import AF_INET, AF_INET6
from socketserver import TCPServer
from typing import Any
from urllib.parse import parse_qs

from gossamer.broker.addresses import split
from gossamer.broker.runtime import Runtime
from gossamer.broker.telemetry import gossamer_version
from gossamer.messages.errors import GossamerError, UsageError

CONNECTIONS_MAX = 16
PATIENCE_S = 5.0
"""For a client to say what it wants, and to take the answer."""
HEALTH_S = 1.0

Page = tuple[int, str, bytes]

_log = logging.getLogger("gossamer.http")


class Monitor:
    """Serves what there is to see of some members."""

    def __init__(self, bind: str, runtimes: Sequence[Runtime], *, or_free: bool = False) -> None:
        """It listens at once; `or_free`: on another port if this one is taken."""
        host, port = split(bind)
        plain = "" if host == "*" else host.strip("[]")
        family = AF_INET6 if ":" in plain else AF_INET
        self._runtimes = tuple(runtimes)
        pages = {"/": self._index, "/healthz": self._health, "/metrics": self._metrics, "/mesh": self._mesh}
        try:
            self._server = _server((plain, port), family, pages, self._expel)
        except OSError as error:
            if not or_free:
                raise UsageError(f"cannot listen on {bind}: {error.strerror}") from None
            self._server = _server((plain, 0), family, pages, self._expel)
        shown = "127.0.0.1" if plain in ("", "0.0.0.0") else "[::1]" if plain == "::" else host
        self.url = f"http://{shown}:{self._server.server_address[1]}"
        for runtime in self._runtimes:
            runtime.http = self.url
        self._thread = threading.Thread(target=self._server.serve_forever, name="gossamer http", daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    # Pages ----------------------------------------------------------------------------------------------------------

    def _index(self) -> Page:
        members = {runtime.name: runtime.role for runtime in self._runtimes}
        about = {"/healthz": "200 or 503", "/metrics": "for Prometheus", "/mesh": "all members, as they tell"}
        return _json(200, {"gossamer": gossamer_version(), "members": members, "pages": about})

    def _health(self) -> Page:
        members = [{"node": runtime.name, "role": runtime.role, **_health(runtime)} for runtime in self._runtimes]
        states = [state for state in ("trouble", "warnings") if any(member[state] for member in members)]
        status = {"trouble": "trouble", "warnings": "warning"}[states[0]] if states else "ok"
        return _json(503 if status == "trouble" else 200, {"status": status, "members": members})

    def _metrics(self) -> Page:
        # Here, because a tenth of a second is too much for who never asks.
        from prometheus_client import CONTENT_TYPE_LATEST

        from gossamer.broker.exposition import exposition

        return 200, CONTENT_TYPE_LATEST, exposition(self._runtimes)

    def _mesh(self) -> Page:
        runtime = self._runtimes[0]
        if not runtime.telemetry.interval_s:
            raise GossamerError(f"telemetry is switched off at {runtime.name}: there is nothing to show")
        return _json(200, {"node": runtime.name, **runtime.ask(runtime.mesh)})

    def _expel(self, node: str) -> Page:
        try:
            self._runtimes[0].expel(node)
        except UsageError as error:
            return _json(409, {"error": str(error)})
        return _json(200, {"expelled": node})


def _health(runtime: Runtime) -> dict[str, list[str]]:
    try:
        return runtime.ask(lambda: {"trouble": runtime.trouble(), "warnings": runtime.warnings()}, HEALTH_S)
    except GossamerError as error:
        return {"trouble": [str(error)], "warnings": []}


def _json(code: int, told: object) -> Page:
    return code, "application/json", json.dumps(told).encode() + b"\n"


def _server(
    address: tuple[str, int], family: int, pages: dict[str, Callable[[], Page]], expel: Callable[[str], Page]
) -> ThreadingHTTPServer:
    class Server(ThreadingHTTPServer):
        address_family = family
        daemon_threads = True
        block_on_close = False
        free = threading.BoundedSemaphore(CONNECTIONS_MAX)

        def server_bind(self) -> None:
            TCPServer.server_bind(self)  # without asking a name server who we are
            self.server_name, self.server_port = address

        def process_request(self, request: Any, client_address: Any) -> None:
            if self.free.acquire(blocking=False):
                super().process_request(request, client_address)
            else:
                self.shutdown_request(request)

        def process_request_thread(self, request: Any, client_address: Any) -> None:
            try:
                super().process_request_thread(request, client_address)
            finally:
                self.free.release()

        def handle_error(self, request: Any, client_address: Any) -> None:
            """Who hangs up in the middle is nobody's trouble."""

    class Handler(BaseHTTPRequestHandler):
        timeout = PATIENCE_S
        server_version = "gossamer"
        sys_version = ""

        def do_GET(self) -> None:
            self._answer(pages.get(self.path.partition("?")[0]))

        do_HEAD = do_GET

        def do_POST(self) -> None:
            path, _, query = self.path.partition("?")
            (node,) = parse_qs(query).get("node", [""])[:1]
            self._answer(partial(expel, node) if path == "/expel" else None)

        def _answer(self, page: Callable[[], Page] | None) -> None:
            try:
                if page is None:
                    found = _json(404, {"error": f"there is no {self.path[:100]}", "pages": list(pages)})
                else:
                    found = page()
            except GossamerError as error:
                found = _json(503, {"error": str(error)})
            except Exception:
                _log.exception("cannot make %s", self.path)
                found = _json(500, {"error": "see the log"})
            code, kind, body = found
            self.send_response(code)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            """Every probe would be a line."""

    return Server(address, Handler)
